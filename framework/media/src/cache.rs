//! Prepared frames on disk: one file per clip and bounds, written whole or not at all.
//!
//! A file is written under a temporary name and then renamed, so that processes which prepare
//! the same clip at the same time do not disturb each other: each sees a complete file or none,
//! and all complete files of one name have equal contents. Damage is noticed by digests and
//! leads to a new file. Nothing here ever fails a run: without a cache there is only more work.

mod format;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;

use crate::digest::{Sha, hex, sha256};
use crate::encode::ENCODER_VERSION;
use crate::error::Note;
use crate::frames::{FrameTable, PreparedFrames};
use crate::spec::FrameSpec;

/// Files kept in a cache directory; the ones written longest ago are removed first. At 100 to
/// 200 kB per frame and 90 frames, 64 files have less than 1 GB.
const FILES_MAX: usize = 64;

/// Ending of every file made here.
const ENDING: &str = ".frames";

/// Where frames are kept unless the user says otherwise: `$REHEARSAL_CACHE`, else
/// `$XDG_CACHE_HOME/rehearsal`, else `~/.cache/rehearsal`, else a folder for temporary files.
#[must_use]
pub fn default_cache_dir() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = set("REHEARSAL_CACHE") {
        return PathBuf::from(dir);
    }
    // The XDG base directory specification ignores relative paths.
    let absolute = |dir: PathBuf| dir.is_absolute().then_some(dir);
    let xdg = set("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || set("HOME").map(|home| Path::new(&home).join(".cache"));
    match xdg.or_else(home) {
        Some(dir) => dir.join("rehearsal"),
        None => std::env::temp_dir().join("rehearsal-cache"),
    }
}

/// The place of one clip's frames.
pub(crate) struct Cache {
    dir: PathBuf,
    file: PathBuf,
    key: Sha,
}

/// What the cache has.
pub(crate) enum Found<T> {
    /// What was asked for.
    Yes(T),
    /// Nothing.
    No,
    /// Something that cannot be used.
    Damaged(Note),
}

impl Cache {
    /// The place for `spec` and the clip with this digest.
    pub(crate) fn new(dir: &Path, spec: &FrameSpec, clip: &Sha) -> Self {
        let key = sha256(&[
            b"rehearsal frames",
            clip,
            &spec.bytes_min.to_le_bytes(),
            &spec.bytes_max.to_le_bytes(),
            ENCODER_VERSION.as_bytes(),
        ]);
        Self { dir: dir.to_owned(), file: dir.join(format!("{}{ENDING}", hex(&key))), key }
    }

    /// Reads the sizes alone.
    pub(crate) fn table(&self) -> Found<FrameTable> {
        let read = || {
            let mut file = File::open(&self.file)?;
            let bytes = file.metadata()?.len();
            let mut head = Vec::new();
            (&mut file).take(format::HEAD_BYTES_MAX).read_to_end(&mut head)?;
            Ok((head, bytes))
        };
        self.found(read(), |(head, bytes)| {
            let (table, start) = format::table(&self.key, &head)?;
            let payload: u64 = table.sizes.iter().map(|&size| u64::from(size)).sum();
            match start as u64 + payload == bytes {
                true => Ok(table),
                false => Err("it has the wrong length"),
            }
        })
    }

    /// Reads the sizes and the frames.
    pub(crate) fn frames(&self) -> Found<PreparedFrames> {
        self.found(fs::read(&self.file), |data| {
            let (table, start) = format::table(&self.key, &data)?;
            let payload = Bytes::from(data).slice(start..);
            let bytes: u64 = table.sizes.iter().map(|&size| u64::from(size)).sum();
            if payload.len() as u64 != bytes {
                return Err("it has the wrong length");
            }
            match sha256(&[&payload]) == table.payload {
                true => Ok(PreparedFrames::new(table, payload)),
                false => Err("its frames have changed"),
            }
        })
    }

    fn found<R, T>(&self, read: io::Result<R>, parse: impl FnOnce(R) -> Result<T, &'static str>) -> Found<T> {
        match read.map(parse) {
            Ok(Ok(found)) => Found::Yes(found),
            Ok(Err(reason)) => Found::Damaged(Note::CacheRemade { file: self.file.clone(), reason: reason.to_owned() }),
            // Mostly there is none yet. Whatever else it is, writing will meet it again.
            Err(_) => Found::No,
        }
    }

    /// Writes the file, then removes the oldest files above the limit. The error is a note.
    pub(crate) fn store(&self, table: &FrameTable, payload: &[u8]) -> Result<(), Note> {
        self.write(&format::head(&self.key, table), payload)
            .map_err(|error| Note::CacheUnwritable { dir: self.dir.clone(), reason: error.to_string() })?;
        prune(&self.dir, FILES_MAX);
        Ok(())
    }

    fn write(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.dir)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{}-{count}{ENDING}", hex(&self.key), std::process::id());
        let temporary = self.dir.join(name);
        let written = File::create_new(&temporary)
            .and_then(|mut file| {
                file.write_all(head)?;
                file.write_all(payload)
            })
            .and_then(|()| fs::rename(&temporary, &self.file));
        if written.is_err() {
            // Best effort: what is left behind is removed with the oldest files.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Removes the files written longest ago until `keep` are left. Files that cannot be listed or
/// removed stay; the next call tries again.
fn prune(dir: &Path, keep: usize) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(ENDING))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    for (_, path) in files.iter().take(files.len().saturating_sub(keep)) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("rehearsal-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn only_the_newest_files_stay() {
        let dir = folder("prune");
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        for n in 0..5u64 {
            let file = File::create(dir.join(format!("{n}{ENDING}"))).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 + n);
            file.set_modified(time).unwrap();
        }
        prune(&dir, 2);
        let left = fs::read_dir(&dir).unwrap().flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["3.frames", "4.frames", "notes.txt"]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn clip_and_bounds_have_their_own_file() {
        let spec = |bytes_min| FrameSpec { path: "a.mp4".into(), bytes_min, bytes_max: 9_000 };
        let file = |bytes_min, clip| Cache::new(Path::new("/c"), &spec(bytes_min), &[clip; 32]).file;
        assert_eq!(file(1, 1), file(1, 1));
        assert_ne!(file(1, 1), file(2, 1));
        assert_ne!(file(1, 1), file(1, 2));
    }
}
