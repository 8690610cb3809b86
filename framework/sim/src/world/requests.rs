//! The sender's side of an exchange: planned, admitted by its gate, sent, ended by a reply, a deadline or us.

use rehearsal_core::event::Head;
use rehearsal_core::parts::deadlines::Expiry;
use rehearsal_core::parts::gates::Admission;
use rehearsal_core::{ActorId, Outcome, Request, Status, Time, Times, Token};

use super::class::{Class, LOCAL, words};
use super::links::{RETRANSMISSIONS_MAX, wire_bytes};
use super::{Phase, What, World};

/// One attempt, from the request until both ends are done with it: only then its slot is free.
#[derive(Debug)]
pub(super) struct Exchange {
    pub request: Request,
    pub outcome: Outcome,
    /// When it reached the receiver.
    pub arrived: Time,
    pub from: u32,
    pub to: u32,
    path: u32,
    /// Retransmissions of what is under way now.
    tries: u8,
    stage: Stage,
    /// It is in the books as generated.
    generated: bool,
    /// It holds a place in its stream's gate.
    entered: bool,
    /// Its outcome is known; whatever comes later is too late.
    pub decided: bool,
    /// The sender has been told.
    told: bool,
    /// The receiver has it and owes an answer.
    here: bool,
    /// The receiver has answered, or will never see it.
    pub answered: bool,
    /// The request or the reply is on its way: some event holds the slot.
    moving: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Planned,
    Waiting,
    Sent,
}

impl Exchange {
    fn planned(from: u32, request: Request) -> Self {
        let times = Times { intended: request.intended, ready: request.at, sent: request.at, done: request.at };
        let again = request.attempt > 0;
        Exchange {
            request,
            outcome: Outcome { status: Status::Unsent, times, reply_bytes: 0 },
            arrived: Time::ZERO,
            from,
            to: u32::MAX,
            path: u32::MAX,
            tries: 0,
            stage: Stage::Planned,
            generated: again,
            entered: again,
            decided: false,
            told: false,
            here: false,
            answered: false,
            moving: false,
        }
    }

    /// What the receiver may know of it.
    #[inline]
    pub(super) fn head(&self) -> Head {
        let Request { stream, seq, limit, .. } = self.request;
        Head { from: Some(ActorId(self.from)), stream, class: 0, seq, limit }
    }

    /// It reaches the receiver; its payload's bytes.
    #[inline]
    pub(super) fn reach(&mut self, now: Time) -> u32 {
        (self.moving, self.here, self.arrived) = (false, true, now);
        self.request.payload.bytes
    }

    /// Whether `actor` has it and has not answered.
    pub(super) fn awaits(&self, actor: u32) -> bool {
        self.to == actor && self.here && !self.answered
    }
}

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
    fn transmit(&mut self, slot: u32) {
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

    /// Sets the deadline of an attempt that is sent now.
    #[inline]
    fn limit(&mut self, slot: u32, deadline: rehearsal_core::Span) {
        let at = self.now.saturating_add(deadline);
        if at >= Time::MAX {
            return;
        }
        let exchanges = &self.exchanges;
        let (ring, first) = self.deadlines.set(self.now, deadline, slot, exchanges.generation(slot));
        if first {
            self.push(at, Class::Deadline, self.engine(), words(0, ring as u32));
        } else {
            // two for each one set: the ring never grows longer than what is under way
            self.deadlines.trim(ring, 2, |slot, generation| exchanges.get(slot, generation).is_none_or(|x| x.decided));
        }
    }

    /// A request or reply that had to wait goes onto its link, unless nobody waits for it any more.
    #[inline]
    pub(super) fn carry(&mut self, slot: u32) -> Option<(u32, What)> {
        let x = self.exchanges.at_mut(slot);
        if !x.decided {
            self.onto_link(slot);
            return None;
        }
        x.moving = false;
        self.late_replies += u64::from(std::mem::replace(&mut x.answered, true));
        self.close(slot);
        None
    }

    /// Offers the request, or the reply if there is one, to its link. What gets lost is retransmitted later.
    #[inline]
    fn onto_link(&mut self, slot: u32) {
        let x = self.exchanges.at_mut(slot);
        let back = x.answered;
        let (bytes, class, source, target) = if back {
            (x.outcome.reply_bytes, Class::Outcome, x.to, x.from)
        } else {
            (x.request.payload.bytes, Class::Request, x.from, x.to)
        };
        if let Some(at) = self.links.offer(x.path, back, self.now, wire_bytes(bytes)) {
            return self.push(at, class, source, words(target, slot));
        }
        x.tries += 1;
        if x.tries <= RETRANSMISSIONS_MAX {
            let wait = self.links.at(x.path).retransmission(x.tries);
            return self.push(self.now + wait, Class::Carry, source, words(0, slot));
        }
        // given up: the sender learns of it by its deadline
        (x.moving, x.answered) = (false, true);
        self.close(slot);
    }

    /// Puts the reply on its way, if anybody still waits for it.
    #[inline]
    pub(super) fn reply(&mut self, slot: u32) {
        let x = self.exchanges.at_mut(slot);
        if x.decided {
            self.late_replies += 1;
            return self.close(slot);
        }
        (x.moving, x.tries) = (true, 0);
        self.onto_link(slot);
    }

    /// The sender's side ends an attempt: no reply will count any more.
    #[inline]
    pub(super) fn decide(&mut self, slot: u32, status: Status) {
        let x = self.exchanges.at_mut(slot);
        x.decided = true;
        x.answered |= x.stage != Stage::Sent;
        (x.outcome.status, x.outcome.reply_bytes) = (status, 0);
        let from = x.from;
        self.push(self.now, Class::Outcome, from, words(from, slot | LOCAL));
    }

    /// An outcome comes up: the books first, then the gate, then the actor.
    #[inline]
    pub(super) fn outcome(&mut self, actor: u32, slot: u32) -> Option<(u32, What)> {
        let (local, slot) = (slot & LOCAL != 0, slot & !LOCAL);
        let stopping = self.phase != Phase::Running;
        let x = self.exchanges.at_mut(slot);
        if !local {
            x.moving = false;
            if std::mem::replace(&mut x.decided, true) {
                self.late_replies += 1;
                self.close(slot);
                return None;
            }
            self.links.at(x.path).answered();
        }
        x.outcome.times.done = self.now;
        let row = self.seats[actor as usize].group as usize;
        let group = &mut self.groups[row];
        let spec = group.gates.spec();
        let settled = !x.generated || group.ledger.outcome(&x.outcome, x.request.last, stopping, spec);
        if settled {
            let next = if x.entered {
                group.gates.leave(group.gates.index(actor - group.base, x.request.stream))
            } else {
                None
            };
            self.settled(row);
            if let Some(next) = next {
                self.exchanges.at_mut(next).entered = true;
                self.transmit(next);
            }
        }
        Some((actor, What::Outcome { slot }))
    }

    /// The sender has been told the outcome.
    #[inline]
    pub(super) fn told(&mut self, slot: u32) {
        self.outcomes_due -= 1;
        self.exchanges.at_mut(slot).told = true;
        self.close(slot);
    }

    /// Frees the slot when both ends are done with it.
    #[inline]
    fn close(&mut self, slot: u32) {
        let x = self.exchanges.at(slot);
        if x.told && x.answered && !x.moving {
            self.exchanges.remove(slot);
        }
    }

    /// The deadlines of a ring that have passed.
    #[inline]
    pub(super) fn expire(&mut self, ring: u32) -> Option<(u32, What)> {
        loop {
            let exchanges = &self.exchanges;
            let settled = |slot, generation| exchanges.get(slot, generation).is_none_or(|x| x.decided);
            match self.deadlines.expire(ring as usize, self.now, settled) {
                Expiry::Passed { slot, .. } => self.decide(slot, Status::Unacknowledged),
                Expiry::Next(at) => {
                    self.push(at, Class::Deadline, self.engine(), words(0, ring));
                    return None;
                }
                Expiry::Empty => return None,
            }
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
