//! Datagrams that the way to their target does not take in one piece: each would travel in fragments, and be lost with any of
//! them. Streams fit themselves to the way, so they are not asked after.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rehearsal_core::Role;
use rehearsal_core::assembly::{Assembly, Group};
use rehearsal_core::plan::Carrier;
use rustix::net::sockopt::{ip_mtu, ipv6_mtu};

use super::{targets, title};
use crate::udp::{ECHO_BYTES, HEADER_BYTES};

/// Header of UDP, bytes. Source: RFC 768.
const UDP_BYTES: u64 = 8;
/// Headers of IP without options, bytes: version 4 and version 6. Source: RFC 791 §3.1, RFC 8200 §3.
const IP_BYTES: [u64; 2] = [20, 40];
/// What an IPv6 fragment has beside. Source: RFC 8200 §4.5.
const FRAGMENT_BYTES: u64 = 8;
/// Payload of the datagrams that QUIC begins with, which may not be fragmented. Source: RFC 9000 §14.
const QUIC_BYTES: u64 = 1200;

/// What datagrams between nodes of a run travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What this host's routes say.
    Routes,
    /// An interface of each node's own, with this MTU in bytes.
    Own(u64),
    /// Not known here: nodes run on other hosts.
    Unknown,
}

/// Reasons not to start `assembly`: senders whose largest datagrams are too long for the way to their target. Nothing is sent.
pub fn fragmented(assembly: &Assembly, way: Way) -> Vec<String> {
    let mut found = BTreeSet::new();
    for sender in assembly.groups.iter().filter(|group| group.role == Role::Sender) {
        let node = &assembly.plan.nodes[sender.node];
        if node.foreign || node.outside.is_some() {
            continue;
        }
        for target in targets(assembly, sender) {
            let Some((mtu, v6, place)) = mtu_to(assembly, target, way) else { continue };
            found.extend(complaint(assembly, sender, target, (mtu, v6), &place));
        }
    }
    found.into_iter().collect()
}

/// The MTU of the way to a target, whether its addresses are of IPv6, and what to call the place.
fn mtu_to(assembly: &Assembly, target: &Group, way: Way) -> Option<(u64, bool, String)> {
    let node = &assembly.plan.nodes[target.node];
    let outside = node.outside.as_ref().map(|outside| outside.address);
    match way {
        Way::Unknown => None,
        Way::Own(mtu) if outside.is_none() => Some((mtu, false, format!("`{}`", title(assembly, target)))),
        Way::Own(_) | Way::Routes => {
            let fixed = target.serve.and_then(|serve| serve.listen);
            let address = outside.unwrap_or_else(|| fixed.or(Some((Ipv4Addr::LOCALHOST, 0).into())))?;
            Some((route_mtu(address)?, address.is_ipv6(), address.ip().to_string()))
        }
    }
}

fn complaint(
    assembly: &Assembly,
    sender: &Group,
    target: &Group,
    (mtu, v6): (u64, bool),
    place: &str,
) -> Option<String> {
    let link = assembly.link(sender.node, target.node);
    let (ip, name) = (IP_BYTES[usize::from(v6)], title(assembly, sender));
    match link.carrier {
        Carrier::Udp => {
            let least = if link.is_exchange() { ECHO_BYTES } else { HEADER_BYTES } as u64;
            let payload = u64::from(sender.weight?.bytes_max).max(least);
            let whole = payload + UDP_BYTES + ip;
            (whole > mtu).then(|| {
                let each = (mtu.saturating_sub(ip + if v6 { FRAGMENT_BYTES } else { 0 }) & !7).max(8);
                format!(
                    "`{name}` sends datagrams of up to {payload} B, {whole} B with their headers, and the way to {place} takes \
                     {mtu} B in one piece (MTU): they would travel in {} fragments and be lost with any of them; send at most \
                     {} B, or raise the MTU of the interfaces on the way",
                    (payload + UDP_BYTES).div_ceil(each),
                    mtu.saturating_sub(ip + UDP_BYTES),
                )
            })
        }
        Carrier::Http3 => {
            let whole = QUIC_BYTES + UDP_BYTES + ip;
            (whole > mtu).then(|| {
                format!(
                    "`{name}` speaks HTTP/3, whose datagrams of {whole} B may not be fragmented, and the way to {place} takes \
                     {mtu} B (MTU): raise the MTU of the interfaces on the way, or write `carrier = \"http2\"`"
                )
            })
        }
        _ => None,
    }
}

/// The MTU of the way to an address, as the kernel knows it: that of the route or of its interface, or what the path was found
/// to take. A socket that is connected says so; nothing leaves.
fn route_mtu(to: SocketAddr) -> Option<u64> {
    let from: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((from, 0)).ok()?;
    // any port: the way is that of the address
    socket.connect((to.ip(), to.port().max(1))).ok()?;
    let mtu = if to.is_ipv4() { ip_mtu(&socket) } else { ipv6_mtu(&socket) };
    mtu.ok().map(u64::from).filter(|mtu| *mtu > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_mtu_of_the_loopback() {
        let said = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("every machine has a loopback");
        let known: u64 = said.trim().parse().expect("a number");
        // no packet of IPv4 is longer than 65,535 bytes, whatever an interface takes
        assert_eq!(route_mtu((Ipv4Addr::LOCALHOST, 0).into()), Some(known.min(65_535)));
        if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            assert_eq!(route_mtu((Ipv6Addr::LOCALHOST, 9).into()), Some(known));
        }
    }
}
