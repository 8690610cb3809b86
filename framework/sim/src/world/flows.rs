//! Flows: the engine walks the same seeded schedule as the emulator's, one packet per event, and reports each second.

use rehearsal_core::flow::{FlowReport, FlowSchedule, FlowSet, FlowSpec};
use rehearsal_core::{Datagram, FlowId, MetricId, Payload, RecipeId, SubjectId};

use super::class::{Class, words};
use super::{Phase, What, World};

/// A flow that has not ended, or whose end has not been reported.
#[derive(Debug)]
pub(super) struct Flow {
    actor: u32,
    to: SubjectId,
    stream: u32,
    recipe: RecipeId,
    bytes: u32,
    schedule: FlowSchedule,
    /// Drawn anew with every change, so that a departure planned before is recognised as stale.
    change: u32,
    paused: bool,
    /// What was done since the last report.
    since: FlowReport,
    /// The report that is on its way.
    pub report: FlowReport,
    reporting: bool,
}

impl World {
    /// An actor begins a flow.
    pub(super) fn begin_flow(&mut self, actor: u32, spec: &FlowSpec) {
        let none = FlowReport { flow: spec.flow, sent: 0, bytes: 0, skipped: 0, ended: false };
        let change = self.next_change();
        let slot = self.flows.insert(Flow {
            actor,
            to: spec.to,
            stream: spec.stream,
            recipe: spec.recipe,
            bytes: spec.bytes,
            schedule: FlowSchedule::new(spec),
            change,
            paused: false,
            since: none,
            report: none,
            reporting: false,
        });
        if self.phase == Phase::Running { self.plan_departure(slot) } else { self.end_flow(slot) }
    }

    /// An actor changes one of its flows. Looks through all flows: changes are rare.
    pub(super) fn set_flow(&mut self, actor: u32, flow: FlowId, set: FlowSet) {
        let wanted = |f: &Flow| f.actor == actor && f.since.flow == flow && !f.since.ended;
        let found = self.flows.iter().find(|(_, f)| wanted(f)).map(|(slot, _)| slot);
        let Some(slot) = found else { return };
        let change = self.next_change();
        let flow = self.flows.at_mut(slot);
        match set {
            FlowSet::Pause => flow.paused = true,
            FlowSet::Resume => flow.paused = false,
            FlowSet::Rate(rate) => {
                flow.schedule.set_rate(rate, self.now);
                flow.change = change;
                self.plan_departure(slot);
            }
            FlowSet::Stop => self.end_flow(slot),
        }
    }

    /// The next departure, or the end.
    #[inline]
    fn plan_departure(&mut self, slot: u32) {
        let flow = self.flows.at(slot);
        match flow.schedule.peek() {
            Some(at) => self.push(at.max(self.now), Class::Flow, flow.actor, words(flow.change, slot)),
            None => self.end_flow(slot),
        }
    }

    /// A departure comes up, unless the flow has changed or ended since.
    #[inline]
    pub(super) fn depart(&mut self, change: u32, slot: u32) -> Option<(u32, What)> {
        let generation = self.flows.generation(slot);
        let flow = self.flows.get_mut(slot, generation).filter(|f| f.change == change && !f.since.ended)?;
        let (actor, to, stream, paused) = (flow.actor, flow.to, flow.stream, flow.paused);
        let payload = Payload::new(flow.bytes, flow.recipe, 0);
        if let Some((seq, intended)) = flow.schedule.advance() {
            if paused {
                flow.since.skipped += 1;
                self.count(actor, MetricId::SKIPPED, 1);
            } else {
                flow.since.sent += 1;
                flow.since.bytes += u64::from(payload.bytes);
                let payload = Payload { seq, ..payload };
                self.send(actor, Datagram { to, stream, seq, intended, at: self.now, payload });
            }
        }
        self.plan_departure(slot);
        None
    }

    fn end_flow(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        flow.schedule.stop();
        flow.since.ended = true;
        self.report(slot);
    }

    /// Sends the actor what its flow did; added to a report that is on its way already.
    fn report(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        let FlowReport { sent, bytes, skipped, ended, .. } = flow.since;
        flow.report.sent += sent;
        flow.report.bytes += bytes;
        flow.report.skipped += skipped;
        flow.report.ended |= ended;
        (flow.since.sent, flow.since.bytes, flow.since.skipped) = (0, 0, 0);
        let actor = flow.actor;
        if !std::mem::replace(&mut flow.reporting, true) {
            self.push(self.now, Class::FlowReport, actor, words(actor, slot));
        }
    }

    /// The actor has its report; the last one frees the slot.
    pub(super) fn reported(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        flow.reporting = false;
        if flow.report.ended {
            self.flows.remove(slot);
            return;
        }
        (flow.report.sent, flow.report.bytes, flow.report.skipped) = (0, 0, 0);
    }

    /// A second is over: every flow that goes on reports.
    pub(super) fn report_flows(&mut self) {
        for slot in self.going() {
            self.report(slot);
        }
    }

    /// At the stop: every flow ends.
    pub(super) fn end_flows(&mut self) {
        for slot in self.going() {
            self.end_flow(slot);
        }
    }

    fn next_change(&mut self) -> u32 {
        self.flow_changes = self.flow_changes.wrapping_add(1);
        self.flow_changes
    }

    fn going(&self) -> Vec<u32> {
        self.flows.iter().filter(|(_, f)| !f.since.ended).map(|(slot, _)| slot).collect()
    }
}
