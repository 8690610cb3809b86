//! What is offered to a link, and what becomes of it.

use rehearsal_core::Time;
use rehearsal_core::dscp::Dscp;

use crate::link::Load;

/// Which way something goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From sender to receiver.
    Up,
    /// Back.
    Down,
}

/// What becomes of something that is offered to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It comes out at this time.
    Out(Time),
    /// It is lost: a datagram, or a message that its stream gave up.
    Lost,
    /// It found no room; a stream tries again.
    Full,
    /// It waits; [`Links::decided`] will tell.
    Queued,
}

/// Something that is offered to a link.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The path that it takes.
    pub path: u32,
    /// Which way.
    pub direction: Direction,
    /// What it is to the link.
    pub load: Load,
    /// Its class.
    pub dscp: Dscp,
    /// Whether it was offered before.
    pub again: bool,
    /// The engine's mark, for [`Links::decided`].
    pub token: u64,
}
