//! What an IP packet carries when it carries another: IP in IP, GRE, VXLAN, Geneve, GTP-U.

use super::{Layers, Network, be16, protocol, walk};

/// Source: RFC 7348 section 5.
const VXLAN: u16 = 4789;
/// Source: RFC 8926 section 3.3.
const GENEVE: u16 = 6081;
/// Source: 3GPP TS 29.281 section 4.4.2.
const GTP_U: u16 = 2152;
/// Extension headers of one GTP-U packet that are passed over. Assumed.
const EXTENSIONS_MAX: usize = 8;

/// Looks into the payload of `outer`.
pub(super) fn inside(frame: &[u8], outer: &Network, layers: &mut Layers) {
    if walk::carries_nothing(outer.protocol) {
        return;
    }
    // what stands behind the end of a packet is padding, not a header
    let frame = &frame[..outer.end];
    match outer.protocol {
        protocol::IPV4 | protocol::IPV6 => {
            layers.wrappings.ip = true;
            walk::ip(frame, outer.payload, layers);
        }
        protocol::GRE => gre(frame, outer.payload, layers),
        _ => datagram(frame, outer, layers),
    }
}

/// Source: RFC 2784 and RFC 2890; version 1 is PPTP's (RFC 2637).
fn gre(frame: &[u8], at: usize, layers: &mut Layers) {
    let (Some(flags), Some(kind)) = (be16(frame, at), be16(frame, at + 2)) else { return };
    layers.wrappings.gre = true;
    let mut next = at + 4;
    for bit in [0x8000, 0x2000, 0x1000] {
        next += if flags & bit == 0 { 0 } else { 4 };
    }
    match flags & 7 {
        0 if flags & 0x4000 == 0 => walk::typed(frame, next, kind, layers),
        1 if kind == 0x880b => {
            next += if flags & 0x0080 == 0 { 0 } else { 4 };
            // PPP, whose address and control bytes may be left out
            let at = if be16(frame, next) == Some(0xff03) { next + 2 } else { next };
            match (frame.get(at), be16(frame, at)) {
                (Some(0x21 | 0x57), _) => walk::ip(frame, at + 1, layers),
                (_, Some(0x0021 | 0x0057)) => walk::ip(frame, at + 2, layers),
                _ => {}
            }
        }
        _ => {}
    }
}

fn datagram(frame: &[u8], outer: &Network, layers: &mut Layers) {
    let Some(ports) = outer.ports(frame) else { return };
    let at = outer.payload + 8;
    match ports.destination {
        VXLAN if frame.get(at).is_some_and(|flags| flags & 0x08 != 0) => {
            layers.wrappings.vxlan = true;
            walk::ethernet(frame, at + 8, layers, false);
        }
        GENEVE => {
            let (Some(first), Some(kind)) = (frame.get(at), be16(frame, at + 2)) else { return };
            if first >> 6 == 0 {
                layers.wrappings.geneve = true;
                walk::typed(frame, at + 8 + usize::from(first & 0x3f) * 4, kind, layers);
            }
        }
        GTP_U => gtp(frame, at, layers),
        _ => {}
    }
}

/// Source: 3GPP TS 29.281 section 5: version 1 with the protocol type bit, message 255 carries a user's packet.
fn gtp(frame: &[u8], at: usize, layers: &mut Layers) {
    let (Some(flags), Some(255)) = (frame.get(at), frame.get(at + 1)) else { return };
    if flags & 0xf0 != 0x30 {
        return;
    }
    let mut next = at + 8;
    if flags & 0x07 != 0 {
        let mut kind = frame.get(next + 3).copied();
        next += 4;
        for _ in 0..EXTENSIONS_MAX {
            let length = match kind {
                None => return,
                Some(0) => break,
                Some(_) if flags & 0x04 == 0 => break,
                Some(_) => frame.get(next).map_or(0, |units| usize::from(*units) * 4),
            };
            if length == 0 {
                return;
            }
            next += length;
            kind = frame.get(next - 1).copied();
        }
    }
    layers.wrappings.gtp = true;
    walk::ip(frame, next, layers);
}
