//! The repository's files: what git tracks or would track, or everything but build products where git is not at hand.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Build products and results, never looked at without git's own list of what to ignore.
const IGNORED: [&str; 6] = [".git", ".venv", "__pycache__", ".ipynb_checkpoints", "results", "target"];

/// Every file's path below the top folder, with its text (`None` where it is not text).
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// When a folder cannot be listed or a file cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let paths = match from_git(root) {
            Some(paths) => paths,
            None => walk(root, "")?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            match fs::read(root.join(&path)) {
                Ok(bytes) => files.insert(path, String::from_utf8(bytes).ok()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(Self { files })
    }

    /// All paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The files that are text, in the order of their paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Whether `path` is a file, or a folder with files in it; the empty path is the top folder.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// A tree of texts.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Self { files: files.collect() }
    }
}

/// Tracked files and new ones that are not ignored; `None` when `root` is not git's to list.
fn from_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let list = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = list.split_terminator('\0').map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path, below: &str) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if IGNORED.contains(&name.as_str()) {
            continue;
        }
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            paths.extend(walk(root, &path)?);
        } else {
            paths.push(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_known_by_their_files() {
        let tree = Tree::of(&[("a/b/c.md", ""), ("a.md", "")]);
        for path in ["", "a", "a/b", "a/b/c.md", "a.md"] {
            assert!(tree.has(path), "{path}");
        }
        for path in ["b", "a/b/c", "a/b/c.md/d"] {
            assert!(!tree.has(path), "{path}");
        }
    }

    #[test]
    fn a_walk_finds_this_file() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let paths = walk(here, "").expect("the crate's folder can be listed");
        assert!(paths.contains(&"src/tidy/tree.rs".to_owned()), "{paths:?}");
    }
}
