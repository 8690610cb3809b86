//! From header to header: Ethernet, tags, MPLS, PPPoE, IPv4 and IPv6 with their extensions.

use super::{BRIDGED_MAX, ETHERNET, Fragment, Layers, Network, be16, be32, ethertype, protocol, tunnel};

/// Tags, labels or extension headers in a row that are passed over. Assumed: more than any network uses; the bound keeps a
/// frame of nothing but tags cheap.
const ROW_MAX: usize = 32;
/// IPv6 extension headers that are passed over. Source: IANA, IPv6 Extension Header Types.
const EXTENSIONS: [u8; 6] = [0, 43, 60, 135, 139, 140];
const FRAGMENT_HEADER: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// An Ethernet header at `at`; `outer` for the frame's own.
pub(super) fn ethernet(frame: &[u8], at: usize, layers: &mut Layers, outer: bool) {
    if layers.bridged == BRIDGED_MAX {
        return;
    }
    layers.bridged += 1;
    let mut at = at + ETHERNET;
    let Some(mut kind) = be16(frame, at - 2) else { return };
    for _ in 0..ROW_MAX {
        use ethertype::{OLD_VLAN, SERVICE_VLAN, VLAN};
        if !matches!(kind, VLAN | SERVICE_VLAN | OLD_VLAN) {
            break;
        }
        let (Some(tag), Some(next)) = (be16(frame, at), be16(frame, at + 2)) else { return };
        if outer {
            layers.tag(tag & 0x0fff);
        }
        (kind, at) = (next, at + 4);
    }
    if outer {
        (layers.ethertype, layers.content) = (kind, at);
    }
    typed(frame, at, kind, layers);
}

/// What an EtherType announces, at `at`.
pub(super) fn typed(frame: &[u8], at: usize, kind: u16, layers: &mut Layers) {
    match kind {
        ethertype::IPV4 | ethertype::IPV6 => ip(frame, at, layers),
        ethertype::MPLS | ethertype::MPLS_MULTICAST => labels(frame, at, layers),
        ethertype::PPPOE => {
            layers.wrappings.pppoe = true;
            // Source: RFC 2516 section 4; protocol numbers of PPP: RFC 1332, RFC 5072
            if matches!(be16(frame, at + 6), Some(0x0021 | 0x0057)) {
                ip(frame, at + 8, layers);
            }
        }
        ethertype::BRIDGED => ethernet(frame, at, layers, false),
        _ => {}
    }
}

/// MPLS does not say what it carries: the first four bits behind the last label tell IP (RFC 4928 section 3), and a
/// pseudowire of Ethernet begins with a control word of zeros (RFC 4448).
fn labels(frame: &[u8], mut at: usize, layers: &mut Layers) {
    layers.wrappings.mpls = true;
    for _ in 0..ROW_MAX {
        let Some(label) = be32(frame, at) else { return };
        at += 4;
        if label & 0x100 == 0 {
            continue;
        }
        match frame.get(at).map(|byte| byte >> 4) {
            Some(4 | 6) => ip(frame, at, layers),
            Some(0) if be32(frame, at) == Some(0) => ethernet(frame, at + 4, layers, false),
            _ => {}
        }
        return;
    }
}

/// An IP header at `at`, of the version that it says.
pub(super) fn ip(frame: &[u8], at: usize, layers: &mut Layers) {
    let found = match frame.get(at).map(|byte| byte >> 4) {
        Some(4) => v4(frame, at),
        Some(6) => v6(frame, at),
        _ => None,
    };
    let Some(network) = found else { return };
    if layers.push(network) && network.fragment == Fragment::Whole {
        tunnel::inside(frame, &network, layers);
    }
}

fn v4(frame: &[u8], at: usize) -> Option<Network> {
    let header = usize::from(frame.get(at)? & 0x0f) * 4;
    let payload = at + header;
    if header < 20 || payload > frame.len() {
        return None;
    }
    let total = usize::from(be16(frame, at + 2)?);
    // 0 is what an interface that segments by itself leaves: the packet then ends with its frame
    let end = if total == 0 { frame.len() } else { (at + total).min(frame.len()) };
    if end < payload {
        return None;
    }
    let field = be16(frame, at + 6)?;
    let fragment = match (field & 0x1fff, field & 0x2000) {
        (0, 0) => Fragment::Whole,
        (0, _) => Fragment::First,
        _ => Fragment::Later,
    };
    let (protocol, identification) = (*frame.get(at + 9)?, u32::from(be16(frame, at + 4)?));
    Some(Network { at, payload, end, v6: false, protocol, fragment, identification })
}

fn v6(frame: &[u8], at: usize) -> Option<Network> {
    let mut payload = at + 40;
    if payload > frame.len() {
        return None;
    }
    let said = usize::from(be16(frame, at + 4)?);
    let end = if said == 0 { frame.len() } else { (payload + said).min(frame.len()) };
    let mut network = Network { at, payload, end, v6: true, protocol: *frame.get(at + 6)?, ..Network::default() };
    for _ in 0..ROW_MAX {
        let next = match network.protocol {
            FRAGMENT_HEADER => {
                let (field, identification) = (be16(frame, payload + 2)?, be32(frame, payload + 4)?);
                network.identification = identification;
                // what has offset 0 and no more pieces is whole (RFC 6946)
                network.fragment = match (field & 0xfff8, field & 1) {
                    (0, 0) => Fragment::Whole,
                    (0, _) => Fragment::First,
                    _ => Fragment::Later,
                };
                8
            }
            AUTHENTICATION => (usize::from(*frame.get(payload + 1)?) + 2) * 4,
            kind if EXTENSIONS.contains(&kind) => (usize::from(*frame.get(payload + 1)?) + 1) * 8,
            _ => break,
        };
        if payload + next > end {
            break;
        }
        network.protocol = frame[payload];
        payload += next;
        network.payload = payload;
        if network.fragment == Fragment::Later {
            break;
        }
    }
    Some(network)
}

/// Whether `number` is a transport or control protocol that ends a walk.
pub(super) const fn carries_nothing(number: u8) -> bool {
    !matches!(number, protocol::IPV4 | protocol::IPV6 | protocol::GRE | protocol::UDP)
}
