//! What the verbs that read results are told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Against, Beside, Tagged};

/// `rehearsal report`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal report results/uav-control-emulate-20261130-181232
  rehearsal report results/a1-trial --format csv > a1.csv
  rehearsal report results/a1-trial --html a1.html
  rehearsal report results                        # every run in it, repetitions put together
  rehearsal report results --tag build=1.4.2 --baseline results/release --fail-on-regression=5%,response.p99=20%

Repetitions of one experiment on one engine are put together if their settings are the same. INVALID ones are left out,
unless there are no others. Intervals of correlations are drawn again in blocks of consecutive seconds, because seconds
of one run resemble each other. The exit code is 0 whatever the verdicts: they are the runs', not the report's; it is
10 if a figure is worse than --fail-on-regression allows.")]
pub struct Report {
    /// Result folders, folders of repetitions, or folders of such
    #[arg(required = true, value_name = "BUNDLE")]
    pub bundles: Vec<PathBuf>,
    /// How it is told on stdout [default: text, or not at all with --html]
    #[arg(long, value_enum, env = "REHEARSAL_FORMAT")]
    pub format: Option<ReportFormat>,
    /// Also write it as one page with plots, which needs nothing else
    #[arg(long, value_name = "FILE", env = "REHEARSAL_HTML")]
    pub html: Option<PathBuf>,
    /// Level of confidence of all intervals
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, env = "REHEARSAL_LEVEL")]
    pub level: f64,
    /// Seconds left out at each end for what is told without ramps [default: what the experiment leaves out, or 5]
    #[arg(long, value_name = "SECONDS", env = "REHEARSAL_RAMP")]
    pub ramp: Option<u32>,
    /// Replicates that the intervals of correlations are drawn from
    #[arg(long, value_name = "N", default_value_t = 1000, env = "REHEARSAL_REPLICATES")]
    pub replicates: usize,
    /// Where the random numbers of these begin
    #[arg(long, default_value_t = 1, env = "REHEARSAL_SEED")]
    pub seed: u64,
    /// Play-out buffer of a receiver of speech, for its quality by the E-model
    #[arg(long, value_name = "TIME", default_value = "60ms", env = "REHEARSAL_PLAYOUT")]
    pub playout: String,
    /// Which results
    #[command(flatten)]
    pub tagged: Tagged,
    /// What is written beside it
    #[command(flatten)]
    pub beside: Beside,
    /// What it is compared with
    #[command(flatten)]
    pub against: Against,
}

/// `rehearsal runs`.
#[derive(Debug, Args)]
pub struct Runs {
    /// The folder that results lie in
    #[arg(value_name = "DIR", default_value = "results")]
    pub folder: PathBuf,
    /// Which results
    #[command(flatten)]
    pub tagged: Tagged,
    /// How it is told
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_FORMAT")]
    pub format: ReportFormat,
}

/// How a report is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    #[default]
    Text,
    /// For programs: all of it
    Json,
    /// For spreadsheets: one number per line
    Csv,
}
