//! Connections that requests share as streams, over `http2` and `http3`: which one a request is on, and who waits for one.
//!
//! Within a connection there is no order among requests at the level of HTTP. Over TCP (`http2`) what comes behind a lost
//! packet waits for its retransmission, whichever stream it belongs to; over QUIC (`http3`) only the message that lost it
//! waits (RFC 9000 §2.2). What a connection has learnt of the path holds for all its streams.
//!
//! A stream carries no more than its receiver's window at a time: a message beyond it costs a round trip for each window
//! (RFC 9113 §5.2, RFC 9000 §4). That streams take from one window of their connection, and share its congestion window, is
//! not modelled: each message is sent as if it were alone.

use std::collections::{BTreeMap, VecDeque};

use rehearsal_core::plan::{Carrier, Connection, LinkSpec};
use rehearsal_core::{Span, Time};

use super::Direction;
use crate::transport::{NO_LIMIT, Window};
use crate::wire::SEGMENT_BYTES;

/// The connections of a path that requests share.
#[derive(Debug)]
pub(super) struct Streams {
    each: u32,
    most: u32,
    /// Whether a connection keeps the order of its bytes.
    ordered: bool,
    connections: Vec<Shared>,
    targets: BTreeMap<u32, Target>,
}

#[derive(Debug, Default)]
struct Shared {
    up: Window,
    down: Window,
    streams: u32,
    /// When its handshake is done.
    ready: Time,
}

/// Of one receiving actor.
#[derive(Debug, Default)]
struct Target {
    connections: Vec<u32>,
    /// Who waits for a stream, by the engine's marks.
    waiting: VecDeque<u64>,
}

/// A place for a request.
pub(super) enum Place {
    /// On this connection, once it is open.
    On(u32, Time),
    /// On a new one.
    New,
}

impl Streams {
    /// Of a link, if its requests share connections.
    pub(super) fn of(link: &LinkSpec) -> Option<Streams> {
        let shares = matches!(link.carrier, Carrier::Http2 | Carrier::Http3);
        (shares && link.connection == Connection::KeepAlive).then(|| Streams {
            each: link.streams(),
            most: link.connections(),
            ordered: link.carrier == Carrier::Http2,
            connections: Vec::new(),
            targets: BTreeMap::new(),
        })
    }

    /// A place for a request to a target: on the connection with the fewest streams, or on a new one when all are full and
    /// there may be more. Where there may not, on the least full one.
    pub(super) fn place(&mut self, target: u32) -> Place {
        let target = self.targets.entry(target).or_default();
        let least = target.connections.iter().min_by_key(|at| self.connections[**at as usize].streams);
        let room = (target.connections.len() as u64) < u64::from(self.most);
        match least {
            Some(at) if !room || self.connections[*at as usize].streams < self.each => {
                let connection = &mut self.connections[*at as usize];
                connection.streams += 1;
                Place::On(*at, connection.ready)
            }
            _ => Place::New,
        }
    }

    /// A new connection to a target, open at `ready`, with a request on it.
    pub(super) fn add(&mut self, target: u32, ready: Time) -> u32 {
        let at = self.connections.len() as u32;
        self.connections.push(Shared { streams: 1, ready, ..Shared::default() });
        self.targets.entry(target).or_default().connections.push(at);
        at
    }

    /// Whether a request to a target would find a stream.
    pub(super) fn has_room(&self, target: u32) -> bool {
        let Some(target) = self.targets.get(&target) else { return true };
        (target.connections.len() as u64) < u64::from(self.most)
            || target.connections.iter().any(|at| self.connections[*at as usize].streams < self.each)
    }

    /// A request waits for a stream.
    pub(super) fn wait(&mut self, target: u32, token: u64) {
        self.targets.entry(target).or_default().waiting.push_back(token);
    }

    /// The first that waits, if there is a stream for it.
    pub(super) fn next(&mut self, target: u32) -> Option<u64> {
        if !self.has_room(target) {
            return None;
        }
        self.targets.get_mut(&target)?.waiting.pop_front()
    }

    /// A request's stream has ended.
    pub(super) fn leave(&mut self, connection: u32) {
        if let Some(connection) = self.connections.get_mut(connection as usize) {
            connection.streams = connection.streams.saturating_sub(1);
        }
    }

    /// What a message's connection has learnt in a direction. An answer whose connection is not known goes over the only
    /// one, if there may be one.
    pub(super) fn window(&mut self, connection: Option<u32>, direction: Direction) -> Option<&mut Window> {
        let at = match connection {
            Some(at) => at as usize,
            None if self.most == 1 => 0,
            None => return None,
        };
        if self.connections.is_empty() && at == 0 {
            self.connections.push(Shared::default());
        }
        let shared = self.connections.get_mut(at)?;
        Some(if direction == Direction::Up { &mut shared.up } else { &mut shared.down })
    }

    /// Whether a connection keeps the order of its bytes.
    pub(super) fn is_ordered(&self) -> bool {
        self.ordered
    }
}

/// Packets that the windows of a link let through at once.
pub(super) fn limit(link: &LinkSpec) -> u32 {
    if !matches!(link.carrier, Carrier::Http2 | Carrier::Http3) {
        return NO_LIMIT;
    }
    let (stream, connection) = link.windows();
    u32::try_from(stream.0.min(connection.0).div_ceil(SEGMENT_BYTES)).unwrap_or(NO_LIMIT).max(1)
}

/// Connections of one path that were opened: all, and those whose handshake was by a ticket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opened {
    pub(super) all: u64,
    pub(super) resumed: u64,
    /// When the first ticket is there.
    ticket: Option<Time>,
}

impl Opened {
    /// Whether there is a ticket by now.
    pub(super) fn has_ticket(&self, now: Time) -> bool {
        self.ticket.is_some_and(|at| at <= now)
    }

    /// One more, opened from `now` on in `set_up`; tickets are used if `resumes`.
    pub(super) fn add(&mut self, now: Time, set_up: Span, resumes: bool) {
        self.all += 1;
        self.resumed += u64::from(resumes && self.has_ticket(now));
        self.ticket.get_or_insert(now.saturating_add(set_up));
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::units::ByteSize;

    use super::*;

    fn streams(each: u32, most: u32) -> Streams {
        let (streams, connections) = (Some(each), Some(most));
        let link = LinkSpec { carrier: Carrier::Http2, streams, connections, ..LinkSpec::default() };
        Streams::of(&link).expect("http2 shares connections")
    }

    fn enter(all: &mut Streams, target: u32) -> u32 {
        match all.place(target) {
            Place::On(at, _) => at,
            Place::New => all.add(target, Time::ZERO),
        }
    }

    #[test]
    fn a_connection_is_opened_when_all_are_full() {
        let mut all = streams(2, 2);
        assert_eq!([7; 4].map(|target| enter(&mut all, target)), [0, 0, 1, 1]);
        assert!(!all.has_room(7) && all.has_room(8));
        all.wait(7, 40);
        assert_eq!(all.next(7), None);
        all.leave(1);
        assert_eq!((all.next(7), enter(&mut all, 7), all.next(7)), (Some(40), 1, None));
        assert_eq!(enter(&mut all, 8), 2, "another target has connections of its own");
    }

    #[test]
    fn windows_are_whole_packets() {
        let link =
            |bytes| LinkSpec { carrier: Carrier::Http3, stream_window: Some(ByteSize(bytes)), ..LinkSpec::default() };
        // 65,535 bytes of the connection are 46 segments of 1448
        assert_eq!([1, 1448, 1449, 1_000_000].map(|bytes| limit(&link(bytes))), [1, 1, 2, 46]);
        assert_eq!(limit(&LinkSpec::default()), NO_LIMIT);
    }

    #[test]
    fn the_first_connection_brings_the_ticket() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut opened = Opened::default();
        for (now, resumes) in [(0, true), (10, true), (20, true), (30, false)] {
            opened.add(ms(now), Span::from_millis(20), resumes);
        }
        assert_eq!((opened.all, opened.resumed), (4, 1), "the second came before the ticket");
    }
}
