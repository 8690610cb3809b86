//! The `udp` carrier (RFC 768): a socket for each sending node, or for each port of a group with several, and each receiving actor, and our header inside the payload.
//!
//! The first 32 bytes of every payload hold, big-endian:
//!
//! ```text
//!  0  magic 0x52 0x48      2  sort: 1 one way, 2 asks for its echo, 3 an echo      3  class
//!  4  run (16 bits)        6  sequence (48 bits)
//! 12  sending actor (32)  16  stream (32 bits)
//! 20  bits 0–47 of the intended time, ns since the run's creation
//! 26  bits 0–47 of the time it was sent
//! 32  of sorts 2 and 3 alone: the sender's mark of the exchange (64 bits)
//! ```
//!
//! 48 bits of nanoseconds are 78 hours; the receiver finds the upper bits from its own clock. Payloads that are too short
//! for the header are padded on the wire; the books count what the experiment asked for. An echo is the header alone, 40
//! bytes, sent back as soon as the datagram is counted: no actor has a part in it.
//!
//! What a codec sends has a header of RTP instead ([`rtp`]).
//!
//! Datagrams from one port to one address that are due together leave in one call (UDP_SEGMENT of Linux, 64 at most), and a
//! receiver takes what the kernel holds together in one call (UDP_GRO). Each one's header is written, read and checked all the
//! same. Until then what is due waits in a line for each port ([`Waiting`]).

use std::net::SocketAddr;

use rehearsal_core::payload::Rtp;
use rehearsal_core::{ActorId, Head, Time, Times};

mod receive;
mod rtp;
mod sockets;
mod waiting;

pub(crate) use receive::{Reflector, receive};
pub(crate) use sockets::{Origin, Reach, Sent, Sockets, TRAIN_MAX, Way};
pub(crate) use waiting::{Leaving, Waiting};

/// Bytes of the header, and the shortest payload on the wire.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes of a header that asks for its echo, and of an echo.
pub(crate) const ECHO_BYTES: usize = rehearsal_models::wire::ECHO_BYTES as usize;
/// Longest payload of a datagram over IPv4: 65,535 less the headers of IP and UDP.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_507;
const MAGIC: [u8; 2] = *b"RH";

/// What the header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub run: u16,
    pub sort: Sort,
    pub head: Head,
    pub intended: Time,
    pub sent: Time,
}

/// What a datagram is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    OneWay,
    /// Its header is to come back, with this mark.
    Asks(u64),
    /// It has.
    Echo(u64),
}

/// The numbers of 48 bits.
const LOW: u64 = (1 << 48) - 1;

impl Stamp {
    /// Writes the header over the first bytes of a payload.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let (sort, mark) = match self.sort {
            Sort::OneWay => (1, None),
            Sort::Asks(mark) => (2, Some(mark)),
            Sort::Echo(mark) => (3, Some(mark)),
        };
        out[..2].copy_from_slice(&MAGIC);
        out[2] = sort;
        out[3] = self.head.class;
        out[4..6].copy_from_slice(&self.run.to_be_bytes());
        out[6..12].copy_from_slice(&self.head.seq.to_be_bytes()[2..]);
        out[12..16].copy_from_slice(&self.head.from.map_or(u32::MAX, |a| a.0).to_be_bytes());
        out[16..20].copy_from_slice(&self.head.stream.to_be_bytes());
        out[20..26].copy_from_slice(&self.intended.as_nanos().to_be_bytes()[2..]);
        out[26..32].copy_from_slice(&self.sent.as_nanos().to_be_bytes()[2..]);
        if let Some(mark) = mark {
            out[32..40].copy_from_slice(&mark.to_be_bytes());
        }
    }

    /// Writes it as RTP if its payload is a codec's and its numbers have room there.
    pub(crate) fn write_as(&self, media: Option<Rtp>, out: &mut [u8]) {
        if !media.is_some_and(|media| rtp::write(self, media, out)) {
            self.write(out);
        }
    }

    /// Reads a header; `None` if it is none of this run.
    #[inline]
    pub(crate) fn read(bytes: &[u8], run: u16, now: Time) -> Option<Stamp> {
        let rest = bytes.get(HEADER_BYTES..)?;
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        if rtp::may_be(bytes[0]) {
            return rtp::read(bytes, run, now);
        }
        if bytes[..2] != MAGIC || bytes[4..6] != run.to_be_bytes() {
            return None;
        }
        let mark = || rest.first_chunk().map(|mark| u64::from_be_bytes(*mark));
        let sort = match bytes[2] {
            1 => Sort::OneWay,
            2 => Sort::Asks(mark()?),
            3 => Sort::Echo(mark()?),
            _ => return None,
        };
        let word = |at: usize| bytes[at..at + 4].iter().fold(0_u32, |n, b| n << 8 | u32::from(*b));
        let long = |at: usize| bytes[at..at + 6].iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
        let head =
            Head { from: Some(ActorId(word(12))), stream: word(16), class: bytes[3], seq: long(6), ..Head::default() };
        let (intended, sent) = (near(long(20), now), near(long(26), now));
        Some(Stamp { run, sort, head, intended, sent })
    }

    /// The moments of a datagram that arrived `now`.
    pub(crate) fn times(&self, now: Time) -> Times {
        Times { intended: self.intended, ready: self.sent, sent: self.sent, done: now }
    }
}

/// The time nearest to `now` with these low bits.
fn near(low: u64, now: Time) -> Time {
    let now = now.as_nanos();
    let base = (now & !LOW) | low;
    let (below, above) = (base.saturating_sub(LOW + 1), base.saturating_add(LOW + 1));
    let nearest = [base, below, above].into_iter().min_by_key(|t| t.abs_diff(now)).unwrap_or(base);
    Time::from_nanos(nearest)
}

/// How a datagram gets there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    Address(SocketAddr),
    Broker(usize),
    /// The number of the actor that takes whole frames.
    Frames(u32),
}

/// Where a subject is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Its address, the number of the connection to the broker before it, or its own.
    pub by: By,
    /// Whether this process counts what arrives there.
    pub here: bool,
    /// Whether nobody does, because it is outside of the experiment.
    pub outside: bool,
    /// Whether datagrams leave one by one: a queue of the kernel's that imposes a link takes a train for one packet.
    pub singly: bool,
}

#[cfg(test)]
mod tests {
    use rehearsal_core::Span;

    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let hours = |h: u64| Time::from_nanos(h * 3_600_000_000_000);
        for base in [hours(0), hours(77), hours(500)] {
            let head = Head { from: Some(ActorId(70_000)), stream: 99_999, class: 46, seq: 1 << 40, ..Head::default() };
            let sent = base + Span::from_millis(3);
            for sort in [Sort::OneWay, Sort::Asks(u64::MAX - 5), Sort::Echo(7)] {
                let stamp = Stamp { run: 77, sort, head, intended: base, sent };
                let mut bytes = [0; ECHO_BYTES];
                stamp.write(&mut bytes);
                let now = base + Span::from_secs(2);
                let used = if sort == Sort::OneWay { HEADER_BYTES } else { ECHO_BYTES };
                assert_eq!(Stamp::read(&bytes[..used], 77, now), Some(stamp), "after {base}");
                assert_eq!(Stamp::read(&bytes, 78, now), None, "another run");
                assert_eq!(Stamp::read(&bytes[..used - 1], 77, now), None, "too short");
                bytes[2] = 4;
                assert_eq!(Stamp::read(&bytes, 77, now), None, "of another sort");
            }
        }
    }
}
