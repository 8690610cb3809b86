//! The two directions between two nodes, and the connections over them.

use rehearsal_core::Span;
use rehearsal_core::plan::Carrier;

use super::Direction;
use super::streams::{Opened, Streams};
use crate::link::Load;
use crate::transport::Window;
use crate::wire::Framing;

/// Connections of one path that are kept open without use. Assumed: more than a node has exchanges under way; the next are
/// closed, as pools do.
const IDLE_MAX: usize = 65_536;

/// The two directions between a sender's node and a receiver's, and the connections over them.
#[derive(Debug)]
pub struct Path {
    /// The link there; `None` if nobody makes one.
    pub up: Option<u32>,
    /// The link back.
    pub down: Option<u32>,
    /// Propagation there.
    pub delay_up: Span,
    /// Propagation back.
    pub delay_down: Span,
    /// Both.
    pub round_trip: Span,
    /// What moves the traffic.
    pub carrier: Carrier,
    /// Whether what goes there has an outcome of its own, and not a receiver's count alone.
    pub exchange: bool,
    /// Whether the receiver answers itself.
    pub answered: bool,
    /// What follows at the other end before a message is handed on: over `mqtt` with QoS 2, PUBREC and PUBREL.
    pub confirm: Span,
    /// Whether what goes there may arrive in another order.
    pub reorder: bool,
    pub(super) keep_alive: bool,
    /// Requests that one connection may have under way; where there are several, those under way, and connections that
    /// were opened for them. What shares a connection does not wait for each other here.
    pub(super) pipeline: u32,
    pub(super) busy: u32,
    pub(super) open: u32,
    /// Round trips of a new connection.
    pub(super) trips: u32,
    /// Open connections that nobody uses, by what they have learnt. They are shared by all senders of the node.
    pub(super) idle: Vec<Window>,
    /// The one connection there, where all share one.
    pub(super) common: Window,
    /// What answers have learnt. A receiver's node does not tell its connections apart: all count as one. Assumed: as
    /// RFC 9040 shares what connections between two hosts have learnt.
    pub(super) back: Window,
    /// The connections there that requests share as streams.
    pub(super) streams: Option<Streams>,
    pub(super) framing: Framing,
    /// By direction: payload and window of the last message, and what it was to its link.
    pub(super) framed: [((u32, u32), Load); 2],
    /// Packets of a message that may be under way at once.
    pub(super) limit: u32,
    /// The rows of its nodes.
    pub(super) ends: (u32, u32),
    pub(super) resumes: bool,
    pub(super) opened: Opened,
}

impl Path {
    /// Whether all that goes over it shares one connection, in its order.
    #[inline]
    pub(super) fn shares(&self) -> bool {
        matches!(self.carrier, Carrier::Nats | Carrier::Mqtt)
    }

    /// A reply is in: the connection can be used again. One that was given up is closed instead.
    #[inline]
    pub fn answered(&mut self, window: Window) {
        if self.streams.is_some() {
            return self.left(window);
        }
        self.busy = self.busy.saturating_sub(1);
        if self.keep_alive && !self.shares() && self.idle.len() < IDLE_MAX {
            self.idle.push(window);
        }
    }

    /// A request was given up, or answered: its stream has ended, where connections are shared.
    pub fn left(&mut self, window: Window) {
        if let (Some(streams), Some(connection)) = (&mut self.streams, window.connection()) {
            streams.leave(connection);
        }
    }

    /// Whether a request to `target` would find a stream; it always would where none are shared.
    pub fn has_stream(&self, target: u32) -> bool {
        self.streams.as_ref().is_none_or(|streams| streams.has_room(target))
    }

    /// A request to `target` waits for a stream; [`Path::next_stream`] hands out the engine's mark.
    pub fn wait_for_stream(&mut self, target: u32, token: u64) {
        if let Some(streams) = &mut self.streams {
            streams.wait(target, token);
        }
    }

    /// The first request to `target` that waits, if there is a stream for it.
    pub fn next_stream(&mut self, target: u32) -> Option<u64> {
        self.streams.as_mut()?.next(target)
    }

    /// What `payload` bytes in that direction are to its link; `window` is that of their connection.
    #[inline]
    pub fn load(&mut self, direction: Direction, payload: u32, window: &Window) -> Load {
        if let Some(streams) = &mut self.streams
            && let Some(shared) = streams.window(window.connection(), direction)
        {
            let packets = shared.packets().min(self.limit);
            return self.framed(direction, payload, packets);
        }
        let window = match direction {
            Direction::Up if self.shares() => &self.common,
            Direction::Up => window,
            Direction::Down => &self.back,
        };
        let packets = window.packets().min(self.limit);
        self.framed(direction, payload, packets)
    }

    /// The load of a message, which mostly is that of the one before in its direction.
    #[inline]
    fn framed(&mut self, direction: Direction, payload: u32, packets: u32) -> Load {
        let known = &mut self.framed[direction as usize];
        if known.0 != (payload, packets) {
            *known = ((payload, packets), self.framing.load(direction, payload, u64::from(packets)));
        }
        known.1
    }

    /// The link in that direction.
    #[inline]
    pub fn link(&self, direction: Direction) -> Option<u32> {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}
