//! What tells one frame from another: a number from all of its bytes. Equal frames have equal numbers; different ones have
//! different ones but for one in 2⁶⁴.

use crate::frame::{Fragment, Layers};
use crate::sys::tap::Arrival;

/// Odd numbers without a pattern. Source: the first digits of π, in hexadecimal.
const PI: [u64; 4] = [0x2438_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];
/// What Ethernet pads frames to, without their check sequence. Source: IEEE 802.3.
const SHORTEST: usize = 60;
/// Bytes of two addresses.
const ADDRESSES: usize = 12;

/// That of a frame as it is sent.
pub fn key(frame: &[u8]) -> u64 {
    match frame.get(ADDRESSES..ADDRESSES + 4) {
        // the kernel takes the outer tag out of what it shows
        Some([0x81, 0x00, high, low] | [0x88, 0xa8, high, low]) => {
            combined(&frame[..ADDRESSES], &frame[ADDRESSES + 4..], Some(u16::from_be_bytes([*high, *low])))
        }
        _ => plain(frame),
    }
}

/// That of a frame which a driver padded, when it is so short.
pub fn key_padded(frame: &[u8]) -> Option<u64> {
    let mut padded = [0; SHORTEST];
    padded.get_mut(..frame.len())?.copy_from_slice(frame);
    (frame.len() < SHORTEST).then(|| key(&padded))
}

/// That of a frame as it arrived.
pub fn of_arrival(arrival: &Arrival<'_>) -> u64 {
    match arrival.tag {
        Some(tag) if arrival.bytes.len() >= ADDRESSES => {
            combined(&arrival.bytes[..ADDRESSES], &arrival.bytes[ADDRESSES..], Some(tag))
        }
        _ => key(arrival.bytes),
    }
}

/// That of a frame's stream: of its innermost IP header's addresses, protocol and ports, the same for both directions. `None`
/// without IP, and for a later piece of a packet, which has no ports.
pub fn stream(frame: &[u8]) -> Option<u64> {
    let layers = Layers::of(frame);
    let network = layers.innermost().filter(|network| network.fragment != Fragment::Later)?;
    let ports = network.ports(frame);
    let (at, length) = if network.v6 { (network.at + 8, 16) } else { (network.at + 12, 4) };
    let end = |at: usize, port: Option<u16>| {
        let port = port.map_or(PI[2], |port| PI[0] ^ u64::from(port));
        Some(hash(frame.get(at..at + length)?, port))
    };
    let source = end(at, ports.map(|ports| ports.source))?;
    let destination = end(at + length, ports.map(|ports| ports.destination))?;
    let (low, high) = (source.min(destination), source.max(destination));
    Some(fold(low ^ PI[1] ^ u64::from(network.protocol), high ^ PI[3]))
}

fn plain(frame: &[u8]) -> u64 {
    let (addresses, rest) = frame.split_at(frame.len().min(ADDRESSES));
    combined(addresses, rest, None)
}

fn combined(addresses: &[u8], rest: &[u8], tag: Option<u16>) -> u64 {
    let seed = tag.map_or(PI[0], |tag| fold(PI[1] ^ u64::from(tag), PI[2]));
    hash(rest, hash(addresses, seed))
}

/// A number from some bytes and another number.
pub fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut state = fold(seed ^ PI[3], bytes.len() as u64 ^ PI[1]);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), PI[2]);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(state ^ u64::from_le_bytes(last), PI[1])
}

/// Both halves of a product, put together.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{datagram, ethernet, framed, ip, segment};

    #[test]
    fn a_stream_is_its_five_tuple_in_both_directions() {
        let [a, b] = [("10.0.0.1", 7), ("10.0.0.2", 53)];
        let one = stream(&datagram(a, b, b"question"));
        assert!(one.is_some());
        assert_eq!(one, stream(&datagram(b, a, b"and answer")));
        let others = [
            datagram(("10.0.0.3", 7), b, b""),
            datagram(("10.0.0.1", 8), b, b""),
            datagram(("10.0.0.1", 53), ("10.0.0.2", 7), b""),
            segment(a, b, 2, b""),
            datagram(("fd00::1", 7), ("fd00::2", 53), b""),
            framed(&ip(1, "10.0.0.1", "10.0.0.2", &[8, 0, 0, 0, 0, 1, 0, 1])),
        ];
        let all: BTreeSet<_> = others.iter().map(|frame| stream(frame)).chain([one]).collect();
        assert_eq!((all.len(), all.contains(&None)), (7, false));
        assert_eq!(stream(&ethernet(0x0806, &[0; 28])), None);
    }

    #[test]
    fn every_bit_matters() {
        let frame: Vec<u8> = (0..70).collect();
        let mut seen = BTreeSet::from([key(&frame)]);
        for bit in 0..frame.len() * 8 {
            let mut other = frame.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(key(&other)), "bit {bit}");
        }
        assert!(seen.insert(key(&frame[..69])));
        assert!(seen.insert(key(&[&frame[..], &[0]].concat())), "an end of zeros is not nothing");
    }

    #[test]
    fn a_frame_is_known_again_without_its_tag_and_with_its_padding() {
        let tagged: Vec<u8> = [&[7; 12][..], &[0x81, 0, 0x20, 5, 8, 0], &[9; 50]].concat();
        let bare: Vec<u8> = [&tagged[..12], &tagged[16..]].concat();
        let arrival = |tag| Arrival { at: 0, bytes: &bare, len: bare.len() as u32, tag };
        assert_eq!(of_arrival(&arrival(Some(0x2005))), key(&tagged));
        assert_ne!(of_arrival(&arrival(Some(0x2006))), key(&tagged));
        assert_ne!(of_arrival(&arrival(None)), key(&tagged));
        let short = [1u8; 42];
        assert_eq!(key_padded(&short), Some(key(&[&short[..], &[0; 18]].concat())));
        assert_eq!((key_padded(&[1; 60]), key_padded(&[1; 61])), (None, None));
    }
}
