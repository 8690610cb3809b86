//! The sender's side of an exchange: planned, admitted by its stream's gate, sent; or given up.

use rehearsal_core::parts::gates::Admission;
use rehearsal_core::{Request, Status, Token};
use rehearsal_models::compute::Lane;

use super::class::{Class, words};
use super::cores::Task;
use super::exchange::{Exchange, Stage};
use super::{Phase, Place, What, World};

impl World {
    /// An actor wants to send one attempt.
    #[inline]
    pub(super) fn request(&mut self, Place { actor, group, .. }: Place, request: &Request) {
        // the past means at once: a simulated generator is never late
        let at = request.at.max(self.now);
        if request.attempt == 0 {
            self.opened(group);
        }
        self.outcomes_due += 1;
        let slot = self.exchanges.insert(Exchange::planned(actor, request, at));
        if self.phase != Phase::Running {
            if at == self.now {
                self.generate(slot);
            }
            self.decide(slot, Status::Unsent);
        } else if at > self.now {
            let generation = self.exchanges.generation(slot);
            self.push(at, Class::Send, actor, words(generation, slot));
        } else {
            self.admit(slot);
        }
    }

    /// A planned attempt is due, unless the stop came before.
    #[inline]
    pub(super) fn due(&mut self, generation: u32, slot: u32) -> Option<(u32, What)> {
        if self.exchanges.get(slot, generation).is_some_and(|x| x.stage == Stage::Planned && !x.decided) {
            self.admit(slot);
        }
        None
    }

    /// A first attempt passes its stream's gate; a later one holds its place there.
    #[inline]
    fn admit(&mut self, slot: u32) {
        self.generate(slot);
        let x = self.exchanges.at_mut(slot);
        if x.entered {
            return self.transmit(slot);
        }
        let seat = &mut self.seats[x.from as usize];
        let group = &mut self.groups[seat.group as usize];
        match group.enter(seat, x.from, x.request.stream, slot) {
            Admission::Go => {
                x.entered = true;
                self.transmit(slot);
            }
            Admission::Wait => x.stage = Stage::Waiting,
            Admission::Full => {
                group.ledger.tally.queue_full += 1;
                // many of these are found at once
                let node = group.node;
                self.take_fired(node);
                self.decide(slot, Status::Unsent);
            }
        }
    }

    /// Books the exchange as generated, with its first attempt.
    #[inline]
    fn generate(&mut self, slot: u32) {
        let origin = self.origin();
        let x = self.exchanges.at_mut(slot);
        if !std::mem::replace(&mut x.generated, true) {
            let group = &mut self.groups[self.seats[x.from as usize].group as usize];
            let member = group.first_member + x.from - group.base;
            group.ledger.generated(&x.request, member, origin, group.gates.spec());
        }
    }

    /// Sends an attempt, which may take some work first; it stays unsent if nobody can be reached there.
    #[inline]
    pub(super) fn transmit(&mut self, slot: u32) {
        let now = self.now;
        let x = self.exchanges.at_mut(slot);
        (x.outcome.times.ready, x.outcome.times.sent) = (now, now);
        let group = self.seats[x.from as usize].group as usize;
        let Some(to) = self.subjects.owner(x.request.to) else {
            return self.decide(slot, Status::Unsent);
        };
        let there = self.groups[self.seats[to.0 as usize].group as usize].node;
        let path = self.links.path(&self.plan, self.groups[group].node, there);
        if !self.links.at(path).exchange {
            return self.decide(slot, Status::Unsent);
        }
        (x.to, x.path, x.stage, x.moving) = (to.0, path, Stage::Leaving, true);
        if self.costs.is_some() {
            return self.labour(slot, there);
        }
        self.dispatch(slot);
    }

    /// The sender's node works on it first.
    fn labour(&mut self, slot: u32, there: u32) {
        let x = self.exchanges.at(slot);
        let (node, path, bytes) = (self.node_of(x.from), x.path, x.request.payload.bytes);
        let carrier = self.links.at(path).carrier;
        let connects = self.connects(path, node, there);
        if let Some(nanos) = self.send_cost(node, carrier, bytes, connects) {
            let cost = self.alone(node, nanos);
            self.exchanges.at_mut(slot).cost = cost;
            let fired = self.take_fired(node);
            self.compute(node, Lane::Traffic, nanos + fired, Task::Send(slot));
        } else {
            self.dispatch(slot);
        }
    }

    /// Hands an attempt to the carrier, unless it was given up while it was worked on. Its own work belongs to its
    /// service, the wait for the work of others is lag.
    #[inline]
    pub(super) fn dispatch(&mut self, slot: u32) -> Option<(u32, What)> {
        let now = self.now;
        let x = self.exchanges.at_mut(slot);
        if x.decided {
            x.moving = false;
            self.close(slot);
            return None;
        }
        x.stage = Stage::Sent;
        x.outcome.times.sent = x.outcome.times.ready + (now.since(x.outcome.times.ready) - x.cost);
        let (from, deadline, path, to) = (x.from, x.request.deadline, x.path, x.to);
        let seat = &mut self.seats[from as usize];
        let group = &mut self.groups[seat.group as usize];
        let gap = group.gap(seat, from, x.request.stream, x.outcome.times.sent);
        group.ledger.sent_after(gap, &x.request, &x.outcome.times, group.gates.spec());
        self.limit(slot, deadline);
        self.connected(slot);
        let path = self.links.at(path);
        if path.has_stream(to) {
            self.connect(slot);
        } else {
            // a wait for a stream is part of its service
            path.wait_for_stream(to, words(self.exchanges.generation(slot), slot));
        }
        None
    }

    /// Takes a connection, or a stream of one, and leaves on it.
    #[inline]
    fn connect(&mut self, slot: u32) {
        let x = self.exchanges.at_mut(slot);
        let (set_up, window) = self.links.connect(self.now, x.path, x.to);
        (x.window, x.taken) = (window, true);
        let (from, to) = (x.from, x.to);
        if self.costs.is_some() {
            self.shake_hands(from, to);
        }
        if set_up.is_zero() {
            self.onto_link(slot);
        } else {
            self.push(self.now + set_up, Class::Carry, from, words(0, slot));
        }
    }

    /// Charges both ends with the handshake of the connection that was just opened, if it had one; the connection waits for it
    /// by itself.
    fn shake_hands(&mut self, from: u32, to: u32) {
        let (Some(resumed), Some(costs)) = (self.links.shaken(), &self.costs) else { return };
        let cost = costs.calibration.tls.of(resumed);
        for (actor, nanos) in [(from, cost.connect_ns), (to, cost.accept_ns)] {
            if nanos > 0.0 {
                let node = self.node_of(actor);
                self.compute(node, Lane::Traffic, nanos, Task::Unseen);
            }
        }
    }

    /// A stream to `to` has ended: whoever waited longest for one, and is still wanted, has it now.
    pub(super) fn stream_ended(&mut self, path: u32, to: u32) {
        while let Some(token) = self.links.at(path).next_stream(to) {
            let (generation, slot) = ((token >> 32) as u32, token as u32);
            let Some(x) = self.exchanges.get_mut(slot, generation) else { continue };
            if !x.decided {
                self.connect(slot);
                continue;
            }
            // nobody waits for it any more, and it will not leave
            (x.moving, x.answered) = (false, true);
            self.close(slot);
        }
    }

    /// Gives up the actor's attempt with this token, if it is under way. Looks through all exchanges: aborting is rare.
    pub(super) fn abort(&mut self, actor: u32, token: Token) {
        let wanted = |x: &Exchange| x.from == actor && x.request.token == token && x.stage == Stage::Sent && !x.decided;
        let found = self.exchanges.iter().find(|(_, x)| wanted(x)).map(|(slot, _)| slot);
        if let Some(slot) = found {
            self.decide(slot, Status::Aborted);
        }
    }

    /// At the stop: what is planned or waits stays unsent.
    pub(super) fn unsend_all(&mut self) {
        for group in &mut self.groups {
            group.gates.flush();
        }
        for slot in self.slots(|x| x.stage != Stage::Sent && !x.decided) {
            self.decide(slot, Status::Unsent);
        }
    }

    /// At the end of the grace: what is still under way is aborted.
    pub(super) fn abort_all(&mut self) {
        for slot in self.slots(|x| !x.decided) {
            self.decide(slot, Status::Aborted);
        }
    }

    fn slots(&self, wanted: impl Fn(&Exchange) -> bool) -> Vec<u32> {
        self.exchanges.iter().filter(|(_, x)| wanted(x)).map(|(slot, _)| slot).collect()
    }
}
