//! One member of a replayer: where it is in its template, and what the run does to it.
//!
//! The position is a time of the template, loops included. It moves as fast as the run's time, times `factor`, and stands still in
//! a pause, after which the replay goes on where it was. Steers act at their own times, however late the actor is woken, so
//! both engines send the same.

use std::sync::Arc;

use rehearsal_core::life::{Rejoin, Word};
use rehearsal_core::messages::StartAt;
use rehearsal_core::recording::Recorded;
use rehearsal_core::steer::{Steer, Steering, Steers};
use rehearsal_core::{Actor, Datagram, Event, MetricId, Outbox, Payload, Span, Time};

use super::Spec;
use crate::alarm::Alarm;

/// Packets in one event; the rest waits for the next, so that others have their turn.
const BATCH: u32 = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Player {
    spec: Arc<Spec>,
    member: u32,
    stage: Stage,
    until: Time,
    /// The next packet: its loop, and its row in it.
    round: u64,
    row: usize,
    /// The position at a time of the run, from which both go on.
    anchor: Time,
    position: Span,
    factor: f64,
    still: bool,
    steers: Steers,
    alarm: Alarm,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    Running,
    Finished,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Steer(Time),
    Packet(Time),
}

impl Player {
    /// A member that has not been told to begin.
    pub fn new(spec: &Arc<Spec>, member: u32) -> Self {
        Player {
            spec: Arc::clone(spec),
            member,
            stage: Stage::Waiting,
            until: Time::MAX,
            round: 0,
            row: 0,
            anchor: Time::ZERO,
            position: Span::ZERO,
            factor: 1.0,
            still: false,
            steers: Steers::default(),
            alarm: Alarm::default(),
        }
    }

    fn begin(&mut self, now: Time, start: &StartAt, again: Option<&Rejoin>, out: &mut Outbox) {
        if self.stage != Stage::Waiting {
            return;
        }
        self.stage = Stage::Running;
        (self.anchor, self.until) = (start.at, start.until.unwrap_or(Time::MAX));
        if let Some(again) = again {
            self.catch_up(again, out);
        }
        self.advance(now, out);
    }

    /// Walks to where a new incarnation begins; what nobody knows of is away.
    fn catch_up(&mut self, again: &Rejoin, out: &mut Outbox) {
        let mut away = 0;
        while let Some(next) = self.next() {
            match next {
                Next::Steer(at) if at < again.from => self.act(at, out),
                Next::Packet(at) if at < again.from => {
                    away += u64::from(at >= again.known_until);
                    self.step();
                }
                _ => break,
            }
        }
        if away > 0 {
            out.count(MetricId::AWAY, away);
        }
    }

    /// The next packet, unless all loops are over.
    fn packet(&self) -> Option<Recorded> {
        let left = self.spec.loops.is_none_or(|loops| self.round < loops);
        left.then(|| self.spec.recording.packets[self.row])
    }

    /// When a position is reached.
    fn time_of(&self, position: Span) -> Time {
        let ahead = position.as_nanos().saturating_sub(self.position.as_nanos());
        let nanos = if self.factor == 1.0 { ahead } else { (ahead as f64 / self.factor).round() as u64 };
        self.anchor.saturating_add(Span::from_nanos(nanos))
    }

    /// The position at a time of the run.
    fn at(&self, time: Time) -> Span {
        if self.still {
            return self.position;
        }
        let passed = time.since(self.anchor).as_nanos();
        let nanos = if self.factor == 1.0 { passed } else { (passed as f64 * self.factor).round() as u64 };
        Span::from_nanos(self.position.as_nanos().saturating_add(nanos))
    }

    /// A steer before a packet that is due at the same time.
    fn next(&self) -> Option<Next> {
        let steer = self.steers.next_at();
        let packet = self.packet().filter(|_| !self.still).map(|packet| {
            let period = self.spec.recording.period.as_nanos();
            let nanos = self.round.saturating_mul(period).saturating_add(packet.at.as_nanos());
            self.time_of(Span::from_nanos(nanos))
        });
        let packet = packet.filter(|at| *at < self.until);
        match (steer, packet) {
            (Some(steer), Some(packet)) if packet < steer => Some(Next::Packet(packet)),
            (Some(steer), _) => Some(Next::Steer(steer)),
            (None, packet) => packet.map(Next::Packet),
        }
    }

    fn step(&mut self) {
        self.row += 1;
        if self.row == self.spec.recording.packets.len() {
            (self.row, self.round) = (0, self.round + 1);
        }
    }

    /// Everything that is due up to `now` happens, in its order; then the timer is set.
    fn advance(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..BATCH {
            match self.next() {
                Some(Next::Steer(at)) if at <= now => self.act(at, out),
                Some(Next::Packet(at)) if at <= now => {
                    self.send(at, out);
                    self.step();
                }
                _ => break,
            }
            if self.stage != Stage::Running {
                return;
            }
        }
        if self.packet().is_none() {
            return self.finish(out);
        }
        let next = self.next().map(|next| match next {
            Next::Steer(at) | Next::Packet(at) => at,
        });
        self.alarm.set(next, out);
    }

    fn send(&self, at: Time, out: &mut Outbox) {
        let Spec { targets, recording, .. } = &*self.spec;
        let Recorded { bytes, stream, place, .. } = recording.packets[self.row];
        let number = self.round * recording.packets.len() as u64 + self.row as u64;
        let seq = self.round * u64::from(recording.streams[stream as usize]) + u64::from(place);
        // a stream always goes to the same instance, and each instance of the sender begins with its own
        let to = targets.base.member(self.member.wrapping_add(stream) % targets.len);
        let payload = Payload::new(bytes, recording.recipe, number);
        out.send(Datagram { to, stream, seq, intended: at, at, payload });
    }

    /// Hears of a steer: ahead of its time, when it is due, or late.
    fn steered(&mut self, now: Time, steer: &Steer, out: &mut Outbox) {
        let is_new = steer.is_for(&self.spec.node) && self.steers.learn(steer.clone());
        if is_new && self.stage == Stage::Running {
            self.advance(now, out);
        }
    }

    /// A steer takes effect.
    fn act(&mut self, at: Time, out: &mut Outbox) {
        let Some(Steer { step, .. }) = self.steers.take(at) else { return };
        self.position = self.at(at);
        self.anchor = self.anchor.max(at);
        match step {
            Steering::Pause => self.still = true,
            Steering::Resume => self.still = false,
            Steering::Factor(factor) => self.factor = factor,
            // so many packets per second, over all streams
            Steering::Rate(rate) => {
                let factor = self.spec.recording.rate().map(|mean| rate.as_f64() / mean);
                self.factor = factor.unwrap_or(self.factor);
            }
            Steering::Stop => self.finish(out),
        }
    }

    /// Nothing more to send.
    fn finish(&mut self, out: &mut Outbox) {
        if self.stage != Stage::Finished {
            self.stage = Stage::Finished;
            self.alarm.set(None, out);
            out.finish();
        }
    }
}

impl Actor for Player {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Timer { .. } => {
                self.alarm.rang();
                if self.stage == Stage::Running {
                    self.advance(now, out);
                }
            }
            Event::Message { body, .. } => match Word::read(body, &self.spec.node) {
                Some(Word::Begin(start, again)) => self.begin(now, &start, again.as_deref(), out),
                Some(Word::Steer(steer)) => self.steered(now, &steer, out),
                None => {}
            },
            Event::Stop => self.finish(out),
            _ => {}
        }
    }
}
