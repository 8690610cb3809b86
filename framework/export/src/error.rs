//! What can go wrong with a bundle, in words that say what to do next.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;
use thiserror::Error;

/// A bundle cannot be written or read.
#[derive(Debug, Error)]
pub enum ExportError {
    /// There is something of that name.
    #[error("{path} exists already and is never overwritten; choose another name, {free} is free")]
    Exists {
        /// What is in the way.
        path: PathBuf,
        /// A name beside it that is free.
        free: PathBuf,
    },
    /// The name has no last part, such as `/` or `..`.
    #[error("{path} does not name a folder that can be made")]
    Nameless {
        /// As given.
        path: PathBuf,
    },
    /// A folder cannot be made, or nothing can be written there.
    #[error("results cannot be written to {path}; choose another place")]
    Unwritable {
        /// The place.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{path} cannot be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A table cannot be written.
    #[error("{path} cannot be written")]
    Table {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// There is hardly room on the disk: what is left is needed to end the bundle.
    #[error("the disk of {path} is full: from here on nothing is stored")]
    Full {
        /// The folder.
        path: PathBuf,
    },
    /// A value cannot be put into JSON.
    #[error("{path} cannot be composed")]
    Compose {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A run's results are incomplete, but what was recorded is there.
    #[error("the results are incomplete; what was recorded is kept in {partial}")]
    Kept {
        /// The folder that was not renamed.
        partial: PathBuf,
        /// Why.
        source: Box<ExportError>,
    },
    /// A file of a bundle cannot be read.
    #[error("{path} cannot be read; is this a result folder?")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of a bundle does not hold what it should.
    #[error("{path} does not hold what its name says")]
    Decode {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A table of a bundle is broken.
    #[error("{path} is broken")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// A table of a bundle is longer than what is read.
    #[error(
        "{path} has {rows} rows, at most {rows_max} are read; shorten the run or report its repetitions one by one"
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its rows.
        rows: i64,
        /// The most that are read.
        rows_max: i64,
    },
    /// A bundle of a later version.
    #[error("{path} has schema version {found}, this program reads up to {known}")]
    Schema {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The highest version this program knows.
        known: u32,
    },
}
