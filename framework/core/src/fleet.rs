//! What a run's leader and the agents of a fleet say to each other, on `lab.v1.fleet.ctl.<agent>.<step>`.
//!
//! Each is a request with an answer, or a [`Refusal`] with its reason. The steps in their order: [`Scan`] (who is there),
//! [`Reserve`], [`Launch`], then [`Watch`] once a second, which also renews the lease, [`Collect`], [`Release`]. Each may be
//! said again: what is done already is answered as if it had just been done. [`ReadClock`] is asked in between.
//!
//! An agent also keeps its [`Card`] as JSON in the key-value bucket [`BUCKET`], under its name.

use core::net::IpAddr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::life::Succession;
use crate::message::Message;
use crate::subject::{Plane, subject};
use crate::units::{BitRate, ByteSize};

/// What stands in place of a run in the subjects of a fleet.
pub const FLEET: &str = "fleet";
/// The key-value bucket of the agents' cards.
pub const BUCKET: &str = "rehearsal-agents";
/// The object store's bucket of files, each under its SHA-256 in hexadecimal digits.
pub const FILES: &str = "rehearsal-files";
/// The name under which agents are found by the Services API.
pub const SERVICE: &str = "rehearsal-agent";

/// What an agent can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// [`Scan`].
    Scan,
    /// [`Reserve`].
    Reserve,
    /// [`Launch`].
    Launch,
    /// [`Watch`].
    Status,
    /// [`Relaunch`].
    Restart,
    /// [`Halt`].
    Stop,
    /// [`Collect`].
    Collect,
    /// [`Release`].
    Release,
    /// [`ReadClock`].
    Clock,
    /// [`Calibrate`].
    Calibrate,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 10] = [
        Step::Scan,
        Step::Reserve,
        Step::Launch,
        Step::Status,
        Step::Restart,
        Step::Stop,
        Step::Collect,
        Step::Release,
        Step::Clock,
        Step::Calibrate,
    ];

    /// Its token in subjects.
    pub const fn token(self) -> &'static str {
        match self {
            Step::Scan => "scan",
            Step::Reserve => "reserve",
            Step::Launch => "launch",
            Step::Status => "status",
            Step::Restart => "restart",
            Step::Stop => "stop",
            Step::Collect => "collect",
            Step::Release => "release",
            Step::Clock => "clock",
            Step::Calibrate => "calibrate",
        }
    }

    /// Where `agent` is asked for it.
    pub fn subject(self, agent: &str) -> String {
        subject(FLEET, Plane::Control, agent, self.token(), "")
    }
}

macro_rules! kinds {
    ($($type:ty = $kind:literal;)*) => { $(impl Message for $type { const KIND: &'static str = $kind; })* };
}

kinds! {
    Scan = "scan";
    Card = "agent-card";
    Reserve = "reserve";
    Launch = "launch";
    Watch = "watch";
    Standing = "standing";
    Relaunch = "relaunch";
    Halt = "halt";
    Collect = "collect";
    Collected = "collected";
    Release = "release";
    Done = "done";
    Refusal = "refusal";
    ReadClock = "read-clock";
    ClockReading = "clock-reading";
    Calibrate = "calibrate";
    Calibrating = "calibrating";
}

/// Who are you, and what is free? Answered by a [`Card`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {}

/// What an agent says of itself and its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Its name, a token of subjects.
    pub agent: String,
    /// Version of its program.
    pub version: String,
    /// Its processor's architecture, such as `aarch64`.
    pub architecture: String,
    /// Kernel and its release.
    pub kernel: String,
    /// The address that receivers on it listen on.
    pub address: IpAddr,
    /// Cores that it offers.
    pub cores: f64,
    /// Cores that its host has.
    pub host_cores: u32,
    /// Memory that it offers.
    pub memory: ByteSize,
    /// What its operator says of it, such as `rack = a`.
    pub labels: BTreeMap<String, String>,
    /// Addresses of its host by interface, but for the loopback.
    pub interfaces: BTreeMap<String, Vec<IpAddr>>,
    /// Its clock.
    pub clock: ClockFacts,
    /// Address ranges that it permits traffic to.
    pub allow: Vec<String>,
    /// Most requests per second that senders of all runs on it may offer.
    pub rate_max: Option<f64>,
    /// Most bits of payload per second that they may.
    pub bit_rate_max: Option<BitRate>,
    /// Whether its kernel holds nodes to their vCPU and memory.
    pub enforces: bool,
    /// Who holds what of it.
    pub held: Vec<Held>,
}

/// What is known of a host's clock, CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// Names the boot of a kernel and the time namespace: equal on two hosts only if they are one, and read one clock.
    pub id: String,
    /// What the kernel counts, such as `tsc`; empty if unknown.
    pub source: String,
    /// Whether a time service says that it keeps the date right; `None` if unknown.
    pub synchronised: Option<bool>,
}

/// A reservation as others see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The run's token.
    pub run: String,
    /// Who leads it: a host name and a process id.
    pub leader: String,
    /// Cores.
    pub vcpu: f64,
    /// Memory.
    pub memory: ByteSize,
    /// Node instances.
    pub nodes: Vec<String>,
}

impl Card {
    /// Cores and memory that nobody holds.
    pub fn free(&self) -> (f64, ByteSize) {
        let vcpu: f64 = self.held.iter().map(|held| held.vcpu).sum();
        let memory = self.held.iter().fold(0_u64, |sum, held| sum.saturating_add(held.memory.0));
        ((self.cores - vcpu).max(0.0), ByteSize(self.memory.0.saturating_sub(memory)))
    }
}

/// Holds resources for a run, or renews the lease on them. Answered by [`Done`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reserve {
    /// The run's token.
    pub run: String,
    /// Who leads it: a host name and a process id.
    pub leader: String,
    /// What it needs.
    pub nodes: Vec<Need>,
    /// If the leader is silent for so long, the agent ends the run's nodes and frees itself, ms.
    pub lease_ms: u64,
}

/// What one node instance needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The node instance.
    pub node: String,
    /// Cores; 0 if it has no limit.
    pub vcpu: f64,
    /// Memory; 0 if it has no limit.
    pub memory: ByteSize,
}

/// Starts the reserved nodes. Answered by [`Done`] once each has a process, or by what its operator does not allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The run's token.
    pub run: String,
    /// The orders of a node's process as JSON, but for what differs between nodes and hosts. Only the same version of the
    /// program understands them.
    pub orders: String,
    /// The run's creation on the CLOCK_MONOTONIC of the agent's host, ns.
    pub epoch_ns: u64,
    /// The file that holds the experiment, where it is too long for the orders: one of `files`.
    pub experiment: Option<String>,
    /// Files that the experiment names, by the name in the experiment sent: their SHA-256 in hexadecimal digits.
    pub files: BTreeMap<String, String>,
    /// The addresses of the hosts of other nodes, by node instance.
    pub peers: BTreeMap<String, IpAddr>,
}

/// How do the nodes of a run stand? Renews its lease. Answered by [`Standing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The run's token.
    pub run: String,
}

/// How the nodes of a run stand on one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Whether the agent holds anything for the run.
    pub known: bool,
    /// Nodes with a process.
    pub running: Vec<String>,
    /// Nodes whose process has ended, and how.
    pub ended: BTreeMap<String, String>,
}

/// Starts the process of one node again, and ends the one before it if it still runs. Answered by [`Done`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relaunch {
    /// The run's token.
    pub run: String,
    /// The node instance.
    pub node: String,
    /// What the new process must know of those before.
    pub succession: Succession,
}

/// Ends the processes of a run; what is reserved stays so. Answered by [`Done`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// The run's token.
    pub run: String,
}

/// What did the nodes of a run leave? Answered by [`Collected`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collect {
    /// The run's token.
    pub run: String,
}

/// What nodes left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// What each said on stderr, its first lines.
    pub said: BTreeMap<String, Vec<String>>,
    /// Lines beyond that.
    pub more: u64,
    /// Result files by name, each in the object store under the SHA-256 given.
    pub files: BTreeMap<String, String>,
}

/// Frees what is held for a run, and ends its nodes if they still run. Answered by [`Done`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The run's token.
    pub run: String,
}

/// It is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

/// It is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why not.
    pub reason: String,
}

/// What does your clock show? Answered by a [`ClockReading`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadClock {}

/// A host's CLOCK_MONOTONIC, read between a question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Nanoseconds.
    pub monotonic_ns: u64,
}

/// Measure what sending and receiving costs on your host, by traffic over its loopback. The first question begins; each
/// further one with the same `order` asks how it stands, and keeps it going. Answered by [`Calibrating`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibrate {
    /// Tells orders apart.
    pub order: String,
    /// Who asks: a host name and a process id.
    pub leader: String,
    /// Fewer and shorter tries.
    pub quick: bool,
    /// Whether tries that fail the gate are used too.
    pub anyway: bool,
    /// Ways to send, as on the command line; none means all.
    pub ways: Vec<String>,
}

/// How a calibration stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Calibrating {
    /// It goes on.
    Measures {
        /// What it said last.
        said: String,
    },
    /// It is over.
    Measured {
        /// The calibration file.
        file: String,
    },
    /// It came to nothing.
    Failed {
        /// Why.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_tokens_and_what_is_held_is_not_free() {
        for step in Step::ALL {
            assert_eq!(crate::subject::check_token(step.token()), Ok(()));
        }
        assert_eq!(Step::Clock.subject("pi-3"), "lab.v1.fleet.ctl.pi-3.clock");
        let held =
            |vcpu| Held { run: "r".into(), leader: "l".into(), vcpu, memory: ByteSize(100), nodes: vec!["n".into()] };
        let card = Card {
            agent: "a".into(),
            version: "1".into(),
            architecture: String::new(),
            kernel: String::new(),
            address: IpAddr::from([127, 0, 0, 1]),
            cores: 2.0,
            host_cores: 2,
            memory: ByteSize(150),
            labels: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            clock: ClockFacts::default(),
            allow: Vec::new(),
            rate_max: None,
            bit_rate_max: None,
            enforces: true,
            held: vec![held(0.5), held(1.0)],
        };
        assert_eq!(card.free(), (0.5, ByteSize(0)));
    }
}
