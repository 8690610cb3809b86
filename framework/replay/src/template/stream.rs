//! Streams: what belongs together in a capture, and who opened it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use serde::Serialize;

use crate::frame::{Fragment, Layers, Network, Ports, Wrappings, array, protocol};
use crate::packet::Direction;

/// Pieces of packets that are remembered until the first one of a newer packet pushes them out. Assumed: more packets than
/// are ever in pieces at once.
const PIECES_MAX: usize = 4096;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Ports below are a server's. Source: RFC 6335 section 6, System Ports.
const SYSTEM_PORTS: u16 = 1024;

/// One end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Endpoint {
    /// Its address: of IP, or for frames without IP the Ethernet address.
    pub host: Host,
    /// Its port; 0 where there are none.
    pub port: u16,
}

/// An address of a stream's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Of IP.
    Ip(IpAddr),
    /// Of Ethernet.
    Mac([u8; 6]),
}

/// What the packets of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carried {
    /// IP packets with this protocol number, in IPv4 or IPv6.
    Ip(u8),
    /// Frames without IP, with this EtherType (below 1,536: IEEE 802.3 frames).
    Frame(u16),
}

/// A stream: packets of one 5-tuple, both directions. Tags, labels and tunnels are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// What its packets are.
    pub carried: Carried,
    /// The side that opened it: it sent the first SYN, or has the port of a client, or sent the first packet.
    pub client: Endpoint,
    /// The other.
    pub server: Endpoint,
    /// Packets from the client, and to it.
    pub packets: [u64; 2],
    /// Bytes of frames as they are kept, likewise.
    pub bytes: [u64; 2],
    /// Nanoseconds from the template's start to its first packet.
    pub first: u64,
    /// And to its last one.
    pub last: u64,
    /// What was around its first packet.
    #[serde(skip)]
    pub wrappings: Wrappings,
}

type Key = (Carried, Endpoint, Endpoint);
/// A packet in pieces: source, destination, protocol and identification.
type Piece = (IpAddr, IpAddr, u8, u32);

/// More streams than a template can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Streams while they are found.
#[derive(Debug, Default)]
pub struct Table {
    known: BTreeMap<Key, u32>,
    streams: Vec<Stream>,
    pieces: BTreeMap<Piece, (u64, Ports)>,
    /// Pieces by age.
    ages: BTreeMap<u64, Piece>,
    age: u64,
}

/// What was found of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its stream.
    pub stream: u32,
    /// Its way.
    pub direction: Direction,
    /// Whether it opens a connection of TCP: it waits for nothing.
    pub opens: bool,
}

impl Table {
    /// Streams found so far, by number.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Finds or makes the stream of a frame.
    ///
    /// # Errors
    /// [`Full`] if it would be one too many for `most`.
    pub fn find(&mut self, frame: &[u8], layers: &Layers, most: u32) -> Result<Found, Full> {
        let (carried, source, destination, flags) = match layers.innermost() {
            Some(network) => self.ends(frame, network),
            None => bare(frame, layers),
        };
        let (opens, answers) = (flags & (SYN | ACK) == SYN, flags & (SYN | ACK) == SYN | ACK);
        let forward = source <= destination;
        let key = if forward { (carried, source, destination) } else { (carried, destination, source) };
        if let Some(&stream) = self.known.get(&key) {
            let from_client = self.streams[stream as usize].client == source;
            let direction = if from_client { Direction::Forward } else { Direction::Backward };
            return Ok(Found { stream, direction, opens });
        }
        let stream = u32::try_from(self.streams.len()).ok().filter(|stream| *stream < most).ok_or(Full)?;
        let system = |end: Endpoint| end.port > 0 && end.port < SYSTEM_PORTS;
        let from_server = answers || !opens && system(source) && !system(destination);
        let (client, server) = if from_server { (destination, source) } else { (source, destination) };
        self.known.insert(key, stream);
        self.streams.push(Stream {
            carried,
            client,
            server,
            packets: [0; 2],
            bytes: [0; 2],
            first: u64::MAX,
            last: 0,
            wrappings: layers.wrappings,
        });
        let direction = if from_server { Direction::Backward } else { Direction::Forward };
        Ok(Found { stream, direction, opens })
    }

    fn ends(&mut self, frame: &[u8], network: &Network) -> (Carried, Endpoint, Endpoint, u8) {
        let (from, to) = network.addresses(frame);
        let ports = match network.fragment {
            Fragment::Whole => network.ports(frame),
            Fragment::First => {
                let ports = network.ports(frame);
                ports.inspect(|ports| self.remember((from, to, network.protocol, network.identification), *ports))
            }
            Fragment::Later => {
                self.pieces.get(&(from, to, network.protocol, network.identification)).map(|(_, ports)| *ports)
            }
        };
        let ports = ports.unwrap_or(Ports { source: 0, destination: 0 });
        let end = |host, port| Endpoint { host: Host::Ip(host), port };
        let flags = network.tcp_flags(frame).unwrap_or(0);
        (Carried::Ip(network.protocol), end(from, ports.source), end(to, ports.destination), flags)
    }

    fn remember(&mut self, piece: Piece, ports: Ports) {
        self.age += 1;
        if let Some((old, _)) = self.pieces.insert(piece, (self.age, ports)) {
            self.ages.remove(&old);
        }
        self.ages.insert(self.age, piece);
        if self.pieces.len() > PIECES_MAX
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.pieces.remove(&oldest);
        }
    }

    /// Adds a packet to its stream's figures.
    pub fn count(&mut self, found: &Found, bytes: u64) {
        let stream = &mut self.streams[found.stream as usize];
        stream.packets[found.direction.index()] += 1;
        stream.bytes[found.direction.index()] += bytes;
    }

    /// Notes when a packet of a stream was there.
    pub fn seen(&mut self, stream: u32, at: u64) {
        let stream = &mut self.streams[stream as usize];
        stream.first = stream.first.min(at);
        stream.last = stream.last.max(at);
    }
}

/// A frame without IP: its Ethernet addresses. Both directions of what is sent to a group are one-sided.
fn bare(frame: &[u8], layers: &Layers) -> (Carried, Endpoint, Endpoint, u8) {
    let end = |at| Endpoint { host: Host::Mac(array(frame, at).unwrap_or_default()), port: 0 };
    // lengths of IEEE 802.3 frames are no kinds
    let kind = if layers.ethertype < 0x0600 { 0 } else { layers.ethertype };
    (Carried::Frame(kind), end(6), end(0), 0)
}

impl Host {
    /// 16 bytes and a tag, for files.
    pub(super) fn encode(self) -> (u8, [u8; 16]) {
        let mut bytes = [0; 16];
        match self {
            Host::Ip(IpAddr::V4(address)) => {
                bytes[..4].copy_from_slice(&address.octets());
                (4, bytes)
            }
            Host::Ip(IpAddr::V6(address)) => (6, address.octets()),
            Host::Mac(address) => {
                bytes[..6].copy_from_slice(&address);
                (2, bytes)
            }
        }
    }

    /// Back from that.
    pub(super) fn decode(tag: u8, bytes: [u8; 16]) -> Option<Host> {
        let [a, b, c, d, e, f, ..] = bytes;
        match tag {
            4 => Some(Host::Ip(IpAddr::from([a, b, c, d]))),
            6 => Some(Host::Ip(IpAddr::V6(Ipv6Addr::from(bytes)))),
            2 => Some(Host::Mac([a, b, c, d, e, f])),
            _ => None,
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::Ip(address) => address.fmt(f),
            Host::Mac([a, b, c, d, e, g]) => write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"),
        }
    }
}

impl Serialize for Host {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.host, self.port) {
            (host, 0) => host.fmt(f),
            (Host::Ip(IpAddr::V6(address)), port) => write!(f, "[{address}]:{port}"),
            (host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match *self {
            Carried::Ip(protocol::TCP) => "TCP",
            Carried::Ip(protocol::UDP) => "UDP",
            Carried::Ip(protocol::ICMP) => "ICMP",
            Carried::Ip(protocol::ICMPV6) => "ICMPv6",
            Carried::Ip(protocol::SCTP) => "SCTP",
            Carried::Ip(number) => return write!(f, "IP protocol {number}"),
            Carried::Frame(0) => "IEEE 802.3",
            Carried::Frame(crate::frame::ethertype::ARP) => "ARP",
            Carried::Frame(kind) => return write!(f, "EtherType 0x{kind:04x}"),
        };
        f.write_str(word)
    }
}
