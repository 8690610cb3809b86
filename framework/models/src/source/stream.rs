//! One stream of a source: where it stands in its schedule, and what it has under way.

use rehearsal_core::messages::StartAt;
use rehearsal_core::{Datagram, MetricId, Outbox, Payload, Request, RngStream, Span, Time, Wiring};

use super::encoder::Encoder;
use super::spec::SourceSpec;
use super::steering::Steers;
use crate::arrivals::Draws;
use crate::pacer::Pacer;
use crate::retry::token;
use crate::spread::instance;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) schedule: Schedule,
    /// Steers that it has acted on.
    pub(super) steered: u16,
    /// Number of the next request.
    pub(super) seq: u64,
    /// Exchanges that are not settled.
    pub(super) open: u32,
    pub(super) encoder: Encoder,
    pub(super) backoff: RngStream,
    malformed: RngStream,
}

#[derive(Debug)]
pub(super) enum Schedule {
    /// Traffic has not begun.
    Idle { phase: Span, draws: Option<Box<Draws>> },
    /// Open loop.
    Paced(Pacer),
    /// The next request begins when the last has ended.
    Closed { left: u64, until: Time, paused: bool },
    /// Nothing more will begin.
    Ended,
}

/// What a paced stream waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    At(Time),
    /// To be steered.
    Idle,
    Never,
}

/// Which stream it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) member: u32,
    pub(super) stream: u32,
}

/// One request of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) seq: u64,
    pub(super) intended: Time,
}

impl Stream {
    pub(super) fn new(spec: &SourceSpec, wiring: &dyn Wiring, member: u32, stream: u32) -> Self {
        let rng = |purpose| wiring.rng(member, stream, purpose);
        // uniform below one gap, so that streams of one rate do not all send at once
        let phase = spec.rate.map_or(Span::ZERO, |rate| Span::from_nanos(rng("phase").below(rate.gap().as_nanos())));
        let draws = spec.pattern.as_ref().map(|pattern| Box::new(Draws::new(pattern, rng("arrivals"))));
        Stream {
            schedule: Schedule::Idle { phase, draws },
            steered: 0,
            seq: 0,
            open: 0,
            encoder: Encoder::default(),
            backoff: rng("backoff"),
            malformed: rng("malformed"),
        }
    }

    /// Traffic begins.
    pub(super) fn begin(&mut self, spec: &SourceSpec, start: &StartAt) {
        let Schedule::Idle { phase, draws } = &mut self.schedule else { return };
        let (phase, draws) = (*phase, draws.take());
        self.schedule = match spec.rate {
            Some(rate) if let Some(draws) = draws => {
                Schedule::Paced(Pacer::drawn(*draws, rate, start.at, start.until, spec.requests))
            }
            Some(rate) => Schedule::Paced(Pacer::new(rate, start.at, phase, start.until, spec.requests)),
            None => Schedule::Closed {
                left: spec.requests.unwrap_or(u64::MAX),
                until: start.until.unwrap_or(Time::MAX),
                paused: false,
            },
        };
    }

    /// Takes the slot that is due at `now`, if the stream may use it; and the number of slots that were given up, none at
    /// or after `bound`.
    pub(super) fn due(&mut self, spec: &SourceSpec, now: Time, bound: Time) -> (Option<Time>, u64) {
        let room = self.has_room(spec);
        let Schedule::Paced(pacer) = &mut self.schedule else { return (None, 0) };
        let mut skipped = 0;
        if spec.skip {
            let oldest = now.as_nanos().saturating_sub(pacer.gap().as_nanos());
            skipped = pacer.skip_before(Time::from_nanos(oldest).min(bound));
        }
        if pacer.next_due().is_none_or(|due| due > now || due >= bound) {
            return (None, skipped);
        }
        if room { (pacer.take(), skipped) } else { (None, skipped + u64::from(pacer.skip().is_some())) }
    }

    /// When a paced stream's next slot is due.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Time> {
        match &self.schedule {
            Schedule::Paced(pacer) => pacer.next_due(),
            _ => None,
        }
    }

    /// When a paced stream is to be woken: for its next slot, or for a steer that may make it due earlier.
    pub(super) fn wake(&self, steers: &Steers) -> Wake {
        let Schedule::Paced(pacer) = &self.schedule else { return Wake::Never };
        if pacer.is_finished() {
            return Wake::Never;
        }
        let next = pacer.next_due().into_iter().chain(self.next_steer(steers)).min();
        next.map_or(Wake::Idle, Wake::At)
    }

    /// Whether a closed loop begins another request that counts from `intended`.
    pub(super) fn begins_next(&mut self, spec: &SourceSpec, intended: Time) -> bool {
        let room = self.fits(spec);
        match &mut self.schedule {
            Schedule::Closed { left, until, paused: false } if *left > 0 && intended < *until && room => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Whether a closed loop has no request left, or none that may begin at `intended`.
    pub(super) fn is_spent(&self, intended: Time) -> bool {
        matches!(self.schedule, Schedule::Closed { left, until, .. } if left == 0 || intended >= until)
    }

    /// Begins nothing more; whether that is news.
    pub(super) fn end(&mut self) -> bool {
        !matches!(std::mem::replace(&mut self.schedule, Schedule::Ended), Schedule::Ended)
    }

    /// The next request, counted from `intended`.
    pub(super) fn slot(&mut self, intended: Time) -> Slot {
        let seq = self.seq;
        self.seq += 1;
        Slot { seq, intended }
    }

    /// Gives up the slots that came due before `now` and were not used; their number.
    pub(super) fn overdue(&mut self, now: Time) -> u64 {
        match &mut self.schedule {
            Schedule::Paced(pacer) => pacer.skip_before(now),
            _ => 0,
        }
    }

    /// Sends `payload` to where request `slot` goes; returns the number of exchanges opened.
    pub(super) fn send(
        &mut self,
        spec: &SourceSpec,
        place: Place,
        slot: Slot,
        payload: Payload,
        out: &mut Outbox,
    ) -> u32 {
        let source = u64::from(place.member) * u64::from(spec.streams) + u64::from(place.stream);
        let intended = slot.intended;
        for i in 0..spec.fan {
            let seq = slot.seq * u64::from(spec.fan) + u64::from(i);
            let to = spec.targets.base.member(instance(spec.spread, source, seq, spec.targets.len));
            let payload = self.spoil(spec, payload, out);
            if !spec.targets.exchange {
                out.send(Datagram { to, stream: place.stream, seq, intended, at: intended, payload });
                continue;
            }
            out.request(Request {
                to,
                token: token(place.stream, seq, 0),
                stream: place.stream,
                seq,
                attempt: 0,
                last: spec.retry.is_last(0),
                intended,
                at: intended,
                deadline: spec.deadline,
                limit: spec.limit,
                reply_bytes: 0,
                payload,
            });
        }
        let opened = if spec.targets.exchange { spec.fan } else { 0 };
        self.open += opened;
        opened
    }

    /// The payload, or one of the same length that the receiver must refuse.
    fn spoil(&mut self, spec: &SourceSpec, payload: Payload, out: &mut Outbox) -> Payload {
        if spec.malformed <= 0.0 || self.malformed.unit() >= spec.malformed {
            return payload;
        }
        out.count(MetricId::MALFORMED, 1);
        Payload { recipe: spec.spoiled, ..payload }
    }

    /// Whether a slot that is due may be used.
    fn has_room(&self, spec: &SourceSpec) -> bool {
        if spec.skip {
            self.fits(spec)
        } else {
            // what is sent waits in the engine's gate; what waits for an encoder has the same bound here
            self.encoder.pending() < u64::from(spec.in_flight) + u64::from(spec.queue)
        }
    }

    /// Whether one more request keeps the stream within `in_flight`.
    fn fits(&self, spec: &SourceSpec) -> bool {
        let fan = u64::from(spec.fan);
        u64::from(self.open) + (self.encoder.pending() + 1) * fan <= u64::from(spec.in_flight) * fan
    }
}
