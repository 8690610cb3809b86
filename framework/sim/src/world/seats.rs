//! What the world knows of each actor, group and node.

use rehearsal_core::dscp::Dscp;
use rehearsal_core::kind::MetricName;
use rehearsal_core::messages::StopReason;
use rehearsal_core::parts::gates::{Admission, Gates};
use rehearsal_core::parts::ledger::Ledger;
use rehearsal_core::parts::streams::Stream;
use rehearsal_core::run::Fault;
use rehearsal_core::subject::instance;
use rehearsal_core::{MetricId, Span, Status, SubjectId, Time};

use super::World;
use super::cores::Desk;
use super::costs::Store;
use super::exchange::Exchange;
use super::pacing::Pacer;

/// Timers whose marks are in an actor's seat; those of more are apart.
pub(super) const TIMERS_NEAR: usize = 2;

/// One actor, with all that is read of it on every event: one line of the caches.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Seat {
    /// Events that it has caused: the last part of an event's key.
    pub counter: u64,
    /// What its first stream did last.
    pub stream: Stream,
    /// Marks of its first timers.
    pub marks: [u32; TIMERS_NEAR],
    /// Exchanges of its first stream that are under way.
    pub under_way: u32,
    /// Row of the groups.
    pub group: u32,
    /// Messages on their way to it.
    pub inbox: u32,
    /// Messages that it has published.
    pub said: u32,
    /// It panicked, or another process runs it: it gets no events.
    pub dead: bool,
    /// It has nothing more to send.
    pub finished: bool,
}

/// The members of one actor in one node instance.
pub(super) struct GroupState {
    pub node: u32,
    /// First actor.
    pub base: u32,
    pub count: u32,
    /// Number of the first member over all instances of the node.
    pub first_member: u32,
    /// The first mark that is in no seat, and timers of each member.
    pub timers: u32,
    pub stride: u32,
    pub local: bool,
    pub sends: bool,
    pub actor: String,
    pub kind: &'static str,
    pub metrics: Vec<MetricName>,
    pub snapshot: SubjectId,
    /// The class of what it sends.
    pub dscp: Dscp,
    pub gates: Gates,
    pub ledger: Ledger,
    /// Datagrams of this group that reached a receiver.
    pub delivered: u64,
}

impl GroupState {
    /// The actor's number among all members.
    #[inline]
    pub(super) fn member(&self, actor: u32) -> u32 {
        self.first_member + actor - self.base
    }

    /// An exchange of a member's stream comes to its gate.
    #[inline]
    pub(super) fn enter(&mut self, seat: &mut Seat, actor: u32, stream: u32, slot: u32) -> Admission {
        let gate = self.gates.index(actor - self.base, stream);
        if self.gates.is_first(stream) {
            self.gates.enter_counted(&mut seat.under_way, gate, slot)
        } else {
            self.gates.enter(gate, slot)
        }
    }

    /// An exchange of a member's stream is settled; the one that may go in its place, if one waits.
    #[inline]
    pub(super) fn leave(&mut self, seat: &mut Seat, actor: u32, stream: u32) -> Option<u32> {
        let gate = self.gates.index(actor - self.base, stream);
        if self.gates.is_first(stream) {
            self.gates.leave_counted(&mut seat.under_way, gate)
        } else {
            self.gates.leave(gate)
        }
    }

    /// A member's stream sends at `sent`: how long after its send before, if there was one.
    #[inline]
    pub(super) fn gap(&mut self, seat: &mut Seat, actor: u32, stream: u32, sent: Time) -> Option<Span> {
        if stream == 0 { seat.stream.sends(sent) } else { self.ledger.gap(self.member(actor), stream, sent) }
    }

    /// Books the end of an attempt; true if the exchange is settled.
    #[inline]
    pub(super) fn outcome(&mut self, seat: &mut Seat, x: &Exchange, stopping: bool) -> bool {
        let member = self.member(x.from);
        let (request, outcome, ledger) = (&x.request, &x.outcome, &mut self.ledger);
        let jitter = if request.stream == 0 {
            ledger.transit(outcome).and_then(|transit| seat.stream.jitter.arrived(transit))
        } else {
            ledger.jitter(request, member, outcome)
        };
        ledger.outcome_with(jitter, request, member, outcome, stopping, self.gates.spec())
    }
}

/// One node instance.
pub(super) struct NodeState {
    pub name: String,
    pub desk: Desk,
    pub store: Store,
    pub pacer: Pacer,
    /// Senders that have more to send.
    pub unfinished: u32,
    /// Exchanges and datagrams of its senders that are not settled.
    pub open: u64,
    /// Whether it has senders that have not been announced as done.
    pub awaited: bool,
    /// Whether this process runs it.
    pub local: bool,
}

impl World {
    /// Adds to a counter of the actor's group.
    pub(super) fn count(&mut self, actor: u32, metric: MetricId, by: u64) {
        let (group, _) = self.place(actor);
        self.groups[group].ledger.count(metric, by);
    }

    /// Records a value of the actor's group.
    pub(super) fn value(&mut self, actor: u32, metric: MetricId, value: u64) {
        let (group, _) = self.place(actor);
        self.groups[group].ledger.value(metric, value);
    }

    /// The actor has nothing more to send.
    pub(super) fn finished(&mut self, actor: u32) {
        let (group, _) = self.place(actor);
        let seat = &mut self.seats[actor as usize];
        if std::mem::replace(&mut seat.finished, true) || !self.groups[group].sends {
            return;
        }
        let node = self.groups[group].node as usize;
        self.nodes[node].unfinished -= 1;
        self.check_done(node);
    }

    /// One more exchange or datagram of the node is not settled.
    #[inline]
    pub(super) fn opened(&mut self, group: usize) {
        let node = self.groups[group].node as usize;
        self.nodes[node].open += 1;
    }

    /// One less is.
    #[inline]
    pub(super) fn settled(&mut self, group: usize) {
        let node = self.groups[group].node as usize;
        let open = &mut self.nodes[node].open;
        // an actor that tries an exchange again after it was settled must not bring the count down
        *open = open.saturating_sub(1);
        self.check_done(node);
    }

    #[inline]
    fn check_done(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        if state.unfinished == 0 && state.open == 0 && state.awaited && state.local {
            state.awaited = false;
            self.announce_done(node);
        }
    }

    /// `node.actor`, as messages and faults name it.
    pub(super) fn name(&self, actor: u32) -> (String, String) {
        let (group, index) = self.place(actor);
        let group = &self.groups[group];
        (self.nodes[group.node as usize].name.clone(), instance(&group.actor, index, group.count))
    }

    /// A panic in `actor`: a named fault. It gets no more events, what it had to answer fails, and the run drains.
    #[cold]
    pub(crate) fn panicked(&mut self, actor: u32, text: String) {
        self.events += 1;
        self.retire(actor, text);
    }

    /// The actor broke the contract or its own code: the run ends with a fault that names it.
    #[cold]
    pub(super) fn retire(&mut self, actor: u32, text: String) {
        self.fault(actor, text);
        self.bury(actor);
        self.stop_wanted.get_or_insert(StopReason::Fault);
    }

    /// The actor gets no more events, and what it had to answer fails.
    #[cold]
    pub(super) fn bury(&mut self, actor: u32) {
        self.seats[actor as usize].dead = true;
        let unanswered: Vec<u32> =
            self.exchanges.iter().filter(|(_, x)| x.awaits(actor)).map(|(slot, _)| slot).collect();
        for slot in unanswered {
            self.answer(slot, Status::Failed, 0);
        }
    }

    /// Records a fault and tells it to whoever listens.
    #[cold]
    pub(super) fn fault(&mut self, actor: u32, text: String) {
        let (node, actor_name) = self.name(actor);
        self.announce_fault(actor, &node, &actor_name, &text);
        self.faults.push(Fault { at: self.now, node, actor: actor_name, text });
    }

    /// When traffic began, or the beginning of time before that.
    #[inline]
    pub(super) fn origin(&self) -> Time {
        self.start.unwrap_or(Time::ZERO)
    }
}
