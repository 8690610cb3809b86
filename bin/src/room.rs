//! Folders for what nobody keeps: each belongs to a process, goes with it, and is swept by the next one if that was killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// A room is swept only if nothing was made in it for so long: a younger one may not have been locked yet. Assumed: that
/// takes less than five seconds.
const AGE_MIN: Duration = Duration::from_secs(5);

/// A folder that goes with this value. Its owner holds it locked: the kernel lets go of that with the process, in whatever
/// container it runs, while process numbers are used again.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
    /// Locked as long as the room is used; `None` on a file system that locks no folders, where nothing is swept either.
    _lock: Option<File>,
}

impl Room {
    /// The room `NAME-PID` in `parent`; rooms of that name whose owners are no more are taken away.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn within(parent: &Path, name: &str) -> Result<Self> {
        sweep(parent, name);
        let path = parent.join(format!("{name}-{}", std::process::id()));
        let unusable = || format!("{} cannot be made", path.display());
        fs::create_dir_all(&path).with_context(unusable)?;
        let folder = File::open(&path).with_context(unusable)?;
        let lock = folder.try_lock().is_ok().then_some(folder);
        Ok(Room { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // a remainder harms nobody, and the next one sweeps it
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Takes away the rooms in `parent` that nobody owns any more. What cannot be read or removed stays where it is.
fn sweep(parent: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let number = file_name.to_str().and_then(|own| own.strip_prefix(name)?.strip_prefix('-'));
        let is_room = number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        if is_room && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a room's owner is no more.
fn is_left(room: &Path) -> bool {
    let age = fs::metadata(room).and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age > AGE_MIN) && File::open(room).is_ok_and(|folder| folder.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_goes_with_its_owner_or_is_swept_by_the_next() {
        let parent = std::env::temp_dir().join(format!("rehearsal-rooms-{}", std::process::id()));
        fs::create_dir_all(&parent).expect("a folder");
        let place = |name: &str| parent.join(name);
        for left in ["trials-1", "trials-2", "trials-3", "trials-x", "other-1"] {
            fs::create_dir_all(place(left).join("bundle")).expect("a folder");
        }
        // 1 was killed, 2 is at work, 3 is about to be locked
        let old = std::time::SystemTime::now() - 2 * AGE_MIN;
        let open = |name: &str| File::open(place(name)).expect("a folder");
        for left in ["trials-1", "trials-2", "trials-x", "other-1"] {
            open(left).set_modified(old).expect("its owner may");
        }
        let busy = open("trials-2");
        busy.try_lock().expect("nobody else has it");
        let room = Room::within(&parent, "trials").expect("a room");
        let own = room.path().to_owned();
        let there = |name: &str| place(name).exists();
        assert!(!there("trials-1") && there("trials-2") && there("trials-3"));
        assert!(there("trials-x") && there("other-1") && own.exists(), "what is no room of that name stays");
        drop(busy);
        drop(room);
        assert!(!own.exists());
        drop(Room::within(&parent, "trials"));
        assert!(!there("trials-2"));
        fs::remove_dir_all(&parent).expect("removed");
    }
}
