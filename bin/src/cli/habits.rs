//! Flags for continuous integration and for watching: what is written beside a result, compared with it, and served.

use std::path::PathBuf;

use clap::Args;

use crate::tags::Tag;

/// What is written beside a result.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Results")]
pub struct Beside {
    /// Also write verdict and thresholds as JUnit XML, whatever they are
    #[arg(long, value_name = "FILE", env = "REHEARSAL_JUNIT")]
    pub junit: Option<PathBuf>,
}

/// What a result is compared with.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Results")]
pub struct Against {
    /// Compare with an earlier result of the same experiment on the same engine
    #[arg(long, value_name = "BUNDLE", env = "REHEARSAL_BASELINE")]
    pub baseline: Option<PathBuf>,
    /// Exit with 10 if a figure is worse by more than this, such as =5%,response.p99=20% [default limit: 10%]
    #[arg(
        long,
        value_name = "LIMITS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10%",
        requires = "baseline",
        env = "REHEARSAL_FAIL_ON_REGRESSION"
    )]
    pub fail_on_regression: Option<String>,
    /// Compare also with another experiment, another engine or an INVALID result
    #[arg(long, requires = "baseline", env = "REHEARSAL_BASELINE_FORCE")]
    pub baseline_force: bool,
}

/// What a run is called.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Results")]
pub struct Tags {
    /// Say something of the run to find it again, such as build=1.4.2 (repeatable)
    #[arg(long = "tag", value_name = "KEY=VALUE", env = "REHEARSAL_TAG", value_delimiter = ',')]
    pub tags: Vec<Tag>,
}

/// Which results are read.
#[derive(Debug, Args, Default)]
pub struct Tagged {
    /// Only results with this tag, such as build=1.4.2 (repeatable)
    #[arg(long = "tag", value_name = "KEY=VALUE", env = "REHEARSAL_TAG", value_delimiter = ',')]
    pub tags: Vec<Tag>,
}

/// Where figures are served while a run goes on.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Results")]
pub struct Metrics {
    /// Serve the run so far as OpenMetrics at http://ADDR/metrics, such as 127.0.0.1:9464, until the program ends
    #[arg(long = "metrics", value_name = "ADDR", env = "REHEARSAL_METRICS")]
    pub address: Option<String>,
    /// Let --metrics listen beyond the loopback: whoever reaches it can read it
    #[arg(long = "metrics-public", requires = "address", env = "REHEARSAL_METRICS_PUBLIC")]
    pub public: bool,
}
