//! A run as both engines are given it: every count multiplied out, every name resolved, every default filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dscp::Dscp;
use crate::kind::{Build, Role};
use crate::life::OnLoss;
use crate::outside::{Outside, Url};
use crate::sender::SenderParams;
use crate::steer::PlannedSteer;
use crate::time::Span;
use crate::units::{ByteSize, Fraction};

pub mod by_hand;
mod link;
mod mqtt;
mod secure;

pub use secure::{CONNECTION_WINDOW, STREAM_WINDOW, STREAMS, TlsHandshake, TlsMode, TlsSpec};

pub use link::{Codel, GilbertElliott, Handshake, JitterShape, LinkClass, LinkSpec, Scheduler};
pub use mqtt::{MqttSpec, MqttVersion, Qos};

/// Seconds that share an interval of `latency.hlog`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LatencyInterval {
    /// Up to ten of more than 500 values; others have one each.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// One each.
    #[serde(rename = "1s")]
    Second,
}

/// One run of one repetition.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What actors may know of it.
    pub info: RunInfo,
    /// The experiment's seed.
    pub seed: u64,
    /// Share of all exchanges that are kept one by one, for `requests.parquet`.
    pub record_requests: Fraction,
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
    /// What follows when a node in another process is lost.
    pub on_loss: OnLoss,
    /// What the experiment itself does to the load on the way, in the order of time.
    pub control: Vec<PlannedSteer>,
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
    /// Labels that an agent must have to stand for it.
    pub labels: BTreeMap<String, String>,
    /// The one agent that stands for it.
    pub agent: Option<String>,
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
    /// Whether somebody else's program runs it, which speaks the messages of `framework/bus/PROTOCOL.md`.
    pub foreign: bool,
    /// What it stands for, if that is a target outside: no process runs it, and a dry run models it.
    pub outside: Option<Outside>,
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
    /// HTTP/2 over TCP (RFC 9113): many requests share a connection.
    Http2,
    /// HTTP/3 over QUIC (RFC 9114): likewise, and a loss holds up its own request alone.
    Http3,
    /// Datagrams (RFC 768), with a 32-byte header of ours inside the payload.
    Udp,
    /// Requests in frames of ours over TCP (RFC 9293), several under way on one connection.
    Tcp,
    /// Requests over a NATS server, on the receiver's own subject; the payload is the message, to the byte.
    Nats,
    /// Messages over an MQTT broker (3.1.1 or 5), with a 32-byte header of ours inside the payload.
    Mqtt,
    /// Ethernet frames of a `replayer`, as they are but for their addresses; an emulation needs a network namespace for each
    /// node.
    Frames,
}

impl Carrier {
    /// Whether what is lost on the way is sent again by the transport, so that a loss shows as delay; otherwise it is gone.
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Carrier::Udp | Carrier::Frames)
    }

    /// Whether our header takes the first bytes of each payload.
    pub const fn stamps_payload(self) -> bool {
        matches!(self, Carrier::Udp | Carrier::Mqtt)
    }

    /// Whether a receiver listens for it at an IP address of its own; otherwise a server lies between, or it takes frames.
    pub const fn is_addressed(self) -> bool {
        !matches!(self, Carrier::Nats | Carrier::Mqtt | Carrier::Frames)
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

/// What becomes of datagrams at their receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DatagramMode {
    /// They are counted: one way, no outcome.
    #[default]
    OneWay,
    /// They are counted, and their header comes back at once: the sender measures round trips. Nothing is sent again.
    Echo,
}

/// Who makes a link's properties true in emulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Impose {
    /// The link describes what is there.
    #[default]
    None,
    /// The sender of a message, be it a request, an answer or a datagram, holds it back or drops it by the same model and
    /// the same random numbers as the simulator. What the real network takes comes on top.
    Userspace,
    /// The kernel's queueing disciplines do, between network namespaces: `htb` for the rate, which counts frames without
    /// preamble, check sequence and gap; `netem` for the rest, whose jitter may reorder packets in any case.
    Kernel,
}

impl Plan {
    /// The row of the link whose queue a link's traffic is in: its own, or that of the link that it shares.
    pub fn queue_row(&self, row: usize) -> usize {
        let shares = self.links[row].shares.as_ref();
        shares.and_then(|name| self.links.iter().position(|link| link.name == *name)).unwrap_or(row)
    }

    /// The row of [`Plan::links`] between two nodes, by their names in the file.
    pub fn link_row(&self, from: &str, to: &str) -> usize {
        self.routes.iter().find(|(f, t, _)| f == from && t == to).map_or(0, |(_, _, row)| *row)
    }

    /// The link between two node instances, by their rows in [`Plan::nodes`].
    pub fn link(&self, from: usize, to: usize) -> &LinkSpec {
        &self.links[self.link_row(&self.nodes[from].template, &self.nodes[to].template)]
    }

    /// `node/actor` of what a sender's `to` names: a URL stands for the node of its origin.
    pub fn path_to(&self, to: &str) -> Option<String> {
        if !Url::is(to) {
            return Some(to.to_owned());
        }
        let origin = Url::read(to).ok()?.origin();
        let is_it = |node: &&NodePlan| node.outside.as_ref().is_some_and(|outside| outside.origin == origin);
        let node = self.nodes.iter().find(is_it)?;
        Some(format!("{}/{}", node.template, node.groups.first()?.actor))
    }

    /// The target outside that a sender's `to` names.
    pub fn outside_of(&self, to: &str) -> Option<&Outside> {
        let origin = Url::is(to).then(|| Url::read(to).ok()).flatten()?.origin();
        self.nodes.iter().find_map(|node| node.outside.as_ref().filter(|outside| outside.origin == origin))
    }

    /// The class of what a group sends, by the rows of its node and of its group there.
    pub fn dscp(&self, node: usize, group: usize) -> Dscp {
        self.nodes[node].groups[group].sender.as_ref().map_or(Dscp::DF, |sender| sender.dscp)
    }
}
