//! What a packet on the wire is known by: the addresses and ports of its conversation, and a number from what a router
//! leaves as it is. So TTL, Ethernet addresses and tags may change on the way.

use std::net::IpAddr;

use super::script::quotes;
use crate::frame::{Fragment, Layers, Network, protocol};
use crate::receive::hash;

/// Source and destination of the innermost IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Protocol over IP.
    pub protocol: u8,
    /// Address and port of the sender.
    pub from: (IpAddr, u16),
    /// Of the receiver.
    pub to: (IpAddr, u16),
}

impl Tuple {
    /// That of a frame, and the number that tells it from others of its conversation; `None` for pieces of packets,
    /// what has no IP, and what quotes addresses of others.
    pub fn of(frame: &[u8]) -> Option<(Tuple, u64)> {
        let layers = Layers::of(frame);
        let network = layers.innermost()?;
        if network.fragment != Fragment::Whole || is_quoting(frame, network) {
            return None;
        }
        let (from, to) = network.addresses(frame);
        let ports = network.ports(frame).map_or((0, 0), |ports| (ports.source, ports.destination));
        let tuple = Tuple { protocol: network.protocol, from: (from, ports.0), to: (to, ports.1) };
        Some((tuple, key(frame, network)))
    }
}

/// From the transport's bytes but for a checksum, which covers addresses; and from the packet's identification.
fn key(frame: &[u8], network: &Network) -> u64 {
    let content = frame.get(network.payload..network.end).unwrap_or_default();
    let sum = match network.protocol {
        protocol::TCP => 16,
        protocol::UDP | protocol::UDP_LITE => 6,
        protocol::ICMPV6 => 2,
        _ => content.len(),
    };
    let (head, rest) = content.split_at(sum.min(content.len()));
    hash(rest.get(2..).unwrap_or_default(), hash(head, u64::from(network.identification)))
}

/// Errors of ICMP, and neighbour discovery.
fn is_quoting(frame: &[u8], network: &Network) -> bool {
    let kind = frame.get(network.payload).copied();
    quotes(network.protocol)
        && match network.protocol {
            protocol::ICMP => matches!(kind, Some(3 | 4 | 5 | 11 | 12)),
            _ => matches!(kind, Some(1..=4 | 135 | 136)),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{datagram, segment};

    #[test]
    fn what_routers_change_does_not_matter_and_all_else_does() {
        let frame = segment(("10.0.0.1", 4000), ("10.0.0.2", 80), 0x18, b"GET");
        let (tuple, key) = Tuple::of(&frame).expect("TCP");
        assert_eq!((tuple.from.1, tuple.to), (4000, ("10.0.0.2".parse().expect("an address"), 80)));
        let mut routed = frame.clone();
        // Ethernet addresses, TTL and the header's checksum
        routed[..12].fill(9);
        routed[22] -= 1;
        routed[24] ^= 0x55;
        assert_eq!(Tuple::of(&routed), Some((tuple, key)));
        // both bytes of the checksum of TCP: another copy has other addresses
        let mut other = frame.clone();
        other[50] ^= 0xff;
        other[51] ^= 0x0f;
        assert_eq!(Tuple::of(&other).map(|(_, key)| key), Some(key));
        for at in [18, 38, 42, 47, 52, 54, 56] {
            let mut other = frame.clone();
            other[at] ^= 1;
            assert_ne!(Tuple::of(&other).map(|(_, key)| key), Some(key), "byte {at}");
        }
    }

    #[test]
    fn padding_of_short_frames_does_not_matter() {
        let frame = datagram(("10.0.0.1", 4000), ("10.0.0.2", 53), b"a");
        let padded = [&frame[..], &[0; 17]].concat();
        assert_eq!(Tuple::of(&frame), Tuple::of(&padded));
        assert_eq!(Tuple::of(&padded[..13]), None);
    }
}
