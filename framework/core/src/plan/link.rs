//! What is said of a link: its carrier, how fast and how far it is, what waits, what is lost, and who makes that true.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Carrier, Connection, DatagramMode, Impose, MqttSpec, Qos, TlsSpec};
use crate::dscp::Dscp;
use crate::time::Span;
use crate::units::{BitRate, ByteSize, Fraction};

/// A directed path between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Its name in the file: `default`, `from->to`, or the name of a cell.
    #[serde(skip)]
    pub name: String,
    /// Whether it leads to a target outside, or back: nothing of ours is added to what goes over it, and whoever is there
    /// answers.
    #[serde(skip)]
    pub outside: bool,
    /// What moves the traffic.
    #[serde(default)]
    pub carrier: Carrier,
    /// How connections are used.
    #[serde(default)]
    pub connection: Connection,
    /// Requests that one connection of `tcp` may have under way; further ones open another.
    #[serde(default = "unit", skip_serializing_if = "is_unit")]
    #[schemars(range(min = 1, max = 1024))]
    pub pipeline: u32,
    /// What becomes of datagrams of `udp` at their receiver.
    #[serde(default, skip_serializing_if = "is_default_mode")]
    pub mode: DatagramMode,
    /// The broker of `mqtt`, and how messages go over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<Box<MqttSpec>>,
    /// What a new connection costs before its first request, where `tls` and the carrier leave that open.
    #[serde(default)]
    pub handshake: Handshake,
    /// TLS 1.3 over `http1` and `http2`. HTTP/3 is always encrypted; there the table says how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// Connections between a node and one target over `http2` and `http3`, 1 by default. A further one is opened when all
    /// have as many streams as they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub connections: Option<u32>,
    /// Requests of one connection at a time over `http2` and `http3`, 100 by default; what comes beyond waits, and the wait
    /// belongs to its service time. Source: RFC 9113 §6.5.2 recommends no fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub streams: Option<u32>,
    /// Bytes that may be under way in a stream of `http2` or `http3` before its receiver allows more, 65,535 by default.
    /// Source: RFC 9113 §6.5.2; for HTTP/3 assumed equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_window: Option<ByteSize>,
    /// The same of all streams of a connection together, 65,535 bytes by default. Source: RFC 9113 §6.9.2; for HTTP/3
    /// assumed equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_window: Option<ByteSize>,
    /// Capacity; without it serialisation takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// A file of rates over time, relative to the experiment: rows of time and rate, such as `0.5s, 20Mbit/s`, from zero
    /// on. The last row holds as long as the one before it, then the trace begins again. In place of `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<String>,
    /// The same rows, written here: `[["0s", "20Mbit/s"], ["1s", "5Mbit/s"]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_steps: Vec<(Span, BitRate)>,
    /// Propagation, one way. It never occupies the link.
    #[serde(default)]
    pub delay: Span,
    /// How much the delay varies; `jitter_shape` says how. Arrivals keep their order unless `reorder` says otherwise.
    #[serde(default)]
    pub jitter: Span,
    /// How the delay varies by `jitter`.
    #[serde(default)]
    pub jitter_shape: JitterShape,
    /// Standard deviation of `gamma` and `lognormal` jitter over its mean.
    #[serde(default = "one")]
    #[schemars(range(min = 0.01, max = 100.0))]
    pub jitter_cv: f64,
    /// Extra delays at equally spaced quantiles, from the smallest to the largest: measured jitter, in place of `jitter`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jitter_quantiles: Vec<Span>,
    /// Whether a message that jitter delays less may overtake one before it.
    #[serde(default)]
    pub reorder: bool,
    /// Share of packets that are lost, independently. Where requests have answers, the stream that carries them sends
    /// what was lost again, so that a loss shows as delay.
    #[serde(default)]
    pub loss: Fraction,
    /// Bytes that may wait for the link, in each class; what does not fit is dropped.
    #[serde(default = "default_queue")]
    pub queue: ByteSize,
    /// Packets that may wait for the link, in each class. Without it their bytes alone count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queue_packets: Option<u64>,
    /// Which class of traffic goes first.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Pairs `from->to` that share the capacity, such as those of a radio cell. A link with members has a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// The link with `members` whose capacity, queue and classes it shares, though it has a carrier and a delay of its own. What it
    /// leaves out it takes from that link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
    /// Who makes these properties true in emulation.
    #[serde(default)]
    pub impose: Impose,
    /// Losses that come in bursts, in place of `loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Active queue management in each class: what waits too long is dropped early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codel: Option<Codel>,
    /// The classes of the scheduler, the first being the most urgent. What no class names is in the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<LinkClass>,
}

/// What a new connection costs before its first request: round trips, without what they compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Handshake {
    /// TCP: one round trip. Source: RFC 9293 §3.5.
    #[default]
    Tcp,
    /// TLS 1.3 over TCP, in full or resumed: two. Source: RFC 8446 §2, §2.2.
    Tls,
    /// TLS 1.3 resumed, the request in its early data: one. Source: RFC 8446 §2.3.
    TlsEarlyData,
    /// QUIC: one. Source: RFC 9000 §7, RFC 9001 §4.
    Quic,
    /// QUIC resumed, the request in its early data: none. Source: RFC 9001 §4.6.
    QuicEarlyData,
}

impl Handshake {
    /// Round trips before a request may leave.
    pub const fn round_trips(self) -> u32 {
        match self {
            Handshake::Tls => 2,
            Handshake::Tcp | Handshake::TlsEarlyData | Handshake::Quic => 1,
            Handshake::QuicEarlyData => 0,
        }
    }
}

/// How the delay varies by `jitter`. Whatever is drawn, the delay is never below zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JitterShape {
    /// Extra delay, uniform from zero to `jitter`.
    #[default]
    Uniform,
    /// The delay is normal around `delay` with a standard deviation of `jitter`, cut off at zero.
    Normal,
    /// Extra delay with a mean of `jitter`, gamma distributed.
    Gamma,
    /// Extra delay with a mean of `jitter`, lognormal.
    Lognormal,
}

/// Losses in bursts: a chain of two states that moves once per packet. Source: Gilbert 1960, Elliott 1963.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability that a burst begins with a packet.
    pub begin: Fraction,
    /// Probability that it ends with a packet: a burst lasts 1 / `end` packets in the mean.
    pub end: Fraction,
    /// Share of packets lost between bursts.
    #[serde(default)]
    pub loss_between: Fraction,
    /// Share of packets lost within a burst.
    #[serde(default = "whole")]
    pub loss_within: Fraction,
}

impl GilbertElliott {
    /// The share of time within bursts, `begin / (begin + end)`.
    pub fn within(&self) -> f64 {
        let (begin, end) = (self.begin.0, self.end.0);
        if begin + end > 0.0 { begin / (begin + end) } else { 0.0 }
    }

    /// The share of packets that are lost in the long run.
    pub fn loss(&self) -> f64 {
        self.loss_within.0 * self.within() + self.loss_between.0 * (1.0 - self.within())
    }
}

/// Controlled delay. Source of both defaults: RFC 8289 §4.2, §4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// The wait that is tolerated in the long run.
    #[serde(default = "five_millis")]
    pub target: Span,
    /// How long it may be exceeded before anything is dropped.
    #[serde(default = "hundred_millis")]
    pub interval: Span,
}

/// Which class goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// There are no classes: first come, first served.
    #[default]
    Fifo,
    /// A class waits for all before it. The packet on the wire is not interrupted.
    Priority,
    /// Classes that have something to send share the rate by their weights: deficit round robin over packets. Source:
    /// Shreedhar and Varghese 1996, doi 10.1109/90.502236.
    Weighted,
}

/// A class of traffic on a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkClass {
    /// The code points that belong to it.
    #[serde(default)]
    pub dscp: Vec<Dscp>,
    /// Its share of the rate beside the other classes' weights, with the `weighted` scheduler.
    #[serde(default = "unit")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
}

/// Assumed: one bandwidth-delay product of 1 Gbit/s over 8 ms, the size of a shallow switch buffer.
const fn default_queue() -> ByteSize {
    ByteSize(1_000_000)
}

const fn one() -> f64 {
    1.0
}

const fn unit() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_unit(n: &u32) -> bool {
    *n == 1
}

fn is_default_mode(mode: &DatagramMode) -> bool {
    *mode == DatagramMode::OneWay
}

const fn whole() -> Fraction {
    Fraction(1.0)
}

const fn five_millis() -> Span {
    Span::from_millis(5)
}

const fn hundred_millis() -> Span {
    Span::from_millis(100)
}

impl LinkSpec {
    /// Whether what is sent over it has an outcome of its own; otherwise the receivers' counts settle it at the end.
    pub fn is_exchange(&self) -> bool {
        match self.carrier {
            Carrier::Udp => self.mode == DatagramMode::Echo,
            Carrier::Mqtt => self.qos() != Qos::AtMostOnce,
            Carrier::Frames => false,
            _ => true,
        }
    }

    /// How sure the delivery over `mqtt` is.
    pub fn qos(&self) -> Qos {
        self.mqtt.as_ref().map_or(Qos::default(), |mqtt| mqtt.qos)
    }

    /// Whether whoever is there answers each request. Otherwise what arrives is counted, and the answer is an echo of ours
    /// or the broker's acknowledgement.
    pub fn is_answered(&self) -> bool {
        !self.stamps_payload() && self.carrier != Carrier::Frames
    }

    /// Whether our header takes the first bytes of each payload.
    pub fn stamps_payload(&self) -> bool {
        self.carrier.stamps_payload() && !self.outside
    }

    /// Whether its capacity is that of several pairs.
    pub fn is_shared(&self) -> bool {
        !self.members.is_empty() || self.shares.is_some()
    }

    /// Whether it says anything of a path beyond its carrier: something that can be imposed.
    pub fn shapes(&self) -> bool {
        self.limits() || !self.delay.is_zero() || self.varies() || self.loses()
    }

    /// Whether serialisation takes time.
    pub fn limits(&self) -> bool {
        self.rate.is_some() || self.rate_trace.is_some() || !self.rate_steps.is_empty()
    }

    /// Whether its delay varies.
    pub fn varies(&self) -> bool {
        !self.jitter.is_zero() || self.jitter_quantiles.iter().any(|extra| !extra.is_zero())
    }

    /// Whether it loses packets.
    pub fn loses(&self) -> bool {
        self.loss.0 > 0.0 || self.gilbert_elliott.is_some()
    }

    /// Whether packets are chosen one by one when their turn comes, so that nobody can tell beforehand when one leaves.
    pub fn schedules(&self) -> bool {
        self.scheduler != Scheduler::Fifo || self.codel.is_some()
    }
}

impl Default for Codel {
    fn default() -> Self {
        Codel { target: five_millis(), interval: hundred_millis() }
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        LinkSpec {
            name: String::new(),
            outside: false,
            carrier: Carrier::default(),
            connection: Connection::default(),
            pipeline: 1,
            mode: DatagramMode::default(),
            mqtt: None,
            handshake: Handshake::default(),
            tls: None,
            connections: None,
            streams: None,
            stream_window: None,
            connection_window: None,
            rate: None,
            rate_trace: None,
            rate_steps: Vec::new(),
            delay: Span::ZERO,
            jitter: Span::ZERO,
            jitter_shape: JitterShape::default(),
            jitter_cv: 1.0,
            jitter_quantiles: Vec::new(),
            reorder: false,
            loss: Fraction(0.0),
            queue: default_queue(),
            queue_packets: None,
            scheduler: Scheduler::default(),
            members: Vec::new(),
            shares: None,
            impose: Impose::default(),
            gilbert_elliott: None,
            codel: None,
            classes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_of_two_states_has_its_closed_form() {
        let bursts = GilbertElliott {
            begin: Fraction(0.01),
            end: Fraction(0.24),
            loss_between: Fraction(0.0),
            loss_within: Fraction(0.5),
        };
        // a 25th of the time within bursts, half of which is lost
        assert!((bursts.within() - 0.04).abs() < 1e-12);
        assert!((bursts.loss() - 0.02).abs() < 1e-12);
        let never = GilbertElliott { begin: Fraction(0.0), end: Fraction(0.0), ..bursts };
        assert_eq!(never.loss(), 0.0);
    }

    #[test]
    fn a_link_that_says_nothing_shapes_nothing() {
        let spec = LinkSpec::default();
        assert!(!spec.shapes() && !spec.schedules());
        assert!(LinkSpec { gilbert_elliott: Some(bursts()), ..spec.clone() }.shapes());
        assert!(LinkSpec { codel: Some(Codel::default()), ..spec }.schedules());
    }

    fn bursts() -> GilbertElliott {
        let share = Fraction(0.1);
        GilbertElliott { begin: share, end: share, loss_between: Fraction(0.0), loss_within: Fraction(1.0) }
    }
}
