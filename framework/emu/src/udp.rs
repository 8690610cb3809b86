//! The `udp` carrier (RFC 768): a socket for each sending node and each receiving actor, and our header inside the payload.
//!
//! The first 32 bytes of every payload hold, big-endian:
//!
//! ```text
//!  0  magic 0x52 0x48      2  version 1     3  class         4  run (16 bits)
//!  6  sequence (48 bits)  12  sending actor (32 bits)       16  stream (32 bits)
//! 20  bits 0–47 of the intended time, ns since the run's creation
//! 26  bits 0–47 of the time it was sent
//! ```
//!
//! 48 bits of nanoseconds are 78 hours; the receiver finds the upper bits from its own clock. Payloads shorter than 32
//! bytes are padded to 32 on the wire; the books count what the experiment asked for.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use bytes::BytesMut;
use rehearsal_core::{ActorId, Head, Span, SubjectId, Time, Times};
use tokio::net::UdpSocket;

use crate::shard::Core;

/// Bytes of the header, and the shortest payload on the wire.
pub(crate) const HEADER_BYTES: usize = 32;
/// Longest payload of a datagram over IPv4: 65,535 less the headers of IP and UDP.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_507;
const MAGIC: [u8; 2] = *b"RH";
const VERSION: u8 = 1;
/// Datagrams that one receiver takes in before other tasks have their turn.
const BATCH: usize = 64;

/// What the header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub run: u16,
    pub head: Head,
    pub intended: Time,
    pub sent: Time,
}

/// The numbers of 48 bits.
const LOW: u64 = (1 << 48) - 1;

impl Stamp {
    /// Writes the header over the first bytes of a payload.
    pub(crate) fn write(&self, out: &mut [u8]) {
        out[..2].copy_from_slice(&MAGIC);
        out[2] = VERSION;
        out[3] = self.head.class;
        out[4..6].copy_from_slice(&self.run.to_be_bytes());
        out[6..12].copy_from_slice(&self.head.seq.to_be_bytes()[2..]);
        out[12..16].copy_from_slice(&self.head.from.map_or(u32::MAX, |a| a.0).to_be_bytes());
        out[16..20].copy_from_slice(&self.head.stream.to_be_bytes());
        out[20..26].copy_from_slice(&self.intended.as_nanos().to_be_bytes()[2..]);
        out[26..32].copy_from_slice(&self.sent.as_nanos().to_be_bytes()[2..]);
    }

    /// Reads a header; `None` if it is none of this run.
    pub(crate) fn read(bytes: &[u8], run: u16, now: Time) -> Option<Stamp> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        if bytes[..2] != MAGIC || bytes[2] != VERSION || bytes[4..6] != run.to_be_bytes() {
            return None;
        }
        let word = |at: usize| bytes[at..at + 4].iter().fold(0_u32, |n, b| n << 8 | u32::from(*b));
        let long = |at: usize| bytes[at..at + 6].iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
        let head =
            Head { from: Some(ActorId(word(12))), stream: word(16), class: bytes[3], seq: long(6), limit: Span::ZERO };
        let (intended, sent) = (near(long(20), now), near(long(26), now));
        Some(Stamp { run, head, intended, sent })
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

/// Where a subject is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub address: SocketAddr,
    /// Whether this process counts what arrives there.
    pub here: bool,
}

/// The sending sockets of a shard, one for each node and address family.
#[derive(Default)]
pub(crate) struct Sockets {
    by_node: BTreeMap<(usize, bool), std::net::UdpSocket>,
    known: BTreeMap<(usize, SubjectId), Option<Target>>,
    buffer: BytesMut,
    /// Datagrams that this host's own buffers had no room for; they count as sent, and are lost.
    pub(crate) refused: u64,
}

impl Sockets {
    /// Where a subject is served over this carrier, as seen from a node; found once for each pair.
    pub(crate) fn target(
        &mut self,
        node: usize,
        to: SubjectId,
        find: impl FnOnce() -> Option<Target>,
    ) -> Option<Target> {
        *self.known.entry((node, to)).or_insert_with(find)
    }

    /// An empty buffer for the next datagram; it comes back with [`Sockets::send`].
    pub(crate) fn buffer(&mut self) -> BytesMut {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer
    }

    /// Sends a datagram from a node. `stamp` is written over its first bytes.
    ///
    /// # Errors
    /// When there is no descriptor left for the node's socket.
    pub(crate) fn send(
        &mut self,
        node: usize,
        to: SocketAddr,
        stamp: &Stamp,
        mut datagram: BytesMut,
    ) -> io::Result<()> {
        datagram.resize(datagram.len().clamp(HEADER_BYTES, DATAGRAM_BYTES_MAX), 0);
        stamp.write(&mut datagram);
        let socket = match self.by_node.entry((node, to.is_ipv4())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(bound(to)?),
        };
        if socket.send_to(&datagram, to).is_err() {
            // no room in this host's buffers, or refused by the host itself: lost like any datagram on its way
            self.refused += 1;
        }
        self.buffer = datagram;
        Ok(())
    }
}

/// A socket that never waits. It needs no event loop: what cannot be sent now is lost, as on any other hop.
fn bound(to: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Takes in the datagrams of a receiving actor.
pub(crate) async fn receive(shard: Core, socket: UdpSocket, actor: u32) {
    let mut buffer = vec![0_u8; DATAGRAM_BYTES_MAX];
    let turn = Cell::new(0);
    let shard = Rc::clone(&shard);
    while socket.readable().await.is_ok() {
        loop {
            match socket.try_recv(&mut buffer) {
                Ok(bytes) => {
                    shard.borrow_mut().datagram_in(actor, &buffer[..bytes]);
                    turn.set((turn.get() + 1) % BATCH);
                    if turn.get() == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                // an earlier datagram of ours that nobody took: no news for a receiver
                Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
    }
}

/// The moments of a datagram that arrived `now`.
pub(crate) fn times(stamp: &Stamp, now: Time) -> Times {
    Times { intended: stamp.intended, ready: stamp.sent, sent: stamp.sent, done: now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let hours = |h: u64| Time::from_nanos(h * 3_600_000_000_000);
        for base in [hours(0), hours(77), hours(500)] {
            let head = Head { from: Some(ActorId(70_000)), stream: 99_999, class: 46, seq: 1 << 40, limit: Span::ZERO };
            let sent = base + Span::from_millis(3);
            let stamp = Stamp { run: 77, head, intended: base, sent };
            let mut bytes = [0; HEADER_BYTES];
            stamp.write(&mut bytes);
            let now = base + Span::from_secs(2);
            assert_eq!(Stamp::read(&bytes, 77, now), Some(stamp), "after {base}");
            assert_eq!(Stamp::read(&bytes, 78, now), None, "another run");
            assert_eq!(Stamp::read(&bytes[..31], 77, now), None, "too short");
        }
    }
}
