//! The header of speech: RTP (RFC 3550), and behind it, where its samples would be, what the books need.
//!
//! ```text
//!  0  version 2, no padding, no extension, no sources     1  payload type (RFC 3551), no marker
//!  2  sequence, its low 16 bits                           4  timestamp: when it was intended, by the codec's clock
//!  8  SSRC: follows from run, actor and stream
//! 12  run (16 bits)           14  sequence, bits 16–39    17  sending actor (24)     20  stream (24 bits)
//! 23  bits 0–47 of the time it was sent                   29  how much later than intended, in 256 ns (24 bits)
//! ```
//!
//! So the smallest packet of a codec, 20 B of G.729 behind its header, has room for all of it.

use rehearsal_core::payload::Rtp;
use rehearsal_core::{ActorId, Head, Span, Time};

use super::{HEADER_BYTES, Sort, Stamp, near};

/// Numbers of actors and streams, and those of packets, that there is room for.
const NUMBER_MAX: u32 = 1 << 24;
const SEQ_MAX: u64 = 1 << 40;
/// The unit of lateness, ns, and the longest that is told.
const UNIT_NS: u64 = 256;
const LATE_MAX: u64 = (1 << 24) - 1;
/// Version 2 in the upper two bits.
const VERSION: u8 = 0x80;

/// Whether bytes may be RTP rather than a header of ours.
#[inline]
pub(super) fn may_be(first: u8) -> bool {
    first & 0xC0 == VERSION
}

/// Writes the header; false if its numbers have no room in it.
pub(super) fn write(stamp: &Stamp, media: Rtp, out: &mut [u8]) -> bool {
    let Head { from, stream, class, seq, .. } = stamp.head;
    let from = from.map_or(u32::MAX, |actor| actor.0);
    let room = from < NUMBER_MAX && stream < NUMBER_MAX && seq < SEQ_MAX && class == 0 && stamp.sort == Sort::OneWay;
    if !room || out.len() < HEADER_BYTES {
        return false;
    }
    let source = source(stamp.run, from, stream);
    let clock = u128::from(stamp.intended.as_nanos()) * u128::from(media.clock_hz) / 1_000_000_000;
    // it begins anywhere (RFC 3550, 5.1), and for each source elsewhere
    let timestamp = (clock as u32).wrapping_add(source.rotate_left(16));
    let late = (stamp.sent.since(stamp.intended).as_nanos() / UNIT_NS).min(LATE_MAX);
    out[0] = VERSION;
    out[1] = media.payload_type & 0x7F;
    out[2..4].copy_from_slice(&(seq as u16).to_be_bytes());
    out[4..8].copy_from_slice(&timestamp.to_be_bytes());
    out[8..12].copy_from_slice(&source.to_be_bytes());
    out[12..14].copy_from_slice(&stamp.run.to_be_bytes());
    out[14..17].copy_from_slice(&((seq >> 16) as u32).to_be_bytes()[1..]);
    out[17..20].copy_from_slice(&from.to_be_bytes()[1..]);
    out[20..23].copy_from_slice(&stream.to_be_bytes()[1..]);
    out[23..29].copy_from_slice(&stamp.sent.as_nanos().to_be_bytes()[2..]);
    out[29..32].copy_from_slice(&(late as u32).to_be_bytes()[1..]);
    true
}

/// Reads a header; `None` if it is none of this run.
pub(super) fn read(bytes: &[u8; HEADER_BYTES], run: u16, now: Time) -> Option<Stamp> {
    let number = |at: usize, count: usize| bytes[at..at + count].iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
    let (from, stream) = (number(17, 3) as u32, number(20, 3) as u32);
    if number(12, 2) != u64::from(run) || number(8, 4) != u64::from(source(run, from, stream)) {
        return None;
    }
    let seq = number(14, 3) << 16 | number(2, 2);
    let sent = near(number(23, 6), now);
    let intended = sent.as_nanos().saturating_sub(Span::from_nanos(number(29, 3) * UNIT_NS).as_nanos());
    let head = Head { from: Some(ActorId(from)), stream, class: 0, seq, ..Head::default() };
    Some(Stamp { run, sort: Sort::OneWay, head, intended: Time::from_nanos(intended), sent })
}

/// The synchronisation source of a stream.
fn source(run: u16, from: u32, stream: u32) -> u32 {
    let mixed = u64::from(run) << 48 ^ u64::from(from) << 24 ^ u64::from(stream);
    (mixed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEECH: Rtp = Rtp { payload_type: 18, clock_hz: 8000 };

    fn stamp(seq: u64, intended: Time, late: Span) -> Stamp {
        let head = Head { from: Some(ActorId(70_000)), stream: 99_999, class: 0, seq, ..Head::default() };
        Stamp { run: 77, sort: Sort::OneWay, head, intended, sent: intended + late }
    }

    #[test]
    fn speech_is_read_as_it_was_written() {
        let now = Time::from_nanos(500 * 3_600_000_000_000);
        let written = stamp(1 << 33 | 5, now, Span::from_nanos(3 * UNIT_NS));
        let mut bytes = [0; HEADER_BYTES];
        assert!(write(&written, SPEECH, &mut bytes) && may_be(bytes[0]) && bytes[1] == 18);
        let read_at = now + Span::from_secs(2);
        assert_eq!(Stamp::read(&bytes, 77, read_at), Some(written));
        assert_eq!(Stamp::read(&bytes, 78, read_at), None, "another run");
        assert_eq!(Stamp::read(&bytes[..31], 77, read_at), None, "too short");
        bytes[9] ^= 1;
        assert_eq!(Stamp::read(&bytes, 77, read_at), None, "another source");
        // what is later than there is room for is sent all the same
        let late = stamp(1, now, Span::from_secs(9));
        assert!(write(&late, SPEECH, &mut bytes));
        let read = Stamp::read(&bytes, 77, read_at + Span::from_secs(9)).expect("it is one of ours");
        assert_eq!((read.sent, read.sent.since(read.intended).as_nanos()), (late.sent, LATE_MAX * UNIT_NS));
    }

    #[test]
    fn numbers_go_up_as_listeners_expect_and_what_has_no_room_is_none() {
        let mut bytes = [0; HEADER_BYTES];
        let mut field = |seq: u64, at: u64| {
            let intended = Time::from_nanos(1_000_123_456 + at * 20_000_000);
            assert!(write(&stamp(seq, intended, Span::ZERO), SPEECH, &mut bytes));
            (u16::from_be_bytes([bytes[2], bytes[3]]), u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]))
        };
        let (first, second, later) = (field(65_535, 0), field(65_536, 1), field(65_537, 51));
        assert_eq!((first.0, second.0, later.0), (65_535, 0, 1));
        assert_eq!(second.1.wrapping_sub(first.1), 160, "20 ms at 8 kHz");
        assert_eq!(later.1.wrapping_sub(second.1), 50 * 160, "a second of silence");
        let mut far = stamp(1, Time::ZERO, Span::ZERO);
        far.head.stream = NUMBER_MAX;
        assert!(!write(&far, SPEECH, &mut [0; HEADER_BYTES]));
    }
}
