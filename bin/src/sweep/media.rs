//! What the media files of an experiment hold, for the key of a run: a clip that was exchanged makes another run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context as _, Result, anyhow};
use rehearsal_scenario::Experiment;
use sha2::{Digest, Sha256};

use super::journal::hex;
use crate::recordings;

/// The key of an actor that names a file.
const MEDIA: &str = "media";
/// The key that names a template or a capture.
const TEMPLATE: &str = "template";
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// Digests of files, each of which is read once in a sweep.
#[derive(Debug, Default)]
pub struct Media(Mutex<BTreeMap<PathBuf, String>>);

impl Media {
    /// A line for each file that the experiment names, in the order of names: its name and its SHA-256.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn of(&self, experiment: &Experiment) -> Result<String> {
        let actors = experiment.nodes.iter().flat_map(|node| &node.actors);
        let names: BTreeSet<&str> =
            actors.filter_map(|actor| actor.own.get(MEDIA).and_then(toml::Value::as_str)).collect();
        let mut lines = String::new();
        for name in names {
            lines += &format!("{name} {}\n", self.digest(&experiment.base.join(name))?);
        }
        let actors = experiment.nodes.iter().flat_map(|node| &node.actors).filter(|actor| actor.replays());
        let names: BTreeSet<&str> =
            actors.filter_map(|actor| actor.own.get(TEMPLATE).and_then(toml::Value::as_str)).collect();
        for name in names {
            let path = recordings::file(&experiment.base, name).map_err(|why| anyhow!(why))?;
            lines += &format!("{name} {}\n", self.digest(&path)?);
        }
        Ok(lines)
    }

    fn digest(&self, path: &Path) -> Result<String> {
        // held while a file is read: the other threads most likely want the same one
        let mut known = self.0.lock().map_err(|_| anyhow!("another dry run failed"))?;
        if let Some(digest) = known.get(path) {
            return Ok(digest.clone());
        }
        let digest = sha256(path).with_context(|| format!("{} cannot be read", path.display()))?;
        known.insert(path.to_owned(), digest.clone());
        Ok(digest)
    }
}

fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}
