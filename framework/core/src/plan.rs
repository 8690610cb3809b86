//! A run as both engines are given it: every count multiplied out, every name resolved, every default filled in.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Build, Role};
use crate::sender::SenderParams;
use crate::time::Span;
use crate::units::{BitRate, ByteSize, Fraction};

/// One run of one repetition.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What actors may know of it.
    pub info: RunInfo,
    /// The experiment's seed.
    pub seed: u64,
    /// The repetition, from 0.
    pub repetition: u32,
    /// Media and other files are relative to this folder.
    pub base: PathBuf,
    /// The machines.
    pub hosts: Vec<HostPlan>,
    /// Node instances in the order of the experiment file.
    pub nodes: Vec<NodePlan>,
    /// The links that nodes are joined by; row 0 is the default.
    pub links: Vec<LinkSpec>,
    /// `(from node, to node, row)` where the default does not hold, by the nodes' names in the file.
    pub routes: Vec<(String, String, usize)>,
}

/// What an actor may know of its run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInfo {
    /// The run's token in subjects.
    pub run: String,
    /// When it ends.
    pub stop: Stop,
    /// Seconds left out of the summary at the beginning.
    pub warmup: Span,
    /// Seconds left out of the summary at the end.
    pub cooldown: Span,
    /// From "all ready" to the first traffic.
    pub lead: Span,
    /// From the stop to the end, for outcomes that are still under way.
    pub grace: Span,
    /// Every node instance that runs in this process.
    pub nodes: Vec<NodeInfo>,
}

/// What an actor may know of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its instance name.
    pub name: String,
    /// Whether it has senders, which must finish in a count-driven run.
    pub sends: bool,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// When every sender has finished.
    AllRequestsDone,
    /// So long after the start of traffic.
    After(Span),
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    /// Its name in the file.
    pub name: String,
    /// Its cores.
    pub cores: u32,
    /// Its memory.
    pub memory: Option<ByteSize>,
}

/// One instance of a node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Instance name, `camera-1`.
    pub name: String,
    /// Name in the file, `camera`.
    pub template: String,
    /// Row of [`Plan::hosts`].
    pub host: Option<usize>,
    /// Cores it may use; `None` is unlimited.
    pub vcpu: Option<f64>,
    /// Memory it may use.
    pub memory: Option<ByteSize>,
    /// Controller and aggregator nodes are not measured.
    pub measured: bool,
    /// Whether this process runs it (`--only`, `--without`).
    pub local: bool,
    /// Its groups.
    pub groups: Vec<GroupPlan>,
}

/// The instances of one actor in one node instance.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Name in the file, `main`.
    pub actor: String,
    /// Its kind.
    pub kind: &'static str,
    /// What the kind does.
    pub role: Role,
    /// Instances in this node instance.
    pub count: u32,
    /// Number of the first one, counted over all instances of the node.
    pub first: u32,
    /// The common sender keys.
    pub sender: Option<SenderParams>,
    /// The kind's own keys.
    pub build: Arc<dyn Build>,
}

/// What moves traffic over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// HTTP/1.1 over TCP (RFC 9112).
    #[default]
    Http1,
    /// Datagrams (RFC 768), with a 32-byte header of ours inside the payload.
    Udp,
}

impl Carrier {
    /// Whether each request has an outcome; otherwise it is a datagram.
    pub const fn is_exchange(self) -> bool {
        matches!(self, Carrier::Http1)
    }
}

/// How an HTTP/1.1 carrier uses connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// A connection is used again when its exchange is over.
    #[default]
    KeepAlive,
    /// Every attempt opens a connection of its own, as PL-5G counts "connection cycles".
    PerRequest,
}

/// Who makes a link's properties true in emulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Impose {
    /// The link describes what is there.
    #[default]
    None,
}

/// A directed path between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// What moves the traffic.
    #[serde(default)]
    pub carrier: Carrier,
    /// How connections are used.
    #[serde(default)]
    pub connection: Connection,
    /// Capacity; without it serialisation takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Propagation, one way. It never occupies the link.
    #[serde(default)]
    pub delay: Span,
    /// Largest extra delay, uniform from zero; arrivals keep their order.
    #[serde(default)]
    pub jitter: Span,
    /// Share of packets or messages that are lost, independently.
    #[serde(default)]
    pub loss: Fraction,
    /// Bytes that may wait for the link; what does not fit is dropped.
    #[serde(default = "default_queue")]
    pub queue: ByteSize,
    /// Who makes these properties true in emulation.
    #[serde(default)]
    pub impose: Impose,
}

/// Assumed: one bandwidth-delay product of 1 Gbit/s over 8 ms, the size of a shallow switch buffer.
const fn default_queue() -> ByteSize {
    ByteSize(1_000_000)
}

impl Default for LinkSpec {
    fn default() -> Self {
        LinkSpec {
            carrier: Carrier::default(),
            connection: Connection::default(),
            rate: None,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            loss: Fraction(0.0),
            queue: default_queue(),
            impose: Impose::default(),
        }
    }
}

impl Plan {
    /// The row of [`Plan::links`] between two nodes, by their names in the file.
    pub fn link_row(&self, from: &str, to: &str) -> usize {
        self.routes.iter().find(|(f, t, _)| f == from && t == to).map_or(0, |(_, _, row)| *row)
    }

    /// The link between two node instances, by their rows in [`Plan::nodes`].
    pub fn link(&self, from: usize, to: usize) -> &LinkSpec {
        &self.links[self.link_row(&self.nodes[from].template, &self.nodes[to].template)]
    }
}
