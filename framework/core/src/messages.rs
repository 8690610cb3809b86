//! What a run's actors say to each other: the life cycle on the control plane, measurements on the telemetry plane.
//!
//! Life cycle: the controller publishes [`Prepare`]; each node's logger answers [`Ready`]; when all have, the
//! controller publishes [`StartAt`]; a node whose senders have finished publishes [`NodeDone`]; the controller
//! publishes [`StopRun`], and every engine drains.
//!
//! Telemetry: each second the engine publishes one [`GroupSnapshot`] per node and actor group, then the node's
//! [`HostSample`]; the node's logger packs them into a [`NodeReport`]; the aggregator stores it and answers
//! [`ReportAck`]. Life-cycle facts travel as [`LifeEvent`].
//!
//! Where the nodes of a run are processes of their own, the engines speak to each other too, under the actor name
//! `host`: each tells where its receivers listen ([`Addresses`], before `ready`), and the engine of the controller tells
//! all of them (before `start-at`). After the stop each says that nothing of its senders is under way any more
//! ([`NodeDrained`]); when all have, they are told to close their books ([`CloseBooks`]), and answer with [`NodeEnd`].

use core::net::SocketAddr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::message::Message;
use crate::parts::tally::Tally;
use crate::run::RunEnd;
use crate::time::Time;

macro_rules! kinds {
    ($($type:ty = $kind:literal;)*) => { $(impl Message for $type { const KIND: &'static str = $kind; })* };
}

kinds! {
    Prepare = "prepare";
    Ready = "ready";
    StartAt = "start-at";
    NodeDone = "node-done";
    StopRun = "stop-run";
    HostSample = "host-sample";
    GroupSnapshot = "group-snapshot";
    NodeReport = "node-report";
    ReportAck = "report-ack";
    LifeEvent = "life-event";
    Addresses = "addresses";
    NodeDrained = "node-drained";
    CloseBooks = "close-books";
    NodeEnd = "node-end";
}

/// Controller to all: is everybody there? Published on `ctl.<node>.<controller>.prepare`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// Counts the tries, from 1.
    pub round: u32,
}

/// A node's logger to the controller, on `ctl.<node>.<logger>.ready`: this node is built, bound and warmed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The node instance.
    pub node: String,
}

/// Controller to all, on `ctl.<node>.<controller>.start`: traffic begins at `at`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartAt {
    /// When traffic begins.
    pub at: Time,
    /// No exchange is due at or after this time; `None` for a count-driven run.
    pub until: Option<Time>,
}

/// An engine to the controller, on `ctl.<node>.host.done`: every sender of the node has finished and nothing is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDone {
    /// The node instance.
    pub node: String,
}

/// Controller (or an interrupt) to all, on `ctl.<node>.<controller>.stop`: drain, then end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRun {
    /// Why.
    pub reason: StopReason,
}

/// Why a run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// All requests are done.
    Done,
    /// The duration is over.
    Duration,
    /// Somebody pressed Ctrl-C or sent SIGTERM.
    Interrupted,
    /// A node was never ready.
    NotReady,
    /// A fault that the run cannot go on with.
    Fault,
}

/// A node's resources in one second of the run, on `tel.<node>.host`. What is unknown is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    /// The node instance.
    pub node: String,
    /// Second of the run, from 0.
    pub second: u32,
    /// CPU time used, in per cent of the cores the node is allowed (100 = all of them).
    pub cpu_percent: Option<f64>,
    /// Mean clock of the cores in GHz.
    pub cpu_ghz: Option<f64>,
    /// Resident memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Resident memory in per cent of the node's limit, or of the host's memory.
    pub memory_percent: Option<f64>,
    /// Share of the second that the hypervisor took from the host's cores, per cent.
    pub steal_percent: Option<f64>,
    /// Time in this second that the node was held back by its CPU quota, ns.
    pub throttled_ns: Option<u64>,
}

/// What one group did up to the end of one second, on `tel.<node>.<actor>.snapshot`. Counters are totals since the
/// start, so that a lost snapshot loses no count; histograms hold this second alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSnapshot {
    /// The node instance.
    pub node: String,
    /// The actor's name in the file.
    pub actor: String,
    /// Its kind.
    pub kind: String,
    /// Instances in the group.
    pub instances: u32,
    /// Second of the run, from 0.
    pub second: u32,
    /// Totals since the start.
    pub totals: Tally,
    /// Exchanges waiting for `in_flight`, now.
    pub queue_length: u64,
    /// Histograms of this second; a metric without values is left out.
    pub histograms: Vec<HistogramPart>,
    /// The group's own counters, by name, totals since the start.
    pub counts: Vec<(String, u64)>,
}

/// One metric of one second as an HdrHistogram, V2 encoding, values in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramPart {
    /// Which metric.
    pub metric: Metric,
    /// HdrHistogram V2 encoding, not compressed.
    pub v2: ByteBuf,
}

/// The times that engines record themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Done − intended, of successful exchanges.
    Response,
    /// Done − sent, of the attempts that succeeded.
    Service,
    /// Sent − ready: late by the generator's own fault.
    Lag,
    /// Ready − at: waiting because `in_flight` was full.
    Blocked,
    /// Arrival to answer, of the requests that the receiver served.
    Handling,
    /// Arrival − sent of a datagram, by the two hosts' clocks.
    OneWay,
}

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Metric; 6] =
        [Metric::Response, Metric::Service, Metric::Lag, Metric::Blocked, Metric::Handling, Metric::OneWay];

    /// Its name in reports, tags and thresholds.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Response => "response",
            Metric::Service => "service",
            Metric::Lag => "lag",
            Metric::Blocked => "blocked",
            Metric::Handling => "handling",
            Metric::OneWay => "one-way",
        }
    }
}

/// A logger's report of one second, on `tel.<node>.<logger>.report`; sent again until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node instance.
    pub node: String,
    /// Second of the run, from 0.
    pub second: u32,
    /// The node's resources, if it is a measured one.
    pub host: Option<HostSample>,
    /// Its groups.
    pub groups: Vec<GroupSnapshot>,
    /// Reports of this node that the logger had to drop so far because nobody acknowledged them.
    pub dropped: u64,
}

/// Aggregator to logger, on `ctl.<aggregator's node>.<aggregator>.ack`: this report is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAck {
    /// The node whose report it was.
    pub node: String,
    /// Its second.
    pub second: u32,
}

/// A life-cycle fact for `events.parquet`, on `tel.<node>.<actor>.event`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeEvent {
    /// When.
    pub at: Time,
    /// What sort: `prepared`, `started`, `stopped`, `fault`, …
    pub kind: String,
    /// The node instance it concerns.
    pub node: String,
    /// The actor it concerns, or empty.
    pub actor: String,
    /// The fact, for a reader.
    pub text: String,
}

/// Where receivers listen. Of one node, by its engine on `ctl.<node>.host.listen`; of all nodes, by the controller's
/// engine on `ctl.<node>.host.addresses`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// By the receiver's subject on the traffic plane.
    pub listen: BTreeMap<String, SocketAddr>,
}

/// An engine to the controller's engine, on `ctl.<node>.host.drained`: nothing that the node sent is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDrained {
    /// The node instance.
    pub node: String,
}

/// The controller's engine to all, on `ctl.<node>.host.close`: every sender is done, no receiver is needed any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseBooks {}

/// An engine to the controller's engine, on `ctl.<node>.host.end`, as a request that is answered when it is understood:
/// the node's authoritative totals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeEnd {
    /// The node instance.
    pub node: String,
    /// How its process ended the run.
    pub end: RunEnd,
}
