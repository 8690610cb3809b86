//! The sender's side of an exchange: planned, admitted by its stream's gate, sent; or given up.

use rehearsal_core::parts::gates::Admission;
use rehearsal_core::{Request, Status, Token};

use super::class::{Class, words};
use super::exchange::{Exchange, Stage};
use super::{Phase, What, World};

impl World {
    /// An actor wants to send one attempt.
    #[inline]
    pub(super) fn request(&mut self, actor: u32, mut request: Request) {
        // the past means at once: a simulated generator is never late
        request.at = request.at.max(self.now);
        if request.attempt == 0 {
            let (group, _) = self.place(actor);
            self.opened(group);
        }
        self.outcomes_due += 1;
        let slot = self.exchanges.insert(Exchange::planned(actor, request));
        if self.phase != Phase::Running {
            if request.at == self.now {
                self.generate(slot);
            }
            self.decide(slot, Status::Unsent);
        } else if request.at > self.now {
            let generation = self.exchanges.generation(slot);
            self.push(request.at, Class::Send, actor, words(generation, slot));
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
        let (group, index) = (self.seats[x.from as usize].group as usize, x.request.stream);
        let group = &mut self.groups[group];
        let gate = group.gates.index(x.from - group.base, index);
        match group.gates.enter(gate, slot) {
            Admission::Go => {
                x.entered = true;
                self.transmit(slot);
            }
            Admission::Wait => x.stage = Stage::Waiting,
            Admission::Full => {
                group.ledger.tally.queue_full += 1;
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

    /// Hands an attempt to the carrier; it stays unsent if nobody can be reached there.
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
        let link = self.links.at(path);
        if !link.exchange {
            return self.decide(slot, Status::Unsent);
        }
        (x.to, x.path, x.stage, x.moving) = (to.0, path, Stage::Sent, true);
        let (from, deadline, set_up) = (x.from, x.request.deadline, link.connect());
        let group = &mut self.groups[group];
        group.ledger.sent(&x.request, &x.outcome.times, group.gates.spec());
        self.limit(slot, deadline);
        if set_up.is_zero() {
            self.onto_link(slot);
        } else {
            self.push(now + set_up, Class::Carry, from, words(0, slot));
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
