//! Files in memory without reading them.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A file's bytes, read by the kernel when they are touched.
#[derive(Debug)]
pub struct Map(memmap2::Mmap);

impl Map {
    /// Maps a whole file, read-only.
    ///
    /// # Errors
    /// What the system says; an empty file cannot be mapped by some.
    pub fn of(file: &File) -> io::Result<Map> {
        // SAFETY: The mapping is private and read-only. Its bytes are only ever copied or read as bytes, so a change by
        // another process gives other bytes, never an invalid value. Templates and spools are written under another name
        // and renamed when they are whole; a foreign process that shortens one ends this process by SIGBUS, no worse.
        unsafe { memmap2::Mmap::map(file) }.map(Map)
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
