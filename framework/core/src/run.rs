//! What an engine hands back at the end of a run: the authoritative totals, and everything that went wrong.

use crate::messages::StopReason;
use crate::parts::tally::Tally;
use crate::time::Time;

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Every group that this process ran, in the order of the assembly.
    pub groups: Vec<GroupEnd>,
    /// When traffic began; `None` if it never did.
    pub start: Option<Time>,
    /// When the drain began.
    pub stop: Time,
    /// When the last outcome was in and the last record stored.
    pub end: Time,
    /// Why it stopped.
    pub reason: StopReason,
    /// What went wrong, in the order of time.
    pub faults: Vec<Fault>,
    /// Messages that a full subscription buffer dropped.
    pub messages_dropped: u64,
    /// Answers that came after their deadline.
    pub late_replies: u64,
    /// Events that actors handled.
    pub events: u64,
    /// Digest over the whole event trace; a simulation's alone.
    pub fingerprint: Option<u64>,
    /// Facts for the verdict's notes, such as `limits are not enforced in embedded placement`.
    pub notes: Vec<String>,
}

/// One group at the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupEnd {
    /// Row of the assembly's groups.
    pub group: usize,
    /// Totals since the start; nothing is open any more.
    pub tally: Tally,
    /// Digest of what the group's schedule generated.
    pub schedule: u64,
    /// Its own counters by name.
    pub counts: Vec<(String, u64)>,
    /// The address it listened on, if it received.
    pub listen: Option<core::net::SocketAddr>,
}

/// A named fault of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at: Time,
    /// The node instance.
    pub node: String,
    /// The actor instance.
    pub actor: String,
    /// What happened.
    pub text: String,
}

/// How far a run is, told about once a second of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run's time now.
    pub at: Time,
    /// When traffic began, once that is known.
    pub start: Option<Time>,
    /// Whether the run drains.
    pub stopping: bool,
    /// Events that actors handled so far.
    pub events: u64,
    /// Exchanges that came due so far, over all local groups.
    pub generated: u64,
    /// Exchanges that are settled so far, over all local groups.
    pub settled: u64,
}

impl RunEnd {
    /// Sum of the groups' schedule digests: equal for the same experiment, seed and repetition, on either engine and
    /// over any number of hosts.
    pub fn schedule_digest(&self) -> u64 {
        self.groups.iter().fold(0, |sum, g| sum.wrapping_add(g.schedule.rotate_left(g.group as u32 % 64)))
    }
}
