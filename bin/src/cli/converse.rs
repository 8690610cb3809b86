//! What the verb that replays templates is told of conversations, and the verb that stands between their halves.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Format;

/// Conversations of a replay.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conversations")]
pub struct Converse {
    /// Replay conversations, not packets: a packet goes when what it answers has arrived. Clients are at --interface,
    /// servers at --peer, or one half is here and the other one in another process. --speed divides times to think,
    /// --top-speed leaves them out, --pps sends one packet after the other at that rate
    #[arg(
        long,
        env = "REHEARSAL_INTERACTIVE",
        conflicts_with_all = ["receive", "hold", "loops", "loop_gap", "bps", "to", "write", "workers", "pacing"]
    )]
    pub interactive: bool,
    /// The interface of the servers
    #[arg(long, value_name = "NAME", env = "REHEARSAL_PEER", requires = "interactive", conflicts_with = "half")]
    pub peer: Option<String>,
    /// Network namespace of that interface: a name of `ip netns`, or a path
    #[arg(long, value_name = "SPACE", env = "REHEARSAL_PEER_IN", requires = "peer")]
    pub peer_in: Option<PathBuf>,
    /// Only this half is here, at --interface; the other one has the same template, edits and options elsewhere
    #[arg(long, value_enum, env = "REHEARSAL_HALF", requires = "interactive")]
    pub half: Option<HalfOf>,
    /// So many conversations, those of the template in turn; further copies have addresses of their own [default: each
    /// once]
    #[arg(long, value_name = "N", env = "REHEARSAL_CONVERSATIONS", requires = "interactive", value_parser = clap::value_parser!(u64).range(1..))]
    pub conversations: Option<u64>,
    /// What is one conversation
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_SPLIT", requires = "interactive")]
    pub split: SplitBy,
    /// Clients get an address each from this network [default for copies: 198.18.0.0/16, 2001:2::/64] (repeatable)
    #[arg(long, value_name = "NETWORK", env = "REHEARSAL_CLIENTS", requires = "interactive", value_delimiter = ',')]
    pub clients: Vec<String>,
    /// And servers from this one [default for copies: 198.19.0.0/16, 2001:2:0:1::/64] (repeatable)
    #[arg(long, value_name = "NETWORK", env = "REHEARSAL_SERVERS", requires = "interactive", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// Begin so many conversations per second [default: each as in the template, copies at once; with --pps as many as
    /// it takes]
    #[arg(long, value_name = "RATE", env = "REHEARSAL_START_RATE", requires = "interactive")]
    pub start_rate: Option<f64>,
    /// So many conversations at once, at most [default: all]
    #[arg(long, value_name = "N", env = "REHEARSAL_CONCURRENT", requires = "interactive", value_parser = clap::value_parser!(u32).range(1..))]
    pub concurrent: Option<u32>,
    /// What is done when an answer does not come: resend=TIMES,after=TIME, or give-up
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "resend=3,after=200ms",
        env = "REHEARSAL_LOSS",
        requires = "interactive"
    )]
    pub loss: String,
    /// A conversation has timed out when nothing new was heard for so long, beyond its times to think
    #[arg(long, value_name = "TIME", default_value = "10s", env = "REHEARSAL_TIMEOUT", requires = "interactive")]
    pub timeout: String,
    /// Frames leave --interface to this Ethernet address, such as a router's, and from the interface's own [default: as
    /// in the template or its edit]
    #[arg(long, value_name = "MAC", env = "REHEARSAL_NEXT_HOP", requires = "interactive")]
    pub next_hop: Option<String>,
    /// The same for --peer
    #[arg(long, value_name = "MAC", env = "REHEARSAL_PEER_NEXT_HOP", requires = "peer")]
    pub peer_next_hop: Option<String>,
}

/// A half of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HalfOf {
    /// Who opened each conversation's first stream
    Client,
    /// The other side
    Server,
}

/// What is one conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SplitBy {
    /// All that two hosts say to each other, in its order over all connections
    #[default]
    Hosts,
    /// Each stream for itself
    Streams,
}

/// `rehearsal middle`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal middle --between ra --and rb --in router --delay 20ms --lose 0.01
  rehearsal middle --between ra --and rb --format json

It ends at Ctrl-C, and tells what came by protocol and port. It needs root, or CAP_NET_RAW. Where the kernel has a bridge or
netem, these are faster; their frames would come twice if both were there.")]
pub struct Middle {
    /// One interface
    #[arg(long, value_name = "NAME", env = "REHEARSAL_BETWEEN")]
    pub between: String,
    /// The other one
    #[arg(long, value_name = "NAME", env = "REHEARSAL_AND")]
    pub and: String,
    /// Network namespace of both: a name of `ip netns`, or a path
    #[arg(long = "in", value_name = "SPACE", env = "REHEARSAL_IN")]
    pub space: Option<PathBuf>,
    /// How long a frame is under way
    #[arg(long, value_name = "TIME", default_value = "0ms", env = "REHEARSAL_DELAY")]
    pub delay: String,
    /// Which share of the frames is lost, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, env = "REHEARSAL_LOSE")]
    pub lose: f64,
    /// Where drawing losses begins
    #[arg(long, value_name = "NUMBER", default_value_t = 1, env = "REHEARSAL_SEED")]
    pub seed: u64,
    /// End after this time
    #[arg(long, value_name = "TIME", env = "REHEARSAL_DURATION")]
    pub duration: Option<String>,
    /// How the counts are printed
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT")]
    pub format: Format,
}
