//! What is done to the load on the way. A source keeps the run's steers in the order of time; each of its streams walks
//! along them by its own schedule, so that a change falls between the same two slots however late anybody is.

use rehearsal_core::flow::FlowSet;
use rehearsal_core::life::Rejoin;
use rehearsal_core::steer::{Steer, Steering, learn};
use rehearsal_core::{Outbox, Time, TimerKey};

use super::spec::SourceSpec;
use super::stream::{Schedule, Stream, Wake};
use super::{Payloads, Source};

/// The steers that concern a source, in the order of time. Eight bytes, until there is one.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "there are many sources, and most are never steered")]
pub(super) struct Steers(Option<Box<Vec<Steer>>>);

impl Steers {
    /// Takes a steer in, unless it is known; `passed` of them are history, and stay before it.
    fn learn(&mut self, steer: Steer, passed: usize) {
        learn(self.0.get_or_insert_default(), steer, passed);
    }

    fn get(&self, index: u16) -> Option<&Steer> {
        self.0.as_ref()?.get(usize::from(index))
    }
}

impl<P: Payloads> Source<P> {
    /// Hears of a steer: ahead of its time, when it is due, or late.
    pub(super) fn steered(&mut self, now: Time, steer: &Steer, out: &mut Outbox) {
        if steer.is_for(&self.spec.node) {
            let passed = self.streams.iter().map(|s| usize::from(s.steered)).max().unwrap_or(0);
            self.steers.learn(steer.clone(), passed);
        }
        if self.stage != super::Stage::Running {
            return;
        }
        for index in 0..self.streams.len() as u32 {
            let stream = &mut self.streams[index as usize];
            let was_set = matches!(stream.wake(&self.steers), Wake::At(_));
            let resumed = stream.steer(&self.spec, &self.steers, now, out);
            if was_set && stream.wake(&self.steers) == Wake::Never {
                out.cancel_timer(TimerKey(index));
            }
            match self.spec.rate {
                Some(_) => self.arm(index, out),
                None if resumed => self.refill(index, now, out),
                None => self.end_if_spent(index, now),
            }
        }
        self.settle(out);
    }

    /// Takes up what an earlier incarnation of this source has begun.
    pub(super) fn rejoin(&mut self, now: Time, again: &Rejoin, out: &mut Outbox) {
        let generated = again.generated.get(&self.spec.actor).copied().unwrap_or(0);
        for index in 0..self.streams.len() as u32 {
            let share = self.spec.share(self.member, index, generated);
            let lost = self.streams[index as usize].catch_up(&self.spec, &self.steers, again, share, out);
            self.away(lost, out);
            match self.spec.rate {
                Some(_) => self.arm(index, out),
                None => self.refill(index, now, out),
            }
        }
    }
}

impl Stream {
    /// Acts on steers that have taken effect by `now`; slots that are due before a steer go first. True if a closed loop
    /// goes on after a pause.
    pub(super) fn steer(&mut self, spec: &SourceSpec, steers: &Steers, now: Time, out: &mut Outbox) -> bool {
        let mut resumed = false;
        while let Some(steer) = steers.get(self.steered).filter(|steer| steer.at <= now) {
            if self.next_due().is_some_and(|due| due < steer.at) {
                break;
            }
            self.steered += 1;
            resumed |= self.act(spec, steer.step, steer.at, out);
        }
        resumed
    }

    /// When the next steer takes effect that is not acted on.
    pub(super) fn next_steer(&self, steers: &Steers) -> Option<Time> {
        steers.get(self.steered).map(|steer| steer.at)
    }

    /// A pause that lasts until the end gives its slots up too.
    pub(super) fn end_pause(&mut self, now: Time) -> u64 {
        match &mut self.schedule {
            Schedule::Paced(pacer) if pacer.is_paused() => pacer.set(FlowSet::Resume, now),
            _ => 0,
        }
    }

    fn act(&mut self, spec: &SourceSpec, step: Steering, at: Time, out: &mut Outbox) -> bool {
        match &mut self.schedule {
            Schedule::Paced(pacer) => {
                let set = match step {
                    Steering::Pause => Some(FlowSet::Pause),
                    Steering::Resume => Some(FlowSet::Resume),
                    // a factor beyond what a rate can be was refused by whoever said it
                    Steering::Factor(factor) => spec.rate.and_then(|r| r.scaled(factor).ok()).map(FlowSet::Rate),
                    Steering::Rate(rate) => Some(FlowSet::Rate(rate)),
                    Steering::Stop => Some(FlowSet::Stop),
                };
                let Some(set) = set else { return false };
                let changes = matches!(set, FlowSet::Rate(_) | FlowSet::Stop) && pacer.is_paused();
                let mut given_up = if changes { pacer.set(FlowSet::Resume, at) } else { 0 };
                given_up += pacer.set(set, at);
                if changes && matches!(set, FlowSet::Rate(_)) {
                    pacer.set(FlowSet::Pause, at);
                }
                if given_up > 0 {
                    out.count(rehearsal_core::MetricId::PAUSED, given_up * u64::from(spec.fan));
                }
                false
            }
            Schedule::Closed { left, paused, .. } => {
                let resumed = *paused && step == Steering::Resume;
                match step {
                    Steering::Pause => *paused = true,
                    Steering::Resume => *paused = false,
                    Steering::Stop => *left = 0,
                    Steering::Factor(_) | Steering::Rate(_) => {}
                }
                resumed
            }
            Schedule::Idle { .. } | Schedule::Ended => false,
        }
    }

    /// Walks to where an earlier incarnation was, and on to where the present one begins; the number of slots that were
    /// due in between. `share` is what a closed loop had begun.
    fn catch_up(&mut self, spec: &SourceSpec, steers: &Steers, again: &Rejoin, share: u64, out: &mut Outbox) -> u64 {
        let mut lost = 0;
        let mut walk = |stream: &mut Stream, to: Time| {
            for (end, counts) in [(to.min(again.known_until), false), (to, true)] {
                let Schedule::Paced(pacer) = &mut stream.schedule else { return };
                let used = pacer.use_up_before(end);
                stream.seq += used;
                lost += if counts { used } else { 0 };
            }
        };
        while let Some(steer) = steers.get(self.steered).filter(|steer| steer.at <= again.from) {
            let before = steer.at < again.known_until;
            walk(self, steer.at);
            self.steered += 1;
            // what was given up in a pause is in the earlier incarnation's books, as far as they are known
            let mut nobody = Outbox::default();
            self.act(spec, steer.step, steer.at, if before { &mut nobody } else { out });
        }
        walk(self, again.from);
        if let Schedule::Closed { left, .. } = &mut self.schedule {
            *left = if spec.requests.is_some() { left.saturating_sub(share) } else { *left };
            self.seq += share;
        }
        lost
    }
}
