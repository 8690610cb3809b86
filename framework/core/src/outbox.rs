//! What an actor can ask for, and the buffer it writes its wishes into.

use crate::exchange::{Datagram, Reply, Request};
use crate::flow::{FlowSet, FlowSpec};
use crate::ids::{ExchangeId, FlowId, MediaId, MetricId, SubjectId, TimerKey, Token, WorkKey};
use crate::message::{Body, Message};
use crate::payload::Payload;
use crate::time::{Span, Time};

/// Something that takes time, and ends with [`crate::Event::WorkDone`].
#[derive(Clone, PartialEq, Debug)]
pub enum Work {
    /// Takes time and uses no core.
    Pause(Span),
    /// Checks what came in with a request: form and size always, a full decode on request; then pauses and computes.
    Analyze {
        /// The request; the engine holds its bytes until it has looked at them, so a request is analysed once.
        exchange: ExchangeId,
        /// Decode the whole picture or document, not only its form.
        decode: bool,
        /// Wait this long, without using a core.
        pause: Span,
        /// Compute this long on one core.
        spin: Span,
    },
    /// Decodes the next frame of a clip and encodes it within the clip's bounds.
    Encode {
        /// The clip.
        media: MediaId,
        /// Which frame, counted on beyond the clip's end.
        frame: u64,
    },
    /// Hands a record to the run's sink (see [`crate::sink::Sink`]).
    Store(Body),
}

/// What came of some work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkResult {
    /// It was done.
    Done,
    /// What came in is not what it should be, or the record could not be stored.
    Invalid,
    /// A payload was made.
    Produced(Payload),
}

/// One wish of an actor.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Sets a timer; one that is pending moves.
    SetTimer {
        /// Which one.
        key: TimerKey,
        /// When.
        at: Time,
    },
    /// Cancels a timer.
    CancelTimer {
        /// Which one.
        key: TimerKey,
    },
    /// Sends one attempt of an exchange.
    Request(Request),
    /// Gives up an attempt that is under way: its outcome will be `Aborted`.
    Abort(Token),
    /// Sends a datagram.
    Send(Datagram),
    /// Answers a request.
    Respond {
        /// Which one.
        exchange: ExchangeId,
        /// With what.
        reply: Reply,
    },
    /// Begins some work.
    Work {
        /// Returned when it is done.
        key: WorkKey,
        /// What.
        work: Work,
    },
    /// Publishes a message.
    Publish {
        /// Where.
        subject: SubjectId,
        /// What.
        body: Body,
    },
    /// Begins a flow that the engine runs from its seeded schedule.
    Flow(Box<FlowSpec>),
    /// Changes a flow that is running.
    FlowSet {
        /// Which one.
        flow: FlowId,
        /// How.
        set: FlowSet,
    },
    /// Adds to a counter of the group.
    Count {
        /// Which one.
        metric: MetricId,
        /// How much.
        by: u64,
    },
    /// Records a value of the group.
    Record {
        /// Which metric.
        metric: MetricId,
        /// The value, in the metric's unit.
        value: u64,
    },
    /// Nothing more to send from this actor: what `stop = "all-requests-done"` waits for.
    Finished,
}

/// What an actor asks for. The engine owns one, lends it for one event and drains it after.
#[derive(Default, Debug)]
pub struct Outbox {
    /// The first `len` are wishes; those after are [`Command::Finished`], ready to be written over.
    slots: Vec<Command>,
    len: usize,
}

/// So many wishes an outbox gets room for at first.
const ROOM: usize = 8;

impl Outbox {
    /// Adds a wish. It is made where it stays, once there is room: what was just written is not copied.
    #[inline(always)]
    fn put(&mut self, wish: impl FnOnce() -> Command) {
        if self.len == self.slots.len() {
            self.grow();
        }
        let slot = &mut self.slots[self.len];
        // what is written over owns nothing, so nothing of it has to be dropped
        std::mem::forget(std::mem::replace(slot, wish()));
        self.len += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let room = (self.slots.len() * 2).max(ROOM);
        self.slots.resize_with(room, || Command::Finished);
    }

    /// See [`Command::SetTimer`].
    #[inline]
    pub fn set_timer(&mut self, key: TimerKey, at: Time) {
        self.put(|| Command::SetTimer { key, at });
    }

    /// See [`Command::CancelTimer`].
    #[inline]
    pub fn cancel_timer(&mut self, key: TimerKey) {
        self.put(|| Command::CancelTimer { key });
    }

    /// See [`Command::Request`].
    #[inline]
    pub fn request(&mut self, request: Request) {
        self.put(|| Command::Request(request));
    }

    /// See [`Command::Abort`].
    #[inline]
    pub fn abort(&mut self, token: Token) {
        self.put(|| Command::Abort(token));
    }

    /// See [`Command::Send`].
    #[inline]
    pub fn send(&mut self, datagram: Datagram) {
        self.put(|| Command::Send(datagram));
    }

    /// See [`Command::Respond`].
    #[inline]
    pub fn respond(&mut self, exchange: ExchangeId, reply: Reply) {
        self.put(|| Command::Respond { exchange, reply });
    }

    /// See [`Command::Work`].
    #[inline]
    pub fn work(&mut self, key: WorkKey, work: Work) {
        self.put(|| Command::Work { key, work });
    }

    /// See [`Command::Publish`].
    #[inline]
    pub fn publish<M: Message>(&mut self, subject: SubjectId, message: M) {
        self.put(|| Command::Publish { subject, body: Body::new(message) });
    }

    /// See [`Command::Flow`].
    #[inline]
    pub fn flow(&mut self, spec: FlowSpec) {
        self.put(|| Command::Flow(Box::new(spec)));
    }

    /// See [`Command::FlowSet`].
    #[inline]
    pub fn set_flow(&mut self, flow: FlowId, set: FlowSet) {
        self.put(|| Command::FlowSet { flow, set });
    }

    /// See [`Command::Count`].
    #[inline]
    pub fn count(&mut self, metric: MetricId, by: u64) {
        self.put(|| Command::Count { metric, by });
    }

    /// See [`Command::Record`].
    #[inline]
    pub fn record(&mut self, metric: MetricId, value: u64) {
        self.put(|| Command::Record { metric, value });
    }

    /// See [`Command::Finished`].
    #[inline]
    pub fn finish(&mut self) {
        self.put(|| Command::Finished);
    }

    /// Empties the buffer in the order of the wishes; its memory stays for the next event.
    pub fn drain(&mut self) -> Drain<'_> {
        let len = std::mem::take(&mut self.len);
        Drain { wishes: self.slots[..len].iter_mut() }
    }

    /// Whether nothing is asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All wishes, in their order, where they lie: an engine's way to go through them, at less cost than [`Outbox::drain`].
    /// [`Outbox::clear`] follows.
    #[inline]
    pub fn wishes(&mut self) -> &mut [Command] {
        &mut self.slots[..self.len]
    }

    /// Forgets all wishes; their memory stays for the next event.
    #[inline]
    pub fn clear(&mut self) {
        let len = std::mem::take(&mut self.len);
        for wish in &mut self.slots[..len] {
            if wish.owns() {
                *wish = Command::Finished;
            }
        }
    }
}

impl Command {
    /// Whether it holds memory of its own.
    #[inline]
    fn owns(&self) -> bool {
        matches!(self, Command::Publish { .. } | Command::Flow(_) | Command::Work { work: Work::Store(_), .. })
    }
}

/// What [`Outbox::drain`] takes out.
#[derive(Debug)]
pub struct Drain<'a> {
    wishes: std::slice::IterMut<'a, Command>,
}

impl Iterator for Drain<'_> {
    type Item = Command;

    #[inline]
    fn next(&mut self) -> Option<Command> {
        self.wishes.next().map(|wish| std::mem::replace(wish, Command::Finished))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.wishes.size_hint()
    }
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{StopReason, StopRun};

    /// A wish that owns memory, and a wish that does not.
    fn two(out: &mut Outbox) {
        out.publish(SubjectId(3), StopRun { reason: StopReason::Duration });
        out.abort(Token(7));
    }

    #[test]
    fn what_is_taken_out_cleared_or_left_owns_nothing_behind_it() {
        let mut out = Outbox::default();
        for round in 0..3 {
            (0..10).for_each(|_| two(&mut out));
            assert_eq!(out.wishes().len(), 20);
            match round {
                0 => assert_eq!(out.drain().filter(|wish| *wish == Command::Abort(Token(7))).count(), 10),
                1 => assert!(out.drain().next().is_some_and(|wish| wish.owns())),
                _ => out.clear(),
            }
            assert!(out.is_empty() && out.wishes().is_empty());
            assert!(out.slots.iter().all(|slot| !slot.owns()), "round {round}");
        }
    }
}
