//! Room on the disk: some is set aside from the beginning, so that a bundle can be brought to its end on a disk that has
//! become full. What comes when only that is left is refused: files are never cut off in the middle.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use crate::error::ExportError;

/// The name of what is set aside, while a bundle is being built.
const FILE: &str = "reserve";
/// Bytes set aside: rows of tables that are still in memory, summary, verdict and manifest.
const RESERVE_BYTES: usize = 4 << 20;
/// Bytes that must be free for a record to be taken: its own, and a row group of each table that it may complete.
const RECORD_BYTES: u64 = 4 << 20;

/// Room that is set aside in a folder.
#[derive(Debug)]
pub(crate) struct Room {
    folder: PathBuf,
}

impl Room {
    /// Sets room aside in `folder`, which proves that it can be written.
    pub fn set_aside(folder: &Path) -> io::Result<Room> {
        let mut file = File::create(folder.join(FILE))?;
        // written, for a file without content takes no room
        file.write_all(&vec![0xA5; RESERVE_BYTES])?;
        file.sync_all()?;
        Ok(Room { folder: folder.to_owned() })
    }

    /// Whether there is room for one more record.
    ///
    /// # Errors
    /// [`ExportError::Full`] if there is not.
    pub fn check(&self) -> Result<(), ExportError> {
        // a file system that does not tell how full it is fails when something is written
        let Ok(disk) = statvfs(&self.folder) else { return Ok(()) };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= RECORD_BYTES {
            return Ok(());
        }
        Err(ExportError::Full { path: self.folder.clone() })
    }

    /// Gives back what was set aside: the bundle comes to its end.
    pub fn give_back(self) -> io::Result<()> {
        fs::remove_file(self.folder.join(FILE))
    }
}
