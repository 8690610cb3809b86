//! The flags of `rehearsal simulate` that only virtual time has.

use std::path::PathBuf;

use clap::Args;

/// How virtual time passes, and what is told of it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub struct Virtual {
    /// Stop virtual time so long after the start of traffic, such as 10s: the verdict says that the run was cut short
    #[arg(long, value_name = "TIME", env = "REHEARSAL_UNTIL")]
    pub until: Option<String>,
    /// Let virtual time pass so many times as fast as real time, 1 for as fast, and say how late it was
    #[arg(long, value_name = "FACTOR", env = "REHEARSAL_PACE")]
    pub pace: Option<f64>,
    /// End the run with a fault when it is later than this behind its pace, such as 10ms [default: late is only told]
    #[arg(long, value_name = "TIME", requires = "pace", env = "REHEARSAL_PACE_LIMIT")]
    pub pace_limit: Option<String>,
    /// Write a line for each event that an actor is handed, at most 10 million; compressed if the name ends with .gz
    #[arg(long, value_name = "FILE", env = "REHEARSAL_TRACE")]
    pub trace: Option<PathBuf>,
    /// Write what is offered to each link as <from>-<to>.pcap, headers made up and payloads left out
    #[arg(long, value_name = "DIR", env = "REHEARSAL_PCAP")]
    pub pcap: Option<PathBuf>,
}

impl Virtual {
    /// Whether anything is told of single events or times, which is of one repetition.
    pub const fn looks_on(&self) -> bool {
        self.pace.is_some() || self.trace.is_some() || self.pcap.is_some()
    }
}
