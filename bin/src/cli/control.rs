//! What the verb that steers a run is told.

use clap::{Args, ValueEnum};

use crate::connection::Connection;

/// `rehearsal control`.
#[derive(Debug, Args)]
#[command(
    override_usage = "rehearsal control list
       rehearsal control <RUN> [status|pause|resume|stop] [--node NODE]
       rehearsal control <RUN> rate <FACTOR|RATE> [--node NODE]",
    after_long_help = "Examples:
  rehearsal control list
  rehearsal control uav-control-1a2b3c4d pause
  rehearsal control uav-control-1a2b3c4d rate 0.5              # half of what the file says
  rehearsal control uav-control-1a2b3c4d rate 40/s --node camera
  rehearsal control uav-control-1a2b3c4d stop
  rehearsal control uav-control-1a2b3c4d pause --nats nats://lab:4222   # from another host

A change takes effect 0.1 s after it was asked for, everywhere at once, and is an event of the bundle.
Runs of this user on this host are found by name; the beginning of a name is enough if no other run begins with it."
)]
pub struct Control {
    /// The run, as it was named when it began; `list` shows the runs of this user on this host
    pub run: String,
    /// What to do with it
    #[arg(value_enum, default_value_t)]
    pub action: Action,
    /// With `rate`: a factor of the file's rates, such as 0.5, or the rate of each stream, such as 40/s
    #[arg(value_name = "FACTOR|RATE")]
    pub value: Option<String>,
    /// Only for this node: one instance such as camera-2, or all that share a name, such as camera
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Server of the run, if it runs on another host
    #[command(flatten)]
    pub nats: Connection,
}

/// What to do with a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Action {
    /// Tell how it stands
    #[default]
    Status,
    /// Send nothing new
    Pause,
    /// Go on
    Resume,
    /// Send at another rate
    Rate,
    /// End it, or the senders of a node
    Stop,
}
