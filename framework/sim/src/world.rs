//! Everything that a run's virtual world consists of, except the actors: its queue, its tables, its links, its books.

use std::sync::Arc;

use rehearsal_core::assembly::{Routes, Subjects};
use rehearsal_core::event::Head;
use rehearsal_core::exchange::Times;
use rehearsal_core::messages::StopReason;
use rehearsal_core::parts::deadlines::Deadlines;
use rehearsal_core::parts::heap::Entry;
use rehearsal_core::parts::ledger::Scratch;
use rehearsal_core::parts::queue::Queue;
use rehearsal_core::parts::slab::Slab;
use rehearsal_core::plan::Plan;
use rehearsal_core::run::Fault;
use rehearsal_core::sink::Sink;
use rehearsal_core::{Command, Event, ExchangeId, Outbox, RecipeId, Span, Time, TimerKey, Work, WorkKey, WorkResult};
use rehearsal_models::path::Links;
use rehearsal_models::seen::Arrivals;

use crate::Crossing;

mod build;
mod carriage;
mod class;
mod cores;
mod costs;
mod datagrams;
mod drain;
mod exchange;
mod flows;
mod messages;
mod outcomes;
mod pacing;
mod receive;
mod requests;
mod samples;
mod seats;
mod timers;
mod warm;
mod work;

pub(crate) use class::Class;
use datagrams::Flight;
use exchange::Exchange;
use flows::Flow;
use messages::Letter;
use seats::{GroupState, NodeState, Seat};
use timers::Timers;
use work::Made;

/// log2 of a beat, ns: 67 ms. A loop that costs nothing advances by a nanosecond at a time, so shorter would not catch it.
const BEAT_BITS: u32 = 26;

/// How far the run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Traffic may flow.
    Running,
    /// Nothing new may leave; outcomes under way are waited for.
    Draining,
    /// The books are closed; last messages and records are on their way.
    Closing,
    /// Nothing happens any more.
    Ended,
}

/// What is handed to an actor: the tables' places that an [`Event`] borrows from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Start,
    Stop,
    Timer {
        key: TimerKey,
        due: Time,
    },
    Message {
        slot: u32,
    },
    Request {
        slot: u32,
    },
    Outcome {
        slot: u32,
    },
    Datagram {
        slot: u32,
    },
    /// A request came in that is counted as a datagram: slot of the exchange.
    Counted {
        slot: u32,
    },
    Work {
        key: WorkKey,
    },
    Made {
        slot: u32,
    },
    FlowReport {
        slot: u32,
    },
}

/// Where an actor is: its group, and its place in the group's pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) actor: u32,
    pub(crate) group: usize,
    pub(crate) index: u32,
}

/// See the module. The parts that belong to one concern are changed in that concern's file alone.
pub(crate) struct World {
    /// The present instant of virtual time.
    pub(crate) now: Time,
    /// How far the run is.
    pub(crate) phase: Phase,
    /// Somebody wants the run to stop; the engine sees to it before the next event.
    pub(crate) stop_wanted: Option<StopReason>,
    steers: Vec<rehearsal_core::steer::Steer>,
    /// A second has just been sampled: time to tell how far the run is.
    pub(crate) sampled: bool,
    /// What was offered to links since the witness was told; `None` if nobody looks on.
    pub(crate) crossings: Option<Vec<Crossing>>,
    /// Virtual time stops there.
    until: Time,
    until_span: Option<Span>,
    halted_at: Option<Time>,
    queue: Queue,
    seats: Vec<Seat>,
    groups: Vec<GroupState>,
    nodes: Vec<NodeState>,
    timers: Timers,
    exchanges: Slab<Exchange>,
    deadlines: Deadlines,
    letters: Slab<Letter>,
    made: Slab<Made>,
    flights: Slab<Flight>,
    flows: Slab<Flow>,
    links: Links,
    /// Which datagrams came over links that may put them out of order.
    arrivals: Arrivals,
    /// Hosts that nodes share.
    machines: Vec<cores::Machine>,
    /// What messages cost; `None` without a calibration.
    costs: Option<costs::Costs>,
    /// From publisher to reader of a message.
    control: Span,
    /// What a NATS server takes for one message; `None` before it was measured.
    broker: Option<Span>,
    /// Whether anything went over one.
    brokered: bool,
    routes: Routes,
    subjects: Subjects,
    plan: Plan,
    /// By recipe: whether a receiver must refuse its payloads.
    malformed: Vec<bool>,
    /// By clip: the recipe and sizes of its frames.
    clips: Vec<(RecipeId, Arc<[u32]>)>,
    wire: bool,
    events_max: u64,
    beat_events_max: u64,
    /// Handled events, all together, before the present beat, and those that are too many.
    events: u64,
    events_before: u64,
    events_end: u64,
    fingerprint: u64,
    start: Option<Time>,
    stop: Option<(Time, StopReason)>,
    grace_over: bool,
    closing: Option<drain::Closing>,
    /// The next second to be sampled.
    second: u32,
    scratch: Scratch,
    /// Requests whose outcome has not been handed over.
    outcomes_due: u64,
    /// Datagrams on their way or waiting for their time.
    flights_due: u64,
    /// Records whose `WorkDone` has not been handed over.
    stores_due: u64,
    messages_dropped: u64,
    late_replies: u64,
    stale_answers: u64,
    flow_changes: u32,
    sink_failed: bool,
    faults: Vec<Fault>,
}

impl World {
    /// Number of actors.
    pub(crate) fn actors(&self) -> u32 {
        self.seats.len() as u32 - 1
    }

    /// Where an actor is that still takes part.
    #[inline]
    pub(crate) fn place_of_living(&self, actor: u32) -> Option<Place> {
        let seat = &self.seats[actor as usize];
        (!seat.dead).then(|| {
            let group = seat.group as usize;
            Place { actor, group, index: actor - self.groups[group].base }
        })
    }

    /// The actor's group, and its place in the group's pool.
    #[inline]
    pub(crate) fn place(&self, actor: u32) -> (usize, u32) {
        let group = self.seats[actor as usize].group as usize;
        (group, actor - self.groups[group].base)
    }

    /// The next event, if any is left.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let mut entry = self.queue.pop()?;
        while entry.time() > self.until.as_nanos() {
            if self.halt(entry.by_words()) {
                return None;
            }
            entry = self.queue.pop()?;
        }
        let at = Time::from_nanos(entry.time());
        assert!(at >= self.now, "time moved back from {} to {at}", self.now);
        if at.as_nanos() >> BEAT_BITS > self.now.as_nanos() >> BEAT_BITS {
            self.events_before = self.events;
            self.events_end = self.events_max.min(self.events.saturating_add(self.beat_events_max));
        }
        self.now = at;
        Some(entry)
    }

    /// Queues an event of `source`. Where it is written, its class is known, and so is its lane.
    #[inline(always)]
    fn push(&mut self, at: Time, class: Class, source: u32, payload: u64) {
        assert!(at >= self.now, "an event in the past: {at} at {}", self.now);
        let seat = &mut self.seats[source as usize];
        seat.counter += 1;
        let entry = Entry::new(at.as_nanos(), class as u8, source, seat.counter, payload);
        match class.lane(payload) {
            Some(lane) => self.queue.push_in(lane, entry),
            None => self.queue.push(entry),
        }
    }

    /// The engine's own place among the sources of events, after all actors.
    #[inline]
    fn engine(&self) -> u32 {
        self.seats.len() as u32 - 1
    }

    /// Does what an event does to the world before its actor is told; `None` if no actor is.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: Class, entry: Entry) -> Option<(u32, What)> {
        let (high, low) = ((entry.payload >> 32) as u32, entry.payload as u32);
        if class == Class::Timer {
            if self.costs.is_some() && self.holds(&entry) {
                return None;
            }
            let (key, due) = self.fire(&entry)?;
            if self.costs.is_some() {
                self.fired(entry.source());
            }
            self.fold(&entry);
            return Some((entry.source(), What::Timer { key, due }));
        }
        self.fold(&entry);
        match class {
            Class::Timer => None,
            Class::Work => Some((entry.source(), What::Work { key: WorkKey(entry.payload) })),
            Class::Made => Some((high, What::Made { slot: low })),
            Class::Compute => self.paused(low),
            Class::Cores => self.look(high, low),
            Class::Wake => self.wake(high, low),
            Class::Outcome => self.outcome(high, low),
            Class::Request => self.arrive(high, low),
            Class::Datagram => self.land(high, low),
            Class::Message => Some(self.read(high, low)),
            Class::Send => self.due(high, low),
            Class::SendDatagram => self.fly(low),
            Class::Flow => self.depart(high, low),
            Class::Carry => self.carry(low),
            Class::Link => self.visit(low),
            Class::Deadline => self.expire(low),
            Class::FlowReport => Some((high, What::FlowReport { slot: low })),
            Class::Sample => self.sample(),
            Class::Grace => self.grace(),
            Class::Pace => {
                self.pace(high, low);
                None
            }
        }
    }

    /// Every live event of the run goes into the fingerprint.
    #[inline]
    fn fold(&mut self, entry: &Entry) {
        let (hi, lo) = entry.words();
        self.fingerprint = (self.fingerprint ^ hi).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ lo;
    }

    /// The event as the actor sees it, borrowed from the tables.
    #[inline(always)]
    pub(crate) fn event<'a>(&'a self, what: What, head: &'a mut Head, times: &'a mut Times) -> Event<'a> {
        match what {
            What::Start => Event::Start,
            What::Stop => Event::Stop,
            What::Timer { key, due } => Event::Timer { key, due },
            What::Message { slot } => {
                let letter = self.letters.at(slot);
                Event::Message { subject: letter.subject, body: &letter.body }
            }
            What::Request { slot } => {
                let x = self.exchanges.at(slot);
                *head = x.head();
                let exchange = ExchangeId::new(slot, self.exchanges.generation(slot));
                Event::Request { exchange, head, payload: &x.request.payload }
            }
            What::Outcome { slot } => {
                let x = self.exchanges.at(slot);
                Event::Outcome { request: &x.request, outcome: &x.outcome }
            }
            What::Datagram { slot } => {
                let flight = self.flights.at(slot);
                *head = flight.head();
                *times = flight.times(self.now);
                Event::Datagram { head, times, payload: &flight.datagram.payload }
            }
            What::Counted { slot } => {
                let x = self.exchanges.at(slot);
                *head = x.head();
                let sent = x.outcome.times.sent;
                *times = Times { intended: x.request.intended, ready: sent, sent, done: self.now };
                Event::Datagram { head, times, payload: &x.request.payload }
            }
            What::Work { key } => Event::WorkDone { key, result: &WorkResult::Done },
            What::Made { slot } => {
                let made = self.made.at(slot);
                Event::WorkDone { key: made.key, result: &made.result }
            }
            What::FlowReport { slot } => Event::FlowReport(&self.flows.at(slot).report),
        }
    }

    /// The actor has seen it: what nobody needs any more is freed.
    #[inline(always)]
    pub(crate) fn release(&mut self, what: What) {
        match what {
            What::Message { slot } => self.discard(slot),
            What::Outcome { slot } => self.told(slot),
            What::Datagram { slot } => drop(self.flights.remove(slot)),
            What::Counted { slot } => self.acknowledge(slot),
            What::Made { slot } => self.collected(slot),
            What::FlowReport { slot } => self.reported(slot),
            What::Start | What::Stop | What::Timer { .. } | What::Request { .. } | What::Work { .. } => {}
        }
    }

    /// Books an event that was handled, and grants what its actor wishes.
    #[inline(always)]
    pub(crate) fn apply(&mut self, place: Place, outbox: &mut Outbox, sink: &mut dyn Sink) {
        self.events += 1;
        if self.events >= self.events_end {
            self.runaway(place.actor);
        }
        if !outbox.is_empty() {
            self.grant_all(place, outbox, sink);
        }
    }

    /// Grants an actor's wishes, in their order. What is frequent is read where it lies.
    #[inline(never)]
    fn grant_all(&mut self, place: Place, outbox: &mut Outbox, sink: &mut dyn Sink) {
        let me = place.actor;
        for command in outbox.wishes() {
            match command {
                Command::SetTimer { key, at } => self.set_timer(place, *key, *at),
                Command::Request(request) => self.request(place, request),
                Command::Respond { exchange, reply } => self.respond(me, *exchange, reply),
                Command::Work { key, work: Work::Pause(span) } => self.pause(me, *key, *span),
                other => self.grant(place, std::mem::replace(other, Command::Finished), sink),
            }
        }
        outbox.clear();
    }

    /// Grants one wish.
    #[inline]
    fn grant(&mut self, place: Place, command: Command, sink: &mut dyn Sink) {
        let me = place.actor;
        match command {
            Command::SetTimer { key, at } => self.set_timer(place, key, at),
            Command::CancelTimer { key } => self.cancel_timer(place, key),
            Command::Request(request) => self.request(place, &request),
            Command::Abort(token) => self.abort(me, token),
            Command::Send(datagram) => self.send(me, datagram),
            Command::Respond { exchange, reply } => self.respond(me, exchange, &reply),
            Command::Work { key, work } => self.work(me, key, work, sink),
            Command::Publish { subject, body } => self.say(me, subject, body),
            Command::Flow(spec) => self.begin_flow(me, &spec),
            Command::FlowSet { flow, set } => self.set_flow(me, flow, set),
            Command::Count { metric, by } => self.count(me, metric, by),
            Command::Record { metric, value } => self.value(me, metric, value),
            Command::Finished => self.finished(me),
        }
    }
}
