//! `index.json`: a run with repetitions is a folder of whole bundles `rep-01 …` beside a list of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rehearsal_core::parts::tally::Tally;
use serde::{Deserialize, Serialize};

use crate::error::ExportError;
use crate::percentiles::Percentiles;
use crate::summary::{Rates, SCHEMA_VERSION};
use crate::verdict::{EXIT_INVALID, EXIT_PASS, EXIT_THRESHOLDS, Status};
use crate::writer::Finished;

const FILE: &str = "index.json";

/// The repetitions of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The worst of the repetitions' verdicts.
    pub status: Status,
    /// The worst of their exit codes.
    pub exit_code: u8,
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// All of them, in order.
    pub repetitions: Vec<Repetition>,
}

/// One repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Its folder, beside the index.
    pub folder: String,
    /// From 1, as in the name of its folder.
    pub repetition: u32,
    /// Its verdict.
    pub status: Status,
    /// Its reasons' codes, without notes' duplicates.
    pub reasons: Vec<String>,
    /// Its exit code.
    pub exit_code: u8,
    /// Equal for equal simulated runs.
    pub fingerprint: Option<String>,
    /// Equal for equal schedules.
    pub schedule_digest: Option<String>,
    /// How long traffic went on, seconds.
    pub duration_seconds: f64,
    /// Counters of the whole run, all groups together.
    pub totals: Tally,
    /// Rates of all groups together, per second.
    pub per_second: Rates,
    /// Times of the measured seconds of all groups together, by metric.
    pub metrics: BTreeMap<String, Percentiles>,
}

/// The folder of a repetition (from 0) below the run's folder: `rep-01`, `rep-02`, …
pub fn folder(run: &Path, repetition: u32) -> PathBuf {
    run.join(format!("rep-{:02}", repetition + 1))
}

/// Makes the run's folder before its first repetition.
///
/// # Errors
/// When it exists already, or cannot be made.
pub fn create(run: &Path) -> Result<(), ExportError> {
    // a bundle of that name would be refused for the same reasons, and leaves no trace
    crate::folder::Folder::create(run).map(drop)?;
    fs::create_dir(run).map_err(|source| ExportError::Unwritable { path: run.to_owned(), source })
}

/// Writes the index of a run's finished repetitions.
///
/// # Errors
/// When it cannot be written.
pub fn write(run: &Path, experiment: &str, finished: &[Finished]) -> Result<Index, ExportError> {
    let index = Index {
        schema_version: SCHEMA_VERSION,
        experiment: experiment.to_owned(),
        status: finished.iter().map(|f| f.verdict.status).max().unwrap_or_default(),
        exit_code: worst(finished.iter().map(|f| f.exit_code)),
        repetitions: finished.iter().map(row).collect(),
    };
    let path = run.join(FILE);
    let composed = serde_json::to_vec_pretty(&index);
    let mut bytes = composed.map_err(|source| ExportError::Compose { path: path.clone(), source })?;
    bytes.push(b'\n');
    let written = File::create(&path).and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
    written.map_err(|source| ExportError::Write { path, source })?;
    Ok(index)
}

/// Reads the index of a run.
///
/// # Errors
/// When there is none.
pub fn read(run: &Path) -> Result<Index, ExportError> {
    let path = run.join(FILE);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| ExportError::Decode { path, source }),
        Err(source) => Err(ExportError::Read { path, source }),
    }
}

/// INVALID outranks failed thresholds, which outrank a pass.
pub fn worst(codes: impl Iterator<Item = u8>) -> u8 {
    let rank = |code: &u8| match *code {
        EXIT_PASS => 0,
        EXIT_THRESHOLDS => 1,
        EXIT_INVALID => 2,
        _ => 3,
    };
    codes.max_by_key(rank).unwrap_or(EXIT_PASS)
}

fn row(finished: &Finished) -> Repetition {
    let mut reasons: Vec<String> = finished.verdict.reasons.iter().map(|r| r.code.word().to_owned()).collect();
    reasons.dedup();
    let folder = finished.path.file_name().unwrap_or_default();
    Repetition {
        folder: folder.to_string_lossy().into_owned(),
        repetition: finished.summary.repetition,
        status: finished.verdict.status,
        reasons,
        exit_code: finished.exit_code,
        fingerprint: finished.summary.fingerprint.clone(),
        schedule_digest: finished.summary.schedule_digest.clone(),
        duration_seconds: finished.summary.duration_seconds,
        totals: finished.summary.total.totals,
        per_second: finished.summary.total.per_second,
        metrics: finished.summary.total.metrics.clone(),
    }
}
