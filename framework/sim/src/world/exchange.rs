//! One attempt as both ends and the links between them see it.

use rehearsal_core::event::Head;
use rehearsal_core::{ActorId, Outcome, Request, Span, Status, Time, Times};
use rehearsal_models::transport::Window;

/// One attempt, from the request until both ends are done with it: only then its slot is free.
#[derive(Debug)]
pub(super) struct Exchange {
    pub request: Request,
    pub outcome: Outcome,
    /// When it reached the receiver.
    pub arrived: Time,
    pub from: u32,
    pub to: u32,
    pub path: u32,
    /// What its connection has learnt.
    pub window: Window,
    /// Core time that it took to send it.
    pub cost: Span,
    /// Retransmissions of what is under way now.
    pub tries: u8,
    pub stage: Stage,
    /// It has a connection, or a stream of one.
    pub taken: bool,
    /// It is in the books as generated.
    pub generated: bool,
    /// It holds a place in its stream's gate.
    pub entered: bool,
    /// Its outcome is known; whatever comes later is too late.
    pub decided: bool,
    /// The sender has been told.
    pub told: bool,
    /// The receiver has it and owes an answer.
    here: bool,
    /// The receiver has answered, or will never see it.
    pub answered: bool,
    /// The request or the reply is on its way: some event holds the slot.
    pub moving: bool,
    /// Both ends count a connection for it.
    pub connected: bool,
    /// The receiver's node holds its payload.
    pub held: bool,
    /// Its answer was not given at once, and costs what that costs.
    pub paused: bool,
}

/// How far an attempt has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Its time has not come.
    Planned,
    /// Its stream's gate is full.
    Waiting,
    /// The sender's cores are at work on it.
    Leaving,
    /// It was handed to the carrier.
    Sent,
}

impl Exchange {
    /// What `from` wants to send at `at`.
    #[inline]
    pub(super) fn planned(from: u32, request: &Request, at: Time) -> Self {
        let times = Times { intended: request.intended, ready: at, sent: at, done: at };
        let again = request.attempt > 0;
        Exchange {
            request: Request { at, ..*request },
            outcome: Outcome { status: Status::Unsent, times, reply_bytes: 0 },
            arrived: Time::ZERO,
            from,
            to: u32::MAX,
            path: u32::MAX,
            window: Window::default(),
            cost: Span::ZERO,
            tries: 0,
            stage: Stage::Planned,
            taken: false,
            generated: again,
            entered: again,
            decided: false,
            told: false,
            here: false,
            answered: false,
            moving: false,
            connected: false,
            held: false,
            paused: false,
        }
    }

    /// What the receiver may know of it.
    #[inline]
    pub(super) fn head(&self) -> Head {
        let Request { stream, seq, limit, reply_bytes, .. } = self.request;
        Head { from: Some(ActorId(self.from)), stream, class: 0, seq, limit, reply_bytes }
    }

    /// It reaches the receiver; its payload's bytes.
    #[inline]
    pub(super) fn reach(&mut self, now: Time) -> u32 {
        (self.moving, self.here, self.arrived) = (false, true, now);
        self.request.payload.bytes
    }

    /// Whether `actor` has it and has not answered.
    pub(super) fn awaits(&self, actor: u32) -> bool {
        self.to == actor && self.here && !self.answered
    }
}
