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
//! | `latency.hlog` | HdrHistograms by second, group and metric, readable by the standard tools |
//! | `events.parquet` | life cycle, faults, losses, gaps |
//! | `summary.json` | what the run came to ([`Summary`]) |
//! | `verdict.json` | may these numbers be trusted? ([`Verdict`]), and the experiment's thresholds |
//! | `series.csv` | the series as text, on request |
//!
//! The same records in the same order give the same bytes; a simulated bundle holds no wall time and no machine name.
//! Reading order: [`BundleMeta`] and [`RunFacts`] (what goes in), [`Summary`] and [`Verdict`] (what comes out);
//! [`Bundle`], [`Frame`] and [`merge_latency`] (what is read back).

mod books;
mod columns;
mod encoded;
mod error;
mod events;
mod folder;
mod frame;
pub mod index;
mod latency;
mod manifest;
mod merged;
mod meta;
mod percentiles;
mod reader;
mod requests;
mod room;
mod series;
mod spectrum;
pub mod summary;
mod table;
pub mod tallies;
#[cfg(test)]
mod testing;
mod text;
mod threshold;
pub mod verdict;
mod writer;

pub use columns::{NamedColumn, Values, write_columns};
pub use error::ExportError;
pub use frame::Frame;
pub use manifest::Manifest;
pub use meta::{
    BundleMeta, Clock, Engine, Fault, GroupFacts, HostFacts, Overcommit, RunFacts, Target, TargetAddresses,
};
pub use percentiles::Percentiles;
pub use reader::Bundle;
pub use spectrum::{Interval, merge_latency};
pub use summary::{HostClock, Measuring, NodeResources, NodeStart, Summary, Sums};
pub use text::{Grid, Report};
pub use threshold::{Aborted, Judgement, Op, StandIn, Threshold, ThresholdResult, evaluate, is_known, measure};
pub use verdict::{Evidence, Limits, Reason, Severity, Status, Verdict, exit_code};
pub use writer::{BundleWriter, Finished, VerdictFile};
