//! The folder of a bundle: built beside its final name, renamed when it is whole, never over something that exists.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::ExportError;
use crate::room::Room;

/// A folder `NAME.partial` that becomes `NAME`.
#[derive(Debug)]
pub(crate) struct Folder {
    name: PathBuf,
    partial: PathBuf,
    /// Whether it is kept if it never becomes whole.
    keep: bool,
    done: bool,
    /// Set aside until its end comes.
    room: Option<Room>,
}

impl Folder {
    /// Makes `NAME.partial` and proves that it can be written.
    pub fn create(name: &Path) -> Result<Self, ExportError> {
        let last = name.file_name().ok_or_else(|| ExportError::Nameless { path: name.to_owned() })?;
        let name = name.with_file_name(last);
        let partial = partial(&name);
        for path in [&name, &partial] {
            if fs::symlink_metadata(path).is_ok() {
                return Err(ExportError::Exists { path: path.clone(), free: free(&name) });
            }
        }
        let unwritable = |source| ExportError::Unwritable { path: name.clone(), source };
        if let Some(parent) = name.parent() {
            fs::create_dir_all(parent).map_err(unwritable)?;
        }
        fs::create_dir(&partial).map_err(unwritable)?;
        let mut folder = Folder { name: name.clone(), partial, keep: false, done: false, room: None };
        folder.room = Some(Room::set_aside(&folder.partial).map_err(unwritable)?);
        Ok(folder)
    }

    /// A file of the folder, while it is being built.
    pub fn file(&self, name: &str) -> PathBuf {
        self.partial.join(name)
    }

    /// The folder while it is being built.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// From now on it holds something worth keeping.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Writes a whole file and makes sure that it is on disk.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), ExportError> {
        let path = self.file(name);
        write_synced(&path, content).map_err(|source| ExportError::Write { path, source })
    }

    /// Copies a file of the experiment's, by the path that the experiment calls it. Nothing of the bundle's own gives way to it.
    pub fn attach(&self, name: &str, source: &Path) -> Result<(), ExportError> {
        let path = self.file(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        let copy = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.partial))?;
            write_synced(&path, &fs::read(source)?)
        };
        copy().map_err(|why| ExportError::Write { path: path.clone(), source: why })
    }

    /// Whether there is room for one more record.
    pub fn has_room(&self) -> Result<(), ExportError> {
        self.room.as_ref().map_or(Ok(()), Room::check)
    }

    /// Its end comes: what was set aside for it is there to be used.
    pub fn give_back(&mut self) -> Result<(), ExportError> {
        let given = self.room.take().map_or(Ok(()), Room::give_back);
        given.map_err(|source| ExportError::Write { path: self.partial.clone(), source })
    }

    /// Gives it its name.
    pub fn finish(mut self) -> Result<PathBuf, ExportError> {
        if fs::symlink_metadata(&self.name).is_ok() {
            return Err(ExportError::Exists { path: self.name.clone(), free: free(&self.name) });
        }
        fs::rename(&self.partial, &self.name)
            .map_err(|source| ExportError::Unwritable { path: self.name.clone(), source })?;
        self.done = true;
        Ok(self.name.clone())
    }
}

/// A folder that nothing was recorded in leaves no trace.
impl Drop for Folder {
    fn drop(&mut self) {
        if !self.done && !self.keep {
            // nobody is left to be told, and a remainder is named by the next attempt
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn partial(name: &Path) -> PathBuf {
    let mut last = name.file_name().unwrap_or_default().to_owned();
    last.push(".partial");
    name.with_file_name(last)
}

/// The first of `NAME-2`, `NAME-3`, … that nothing stands in the way of.
fn free(name: &Path) -> PathBuf {
    let numbered = |n: u32| {
        let mut last = name.file_name().unwrap_or_default().to_owned();
        last.push(format!("-{n}"));
        name.with_file_name(last)
    };
    let taken = |path: &PathBuf| fs::symlink_metadata(path).is_ok() || fs::symlink_metadata(partial(path)).is_ok();
    (2..10_000).map(numbered).find(|path| !taken(path)).unwrap_or_else(|| numbered(10_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_folder_that_was_never_filled_leaves_no_trace() {
        let scratch = Scratch::new("folder-empty");
        let name = scratch.path().join("deep/run");
        drop(Folder::create(&name).unwrap());
        assert!(!partial(&name).exists() && !name.exists());
    }

    #[test]
    fn a_filled_folder_is_kept_or_renamed() {
        let scratch = Scratch::new("folder-kept");
        let name = scratch.path().join("run");
        let mut folder = Folder::create(&name).unwrap();
        folder.write("a", b"1").unwrap();
        assert_eq!((folder.has_room().is_ok(), folder.file("reserve").exists()), (true, true));
        folder.give_back().unwrap();
        assert!(!folder.file("reserve").exists());
        folder.keep();
        drop(folder);
        assert!(partial(&name).join("a").exists());
        let error = Folder::create(&name).unwrap_err();
        assert!(
            matches!(&error, ExportError::Exists { path, free } if *path == partial(&name) && free.ends_with("run-2")),
            "{error}"
        );

        let second = Folder::create(&scratch.path().join("run-2/")).unwrap();
        let path = second.finish().unwrap();
        assert_eq!(path, scratch.path().join("run-2"));
        assert!(!partial(&path).exists());
        let error = Folder::create(&path).unwrap_err().to_string();
        assert!(error.contains("never overwritten") && error.ends_with("run-2-2 is free"), "{error}");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_at_once() {
        let scratch = Scratch::new("folder-file");
        let file = scratch.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = Folder::create(&file.join("run")).unwrap_err();
        assert!(matches!(error, ExportError::Unwritable { .. }), "{error}");
        assert!(matches!(Folder::create(Path::new("/")), Err(ExportError::Nameless { .. })));
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_not_replaced() {
        let scratch = Scratch::new("folder-race");
        let mut folder = Folder::create(&scratch.path().join("run")).unwrap();
        folder.keep();
        fs::create_dir(scratch.path().join("run")).unwrap();
        assert!(matches!(folder.finish(), Err(ExportError::Exists { .. })));
        assert!(scratch.path().join("run.partial").exists());
    }
}
