//! A folder of results: it has its name when it is whole.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::exit::Refused;

/// A folder in the making; it goes with this value unless it is finished.
#[derive(Debug)]
pub struct Folder {
    partial: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl Folder {
    /// Begins a folder that must not be there.
    pub fn create(path: &Path) -> Result<Self> {
        if path.exists() {
            return Err(Refused(format!(
                "{} exists already and is never overwritten; choose another --out",
                path.display()
            ))
            .into());
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let made = fs::create_dir_all(&partial);
        made.map_err(|why| Refused(format!("{} cannot be written: {why}", partial.display())))?;
        Ok(Folder { partial, path: path.to_owned(), finished: false })
    }

    /// Writes one more file.
    pub fn add(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let path = self.partial.join(name);
        let written = fs::File::create(&path).and_then(|file| {
            let mut to = io::BufWriter::new(file);
            write(&mut to)?;
            to.flush()
        });
        written.with_context(|| format!("writing {}", path.display()))
    }

    /// Writes what is to be in it, and gives it its name.
    pub fn finish(mut self, json: &str, text: &str) -> Result<()> {
        let write = |name: &str, text: &str| {
            let path = self.partial.join(name);
            fs::write(&path, format!("{}\n", text.trim_end())).with_context(|| format!("writing {}", path.display()))
        };
        write("replay.json", json)?;
        write("summary.txt", text)?;
        fs::rename(&self.partial, &self.path).with_context(|| format!("naming {}", self.path.display()))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.finished {
            // an empty folder harms nobody
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}
