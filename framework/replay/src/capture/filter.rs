//! Filters in the language of `tcpdump`: which packets of a capture are wanted.
//!
//! A subset of pcap-filter(7), compiled here and run over the layers of a frame:
//!
//! ```text
//!   [src|dst] host ADDRESS        [tcp|udp] [src|dst] port N
//!   [src|dst] net ADDRESS/LENGTH  [tcp|udp] [src|dst] portrange N-M
//!   ip ip6 arp tcp udp sctp icmp icmp6     proto N     vlan [N]     mpls
//!   ether [src|dst|host] MAC      ether proto N        less N       greater N
//!   not (!)   and (&&)   or (||)   ( … )
//! ```
//!
//! `and` and `or` bind equally and to the left, `not` binds closest, as there. Two things are different: addresses and ports
//! are looked for in every IP header of a frame, so tags, labels and tunnels are looked through without saying `vlan and …`;
//! and hosts are addresses, never names.

mod parse;

use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

use crate::frame::{Layers, Network, array, ethertype};

/// A filter, ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    text: String,
    node: Node,
}

/// A text that is no filter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("filter, column {column}: {what}")]
pub struct FilterError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong and what to write.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Ask(Question),
}

/// Which end of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
    #[default]
    Either,
    Both,
}

#[derive(Clone, Debug, PartialEq)]
enum Question {
    /// The length that the packet had is at most, or at least, this.
    Length {
        most: bool,
        bytes: u32,
    },
    Vlan(Option<u16>),
    Mpls,
    Ether(Side, [u8; 6]),
    EtherType(u16),
    /// Of one IP header: version, protocol, and what more.
    Network {
        v6: Option<bool>,
        protocol: Option<u8>,
        more: More,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum More {
    Nothing,
    Addresses(Side, IpAddr, u8),
    Ports(Side, u16, u16),
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        parse::filter(text).map(|node| Filter { text: text.to_owned(), node })
    }
}

impl Filter {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it wants a frame with these layers that had `original` bytes.
    pub fn wants(&self, frame: &[u8], layers: &Layers, original: u32) -> bool {
        self.node.holds(frame, layers, original)
    }
}

impl Node {
    /// The parser bounds how deep this goes.
    fn holds(&self, frame: &[u8], layers: &Layers, original: u32) -> bool {
        match self {
            Node::Not(node) => !node.holds(frame, layers, original),
            Node::And(a, b) => a.holds(frame, layers, original) && b.holds(frame, layers, original),
            Node::Or(a, b) => a.holds(frame, layers, original) || b.holds(frame, layers, original),
            Node::Ask(question) => question.holds(frame, layers, original),
        }
    }
}

impl Side {
    fn holds<T>(self, source: &T, destination: &T, is: impl Fn(&T) -> bool) -> bool {
        match self {
            Side::Source => is(source),
            Side::Destination => is(destination),
            Side::Either => is(source) || is(destination),
            Side::Both => is(source) && is(destination),
        }
    }
}

impl Question {
    fn holds(&self, frame: &[u8], layers: &Layers, original: u32) -> bool {
        match self {
            Question::Length { most: true, bytes } => original <= *bytes,
            Question::Length { most: false, bytes } => original >= *bytes,
            Question::Vlan(None) => !layers.vlans().is_empty(),
            Question::Vlan(Some(number)) => layers.vlans().contains(number),
            Question::Mpls => layers.wrappings.mpls,
            Question::Ether(side, address) => {
                let of = |at| array::<6>(frame, at).unwrap_or_default();
                side.holds(&of(6), &of(0), |it| it == address)
            }
            Question::EtherType(kind) => layers.ethertype == *kind,
            Question::Network { v6, protocol, more } => {
                let fits = |network: &Network| {
                    v6.is_none_or(|v6| network.v6 == v6)
                        && protocol.is_none_or(|number| network.protocol == number)
                        && more.holds(frame, network)
                };
                layers.networks().iter().any(fits) || v6.is_none() && protocol.is_none() && more.resolves(frame, layers)
            }
        }
    }
}

impl More {
    fn holds(&self, frame: &[u8], network: &Network) -> bool {
        match self {
            More::Nothing => true,
            More::Addresses(side, net, length) => {
                let (source, destination) = network.addresses(frame);
                side.holds(&source, &destination, |address| within(*address, *net, *length))
            }
            More::Ports(side, from, to) => network
                .ports(frame)
                .is_some_and(|ports| side.holds(&ports.source, &ports.destination, |port| (from..=to).contains(&port))),
        }
    }

    /// Addresses in ARP count as hosts too. Source: RFC 826, for Ethernet and IPv4.
    fn resolves(&self, frame: &[u8], layers: &Layers) -> bool {
        let More::Addresses(side, net, length) = self else { return false };
        let arp = layers.ethertype == ethertype::ARP;
        let of = |at| array::<4>(frame, layers.content + at).map(IpAddr::from);
        let (Some(sender), Some(target), true) = (of(14), of(24), arp) else { return false };
        side.holds(&sender, &target, |address| within(*address, *net, *length))
    }
}

/// Whether `address` is of the network whose first `length` bits are those of `net`.
pub(crate) fn within(address: IpAddr, net: IpAddr, length: u8) -> bool {
    match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(length),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(length),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
