//! What all senders have in common: schedules, closed loops, retries, spoiled payloads, and the end of it all.
//!
//! A kind of sender says what its streams send ([`Payloads`]); [`Source`] decides when, to whom and how often.

use std::sync::Arc;

use rehearsal_core::life::{Rejoin, Word};
use rehearsal_core::messages::StartAt;
use rehearsal_core::{
    Actor, Event, MetricId, Outbox, Outcome, Payload, Request, Time, TimerKey, Wiring, Work, WorkKey, WorkResult,
};

mod encoder;
mod spec;
mod steering;
mod stream;

pub use spec::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, SourceSpec};
use steering::Steers;
use stream::{Place, Slot, Stream, Wake};

/// What the streams of one member send.
pub trait Payloads: Send {
    /// The payload of `stream`'s request number `seq`, from 0. Asked once for each, in order within a stream.
    fn payload(&mut self, stream: u32, seq: u64) -> Next;

    /// Counts payloads that could not be made; each ends its stream.
    fn encode_failed(&self) -> Option<MetricId> {
        None
    }
}

/// A payload, or how to make it.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// It is there.
    Ready(Payload),
    /// It comes of this work, as [`WorkResult::Produced`]. Each stream has one piece of work under way at a time.
    Encode(Work),
}

/// One member of a sending group.
///
/// It waits for [`StartAt`]. A paced stream then sends by its [`crate::Pacer`]; in a closed loop the next request
/// begins when the last has ended. When no stream will send any more and nothing is under way, it says so, once.
#[derive(Debug)]
pub struct Source<P> {
    spec: Arc<SourceSpec>,
    payloads: P,
    streams: Box<[Stream]>,
    member: u32,
    steers: Steers,
    /// Streams that are not at their end.
    active: u32,
    /// Exchanges that are not settled, and requests whose payload is being made.
    open: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    Running,
    Stopped,
    Finished,
}

impl<P: Payloads> Source<P> {
    /// Member number `member` of the group that `spec` describes.
    pub fn new(spec: &Arc<SourceSpec>, wiring: &dyn Wiring, member: u32, payloads: P) -> Self {
        let streams: Box<[Stream]> = (0..spec.streams).map(|s| Stream::new(spec, wiring, member, s)).collect();
        let active = streams.len() as u32;
        Source {
            spec: spec.clone(),
            payloads,
            streams,
            member,
            steers: Steers::default(),
            active,
            open: 0,
            stage: Stage::Waiting,
        }
    }

    fn begin(&mut self, now: Time, start: &StartAt, again: Option<&Rejoin>, out: &mut Outbox) {
        if self.stage != Stage::Waiting {
            return;
        }
        self.stage = Stage::Running;
        self.streams.iter_mut().for_each(|stream| stream.begin(&self.spec, start));
        match again {
            Some(again) => self.rejoin(now, again, out),
            None => {
                for index in 0..self.streams.len() as u32 {
                    match self.spec.rate {
                        Some(_) => self.arm(index, out),
                        None => {
                            self.streams[index as usize].steer(&self.spec, &self.steers, start.at, out);
                            self.refill(index, start.at, out);
                        }
                    }
                }
            }
        }
        self.settle(out);
    }

    /// A slot of a paced stream is due.
    fn due(&mut self, index: u32, now: Time, out: &mut Outbox) {
        let Some(stream) = self.streams.get_mut(index as usize) else { return };
        stream.steer(&self.spec, &self.steers, now, out);
        let bound = stream.next_steer(&self.steers).unwrap_or(Time::MAX);
        let (due, skipped) = stream.due(&self.spec, now, bound);
        self.skipped(skipped, out);
        if let Some(due) = due {
            self.request(index, due, out);
        }
        self.arm(index, out);
        self.settle(out);
    }

    /// Sets the timer of a paced stream for its next slot, or ends the stream.
    fn arm(&mut self, index: u32, out: &mut Outbox) {
        match self.streams[index as usize].wake(&self.steers) {
            Wake::At(time) => out.set_timer(TimerKey(index), time),
            Wake::Idle => out.cancel_timer(TimerKey(index)),
            Wake::Never => self.end(index),
        }
    }

    /// Begins as many requests of a closed loop as `in_flight` leaves room for.
    fn refill(&mut self, index: u32, intended: Time, out: &mut Outbox) {
        while self.streams[index as usize].begins_next(&self.spec, intended) {
            self.request(index, intended, out);
        }
        self.end_if_spent(index, intended);
    }

    fn end_if_spent(&mut self, index: u32, intended: Time) {
        if self.streams[index as usize].is_spent(intended) {
            self.end(index);
        }
    }

    /// One more request; it waits if the stream's encoder is busy.
    fn request(&mut self, index: u32, intended: Time, out: &mut Outbox) {
        let stream = &mut self.streams[index as usize];
        let slot = stream.slot(intended);
        if stream.encoder.is_busy() {
            stream.encoder.wait(slot);
            self.open += 1;
        } else {
            self.prepare(index, slot, out);
        }
    }

    /// Sends a request, or has its payload made first. Either way it asks to leave when it was intended: the time that
    /// making the payload takes is the generator's own, and shows as lag.
    fn prepare(&mut self, index: u32, slot: Slot, out: &mut Outbox) {
        match self.payloads.payload(index, slot.seq) {
            Next::Ready(payload) => self.send(index, slot, payload, out),
            Next::Encode(work) => {
                self.streams[index as usize].encoder.begin(slot);
                self.open += 1;
                out.work(WorkKey(u64::from(index)), work);
            }
        }
    }

    fn send(&mut self, index: u32, slot: Slot, payload: Payload, out: &mut Outbox) {
        let place = Place { member: self.member, stream: index };
        self.open += u64::from(self.streams[index as usize].send(&self.spec, place, slot, payload, out));
    }

    /// A payload is made: it leaves now, and the stream's next one is begun.
    fn encoded(&mut self, index: u32, result: &WorkResult, out: &mut Outbox) {
        let Some(slot) = self.streams.get_mut(index as usize).and_then(|s| s.encoder.end()) else { return };
        self.open -= 1;
        match result {
            _ if self.stage != Stage::Running => {}
            WorkResult::Produced(payload) => {
                self.send(index, slot, *payload, out);
                while let Some(slot) = self.streams[index as usize].encoder.next() {
                    self.open -= 1;
                    self.prepare(index, slot, out);
                }
            }
            WorkResult::Done | WorkResult::Invalid => {
                if let Some(metric) = self.payloads.encode_failed() {
                    out.count(metric, 1);
                }
                let waiting = self.give_up(index, out);
                self.skipped(waiting + u64::from(self.spec.rate.is_some()), out);
            }
        }
        self.settle(out);
    }

    /// An attempt has ended.
    fn outcome(&mut self, request: &Request, outcome: &Outcome, out: &mut Outbox) {
        let Some(stream) = self.streams.get_mut(request.stream as usize) else { return };
        let running = self.stage == Stage::Running;
        if running && let Some(again) = self.spec.retry.again(request, outcome, &mut stream.backoff) {
            out.request(again);
            return;
        }
        stream.open -= 1;
        self.open -= 1;
        if running && self.spec.rate.is_none() {
            let next = self.spec.next_intended(request, outcome);
            stream.steer(&self.spec, &self.steers, next, out);
            self.refill(request.stream, next, out);
        }
        self.settle(out);
    }

    /// Nothing new any more.
    fn stop(&mut self, now: Time, out: &mut Outbox) {
        if matches!(self.stage, Stage::Stopped | Stage::Finished) {
            return;
        }
        self.stage = Stage::Stopped;
        let mut skipped = 0;
        for index in 0..self.streams.len() as u32 {
            let stream = &mut self.streams[index as usize];
            let paused = stream.end_pause(now);
            if paused > 0 {
                out.count(MetricId::PAUSED, paused * u64::from(self.spec.fan));
            }
            // the payload that is being made will not be sent either
            let making = self.spec.rate.is_some() && stream.encoder.is_busy();
            skipped += stream.overdue(now) + u64::from(making) + self.give_up(index, out);
        }
        self.skipped(skipped, out);
        self.settle(out);
    }

    /// Ends a stream before its time: its timer, and the requests that wait for their payload. Returns how many slots
    /// of its schedule those were.
    fn give_up(&mut self, index: u32, out: &mut Outbox) -> u64 {
        let stream = &mut self.streams[index as usize];
        if matches!(stream.wake(&self.steers), Wake::At(_)) {
            out.cancel_timer(TimerKey(index));
        }
        let waiting = stream.encoder.clear();
        self.open -= waiting;
        self.end(index);
        if self.spec.rate.is_some() { waiting } else { 0 }
    }

    /// Counts slots that came due and were given up: a request to all is as many exchanges.
    fn skipped(&self, slots: u64, out: &mut Outbox) {
        if slots > 0 {
            out.count(MetricId::SKIPPED, slots * u64::from(self.spec.fan));
        }
    }

    /// Counts slots that were due while the node was lost.
    fn away(&self, slots: u64, out: &mut Outbox) {
        if slots > 0 {
            out.count(MetricId::AWAY, slots * u64::from(self.spec.fan));
        }
    }

    /// A stream will begin nothing more.
    fn end(&mut self, index: u32) {
        self.active -= u32::from(self.streams[index as usize].end());
    }

    /// Says that all is done, once it is.
    fn settle(&mut self, out: &mut Outbox) {
        if self.active == 0 && self.open == 0 && self.stage != Stage::Finished {
            self.stage = Stage::Finished;
            out.finish();
        }
    }
}

impl<P: Payloads> Actor for Source<P> {
    fn timers(&self) -> u32 {
        if self.spec.rate.is_some() { self.streams.len() as u32 } else { 0 }
    }

    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Message { body, .. } => match Word::read(body, &self.spec.node) {
                Some(Word::Begin(start, again)) => self.begin(now, &start, again.as_deref(), out),
                Some(Word::Steer(steer)) => self.steered(now, &steer, out),
                None => {}
            },
            Event::Timer { key, .. } => self.due(key.0, now, out),
            Event::Outcome { request, outcome } => self.outcome(request, outcome, out),
            Event::WorkDone { key, result } => self.encoded(key.0 as u32, result, out),
            Event::Stop => self.stop(now, out),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
