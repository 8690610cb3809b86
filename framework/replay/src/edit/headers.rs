//! Addresses, ports, TTL and DSCP in all headers of a frame, also where ARP, neighbour discovery and errors of ICMP repeat
//! them.

use std::net::IpAddr;

use super::checksum::{self, Field, Outer};
use crate::frame::{Fragment, Layers, Network, array, be16, ethertype, protocol};

/// What becomes of the fields. Each is asked for every field of its kind.
pub(super) struct Changes<A, P> {
    pub(super) address: A,
    pub(super) port: P,
    pub(super) ttl: Option<i16>,
    /// The six bits.
    pub(super) dscp: Option<u8>,
    /// Whether checksums follow.
    pub(super) update: bool,
}

/// Asks for each address of a frame, and writes what is answered without caring for checksums.
pub(super) fn addresses(frame: &mut [u8], address: impl FnMut(IpAddr) -> IpAddr) {
    let layers = Layers::of(frame);
    let mut changes = Changes { address, port: |port| port, ttl: None, dscp: None, update: false };
    changes.apply(frame, &layers);
}

impl<A: FnMut(IpAddr) -> IpAddr, P: FnMut(u16) -> u16> Changes<A, P> {
    pub(super) fn apply(&mut self, frame: &mut [u8], layers: &Layers) {
        let mut outer = Outer::default();
        for (depth, network) in layers.networks().iter().enumerate() {
            let transport = self.network(frame, network, outer);
            if depth == 0 {
                self.service(frame, network);
            }
            self.quoted(frame, network, transport, outer);
            outer = outer.with(transport);
        }
        // Source: RFC 826, for Ethernet and IPv4
        if layers.ethertype == ethertype::ARP
            && frame.get(layers.content + 2..layers.content + 6) == Some(&[8, 0, 6, 4])
        {
            for at in [layers.content + 14, layers.content + 24] {
                self.address(frame, at, false, &[], Outer::default());
            }
        }
    }

    /// Addresses and ports of one header; the checksum that covers what it carries.
    fn network(&mut self, frame: &mut [u8], network: &Network, outer: Outer) -> Option<Field> {
        let header = self.kept(checksum::of_header(network));
        let transport = self.kept(checksum::of_transport(frame, network));
        let covering = transport.filter(|_| checksum::covers_addresses(network.protocol));
        let (first, step) = if network.v6 { (8, 16) } else { (12, 4) };
        for at in [network.at + first, network.at + first + step] {
            self.address(frame, at, network.v6, &[header, covering], outer);
        }
        // the checksum of SCTP is of another kind, so its ports stay
        if matches!(network.protocol, protocol::TCP | protocol::UDP)
            && let Some(ports) = network.ports(frame)
        {
            for (at, port) in [(network.payload, ports.source), (network.payload + 2, ports.destination)] {
                checksum::write(frame, at, &(self.port)(port).to_be_bytes(), &[transport], outer);
            }
        }
        transport
    }

    fn kept(&self, field: Option<Field>) -> Option<Field> {
        field.filter(|_| self.update)
    }

    fn address(&mut self, frame: &mut [u8], at: usize, v6: bool, own: &[Option<Field>], outer: Outer) {
        let old = if v6 { array::<16>(frame, at).map(IpAddr::from) } else { array::<4>(frame, at).map(IpAddr::from) };
        let Some(old) = old else { return };
        match (self.address)(old) {
            new if new == old || new.is_ipv6() != v6 => {}
            IpAddr::V4(new) => checksum::write(frame, at, &new.octets(), own, outer),
            IpAddr::V6(new) => checksum::write(frame, at, &new.octets(), own, outer),
        }
    }

    /// TTL (hop limit) and DSCP of the outermost header, the one that routers look at.
    fn service(&self, frame: &mut [u8], network: &Network) {
        let own = [self.kept(checksum::of_header(network))];
        let (ttl_at, other) =
            if network.v6 { (network.at + 7, network.at + 6) } else { (network.at + 8, network.at + 9) };
        let (Some(&ttl), Some(&beside)) = (frame.get(ttl_at), frame.get(other)) else { return };
        if let Some(change) = self.ttl {
            let new = if change > 0 { change } else { (i16::from(ttl) + change).max(1) }.min(255) as u8;
            let word = if network.v6 { [beside, new] } else { [new, beside] };
            checksum::write(frame, ttl_at.min(other), &word, &own, Outer::default());
        }
        if let (Some(dscp), Some(word)) = (self.dscp, be16(frame, network.at)) {
            // the two bits behind it are ECN's
            let new =
                if network.v6 { word & 0xf03f | u16::from(dscp) << 6 } else { word & 0xff03 | u16::from(dscp) << 2 };
            checksum::write(frame, network.at, &new.to_be_bytes(), &own, Outer::default());
        }
    }

    /// The packet that an error of ICMP quotes, and the target of neighbour discovery.
    fn quoted(&mut self, frame: &mut [u8], network: &Network, transport: Option<Field>, outer: Outer) {
        if network.fragment == Fragment::Later {
            return;
        }
        let Some(&kind) = frame.get(network.payload) else { return };
        let (error, neighbour) = match network.protocol {
            protocol::ICMP => (matches!(kind, 3 | 4 | 5 | 11 | 12), false),
            protocol::ICMPV6 => (matches!(kind, 1..=4), matches!(kind, 135 | 136)),
            _ => return,
        };
        if neighbour && network.payload + 24 <= network.end {
            self.address(frame, network.payload + 8, true, &[transport], outer);
        }
        // a redirect names the better gateway too (RFC 792)
        if error && network.protocol == protocol::ICMP && kind == 5 {
            self.address(frame, network.payload + 4, false, &[transport], outer);
        }
        if error {
            let quoted = Layers::of_ip(&frame[..network.end], network.payload + 8);
            if let Some(inner) = quoted.networks().first() {
                self.network(frame, inner, outer.with(transport));
            }
        }
    }
}
