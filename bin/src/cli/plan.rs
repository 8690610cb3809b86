//! What the verbs that look ahead are told: the booking sheet, and sweeps over parameters.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Overrides;

/// `rehearsal plan`.
#[derive(Debug, Args)]
#[command(
    override_usage = "rehearsal plan [OPTIONS] <FILE>...
       rehearsal plan <FILE> --find PATH --while CONDITION
       rehearsal plan --schema",
    after_long_help = "Examples:
  rehearsal plan configs/pl5g/*.toml                  # a campaign; paper.toml gives its rates
  rehearsal plan configs/uav-control.toml --facility fabric --format markdown
  rehearsal plan configs/pl5g/a1.toml --rate 136/s    # a closed loop at a measured rate
  rehearsal plan configs/uav-control.toml --find nodes.camera.count --while \"response.p99<100ms\"
  rehearsal plan configs/uav-control.toml --find nodes.camera.actors.main.rate --from 10/s \\
    --while \"lost.ratio<1%\"

The sheet rests on the file, on a short dry run, and on the assumptions that it lists with their
sources. Nothing is sent and nothing is booked. A search doubles the value until the condition
fails, halves what is between, and then tries other values to see whether the condition is
monotone; each try is a whole dry run of the first repetition. A run that is INVALID does not hold."
)]
pub struct Plan {
    /// Experiment files; a file of published figures beside them gives rates and volumes
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What to change in each of them
    #[command(flatten)]
    pub overrides: Overrides,
    /// Where to book: generic-lab, cloudlab, fabric, or a file like configs/facilities/generic-lab.toml
    #[arg(long, value_name = "NAME", default_value = "generic-lab", env = "REHEARSAL_FACILITY")]
    pub facility: String,
    /// Requests per second of all senders of an experiment, where you know better: [NAME=]RATE (repeatable)
    #[arg(long, value_name = "RATE", env = "REHEARSAL_RATE")]
    pub rate: Vec<String>,
    /// How the sheet is printed
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_FORMAT")]
    pub format: PlanFormat,
    /// What things cost on a host: a file such as configs/calibration/default.toml [default: the experiment's]
    #[arg(long, value_name = "FILE", env = "REHEARSAL_CALIBRATION")]
    pub calibration: Option<PathBuf>,
    /// Print the JSON Schema of the sheet
    #[arg(long, conflicts_with = "files")]
    pub schema: bool,
    /// How many: the largest value of this key that keeps the condition, such as nodes.sensor.count
    #[arg(long, value_name = "PATH", requires = "condition", help_heading = "Search")]
    pub find: Option<String>,
    /// What must hold of a dry run, written like a threshold: "response.p99<100ms"
    #[arg(id = "condition", long = "while", value_name = "CONDITION", requires = "find", help_heading = "Search")]
    pub condition: Option<String>,
    /// Where the search begins, with the key's unit if it has one
    #[arg(long, value_name = "VALUE", default_value = "1", requires = "find", help_heading = "Search")]
    pub from: String,
    /// The largest value that is tried
    #[arg(long, value_name = "N", default_value_t = 65_536, requires = "find", help_heading = "Search")]
    pub up_to: u64,
    /// Dry runs at most
    #[arg(long, value_name = "N", default_value_t = 60, requires = "find", help_heading = "Search")]
    pub tries: u32,
}

/// How a sheet is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For documents
    Markdown,
}

/// `rehearsal sweep`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal sweep configs/sweeps/drones.toml --out results/drones
  rehearsal sweep configs/sweeps/drones.toml --out results/drones      # goes on where it stopped

A sweep file names an experiment and what to vary in it: `[grid]` has lists of values, `[random]`
has ranges to draw from. Each point is a dry run for each repetition, one on each core. DIR holds
points.jsonl, to which each finished point is added at once, and in the end sweep.parquet with a
row for each. A point that is there already, from the same experiment and program, is not run
again. The digest on stdout does not depend on the number of threads.")]
pub struct Sweep {
    /// The sweep file
    pub file: PathBuf,
    /// Folder of the results
    #[arg(long, value_name = "DIR", env = "REHEARSAL_OUT")]
    pub out: PathBuf,
    /// What to change in the experiment at every point
    #[command(flatten)]
    pub overrides: Overrides,
    /// What things cost on a host: a file such as configs/calibration/default.toml [default: the experiment's]
    #[arg(long, value_name = "FILE", env = "REHEARSAL_CALIBRATION")]
    pub calibration: Option<PathBuf>,
    /// Dry runs at the same time [default: one per core]
    #[arg(long, value_name = "N", env = "REHEARSAL_THREADS")]
    pub threads: Option<usize>,
    /// No progress on stderr
    #[arg(long, short, env = "REHEARSAL_QUIET")]
    pub quiet: bool,
}
