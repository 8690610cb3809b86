//! What an actor can be told. Everything is borrowed from the engine's tables for the length of one call.

use crate::exchange::{Outcome, Request, Times};
use crate::flow::FlowReport;
use crate::ids::{ActorId, ExchangeId, SubjectId, TimerKey, WorkKey};
use crate::message::Body;
use crate::outbox::WorkResult;
use crate::payload::Payload;
use crate::time::{Span, Time};

/// Who sent something, and which of its items it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// The sending actor; `None` for a foreign client.
    pub from: Option<ActorId>,
    /// Which of its streams.
    pub stream: u32,
    /// Traffic class (DSCP), 0 for best effort.
    pub class: u8,
    /// Its number within the stream.
    pub seq: u64,
    /// Longest wait for a worker that the sender allows; zero for none.
    pub limit: Span,
    /// Length of the answer that the sender wants, bytes; 0 leaves it to the receiver.
    pub reply_bytes: u32,
}

impl Head {
    /// The numbers by which a head travels: sender (0 for nobody), stream, class, number, longest wait in ns, and the length
    /// of the answer where one is wanted.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let from = self.from.map_or(0, |actor| u64::from(actor.0));
        let always = [from, u64::from(self.stream), u64::from(self.class), self.seq, self.limit.as_nanos()];
        always.into_iter().chain((self.reply_bytes > 0).then_some(u64::from(self.reply_bytes)))
    }

    /// Reads the five numbers or six, with `between` between them; `None` if they are not, or do not fit.
    pub fn from_numbers(text: &str, between: char) -> Option<Head> {
        let mut fields = text.split(between);
        let head = Head {
            from: Some(ActorId(fields.next()?.parse().ok()?)),
            stream: fields.next()?.parse().ok()?,
            class: fields.next()?.parse().ok()?,
            seq: fields.next()?.parse().ok()?,
            limit: Span::from_nanos(fields.next()?.parse().ok()?),
            reply_bytes: fields.next().map_or(Some(0), |field| field.parse().ok())?,
        };
        fields.next().is_none().then_some(head)
    }
}

/// One thing that happened to an actor.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The run is assembled; traffic begins later, at the time that the controller announces.
    Start,
    /// A timer came due.
    Timer {
        /// Which one.
        key: TimerKey,
        /// What it was set for: `now` in a simulation, at or before `now` in an emulation. Schedules chain from `due`.
        due: Time,
    },
    /// A message on a subscribed subject.
    Message {
        /// Where it was published.
        subject: SubjectId,
        /// What it says.
        body: &'a Body,
    },
    /// A request came in; it wants exactly one `Respond`.
    Request {
        /// Names it in `Respond` and `Work`.
        exchange: ExchangeId,
        /// Who sent it.
        head: &'a Head,
        /// What came.
        payload: &'a Payload,
    },
    /// A datagram came in.
    Datagram {
        /// Who sent it.
        head: &'a Head,
        /// `intended` and `sent` by the sender's clock, `done` = arrival by ours.
        times: &'a Times,
        /// What came.
        payload: &'a Payload,
    },
    /// An attempt ended: exactly one per request.
    Outcome {
        /// What was sent; its token comes back with it. Another attempt is a copy with `attempt + 1` and a later `at`.
        request: &'a Request,
        /// How it ended.
        outcome: &'a Outcome,
    },
    /// Work that the actor asked for is finished.
    WorkDone {
        /// The key it was asked for with.
        key: WorkKey,
        /// What came of it.
        result: &'a WorkResult,
    },
    /// What a flow did in the last second.
    FlowReport(&'a FlowReport),
    /// The engine has begun to drain: outcomes still come, new requests become `Unsent`.
    Stop,
}
