//! What a frame holds: tags, labels, tunnels, addresses and ports, found without copying and without trusting a length.

mod content;
pub(crate) mod text;
mod tunnel;
mod walk;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use text::mac;

pub use content::Content;

/// IP headers that are looked through, outermost first. Assumed: a tunnel in a tunnel in a tunnel.
pub const NETWORKS_MAX: usize = 4;
/// VLAN tags that are kept by number; further ones are only passed over.
pub const TAGS_MAX: usize = 4;
/// Ethernet headers in one frame that are looked through. Assumed; the bound keeps nonsense from nesting for ever.
const BRIDGED_MAX: usize = 8;
/// Length of an Ethernet header without tags, bytes.
pub const ETHERNET: usize = 14;

/// Numbers of protocols over IP. Source: IANA, Assigned Internet Protocol Numbers.
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IPv4 in IP.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 in IP.
    pub const IPV6: u8 = 41;
    /// GRE.
    pub const GRE: u8 = 47;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
}

/// EtherTypes. Source: IANA, IEEE 802 Numbers.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Ethernet inside of GRE or Geneve.
    pub const BRIDGED: u16 = 0x6558;
    /// IEEE 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS.
    pub const MPLS: u16 = 0x8847;
    /// MPLS, multicast.
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// PPPoE session.
    pub const PPPOE: u16 = 0x8864;
    /// IEEE 802.1ad tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// Tag of older double-tagging switches.
    pub const OLD_VLAN: u16 = 0x9100;
}

/// A piece of an IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// The packet is whole.
    #[default]
    Whole,
    /// The piece that holds the header of the transport.
    First,
    /// Another one.
    Later,
}

/// An IP header, by where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Offset of the header.
    pub at: usize,
    /// Offset of what follows the header, its options and extensions.
    pub payload: usize,
    /// Offset at which the IP packet ends: by its own length, but never behind the frame's end.
    pub end: usize,
    /// Whether it is IPv6.
    pub v6: bool,
    /// What follows.
    pub protocol: u8,
    /// Whether it is a piece.
    pub fragment: Fragment,
    /// Which packet it is a piece of.
    pub identification: u32,
}

/// Ports of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// From which.
    pub source: u16,
    /// To which.
    pub destination: u16,
}

/// What was looked through on the way to the innermost IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrappings {
    /// MPLS labels.
    pub mpls: bool,
    /// PPP over Ethernet.
    pub pppoe: bool,
    /// IP in IP.
    pub ip: bool,
    /// GRE.
    pub gre: bool,
    /// VXLAN.
    pub vxlan: bool,
    /// Geneve.
    pub geneve: bool,
    /// GTP-U.
    pub gtp: bool,
}

/// The layers of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    networks: [Network; NETWORKS_MAX],
    count: usize,
    tags: [u16; TAGS_MAX],
    tagged: usize,
    bridged: usize,
    /// The EtherType behind tags of the outer frame; below 1,536 it is a length (IEEE 802.3).
    pub ethertype: u16,
    /// Offset of what follows it.
    pub content: usize,
    /// What was looked through.
    pub wrappings: Wrappings,
}

impl Layers {
    /// Looks into an Ethernet frame.
    pub fn of(frame: &[u8]) -> Layers {
        let mut layers = Layers::default();
        walk::ethernet(frame, 0, &mut layers, true);
        layers
    }

    /// Looks into an IP packet that begins at `at`.
    pub(crate) fn of_ip(bytes: &[u8], at: usize) -> Layers {
        let mut layers = Layers::default();
        walk::ip(bytes, at, &mut layers);
        layers
    }

    /// IP headers, outermost first.
    pub fn networks(&self) -> &[Network] {
        &self.networks[..self.count]
    }

    /// The innermost IP header.
    pub fn innermost(&self) -> Option<&Network> {
        self.networks().last()
    }

    /// Numbers of the VLANs of the outer frame, outermost first.
    pub fn vlans(&self) -> &[u16] {
        &self.tags[..self.tagged]
    }

    fn push(&mut self, network: Network) -> bool {
        let fits = self.count < NETWORKS_MAX;
        if fits {
            self.networks[self.count] = network;
            self.count += 1;
        }
        fits
    }

    fn tag(&mut self, number: u16) {
        if self.tagged < TAGS_MAX {
            self.tags[self.tagged] = number;
            self.tagged += 1;
        }
    }
}

impl Wrappings {
    /// One bit for each, for files.
    pub(crate) fn bits(self) -> u8 {
        let Wrappings { mpls, pppoe, ip, gre, vxlan, geneve, gtp } = self;
        [mpls, pppoe, ip, gre, vxlan, geneve, gtp].into_iter().rev().fold(0, |bits, is| bits << 1 | u8::from(is))
    }

    /// Back from that.
    pub(crate) fn of_bits(bits: u8) -> Wrappings {
        let is = |at: u8| bits >> at & 1 == 1;
        Wrappings { mpls: is(0), pppoe: is(1), ip: is(2), gre: is(3), vxlan: is(4), geneve: is(5), gtp: is(6) }
    }
}

impl Network {
    /// Source and destination.
    pub fn addresses(&self, frame: &[u8]) -> (IpAddr, IpAddr) {
        if self.v6 {
            let of = |at| IpAddr::V6(Ipv6Addr::from(array::<16>(frame, at).unwrap_or_default()));
            (of(self.at + 8), of(self.at + 24))
        } else {
            let of = |at| IpAddr::V4(Ipv4Addr::from(array::<4>(frame, at).unwrap_or_default()));
            (of(self.at + 12), of(self.at + 16))
        }
    }

    /// Ports, of a transport that has them and a piece that holds them.
    pub fn ports(&self, frame: &[u8]) -> Option<Ports> {
        use protocol::{SCTP, TCP, UDP, UDP_LITE};
        let has = matches!(self.protocol, TCP | UDP | SCTP | UDP_LITE) && self.fragment != Fragment::Later;
        let frame = frame.get(..self.end)?;
        let (source, destination) = (be16(frame, self.payload)?, be16(frame, self.payload + 2)?);
        has.then_some(Ports { source, destination })
    }

    /// Flags of a TCP segment.
    pub fn tcp_flags(&self, frame: &[u8]) -> Option<u8> {
        let tcp = self.protocol == protocol::TCP && self.fragment != Fragment::Later;
        if !tcp || self.payload + 14 > self.end {
            return None;
        }
        frame.get(self.payload + 13).copied()
    }
}

impl fmt::Display for Wrappings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrappings { mpls, pppoe, ip, gre, vxlan, geneve, gtp } = *self;
        let all = [
            (mpls, "MPLS"),
            (pppoe, "PPPoE"),
            (ip, "IP"),
            (gre, "GRE"),
            (vxlan, "VXLAN"),
            (geneve, "Geneve"),
            (gtp, "GTP-U"),
        ];
        let words: Vec<&str> = all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
        f.write_str(&words.join(" "))
    }
}

/// `N` bytes at `at`.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// A number of two bytes in network order.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// A number of four bytes in network order.
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests;
