//! What the verb that replays templates is told.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Converse, Edits, Format, Place};

/// `rehearsal replay`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal replay capture.pcap --interface eth1
  rehearsal replay web@1f2e3d --interface eth1 --speed 2 --loops 10 --limit-gap 1s
  rehearsal replay capture.pcap --interface va --top-speed --loops 1000 --receive vb --receive-in lab
  rehearsal replay capture.pcap --interface va --receive vb --out results/replay-1
  rehearsal replay web --interface va --hold 1000000 --edit random_hosts=10.0.0.0/8 --top-speed --duration 30s --receive vb
  rehearsal replay calls.pcap --path udp --to 10.0.0.7:9000
  rehearsal replay web.pcap --interactive --interface va --peer vb --peer-in lab --conversations 1000

How long it takes is told before anything is sent. Replaying whole frames needs root, or CAP_NET_RAW. With --receive, what
arrives at another interface of this host is held against the schedule: losses, order, errors of gaps, offset and drift.

It is packets that are replayed, not connections: a live server answers a replayed TCP segment with a reset.

With --interactive both sides of conversations are replayed, and wait for each other.")]
pub struct Replay {
    /// A template of the library, a template file, or a capture
    #[arg(value_name = "TEMPLATE|FILE")]
    pub what: String,
    /// Where templates are
    #[command(flatten)]
    pub place: Place,
    /// Where to
    #[command(flatten)]
    pub target: Target,
    /// When
    #[command(flatten)]
    pub times: Times,
    /// What is changed in copies of packets
    #[command(flatten)]
    pub edits: Edits,
    /// Where arrivals are taken
    #[command(flatten)]
    pub receive: Receive,
    /// Both sides of conversations
    #[command(flatten)]
    pub converse: Converse,
    /// Write what came of it into this folder: replay.json and summary.txt
    #[arg(long, value_name = "DIR", env = "REHEARSAL_OUT", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT", help_heading = "Results")]
    pub format: Format,
    /// A DEGRADED replay exits with 20 too
    #[arg(long, env = "REHEARSAL_STRICT", help_heading = "Results")]
    pub strict: bool,
    /// Nothing on stderr but errors
    #[arg(long, short, env = "REHEARSAL_QUIET", help_heading = "Results")]
    pub quiet: bool,
}

/// Where packets go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Path")]
pub struct Target {
    /// Send out of this interface
    #[arg(long, short, value_name = "NAME", env = "REHEARSAL_INTERFACE")]
    pub interface: Option<String>,
    /// How frames are sent
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_PATH")]
    pub path: SendPath,
    /// With --path udp: to this address
    #[arg(long, value_name = "HOST:PORT", env = "REHEARSAL_TO")]
    pub to: Option<SocketAddr>,
    /// With --path pcap: into this new file
    #[arg(long, value_name = "FILE", env = "REHEARSAL_WRITE")]
    pub write: Option<PathBuf>,
    /// Workers; each has a core and its own streams
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), env = "REHEARSAL_WORKERS")]
    pub workers: u16,
}

/// When packets are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Timing")]
pub struct Times {
    /// At the template's times, divided by this [default: 1]
    #[arg(long, value_name = "FACTOR", env = "REHEARSAL_SPEED", conflicts_with_all = ["pps", "bps", "top_speed"])]
    pub speed: Option<f64>,
    /// Evenly, so many packets per second
    #[arg(long, value_name = "RATE", env = "REHEARSAL_PPS", conflicts_with_all = ["bps", "top_speed"])]
    pub pps: Option<f64>,
    /// So many bits of Ethernet frames per second, such as 100Mbit/s
    #[arg(long, value_name = "RATE", env = "REHEARSAL_BPS", conflicts_with = "top_speed")]
    pub bps: Option<String>,
    /// As fast as the path takes them
    #[arg(long, env = "REHEARSAL_TOP_SPEED")]
    pub top_speed: bool,
    /// Open so many streams and hold them: each loop has hosts of its own (--edit random_hosts=…) until so many are open, then
    /// these come again
    #[arg(long, value_name = "STREAMS", env = "REHEARSAL_HOLD", value_parser = clap::value_parser!(u64).range(1..))]
    pub hold: Option<u64>,
    /// Replay it so many times [default: 1, with --hold until all are open, or until --duration is over]
    #[arg(long, value_name = "N", env = "REHEARSAL_LOOPS")]
    pub loops: Option<u64>,
    /// From the last packet of a loop to the first of the next [default: the mean gap]
    #[arg(long, value_name = "TIME", env = "REHEARSAL_LOOP_GAP")]
    pub loop_gap: Option<String>,
    /// Cut longer gaps of the template to this
    #[arg(long, value_name = "TIME", env = "REHEARSAL_LIMIT_GAP")]
    pub limit_gap: Option<String>,
    /// End after this time, whatever is left
    #[arg(long, value_name = "TIME", env = "REHEARSAL_DURATION")]
    pub duration: Option<String>,
    /// How times are kept
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_PACING")]
    pub pacing: Keeping,
    /// Do not go before other processes, even where that is allowed
    #[arg(long, env = "REHEARSAL_ORDINARY")]
    pub ordinary: bool,
}

/// Where arrivals are taken.
#[derive(Debug, Args)]
#[command(next_help_heading = "Far side")]
pub struct Receive {
    /// Take what arrives at this interface, and judge by it
    #[arg(long, value_name = "NAME", env = "REHEARSAL_RECEIVE")]
    pub receive: Option<String>,
    /// Network namespace of that interface: a name of `ip netns`, or a path
    #[arg(long, value_name = "SPACE", env = "REHEARSAL_RECEIVE_IN", requires = "receive")]
    pub receive_in: Option<PathBuf>,
    /// Take each frame with its time, count them in the driver (and drop them there), or count streams
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_RECEIVE_AS", requires = "receive")]
    pub receive_as: ReceiveAs,
}

/// A way of sending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SendPath {
    /// The best that can be had: for top speed xdp-live, af-xdp or packet, for times packet
    #[default]
    Auto,
    /// A packet socket, past the queueing discipline
    Packet,
    /// An AF_XDP socket
    AfXdp,
    /// An XDP program that the kernel runs over live frames; for top speed
    XdpLive,
    /// Payloads of UDP through an ordinary socket; needs no privilege
    Udp,
    /// Nothing is sent: a capture of what would be
    Pcap,
    /// Another program sends: what arrives at --receive is held against the schedule
    Others,
}

/// How times are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Keeping {
    /// Against the start: lateness is made up for
    #[default]
    Absolute,
    /// Algorithm 1 of the DTRF paper: against the packet before, so lateness adds up
    Dtrf,
}

/// How arrivals are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReceiveAs {
    /// Frames when they have times; at top speed counts, with --hold streams
    #[default]
    Auto,
    /// Each frame with the kernel's time
    Frames,
    /// Counts, by an XDP program
    Count,
    /// How many streams (5-tuples) were heard in the last 10 s; 12 bytes for each, nothing for a packet
    Streams,
}
