//! Rules for where files stand: the top folder, modules, and experiments that say what they show.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::tree::Tree;

/// What may stand in the top folder, beside dotfiles.
const TOP: [&str; 17] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "actors",
    "bin",
    "clippy.toml",
    "configs",
    "framework",
    "notebooks",
    "rustfmt.toml",
    "tests",
    "xtask",
];

/// All rules of this module.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = top(tree);
    findings.extend(modules(tree));
    findings.extend(experiments(tree));
    findings
}

fn top(tree: &Tree) -> Vec<Finding> {
    let mut strangers = BTreeMap::new();
    for path in tree.paths() {
        let name = path.split('/').next().unwrap_or(path);
        if !name.starts_with('.') && !TOP.contains(&name) {
            strangers.entry(name).or_insert(path);
        }
    }
    let instead = "move it into one of the folders, or add it to .gitignore";
    let finding = |(name, path): (&str, &str)| {
        Finding::new(path, 1, format!("`{name}` does not belong in the top folder"), instead)
    };
    strangers.into_iter().map(finding).collect()
}

fn modules(tree: &Tree) -> Vec<Finding> {
    let instead = "put `name.rs` beside the folder `name/`";
    tree.paths()
        .filter(|path| path.ends_with("/mod.rs"))
        .map(|path| Finding::new(path, 1, "a `mod.rs`", instead))
        .collect()
}

fn experiments(tree: &Tree) -> Vec<Finding> {
    let instead = "open with a `#` comment: what this shows and what to expect";
    tree.texts()
        .filter(|(path, _)| path.starts_with("configs/") && path.ends_with(".toml"))
        .filter(|(_, text)| !text.starts_with('#'))
        .map(|(path, _)| Finding::new(path, 1, "the file does not introduce itself", instead))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|f| format!("{}: {}", f.file, f.what)).collect()
    }

    #[test]
    fn a_good_tree_passes() {
        let files = [
            (".ci/run", ""),
            ("README.md", ""),
            ("bin/src/a.rs", ""),
            ("xtask/Cargo.toml", ""),
            ("configs/a/b.toml", "# Shows.\n"),
        ];
        assert!(said(&files).is_empty());
    }

    #[test]
    fn strangers_in_the_top_folder_are_found_once() {
        let files = [("docs/a.md", ""), ("docs/b.md", ""), ("notes.txt", "")];
        let expected = [
            "docs/a.md: `docs` does not belong in the top folder",
            "notes.txt: `notes.txt` does not belong in the top folder",
        ];
        assert_eq!(said(&files), expected);
    }

    #[test]
    fn mod_files_are_found() {
        assert_eq!(said(&[("bin/src/a/mod.rs", "")]), ["bin/src/a/mod.rs: a `mod.rs`"]);
    }

    #[test]
    fn experiments_without_introduction_are_found() {
        let files = [("configs/a.toml", "[experiment]\n"), ("bin/Cargo.toml", "[package]\n")];
        assert_eq!(said(&files), ["configs/a.toml: the file does not introduce itself"]);
    }
}
