//! Flows: what is due together leaves together.

use std::net::SocketAddr;

use rehearsal_core::flow::{FlowReport, FlowSchedule, FlowSet, FlowSpec};
use rehearsal_core::{ActorId, Datagram, Event, FlowId, Head, Payload, Time};

use super::super::timers::class;
use super::super::{Shard, State};
use crate::udp::{By, DATAGRAM_BYTES_MAX, HEADER_BYTES, Reach, Sort, Stamp, TRAIN_MAX, Target, Way};

/// A flow of an actor here.
pub(in crate::shard) struct Flow {
    who: u32,
    row: usize,
    node: usize,
    spec: FlowSpec,
    schedule: FlowSchedule,
    paused: bool,
    /// One entry of the flow waits in the timers; a stale one is told by its number.
    epoch: u32,
    report: FlowReport,
    told: bool,
}

/// Departures of a flow in one go; the rest waits for the next.
const BATCH: usize = TRAIN_MAX;
/// As many timers as such a batch weighs: a datagram costs about a quarter of an event of an actor.
pub(in crate::shard) const FIRES: usize = BATCH / 4;

impl Flow {
    pub(in crate::shard) fn ended(&self) -> bool {
        self.schedule.peek().is_none()
    }

    pub(in crate::shard) fn node(&self) -> usize {
        self.node
    }

    /// Takes departures that are due, at most as many as there is room for; their number.
    fn due(&mut self, now: Time, out: &mut [(u64, Time)]) -> (usize, u64) {
        let (mut taken, mut skipped) = (0, 0);
        while taken < out.len() && skipped < BATCH as u64 {
            if self.schedule.peek().is_none_or(|at| at > now) {
                break;
            }
            let Some(departure) = self.schedule.advance() else { break };
            if self.paused {
                skipped += 1;
                continue;
            }
            out[taken] = departure;
            taken += 1;
        }
        self.report.sent += taken as u64;
        self.report.bytes += taken as u64 * u64::from(self.spec.bytes);
        self.report.skipped += skipped;
        (taken, skipped)
    }
}

const fn reach(target: Target) -> Reach {
    if target.outside { Reach::Outside } else { Reach::Receivers }
}

impl State {
    /// An actor begins a flow.
    pub(in crate::shard) fn flow(&mut self, who: u32, row: usize, spec: FlowSpec) {
        let node = self.world.groups[self.books[row].group].node;
        let mut schedule = FlowSchedule::new(&spec);
        if self.stopping {
            schedule.stop();
        }
        let report = FlowReport { flow: spec.flow, sent: 0, bytes: 0, skipped: 0, ended: false };
        let flow = Flow { who, row, node, spec, schedule, paused: false, epoch: 0, report, told: false };
        self.flows.push(flow);
        self.plan_departure(self.flows.len() - 1);
    }

    /// An actor changes its flow.
    pub(in crate::shard) fn set_flow(&mut self, who: u32, id: FlowId, set: FlowSet) {
        let now = self.now();
        let Some(row) = self.flows.iter().position(|f| f.who == who && f.spec.flow == id && !f.told) else { return };
        let flow = &mut self.flows[row];
        match set {
            FlowSet::Pause => flow.paused = true,
            FlowSet::Resume => flow.paused = false,
            FlowSet::Rate(rate) => flow.schedule.set_rate(rate, now),
            FlowSet::Stop => flow.schedule.stop(),
        }
        self.plan_departure(row);
    }

    fn plan_departure(&mut self, row: usize) {
        let flow = &mut self.flows[row];
        flow.epoch = flow.epoch.wrapping_add(1);
        if let Some(at) = flow.schedule.peek() {
            let payload = u64::from(flow.epoch) << 32 | row as u64;
            self.timers.push(at, class::FLOW, flow.who, payload);
        } else {
            let node = flow.node;
            self.check_done(node);
        }
    }

    /// Departures of a flow are due: all up to now, in batches.
    pub(in crate::shard) fn depart(&mut self, payload: usize, now: Time) {
        let (row, epoch) = (payload & 0xFFFF_FFFF, (payload as u64 >> 32) as u32);
        if self.flows[row].epoch != epoch {
            return;
        }
        let flow = &self.flows[row];
        let (bytes, to, node, dscp) =
            (flow.spec.bytes as usize, flow.spec.to, flow.node, self.world.groups[self.books[flow.row].group].dscp);
        let target = self.datagram_target(node, to, dscp).filter(|_| self.imposed_path(node, to).is_none());
        // what goes outside is as long as it is
        let least = if target.is_some_and(|target| target.outside) { 0 } else { HEADER_BYTES };
        let wire = bytes.clamp(least, DATAGRAM_BYTES_MAX);
        // nothing at all is no train
        let target = target.filter(|_| wire > 0).and_then(|target| match target.by {
            By::Address(address) => Some((address, target)),
            By::Broker(_) | By::Frames(_) => None,
        });
        let mut due = [(0, Time::ZERO); BATCH];
        let mut left = BATCH;
        while left > 0 {
            let room = match target {
                Some((_, target)) if target.singly => 1,
                Some(_) => self.udp.train(wire).min(left),
                None => left,
            };
            let flow = &mut self.flows[row];
            let (taken, skipped) = flow.due(now, &mut due[..room]);
            self.books[flow.row].ledger.tally.skipped += skipped;
            match target {
                Some(target) if taken > 0 => self.send_train(row, target, wire, &due[..taken]),
                _ => self.send_singly(row, &due[..taken]),
            }
            left = left.saturating_sub(taken.max(skipped as usize));
            if taken < room {
                break;
            }
        }
        self.plan_departure(row);
    }

    /// Sends departures one by one, over an imposed link or to nowhere.
    fn send_singly(&mut self, row: usize, due: &[(u64, Time)]) {
        for (seq, at) in due.iter().copied() {
            let flow = &self.flows[row];
            let (who, stream, to, books) = (flow.who, flow.spec.stream, flow.spec.to, flow.row);
            let head = Head { from: Some(ActorId(who)), stream, seq, ..Head::default() };
            let payload = Payload::new(flow.spec.bytes, flow.spec.recipe, seq);
            self.send_one(books, to, head, (at, at), payload);
        }
    }

    /// Renders, stamps, books and sends departures in one call.
    fn send_train(&mut self, row: usize, (address, target): (SocketAddr, Target), wire: usize, due: &[(u64, Time)]) {
        let flow = &self.flows[row];
        let (who, books) = (flow.who, flow.row);
        let FlowSpec { to, stream, recipe, bytes, .. } = flow.spec;
        let group = &self.world.groups[self.books[books].group];
        let (way, member) = (
            Way { origin: self.origin(books, stream), to: address, dscp: group.dscp, sort: reach(target) },
            group.members.start + who - group.base,
        );
        let mut train = self.udp.buffer();
        for (i, (seq, _)) in due.iter().enumerate() {
            self.render_into(Payload::new(bytes, recipe, *seq), member, &mut train);
            train.resize((i + 1) * wire, 0);
        }
        let (sent, start) = (self.now(), self.world.start().unwrap_or(Time::ZERO));
        let books = &mut self.books[books];
        for ((seq, at), datagram) in due.iter().copied().zip(train.chunks_exact_mut(wire)) {
            let head = Head { from: Some(ActorId(who)), stream, seq, ..Head::default() };
            let stamp = Stamp { run: self.world.run_hash, sort: Sort::OneWay, head, intended: at, sent };
            if !target.outside {
                stamp.write(datagram);
            }
            let payload = Payload::new(bytes, recipe, seq);
            let datagram = Datagram { to, stream, seq, intended: at, at, payload };
            books.ledger.datagram(member, &datagram, sent, start);
        }
        if !target.here && !target.outside {
            books.elsewhere += due.len() as u64;
        }
        let sent = self.put_out(way, wire, train);
        if target.outside {
            let (row, node) = (self.flows[row].row, self.flows[row].node);
            self.sent_outside(row, node, way, (due.len() as u64, sent));
        }
    }

    /// At the stop: no flow goes on, no datagram leaves.
    pub(in crate::shard) fn stop_flows(&mut self) {
        self.flows.iter_mut().for_each(|f| f.schedule.stop());
    }
}

impl Shard {
    /// Tells each flow's actor what it did in the second that ends; a flow that has ended is told once more.
    pub(in crate::shard) fn report_flows(&mut self) {
        for row in 0..self.state.flows.len() {
            let flow = &mut self.state.flows[row];
            if flow.told {
                continue;
            }
            let ended = flow.ended();
            flow.told = ended;
            let report = FlowReport { ended, ..flow.report };
            flow.report = FlowReport { flow: flow.spec.flow, sent: 0, bytes: 0, skipped: 0, ended: false };
            let who = flow.who;
            self.handle(who, Event::FlowReport(&report));
        }
    }
}
