//! Work that takes time: pauses, analysis on a node's cores, encoding, and records for the sink.

use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{NodePlan, Plan};
use rehearsal_core::sink::Sink;
use rehearsal_core::{Payload, Span, Time, Work, WorkKey, WorkResult};

use super::class::{Class, words};
use super::{What, World};

/// Work whose result is more than "done", or whose second part has yet to come.
#[derive(Debug)]
pub(super) struct Made {
    actor: u32,
    pub key: WorkKey,
    pub result: WorkResult,
    spin: Span,
    store: bool,
}

/// A node's cores: first come, first served, each piece of work on one core.
///
/// A quota of 1.5 cores is modelled as two cores of three quarters of the speed. Without a quota a node has all cores
/// of its host, whatever else runs there; without a host it has as many as it wants.
#[derive(Debug, Default)]
pub(super) struct Cores {
    free_at: Vec<Time>,
    stretch: f64,
}

impl Cores {
    /// The cores of `node`.
    pub(super) fn of(plan: &Plan, node: &NodePlan) -> Self {
        let quota = node.vcpu.or_else(|| node.host.map(|host| f64::from(plan.hosts[host].cores)));
        let Some(quota) = quota.filter(|q| *q > 0.0) else { return Cores::default() };
        let count = quota.ceil();
        Cores { free_at: vec![Time::ZERO; count as usize], stretch: count / quota }
    }

    /// Takes the core that is free first; when the work is done.
    fn claim(&mut self, now: Time, spin: Span) -> Time {
        let Some(core) = self.free_at.iter_mut().min() else { return now + spin };
        let takes = Span::from_nanos((spin.as_nanos() as f64 * self.stretch).round() as u64);
        *core = (*core).max(now) + takes;
        *core
    }
}

impl World {
    /// Begins some work of an actor. Decoding and encoding take no time: what they cost is unknown before a calibration.
    #[inline]
    pub(super) fn work(&mut self, actor: u32, key: WorkKey, work: Work, sink: &mut dyn Sink) {
        match work {
            Work::Pause(span) => self.push(self.now.saturating_add(span), Class::Work, actor, key.0),
            Work::Analyze { exchange, pause, spin, .. } => {
                let request = self.exchanges.get(exchange.slot(), exchange.generation());
                let payload = request.map(|x| x.request.payload);
                if payload.is_none_or(|p| self.malformed.get(usize::from(p.recipe.0)).copied().unwrap_or(false)) {
                    self.make(actor, key, WorkResult::Invalid, false);
                } else {
                    self.analyze(actor, key, pause, spin);
                }
            }
            Work::Encode { media, frame } => {
                let (recipe, sizes) = &self.clips[usize::from(media.0)];
                let bytes = sizes[(frame % sizes.len() as u64) as usize];
                let payload = Payload::new(bytes, *recipe, frame);
                self.make(actor, key, WorkResult::Produced(payload), false);
            }
            Work::Store(record) => {
                let result = match sink.store(&record) {
                    Ok(()) => WorkResult::Done,
                    Err(why) => {
                        if !std::mem::replace(&mut self.sink_failed, true) {
                            self.fault(actor, why.to_string());
                            // nothing more would be kept
                            self.stop_wanted.get_or_insert(StopReason::Fault);
                        }
                        WorkResult::Invalid
                    }
                };
                self.stores_due += 1;
                self.make(actor, key, result, true);
            }
        }
    }

    /// A pause without a core, then a computation on one.
    #[inline]
    fn analyze(&mut self, actor: u32, key: WorkKey, pause: Span, spin: Span) {
        if spin.is_zero() {
            self.push(self.now.saturating_add(pause), Class::Work, actor, key.0);
        } else if pause.is_zero() {
            self.occupy(actor, key, spin);
        } else {
            let slot = self.made.insert(Made { actor, key, result: WorkResult::Done, spin, store: false });
            self.push(self.now.saturating_add(pause), Class::Compute, actor, words(0, slot));
        }
    }

    /// The pause is over.
    #[inline]
    pub(super) fn compute(&mut self, slot: u32) -> Option<(u32, What)> {
        let Made { actor, key, spin, .. } = self.made.remove(slot);
        self.occupy(actor, key, spin);
        None
    }

    #[inline]
    fn occupy(&mut self, actor: u32, key: WorkKey, spin: Span) {
        let (group, _) = self.place(actor);
        let done = self.nodes[self.groups[group].node as usize].cores.claim(self.now, spin);
        self.push(done, Class::Work, actor, key.0);
    }

    #[inline]
    fn make(&mut self, actor: u32, key: WorkKey, result: WorkResult, store: bool) {
        let slot = self.made.insert(Made { actor, key, result, spin: Span::ZERO, store });
        self.push(self.now, Class::Made, actor, words(actor, slot));
    }

    /// The actor has the result.
    #[inline]
    pub(super) fn collected(&mut self, slot: u32) {
        let made = self.made.remove(slot);
        self.stores_due -= u64::from(made.store);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_of_one_and_a_half_is_two_slower_cores() {
        let mut cores = Cores { free_at: vec![Time::ZERO; 2], stretch: 2.0 / 1.5 };
        let (now, spin) = (Time::from_nanos(1000), Span::from_nanos(300));
        let done: Vec<u64> = (0..4).map(|_| cores.claim(now, spin).as_nanos()).collect();
        assert_eq!(done, [1400, 1400, 1800, 1800]);
        assert_eq!(Cores::default().claim(now, spin).as_nanos(), 1300, "without a limit nothing waits");
    }
}
