//! Datagrams and flows: one way, no outcome; the receiver's counts settle them at the end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering;

use rehearsal_core::flow::{FlowReport, FlowSchedule, FlowSet, FlowSpec};
use rehearsal_core::messages::Metric;
use rehearsal_core::plan::Carrier;
use rehearsal_core::{ActorId, Datagram, Event, FlowId, Head, Payload, Span, SubjectId, Time};

use super::timers::class;
use super::{Shard, State};
use crate::udp::{HEADER_BYTES, Stamp, Target, times};

/// A datagram whose time has not come.
pub(super) struct Later {
    who: u32,
    row: usize,
    datagram: Datagram,
}

/// A flow of an actor here.
pub(super) struct Flow {
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
const BATCH: usize = 64;
/// As many timers as such a batch weighs: a datagram costs about a quarter of an event of an actor.
pub(super) const FIRES: usize = BATCH / 4;
/// Sequence numbers back from the newest in which a duplicate is recognised.
const WINDOW: u64 = 1024;

/// What came in of one stream: the newest number, and which of the last [`WINDOW`] numbers came.
#[derive(Clone)]
pub(super) struct Seen {
    newest: u64,
    bits: [u64; WINDOW as usize / 64],
}

/// What came in, by receiving actor, sending actor and stream.
pub(super) type Arrived = BTreeMap<(u32, u32, u32), Seen>;

/// What a datagram is to its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    InOrder,
    Reordered,
    Duplicate,
}

impl Seen {
    fn first(seq: u64) -> Self {
        let mut seen = Seen { newest: seq, bits: [0; WINDOW as usize / 64] };
        seen.mark(seq);
        seen
    }

    fn mark(&mut self, seq: u64) -> bool {
        let at = seq % WINDOW;
        let (word, bit) = ((at / 64) as usize, 1_u64 << (at % 64));
        let known = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        known
    }

    /// Books one more. Older than the window, it is taken for a late first one.
    fn place(&mut self, seq: u64) -> Place {
        if seq > self.newest {
            let from = self.newest.max(seq.saturating_sub(WINDOW)) + 1;
            for skipped in from..seq {
                let at = skipped % WINDOW;
                self.bits[(at / 64) as usize] &= !(1 << (at % 64));
            }
            let at = seq % WINDOW;
            self.bits[(at / 64) as usize] |= 1 << (at % 64);
            self.newest = seq;
            return Place::InOrder;
        }
        if self.newest - seq >= WINDOW {
            return Place::Reordered;
        }
        if self.mark(seq) { Place::Duplicate } else { Place::Reordered }
    }
}

impl Flow {
    pub(super) fn ended(&self) -> bool {
        self.schedule.peek().is_none()
    }

    pub(super) fn node(&self) -> usize {
        self.node
    }
}

impl State {
    /// An actor sends a datagram, now or later.
    pub(super) fn datagram(&mut self, who: u32, row: usize, datagram: Datagram) {
        if datagram.at <= self.now() {
            self.send_datagram(who, row, &datagram);
        } else if !self.stopping {
            let slot = self.later.insert(Later { who, row, datagram });
            self.timers.push(datagram.at, class::DATAGRAM, who, u64::from(slot));
        }
    }

    pub(super) fn send_later(&mut self, slot: u32) {
        let Later { who, row, datagram } = self.later.remove(slot);
        self.send_datagram(who, row, &datagram);
    }

    fn send_datagram(&mut self, who: u32, row: usize, datagram: &Datagram) {
        if self.stopping {
            return;
        }
        let Datagram { to, stream, seq, intended, at, payload } = *datagram;
        let head = Head { from: Some(ActorId(who)), stream, class: 0, seq, limit: Span::ZERO };
        self.send_one(row, to, head, (intended, at), payload);
    }

    /// Sends and books one datagram. One without a way to its target is booked too, and lost.
    fn send_one(&mut self, row: usize, to: SubjectId, head: Head, (intended, at): (Time, Time), payload: Payload) {
        let sent = self.now();
        let books = &mut self.books[row];
        let who = head.from.map_or(books.base, |a| a.0);
        let (node, member) = (self.world.groups[books.group].node, books.first + who - books.base);
        let start = self.world.start().unwrap_or(Time::ZERO);
        books.ledger.datagram(member, head.stream, head.seq, intended.since(start), payload.bytes, sent.since(at));
        let Some(Target { address, here }) = self.datagram_target(node, to) else { return };
        if !here {
            self.books[row].elsewhere += 1;
        }
        let stamp = Stamp { run: self.world.run_hash, head, intended, sent };
        let mut datagram = self.udp.buffer();
        self.render_into(payload, member, &mut datagram);
        if let Err(why) = self.udp.send(node, address, &stamp, datagram) {
            self.notes.note(format!("datagrams could not be sent: {why}"));
        }
    }

    fn datagram_target(&mut self, node: usize, to: SubjectId) -> Option<Target> {
        let world = &self.world;
        self.udp.target(node, to, || {
            let owner = world.subjects.owner(to)?;
            let receiver = world.groups[world.group_of(owner.0)].node;
            let (address, here) = (world.address(owner)?, world.plan.nodes[receiver].local);
            (world.plan.link(node, receiver).carrier == Carrier::Udp).then_some(Target { address, here })
        })
    }

    /// An actor begins a flow.
    pub(super) fn flow(&mut self, who: u32, row: usize, spec: FlowSpec) {
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
    pub(super) fn set_flow(&mut self, who: u32, id: FlowId, set: FlowSet) {
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
    pub(super) fn depart(&mut self, payload: usize, now: Time) {
        let (row, epoch) = (payload & 0xFFFF_FFFF, (payload as u64 >> 32) as u32);
        if self.flows[row].epoch != epoch {
            return;
        }
        for _ in 0..BATCH {
            let flow = &mut self.flows[row];
            if flow.schedule.peek().is_none_or(|at| at > now) {
                break;
            }
            let Some((seq, at)) = flow.schedule.advance() else { break };
            if flow.paused {
                flow.report.skipped += 1;
                self.books[flow.row].ledger.tally.skipped += 1;
                continue;
            }
            let bytes = flow.spec.bytes;
            flow.report.sent += 1;
            flow.report.bytes += u64::from(bytes);
            let head =
                Head { from: Some(ActorId(flow.who)), stream: flow.spec.stream, class: 0, seq, limit: Span::ZERO };
            let (to, payload, books) = (flow.spec.to, Payload::new(bytes, flow.spec.recipe, seq), flow.row);
            self.send_one(books, to, head, (at, at), payload);
        }
        self.plan_departure(row);
    }

    /// At the stop: no flow goes on, no datagram leaves.
    pub(super) fn stop_flows(&mut self) {
        self.flows.iter_mut().for_each(|f| f.schedule.stop());
    }

    /// The receivers' counts settle a group's datagrams: what arrived is a success, the rest is lost. Nobody here knows
    /// what became of those that went elsewhere: they stay open, and end as aborted.
    pub(super) fn settle_datagrams(&mut self) {
        for books in &mut self.books {
            let tally = &mut books.ledger.tally;
            let sent = tally.datagrams_sent - books.elsewhere;
            let arrived = self.world.shared.arrived[books.group].load(Ordering::Acquire).min(sent);
            let lost = sent - arrived;
            if books.elsewhere > 0 && self.world.options.remote.is_none() {
                self.notes.note("what became of datagrams to receivers elsewhere is not known here".to_owned());
            }
            tally.success += arrived;
            tally.lost += lost;
            tally.unacknowledged += lost;
        }
    }

    /// Datagrams sent from here that have not arrived anywhere.
    pub(super) fn datagrams_missing(&self) -> u64 {
        let missing = |books: &super::Books| {
            let arrived = self.world.shared.arrived[books.group].load(Ordering::Acquire);
            (books.ledger.tally.datagrams_sent - books.elsewhere).saturating_sub(arrived)
        };
        self.books.iter().map(missing).sum()
    }
}

impl Shard {
    /// A datagram came in for a receiving actor.
    pub(crate) fn datagram_in(&mut self, actor: u32, bytes: &[u8]) {
        let state = &mut self.state;
        let now = state.now();
        let Some(stamp) = Stamp::read(bytes, state.world.run_hash, now) else { return };
        let Some(from) = stamp.head.from.filter(|f| state.world.knows(*f)) else { return };
        if state.closed {
            return;
        }
        let (row, _) = state.place(actor);
        let ledger = &mut state.books[row].ledger;
        ledger.tally.datagrams_received += 1;
        ledger.tally.bytes_received += bytes.len() as u64;
        let times = times(&stamp, now);
        // another process may count its time from another moment: what the stamps differ by is then no delay
        let one_clock = state.world.options.remote.is_some() || state.world.is_local(state.world.group_of(from.0));
        if one_clock {
            ledger.record(Metric::OneWay, now.since(times.sent));
        }
        let key = (actor, from.0, stamp.head.stream);
        let watched = state.arrived.len();
        let place = match state.arrived.entry(key) {
            Entry::Occupied(mut seen) => seen.get_mut().place(stamp.head.seq),
            Entry::Vacant(_) if watched >= STREAMS_MAX => Place::InOrder,
            Entry::Vacant(new) => {
                new.insert(Seen::first(stamp.head.seq));
                Place::InOrder
            }
        };
        match place {
            Place::InOrder => {}
            Place::Reordered => ledger.tally.datagrams_reordered += 1,
            Place::Duplicate => ledger.tally.datagrams_duplicate += 1,
        }
        if place != Place::Duplicate {
            let group = state.world.group_of(from.0);
            state.world.shared.arrived[group].fetch_add(1, Ordering::AcqRel);
        }
        let payload = Payload::new(bytes.len().max(HEADER_BYTES) as u32, Payload::RECEIVED, stamp.head.seq);
        self.handle(actor, Event::Datagram { head: &stamp.head, times: &times, payload: &payload });
        self.settle();
    }

    /// Tells each flow's actor what it did in the second that ends; a flow that has ended is told once more.
    pub(super) fn report_flows(&mut self) {
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

/// Streams whose order is watched, over all receivers of a shard; 144 bytes each. Datagrams of further ones count as
/// being in order.
const STREAMS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_late_ones_are_told_apart() {
        let mut seen = Seen::first(10);
        let places: Vec<Place> = [11, 13, 12, 12, 13, 10, 14].map(|seq| seen.place(seq)).to_vec();
        use Place::{Duplicate, InOrder, Reordered};
        assert_eq!(places, [InOrder, InOrder, Reordered, Duplicate, Duplicate, Duplicate, InOrder]);
        assert_eq!(seen.place(14 + 5 * WINDOW), InOrder);
        assert_eq!(seen.place(14 + 5 * WINDOW - 1), Reordered, "a jump empties the window");
        assert_eq!(seen.place(14 + 5 * WINDOW - 1), Duplicate);
        assert_eq!(seen.place(14), Reordered, "older than the window: taken for a late first one");
    }
}
