//! Checksums of the internet: updated for what changed, or made anew.
//!
//! The update is equation 3 of RFC 1624, so a checksum that was wrong before is wrong by as much after; a checksum of UDP
//! that says "none" (0) stays so. A change is passed on to every checksum that covers it, the outer ones of tunnels too.

use std::net::IpAddr;

use crate::frame::{Fragment, Layers, Network, be16, protocol};

/// Checksums around one field at most: one for each transport that is looked through, and an ICMP message.
const OUTER_MAX: usize = crate::frame::NETWORKS_MAX + 2;

/// A checksum field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// Its offset.
    at: usize,
    /// Of UDP: 0 means none, and a sum of 0 is written as 0xffff.
    udp: bool,
}

/// The checksums that cover a whole packet, outermost first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outer {
    fields: [Field; OUTER_MAX],
    count: usize,
}

impl Outer {
    /// One more, inside of the others.
    pub(super) fn with(mut self, field: Option<Field>) -> Outer {
        if let Some(field) = field
            && self.count < OUTER_MAX
        {
            self.fields[self.count] = field;
            self.count += 1;
        }
        self
    }

    fn split(mut self) -> Option<(Field, Outer)> {
        self.count = self.count.checked_sub(1)?;
        Some((self.fields[self.count], self))
    }
}

/// The checksum in an IPv4 header.
pub(super) fn of_header(network: &Network) -> Option<Field> {
    (!network.v6).then_some(Field { at: network.at + 10, udp: false })
}

/// The checksum of the transport or of ICMP, if the frame holds it and it says something.
pub(super) fn of_transport(frame: &[u8], network: &Network) -> Option<Field> {
    if network.fragment == Fragment::Later {
        return None;
    }
    let (offset, udp) = match network.protocol {
        protocol::TCP => (16, false),
        protocol::UDP => (6, true),
        protocol::ICMP | protocol::ICMPV6 => (2, false),
        _ => return None,
    };
    let at = network.payload + offset;
    if at + 2 > network.end || udp && be16(frame, at) == Some(0) { None } else { Some(Field { at, udp }) }
}

/// Whether the transport's checksum covers the addresses too.
pub(super) const fn covers_addresses(number: u8) -> bool {
    matches!(number, protocol::TCP | protocol::UDP | protocol::ICMPV6)
}

/// Writes `new` at `at`, and updates the checksums that cover it: `own`, which do not cover each other, and those around
/// all of them. `new` has an even length and stands at an even distance from what each of them begins with.
pub(super) fn write(frame: &mut [u8], at: usize, new: &[u8], own: &[Option<Field>], outer: Outer) {
    for (offset, pair) in (at..).step_by(2).zip(new.chunks_exact(2)) {
        let (Some(old), new) = (be16(frame, offset), u16::from_be_bytes([pair[0], pair[1]])) else { return };
        if old == new {
            continue;
        }
        for field in own.iter().flatten() {
            update(frame, *field, old, new, outer);
        }
        put(frame, offset, new, outer);
    }
}

/// Writes a word below some checksums.
fn put(frame: &mut [u8], at: usize, new: u16, outer: Outer) {
    let old = be16(frame, at).unwrap_or(new);
    if let Some((field, rest)) = outer.split()
        && old != new
    {
        update(frame, field, old, new, rest);
        return put(frame, at, new, rest);
    }
    if let Some(word) = frame.get_mut(at..at + 2) {
        word.copy_from_slice(&new.to_be_bytes());
    }
}

/// Changes one checksum for a word that goes from `old` to `new`.
fn update(frame: &mut [u8], field: Field, old: u16, new: u16, outer: Outer) {
    let Some(before) = be16(frame, field.at) else { return };
    let sum = fold(u32::from(!before) + u32::from(!old) + u32::from(new));
    let after = if field.udp && !sum == 0 { 0xffff } else { !sum };
    put(frame, field.at, after, outer);
}

/// Makes all checksums of a frame anew, from the innermost to the outermost; those of transports only where all that they
/// cover is there. A datagram without one keeps none.
pub(super) fn renew(frame: &mut [u8], layers: &Layers) {
    for network in layers.networks().iter().rev() {
        if let Some(field) = of_transport(frame, network).filter(|_| is_whole(frame, network)) {
            let (payload, end) = (network.payload, network.end);
            frame[field.at..field.at + 2].fill(0);
            let total = pseudo(frame, network) + sum(&frame[payload..end]);
            let sum = fold(total);
            let value = if field.udp && !sum == 0 { 0xffff } else { !sum };
            frame[field.at..field.at + 2].copy_from_slice(&value.to_be_bytes());
        }
        if let Some(field) = of_header(network) {
            frame[field.at..field.at + 2].fill(0);
            let value = !fold(sum(&frame[network.at..network.at + header_length(frame, network)]));
            frame[field.at..field.at + 2].copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// Where an IP packet ends by its own words, even if the frame ends before.
pub(super) fn said_end(frame: &[u8], network: &Network) -> usize {
    let said = if network.v6 {
        be16(frame, network.at + 4).map(|length| (usize::from(length), network.at + 40))
    } else {
        be16(frame, network.at + 2).map(|length| (usize::from(length), network.at))
    };
    match said {
        Some((length, from)) if length > 0 => from + length,
        _ => network.end,
    }
}

fn is_whole(frame: &[u8], network: &Network) -> bool {
    network.fragment == Fragment::Whole && said_end(frame, network) <= frame.len()
}

fn header_length(frame: &[u8], network: &Network) -> usize {
    usize::from(frame[network.at] & 0x0f) * 4
}

/// The sum over addresses, protocol and length (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn pseudo(frame: &[u8], network: &Network) -> u32 {
    if !covers_addresses(network.protocol) {
        return 0;
    }
    let of = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    let (from, to) = network.addresses(frame);
    let length = (network.end - network.payload) as u32;
    of(from) + of(to) + u32::from(network.protocol) + (length >> 16) + (length & 0xffff)
}

/// Not folded; frames are far too short for it to overflow.
fn sum(bytes: &[u8]) -> u32 {
    let mut pairs = bytes.chunks_exact(2);
    let total: u32 = pairs.by_ref().map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    total + pairs.remainder().first().map_or(0, |last| u32::from(*last) << 8)
}

const fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
