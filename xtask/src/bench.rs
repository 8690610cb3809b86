//! Benchmarks: the engines beside peers, in interleaved pairs on pinned cores, with bounded time.
//!
//! Each benchmark prints one table and writes `target/bench/<name>.json` with the machine, the versions and the
//! commands. A peer that cannot run is named as missing. Nothing here fails for a low figure: it is held against its
//! goal, and both are told.

mod closed;
mod figures;
mod http;
mod lab;
mod machine;
mod pacing;
mod paper;
mod process;
mod report;
mod sim;
mod subject;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Requests per CPU second of a sender, beside bare hyper and the paper's stack
    Http(http::Options),
    /// How late an open loop sends, beside a plain tokio timer
    Pacing(pacing::Options),
    /// A closed loop of four cameras against its ceiling, beside the paper's stack
    Closed(closed::Options),
    /// Events per CPU second of the simulator
    Sim(sim::Options),
}

/// Runs one benchmark.
///
/// # Errors
/// When something cannot be built or started, ends with an error, or takes longer than its bound.
pub fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Http(options) => http::run(options),
        Bench::Pacing(options) => pacing::run(options),
        Bench::Closed(options) => closed::run(options),
        Bench::Sim(options) => sim::run(options),
    }
}
