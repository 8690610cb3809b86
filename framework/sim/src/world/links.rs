//! Links and connections between nodes, and how many bytes a message is on the wire.

use std::collections::BTreeMap;

use rehearsal_core::plan::{Connection, LinkSpec, Plan};
use rehearsal_core::rng::{RngStream, Seed};
use rehearsal_core::{Span, Time};
use rehearsal_models::link::{Link, Offer};

/// Payload of a full TCP segment over Ethernet: 1500 − 20 (IPv4) − 20 (TCP). Source: RFC 9293 §3.7.1, without options.
const SEGMENT_BYTES: u64 = 1460;
/// IPv4 and TCP headers of a segment. Source: RFC 791 §3.1, RFC 9293 §3.1.
const TCP_IP_BYTES: u64 = 20 + 20;
/// Payload of a full IPv4 fragment over Ethernet: 1500 − 20. Source: RFC 791 §3.1.
const FRAGMENT_BYTES: u64 = 1480;
/// IPv4 header of a fragment. Source: RFC 791 §3.1.
const IP_BYTES: u64 = 20;
/// UDP header, once per datagram. Source: RFC 768.
const UDP_BYTES: u64 = 8;
/// Preamble 8, header 14, check sequence 4 and gap 12 of a frame. Source: IEEE 802.3 §3.1.1, §4.4.2.
const ETHERNET_BYTES: u64 = 8 + 14 + 4 + 12;
/// Request line and header fields. Assumed: `POST /path HTTP/1.1` with host, type and length takes about so much
/// (the grammar is RFC 9112 §3 and §5).
const HTTP_HEAD_BYTES: u64 = 150;

/// Longest wait before the first retransmission is cut to at least this. Source: the Linux kernel's `TCP_RTO_MIN`;
/// RFC 6298 §2.4 would allow no less than 1 s.
const RTO_MIN: Span = Span::from_millis(200);
/// Times that one message is sent again; then the deadline decides. Assumed: with doubling from 200 ms the seventh
/// would leave after 12.6 s, later than the default timeout.
pub(super) const RETRANSMISSIONS_MAX: u8 = 6;

/// Bytes that an HTTP/1.1 message of `payload` bytes takes on an Ethernet, headers and frame gaps included:
/// payload + 150 + 78 for each started 1460 bytes of these.
pub(super) const fn wire_bytes(payload: u32) -> u64 {
    let stream = payload as u64 + HTTP_HEAD_BYTES;
    stream + stream.div_ceil(SEGMENT_BYTES) * (TCP_IP_BYTES + ETHERNET_BYTES)
}

/// Bytes that a datagram of `payload` bytes takes: payload + 8 + 58 for each started 1480 bytes of these.
pub(super) const fn datagram_bytes(payload: u32) -> u64 {
    let packet = payload as u64 + UDP_BYTES;
    packet + packet.div_ceil(FRAGMENT_BYTES) * (IP_BYTES + ETHERNET_BYTES)
}

/// The two directions between a sender's node and a receiver's, and the connections over them.
#[derive(Debug)]
pub(super) struct Path {
    up: u32,
    down: u32,
    /// Propagation there and back.
    pub round_trip: Span,
    /// Whether requests have an outcome here.
    pub exchange: bool,
    keep_alive: bool,
    /// Open connections that nobody uses. They are shared by all senders of the node.
    idle: u32,
}

impl Path {
    /// Takes a connection: how long it takes until a request can leave on it. A new one costs a round trip (RFC 9293 §3.5).
    #[inline]
    pub(super) fn connect(&mut self) -> Span {
        if self.idle == 0 {
            return self.round_trip;
        }
        self.idle -= 1;
        Span::ZERO
    }

    /// A reply is in: the connection can be used again. One that was given up is closed instead.
    #[inline]
    pub(super) fn answered(&mut self) {
        self.idle += u32::from(self.keep_alive);
    }

    /// How long a message that got lost waits for its `tries`-th retransmission (from 1): max(200 ms, 2 round trips),
    /// doubled each time. Source: RFC 6298 §5.5.
    pub(super) fn retransmission(&self, tries: u8) -> Span {
        let first = RTO_MIN.max(self.round_trip * 2);
        first.saturating_mul(1 << (tries - 1))
    }
}

/// All links that traffic has used so far: one for each ordered pair of node instances.
pub(super) struct Links {
    links: Vec<Link>,
    rows: BTreeMap<(u32, u32), u32>,
    paths: Vec<Path>,
    /// By the sender's node: (receiver's node, path). A node has few peers.
    peers: Vec<Vec<(u32, u32)>>,
}

impl Links {
    /// No link yet, between `nodes` nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Links { links: Vec::new(), rows: BTreeMap::new(), paths: Vec::new(), peers: vec![Vec::new(); nodes] }
    }

    /// The path between two nodes.
    #[inline]
    pub(super) fn path(&mut self, plan: &Plan, from: u32, to: u32) -> u32 {
        match self.peers[from as usize].iter().find(|(peer, _)| *peer == to) {
            Some((_, path)) => *path,
            None => self.lay(plan, from, to),
        }
    }

    /// The path of that number.
    #[inline]
    pub(super) fn at(&mut self, path: u32) -> &mut Path {
        &mut self.paths[path as usize]
    }

    /// Puts `bytes` on the way from sender to receiver, or back.
    #[inline]
    pub(super) fn offer(&mut self, path: u32, back: bool, now: Time, bytes: u64) -> Option<Time> {
        let path = &self.paths[path as usize];
        let link = if back { path.down } else { path.up };
        match self.links[link as usize].offer(now, bytes) {
            Offer::Arrives(at) => Some(at),
            Offer::Lost | Offer::Full => None,
        }
    }

    #[cold]
    fn lay(&mut self, plan: &Plan, from: u32, to: u32) -> u32 {
        let (up, down) = (self.link(plan, from, to), self.link(plan, to, from));
        let spec = plan.link(from as usize, to as usize);
        let back = plan.link(to as usize, from as usize);
        let path = self.paths.len() as u32;
        self.paths.push(Path {
            up,
            down,
            round_trip: spec.delay + back.delay,
            exchange: spec.carrier.is_exchange(),
            keep_alive: spec.connection == Connection::KeepAlive,
            idle: 0,
        });
        self.peers[from as usize].push((to, path));
        path
    }

    fn link(&mut self, plan: &Plan, from: u32, to: u32) -> u32 {
        let links = &mut self.links;
        *self.rows.entry((from, to)).or_insert_with(|| {
            let name = |node: u32| plan.nodes[node as usize].name.as_str();
            let group = format!("{}->{}", name(from), name(to));
            let (seed, repetition) = (plan.seed, plan.repetition);
            let rng = RngStream::new(Seed { seed, repetition, group: &group, member: 0, stream: 0, purpose: "link" });
            let spec: &LinkSpec = plan.link(from as usize, to as usize);
            links.push(Link::new(spec, rng));
            links.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_counted_per_segment_and_fragment() {
        assert_eq!(wire_bytes(0), 150 + 78);
        assert_eq!(wire_bytes(1310), 1460 + 78);
        assert_eq!(wire_bytes(1311), 1461 + 2 * 78);
        assert_eq!(datagram_bytes(1472), 1480 + 58);
        assert_eq!(datagram_bytes(1473), 1481 + 2 * 58);
    }

    #[test]
    fn retransmissions_wait_twice_as_long_each_time() {
        let path =
            |ms| Path { up: 0, down: 1, round_trip: Span::from_millis(ms), exchange: true, keep_alive: true, idle: 0 };
        assert_eq!([1, 2, 6].map(|n| path(10).retransmission(n)), [200, 400, 6400].map(Span::from_millis));
        assert_eq!(path(300).retransmission(1), Span::from_millis(600));
    }
}
