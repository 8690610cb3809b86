//! Work that takes time: pauses, analysis and encoding on a node's cores, and records for the sink.

use rehearsal_core::calibration::{Cost, WorkCosts, pause_end};
use rehearsal_core::messages::StopReason;
use rehearsal_core::sink::Sink;
use rehearsal_core::{Payload, Span, Time, Work, WorkKey, WorkResult};

use super::class::{Class, words};
use super::cores::Task;
use super::{What, World};

/// Work whose result is more than "done", or whose second part has yet to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub actor: u32,
    pub key: WorkKey,
    pub result: WorkResult,
    spin: Span,
    store: bool,
}

impl World {
    /// Begins some work of an actor. Decoding and encoding cost what the calibration says, and nothing without one.
    #[inline]
    pub(super) fn work(&mut self, actor: u32, key: WorkKey, work: Work, sink: &mut dyn Sink) {
        match work {
            Work::Pause(span) => self.pause(actor, key, span),
            Work::Analyze { exchange, pause, spin, decode } => {
                let request = self.exchanges.get(exchange.slot(), exchange.generation());
                let payload = request.map(|x| x.request.payload);
                if payload.is_none_or(|p| self.malformed.get(usize::from(p.recipe.0)).copied().unwrap_or(false)) {
                    self.make(actor, key, WorkResult::Invalid, false);
                } else {
                    let bytes = payload.map_or(0, |p| p.bytes);
                    let decoding = if decode { self.work_cost(actor, bytes, |work| &work.decode) } else { Span::ZERO };
                    self.analyze(actor, key, pause, spin + decoding);
                }
            }
            Work::Encode { media, frame } => {
                let (recipe, sizes) = &self.clips[usize::from(media.0)];
                let bytes = sizes[(frame % sizes.len() as u64) as usize];
                let payload = Payload::new(bytes, *recipe, frame);
                let cost = self.work_cost(actor, bytes, |work| &work.encode);
                let result = WorkResult::Produced(payload);
                if cost.is_zero() {
                    self.make(actor, key, result, false);
                } else {
                    let slot = self.made.insert(Made { actor, key, result, spin: Span::ZERO, store: false });
                    self.compute_span(self.node_of(actor), cost, Task::Work(slot));
                }
            }
            Work::Store(record) => {
                let result = match sink.store(&record) {
                    Ok(()) => {
                        self.stop_wanted = self.stop_wanted.or_else(|| sink.ends());
                        WorkResult::Done
                    }
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

    /// A pause without a core.
    #[inline]
    pub(super) fn pause(&mut self, actor: u32, key: WorkKey, span: Span) {
        self.push(self.now.saturating_add(span), Class::Work, actor, key.0);
    }

    /// A pause without a core, then a computation on one.
    #[inline]
    fn analyze(&mut self, actor: u32, key: WorkKey, pause: Span, spin: Span) {
        let end = self.pause_end(pause);
        if spin.is_zero() {
            return self.push(end, Class::Work, actor, key.0);
        }
        let slot = self.made.insert(Made { actor, key, result: WorkResult::Done, spin, store: false });
        if pause.is_zero() {
            self.compute_span(self.node_of(actor), spin, Task::Work(slot));
        } else {
            self.push(end, Class::Compute, actor, words(0, slot));
        }
    }

    /// When a pause that begins now is over: as late as in an emulation, if a calibration tells the generator's quantum.
    #[inline]
    fn pause_end(&self, pause: Span) -> Time {
        let quantum = self.costs.as_ref().and_then(|costs| costs.calibration.pacing.quantum);
        pause_end(self.now, pause, quantum.unwrap_or(Span::ZERO))
    }

    /// The pause is over.
    #[inline]
    pub(super) fn paused(&mut self, slot: u32) -> Option<(u32, What)> {
        let Made { actor, spin, .. } = *self.made.at(slot);
        self.compute_span(self.node_of(actor), spin, Task::Work(slot));
        None
    }

    /// What the calibration says of an actor's own work on `bytes`.
    fn work_cost(&mut self, actor: u32, bytes: u32, which: fn(&WorkCosts) -> &Cost) -> Span {
        let Some(costs) = &self.costs else { return Span::ZERO };
        let cost = which(&costs.calibration.work);
        if cost.is_free() {
            return Span::ZERO;
        }
        let node = self.groups[self.seats[actor as usize].group as usize].node;
        let state = &mut self.nodes[node as usize];
        let nanos = cost.draw(bytes, state.desk.load(self.now), &mut state.store.random);
        Span::from_nanos(nanos.round() as u64)
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
