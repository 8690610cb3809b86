//! Files that runs need, kept under their digest so that each is brought only once, up to a bound.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rehearsal_bus::fleet::Files;

use crate::report::chain;

/// Bytes that are kept; beyond that, what was used longest ago goes. Assumed: a few clips, on the card of a small device.
const KEPT_BYTES_MAX: u64 = 2 << 30;

/// The agent's folder.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    files: PathBuf,
    runs: PathBuf,
}

impl Cache {
    /// A cache below `base`; `agent` keeps the runs of several agents of one host apart.
    ///
    /// # Errors
    /// When the folders cannot be made.
    pub(super) fn new(base: &Path, agent: &str) -> io::Result<Cache> {
        let cache = Cache { files: base.join("files"), runs: base.join("runs").join(agent) };
        fs::create_dir_all(&cache.files)?;
        // what an agent of this name left behind when it was killed
        let _ = fs::remove_dir_all(&cache.runs);
        fs::create_dir_all(&cache.runs)?;
        Ok(cache)
    }

    /// The folder of one run.
    pub(super) fn folder(&self, run: &str) -> PathBuf {
        self.runs.join(run)
    }

    /// Makes the folder of `run`, with its files in it: names, and their digests.
    pub(super) async fn bring(&self, from: &Files, run: &str, wanted: &BTreeMap<String, String>) -> Result<(), String> {
        let folder = self.folder(run);
        fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        for (name, digest) in wanted {
            if !is_digest(digest) || !is_plain(name) {
                return Err(format!("`{name}` is no name of a shipped file"));
            }
            let kept = self.files.join(digest);
            if !kept.exists() {
                let partial = self.files.join(format!("{digest}.{}-{run}", std::process::id()));
                from.get(digest, &partial).await.map_err(|why| chain(&why))?;
                fs::rename(&partial, &kept).map_err(|why| format!("{}: {why}", kept.display()))?;
            }
            used_now(&kept);
            place(&kept, &folder.join(name)).map_err(|why| format!("{name}: {why}"))?;
        }
        self.shrink(&wanted.values().cloned().collect());
        Ok(())
    }

    /// Removes what was used longest ago until the bound holds; what is `needed` stays.
    fn shrink(&self, needed: &BTreeSet<String>) {
        let entries = fs::read_dir(&self.files).into_iter().flatten().flatten();
        let known = entries.filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            Some((meta.modified().ok()?, meta.len(), entry.path()))
        });
        let mut all: Vec<(SystemTime, u64, PathBuf)> = known.collect();
        all.sort();
        let mut bytes: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in all {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if bytes <= KEPT_BYTES_MAX || needed.contains(&name) {
                continue;
            }
            if fs::remove_file(&path).is_ok() {
                bytes -= size;
            }
        }
    }
}

/// A second name for a kept file: it stays whole when the cache lets go of it.
fn place(kept: &Path, at: &Path) -> io::Result<()> {
    if at.exists() {
        return Ok(());
    }
    fs::hard_link(kept, at).or_else(|_| fs::copy(kept, at).map(drop))
}

fn used_now(file: &Path) {
    if let Ok(file) = File::open(file) {
        // a file system without times makes the cache forget in another order
        let _ = file.set_modified(SystemTime::now());
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_plain(name: &str) -> bool {
    !name.starts_with('.') && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_elsewhere_stay_in_the_folder() {
        for bad in ["", "../x", "/etc/passwd", "a/b", ".hidden"] {
            assert!(bad.is_empty() || !is_plain(bad), "{bad}");
        }
        assert!(is_plain("ab12.mp4"));
        assert!(is_digest(&"a1".repeat(32)) && !is_digest("a1") && !is_digest(&"G1".repeat(32)));
    }
}
