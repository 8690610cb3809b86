//! The results of a run: the bundle that both engines write in the same way, and the verdict on it.
//!
//! [`BundleWriter`] is the run's [`rehearsal_core::sink::Sink`]; it writes while the run goes on, in bounded memory, and
//! sums up at the end. A bundle holds
//!
//! | file | content |
//! |---|---|
//! | `manifest.json` | where it comes from, and the SHA-256 of the other files ([`Manifest`]) |
//! | `experiment.toml` | the resolved experiment |
//! | `series.parquet` | one row per second and actor group, and per second and node |
//! | `latency.hlog` | one HdrHistogram per second, group and metric, readable by the standard tools |
//! | `events.parquet` | life cycle, faults, losses, gaps |
//! | `summary.json` | what the run came to ([`Summary`]) |
//! | `verdict.json` | may these numbers be trusted? ([`Verdict`]), and the experiment's thresholds |
//! | `series.csv` | the series as text, on request |
//!
//! The same records in the same order give the same bytes; a simulated bundle holds no wall time and no machine name.
//! Reading order: [`BundleMeta`] and [`RunFacts`] (what goes in), [`Summary`] and [`Verdict`] (what comes out).

mod books;
mod error;
mod events;
mod folder;
pub mod index;
mod latency;
mod manifest;
mod meta;
mod percentiles;
mod reader;
mod series;
pub mod summary;
mod table;
mod tallies;
#[cfg(test)]
mod testing;
mod text;
mod threshold;
pub mod verdict;
mod writer;

pub use error::ExportError;
pub use manifest::Manifest;
pub use meta::{BundleMeta, Clock, Engine, Fault, GroupFacts, HostFacts, Overcommit, RunFacts, Target};
pub use percentiles::Percentiles;
pub use reader::Bundle;
pub use summary::Summary;
pub use text::Report;
pub use threshold::{Judgement, Op, Threshold, ThresholdResult, evaluate, is_known};
pub use verdict::{Evidence, Limits, Reason, Severity, Status, Verdict, exit_code};
pub use writer::{BundleWriter, Finished, VerdictFile};
