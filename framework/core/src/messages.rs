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

use crate::message::{Body, BodyError, Message};
pub use crate::parts::recorder::RequestRows;
use crate::parts::tally::Tally;
use crate::run::RunEnd;
use crate::time::Time;

mod host;

pub use host::{ClockSource, HostSample, Scope};

macro_rules! kinds {
    ($($type:ty = $kind:literal;)*) => {
        $(impl Message for $type { const KIND: &'static str = $kind; })*

        /// Every kind of message on the subjects of a run.
        pub const KINDS: &[&str] = &[$($kind),*];

        /// Whether `body` is a message of this kind, all of it.
        ///
        /// # Errors
        /// [`BodyError`] if the kind is unknown here, or the body is another message, another version or broken.
        pub fn check(body: &Body, kind: &str) -> Result<(), BodyError> {
            match kind {
                $($kind => body.get::<$type>().map(|_| ()),)*
                _ => Err(BodyError::Kind { wanted: "known" }),
            }
        }
    };
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
    EventAck = "event-ack";
    ReportsStored = "reports-stored";
    LifeEvent = "life-event";
    Addresses = "addresses";
    NodeDrained = "node-drained";
    CloseBooks = "close-books";
    NodeEnd = "node-end";
    crate::steer::Ask = "ask";
    crate::steer::Answer = "answer";
    crate::steer::Steer = "steer";
    crate::life::Beat = "beat";
    crate::life::NodeLost = "node-lost";
    crate::life::NodeBack = "node-back";
    crate::life::Rejoin = "rejoin";
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// All requests are done.
    #[default]
    Done,
    /// The duration is over.
    Duration,
    /// The experiment's own control ends it.
    Planned,
    /// A threshold that may end the run did not hold.
    Threshold,
    /// Somebody pressed Ctrl-C or sent SIGTERM.
    Interrupted,
    /// A node was never ready.
    NotReady,
    /// A fault that the run cannot go on with.
    Fault,
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
    #[serde(default)]
    pub queue_length: u64,
    /// Histograms of this second; a metric without values is left out.
    #[serde(default)]
    pub histograms: Vec<HistogramPart>,
    /// The group's own counters, by name, totals since the start.
    #[serde(default)]
    pub counts: Vec<(String, u64)>,
    /// Attempts that ended in this second, one by one, if the experiment asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestRows>,
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
    /// From one send of a stream to its next, whatever became of them.
    InterDeparture,
    /// The estimate of RFC 3550 after each arrival: at a receiver of the time on the way of each stream's datagrams, at a
    /// sender of the response time of each stream's successes.
    Jitter,
    /// |D(i) − D(i − 1)| of RFC 5481 for two datagrams that a stream sent one after the other, by any clocks.
    Ipdv,
}

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Metric; 9] = [
        Metric::Response,
        Metric::Service,
        Metric::Lag,
        Metric::Blocked,
        Metric::Handling,
        Metric::OneWay,
        Metric::InterDeparture,
        Metric::Jitter,
        Metric::Ipdv,
    ];

    /// Its name in reports, tags and thresholds.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Response => "response",
            Metric::Service => "service",
            Metric::Lag => "lag",
            Metric::Blocked => "blocked",
            Metric::Handling => "handling",
            Metric::OneWay => "one-way",
            Metric::InterDeparture => "inter-departure",
            Metric::Jitter => "jitter",
            Metric::Ipdv => "ipdv",
        }
    }

    /// Significant decimal digits of its histograms. Assumed: what an exchange takes, from end to end and at its receiver, is told to
    /// three, a thousandth; the others explain it, and for that a hundredth is enough and takes a third of the room.
    pub const fn digits(self) -> u8 {
        match self {
            Metric::Response | Metric::Service | Metric::Handling | Metric::OneWay => 3,
            _ => 2,
        }
    }
}

/// A logger's report of one second, on `tel.<node>.<logger>.report`; sent again until it is acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node instance.
    pub node: String,
    /// Second of the run, from 0.
    pub second: u32,
    /// The node's resources, if it is a measured one.
    pub host: Option<HostSample>,
    /// The process that it shares with others, and the machine that it speaks for: one node of each does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub around: Vec<HostSample>,
    /// Its groups.
    pub groups: Vec<GroupSnapshot>,
    /// Reports of this node that the logger had to drop so far because nobody acknowledged them.
    #[serde(default)]
    pub dropped: u64,
    /// Which part of the second's report this is, from 0, where the whole would not fit into one message: each part
    /// holds some of the groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
    /// Parts of the second's report; 0 if it is whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parts: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Aggregator to logger, on `ctl.<aggregator's node>.<aggregator>.ack`: this report is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAck {
    /// The node whose report it was.
    pub node: String,
    /// Its second.
    pub second: u32,
}

/// Aggregator to the engine that published a numbered event, on `ctl.<aggregator's node>.<aggregator>.ack`: it is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventAck {
    /// Its id.
    pub id: String,
}

/// The engine of the aggregator's node to the other engines, on `ctl.<node>.host.stored`: these reports are stored. It
/// stands for a [`ReportAck`] each, which is told to foreign nodes alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportsStored {
    /// The subject that the aggregator acknowledges on.
    pub on: String,
    /// Nodes and seconds.
    pub reports: Vec<(String, u32)>,
}

/// A life-cycle fact for `events.parquet`, on `tel.<node>.<actor>.event`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// By how much the wall clock was set, ns; of `clock-stepped` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_ns: Option<i64>,
    /// Tells it from every other event of the run, where it may be delivered more than once; empty elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// Where receivers listen. Of one node, by its engine on `ctl.<node>.host.listen`; of all nodes, by the controller's
/// engine on `ctl.<node>.host.addresses`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// By the receiver's subject on the traffic plane; on the wire as text, `127.0.0.1:41873`.
    #[serde(with = "as_text")]
    pub listen: BTreeMap<String, SocketAddr>,
    /// Certificates of the authorities that processes made for the run (X.509, DER); those of encrypted links that name
    /// no files of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<ByteBuf>,
}

/// Addresses as every language can read them: by itself serde would write enums of numbers.
mod as_text {
    use core::net::SocketAddr;
    use std::collections::BTreeMap;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(all: &BTreeMap<String, SocketAddr>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(all.iter().map(|(name, address)| (name, address.to_string())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, SocketAddr>, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(from)?;
        let read = |text: String| text.parse().map_err(|_| D::Error::custom(format!("`{text}` is no address")));
        texts.into_iter().map(|(name, text)| Ok((name, read(text)?))).collect()
    }
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
    /// How its process ended the run. Left out by a foreign node: then its last report holds its totals.
    #[serde(default)]
    pub end: RunEnd,
    /// Which part of it this is, from 0, where the whole would not fit into one message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
    /// Its parts; 0 if it is whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parts: u32,
}
