//! Opens a bundle again, for reports and comparisons.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::ExportError;
use crate::manifest::{self, Manifest};
use crate::summary::{SCHEMA_VERSION, Summary};
use crate::writer::VerdictFile;

/// A finished bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Its folder.
    pub path: PathBuf,
    /// Where it comes from.
    pub manifest: Manifest,
    /// What the run came to.
    pub summary: Summary,
    /// May these numbers be trusted?
    pub verdict: VerdictFile,
}

impl Bundle {
    /// Opens the bundle in a folder.
    ///
    /// # Errors
    /// When it is no bundle, one of a later version or of none, or one whose files are of different versions.
    pub fn open(folder: &Path) -> Result<Self, ExportError> {
        let version = read::<serde_json::Value>(folder, manifest::FILE)?["schema_version"].as_u64().unwrap_or(0);
        let other = |name: &str, version: u64| {
            let found = u32::try_from(version).unwrap_or(u32::MAX);
            Err(ExportError::Schema { path: folder.join(name), found, known: SCHEMA_VERSION })
        };
        if version == 0 || version > SCHEMA_VERSION.into() {
            return other(manifest::FILE, version);
        }
        let summary: Summary = read(folder, "summary.json")?;
        if u64::from(summary.schema_version) != version {
            return other("summary.json", summary.schema_version.into());
        }
        Ok(Bundle {
            path: folder.to_owned(),
            manifest: read(folder, manifest::FILE)?,
            summary,
            verdict: read(folder, "verdict.json")?,
        })
    }

    /// Files whose content is not what the manifest says, or that are missing; in the order of their names.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn changed(&self) -> Result<Vec<String>, ExportError> {
        let now = manifest::files(&self.path)?;
        let changed = self.manifest.files.iter().filter(|(name, sum)| now.get(*name) != Some(sum));
        Ok(changed.map(|(name, _)| name.clone()).collect())
    }
}

fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<T, ExportError> {
    let path = folder.join(name);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| ExportError::Decode { path, source }),
        Err(source) => Err(ExportError::Read { path, source }),
    }
}
