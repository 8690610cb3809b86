//! `bench truth`: the timed parts of the acceptance tests, and an independent recorder beside the bundle's own times.
//!
//! What a test cannot hold without depending on the machine is told here: the delay of a stopped receiver in response and
//! service times (a1), rates that divide no second evenly (a2), the memory of a long run (a3) and how long a run takes
//! that nobody answers (a10). With `--recorder`, tcpdump(8) captures runs on loopback, and what [`wire`] reads from the
//! packets alone is held against the service times of the bundle.

mod hole;
mod rates;
mod recorder;
mod soak;
mod stall;
mod wire;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::lab::Lab;
use super::process::Running;
use super::report::Report;

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Also hold a capture of packets against the bundle (needs root and tcpdump)
    #[arg(long)]
    recorder: bool,
    /// Nothing but the capture
    #[arg(long, requires = "recorder")]
    recorder_only: bool,
    /// Runs with a capture
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seconds of traffic of each run with a capture, and at each rate
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
    let mut report = Report::new("truth");
    if !options.recorder_only {
        stall::measure(&mut lab, &mut report)?;
        rates::measure(&mut lab, &mut report, options.seconds)?;
        hole::measure(&mut lab, &mut report)?;
        soak::measure(&mut lab, &mut report)?;
    }
    if options.recorder {
        recorder::measure(&mut lab, &mut report, options.runs, options.seconds)?;
    }
    report.finish(&lab)
}

/// Sends a signal by its name to a program that runs.
fn signal(program: &Running, name: &str) -> Result<()> {
    let sent = Command::new("kill").args([format!("-{name}"), program.id().to_string()]).status();
    ensure!(sent.context("kill(1)")?.success(), "a program ended before it was sent {name}");
    Ok(())
}
