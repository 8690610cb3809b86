//! A generator as late as a real one: with a calibration that tells its quantum, the timers of senders wait for their node's
//! next wake-up, or for a message that wakes it before. Without one none of this is called.

use rehearsal_core::parts::heap::Entry;
use rehearsal_core::{Span, Time};
use rehearsal_models::compute::Lane;

use super::World;
use super::class::{Class, words};
use super::cores::Task;

/// The generator of one node.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    /// Wake-ups are rounded up to multiples of it; zero: it is never late.
    quantum: Span,
    /// Timers that came due while it slept.
    held: Vec<Held>,
    /// A planned wake-up of another epoch is stale.
    epoch: u32,
    /// The time has come and its thread is being woken.
    roused: bool,
}

/// A timer whose actor has not been told.
#[derive(Clone, Copy, Debug)]
struct Held {
    actor: u32,
    mark: u32,
    key: u32,
    due: Time,
}

impl Pacer {
    /// One whose wake-ups are rounded up to multiples of `quantum`.
    pub(super) fn of(quantum: Span) -> Self {
        Pacer { quantum, ..Pacer::default() }
    }

    /// A stream of the node sends that often: a wake-up is never later than half its gap, as in an emulation.
    pub(super) fn sends_every(&mut self, gap: Option<Span>) {
        self.quantum = gap.map_or(self.quantum, |gap| self.quantum.min(gap / 2));
    }
}

impl World {
    /// Keeps an actor's timer until its node wakes up; false if its time is now.
    pub(super) fn holds(&mut self, entry: &Entry) -> bool {
        let (mark, key) = ((entry.payload >> 32) as u32, entry.payload as u32);
        let (group, _) = self.place(entry.source());
        let node = self.groups[group].node;
        let quantum = self.nodes[node as usize].pacer.quantum;
        if quantum.is_zero() || !self.groups[group].sends || self.timers.is_overdue(key) || self.start.is_none() {
            return false;
        }
        let (now, origin) = (self.now, self.origin());
        let pacer = &mut self.nodes[node as usize].pacer;
        pacer.held.push(Held { actor: entry.source(), mark, key, due: now });
        if pacer.held.len() == 1 {
            let whole = now.since(origin).as_nanos().div_ceil(quantum.as_nanos()).saturating_mul(quantum.as_nanos());
            pacer.roused = false;
            let epoch = pacer.epoch;
            let at = origin.saturating_add(Span::from_nanos(whole)).max(now);
            self.push(at, Class::Pace, self.engine(), words(epoch, node));
        }
        true
    }

    /// The time of a wake-up: a thread that sleeps is woken a little later, one at work finds its timers at once.
    pub(super) fn pace(&mut self, epoch: u32, node: u32) {
        let Some(costs) = &self.costs else { return };
        let state = &mut self.nodes[node as usize];
        if state.pacer.epoch != epoch {
            return;
        }
        if !state.pacer.roused && state.desk.cores.idle() {
            state.pacer.roused = true;
            let late = costs.calibration.pacing.late(&mut state.store.random);
            if !late.is_zero() {
                return self.push(self.now.saturating_add(late), Class::Pace, self.engine(), words(epoch, node));
            }
        }
        self.release_timers(node);
    }

    /// Whoever comes to a node's thread finds its timers due.
    #[inline]
    pub(super) fn release_timers(&mut self, node: u32) {
        let pacer = &mut self.nodes[node as usize].pacer;
        if pacer.held.is_empty() {
            return;
        }
        pacer.epoch = pacer.epoch.wrapping_add(1);
        for held in std::mem::take(&mut pacer.held) {
            let Held { actor, mark, key, due } = held;
            let key = self.timers.overdue(actor, key, due);
            self.push(self.now, Class::Timer, actor, words(mark, key));
        }
    }

    /// A timer of a sender was fired: what that costs is worked off with what it sends, or at last with the next one.
    pub(super) fn fired(&mut self, actor: u32) {
        let Some(costs) = &self.costs else { return };
        let nanos = costs.calibration.pacing.due_ns;
        let (group, _) = self.place(actor);
        if nanos > 0.0 && self.groups[group].sends && self.start.is_some() {
            let node = self.groups[group].node;
            self.unsent(node);
            self.nodes[node as usize].desk.fired = nanos;
        }
    }

    /// What a timer that was fired just now costs, if nobody has worked it off; who takes it owes it.
    #[inline]
    pub(super) fn take_fired(&mut self, node: u32) -> f64 {
        std::mem::take(&mut self.nodes[node as usize].desk.fired)
    }

    /// A timer was fired and nothing left for it.
    pub(super) fn unsent(&mut self, node: u32) {
        let nanos = self.take_fired(node);
        if nanos > 0.0 {
            self.compute(node, Lane::Traffic, nanos, Task::Unseen);
        }
    }
}
