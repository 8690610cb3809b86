//! What the verbs that hold a dry run against this host are told: `compare` and `calibrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Format, ReportFormat};
use crate::connection::Connection;

/// `rehearsal compare`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal compare results/uav-control-simulate-20261130-181201 results/uav-control-emulate-20261130-181232
  rehearsal compare dry real --cpu-points 10 --p99-percent 50
  rehearsal compare dry real --format csv > seconds.csv
  rehearsal compare dry sender receiver           # a real run in parts: --without receiver, and --only receiver

Both must be of one experiment with one seed; repetitions are put together. What either side does not know, such as the
CPU load of a dry run without a calibration, is shown and not judged. The exit code is 10 if anything is outside of its
bound, or if nothing could be judged.")]
pub struct Compare {
    /// Result folder of the dry run, or the folder of its repetitions
    #[arg(value_name = "SIMULATED")]
    pub simulated: PathBuf,
    /// Result folder of the real run, of its repetitions, or of its parts
    #[arg(required = true, value_name = "EMULATED")]
    pub emulated: Vec<PathBuf>,
    /// How it is told on stdout
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_FORMAT")]
    pub format: ReportFormat,
    /// Also print every second of every node as text
    #[arg(long)]
    pub seconds: bool,
    /// What may lie between them
    #[command(flatten)]
    pub bounds: BoundArgs,
}

/// The largest errors that are inside.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Bounds")]
pub struct BoundArgs {
    /// Rate of each node, % of the real one
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, env = "REHEARSAL_RATE_PERCENT")]
    pub rate_percent: f64,
    /// CPU load of each node, points
    #[arg(long, value_name = "POINTS", default_value_t = 5.0, env = "REHEARSAL_CPU_POINTS")]
    pub cpu_points: f64,
    /// Median of times, % of the real one
    #[arg(long, value_name = "PERCENT", default_value_t = 15.0, env = "REHEARSAL_P50_PERCENT")]
    pub p50_percent: f64,
    /// 99th percentile of times, % of the real one
    #[arg(long, value_name = "PERCENT", default_value_t = 30.0, env = "REHEARSAL_P99_PERCENT")]
    pub p99_percent: f64,
}

/// `rehearsal calibrate`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal calibrate                              # some minutes on a host that does nothing else
  rehearsal calibrate --quick --carrier http1 --out lab-7.toml
  rehearsal calibrate --check lab-7.toml           # how well dry runs with it meet loads that it was not made from
  rehearsal calibrate --nats nats://192.0.2.1:4222 --out lab.toml     # every agent its host: lab-AGENT.toml

It sends real traffic over the loopback, from one process of this program to another, and reads what both used. A try
during which the host did something else is not used: it fails the gate, is shown, and is repeated. The gate is fixed:
at most 1 % stolen by the hypervisor, at most 0.15 cores used by others, and a computation before and after that takes at
most 1.05 times its CPU time. What had no try through the gate is left out of the file. With --check the exit code is 10
if a point is outside of its bounds, or if none could be shown.")]
pub struct Calibrate {
    /// Where to write it; an existing file is never overwritten
    #[arg(long, value_name = "FILE", default_value = "calibration.toml", env = "REHEARSAL_OUT")]
    pub out: PathBuf,
    /// Fewer and shorter tries: orders of magnitude in a minute
    #[arg(long, env = "REHEARSAL_QUICK")]
    pub quick: bool,
    /// Only these ways to send (repeatable) [default: all; nats where a server is found]
    #[arg(long, value_enum, value_name = "WAY", value_delimiter = ',', env = "REHEARSAL_CARRIER")]
    pub carrier: Vec<Way>,
    /// Use tries that fail the gate too, and say so in the file: for trying it out on a busy host
    #[arg(long, env = "REHEARSAL_ANYWAY")]
    pub anyway: bool,
    /// Hold dry runs with this calibration against real runs at other loads, instead of making one
    #[arg(long, value_name = "FILE", env = "REHEARSAL_CHECK", help_heading = "Check")]
    pub check: Option<PathBuf>,
    /// Tries of one point of a check, at most; it is settled by three that pass the gate
    #[arg(long, value_name = "N", default_value_t = 20, requires = "check",
        value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Check")]
    pub tries: u32,
    /// Only points whose name begins so, such as "scenario A, kept" (repeatable)
    #[arg(long, value_name = "NAME", requires = "check", help_heading = "Check")]
    pub point: Vec<String>,
    /// End the check after so much time, such as 10min; points that are left are told as not tried
    #[arg(long, value_name = "TIME", default_value = "60min", requires = "check", help_heading = "Check")]
    pub within: String,
    /// How a check is told
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT", help_heading = "Check")]
    pub format: Format,
    /// No progress on stderr
    #[arg(long, short, env = "REHEARSAL_QUIET")]
    pub quiet: bool,
    /// Server through which agents are found
    #[command(flatten)]
    pub nats: Connection,
}

/// A way to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// HTTP over connections that are kept, and over one for each request
    Http1,
    /// Datagrams
    Udp,
    /// Requests over a NATS server
    Nats,
}
