//! How attempts end: by a reply, a deadline, or us; then the books, the gate and the actor are told, in this order.

use rehearsal_core::parts::deadlines::Expiry;
use rehearsal_core::{Span, Status, Time};

use super::class::{Class, LOCAL, words};
use super::costs::Way;
use super::exchange::Stage;
use super::{Phase, What, World};

impl World {
    /// Sets the deadline of an attempt that is sent now.
    #[inline]
    pub(super) fn limit(&mut self, slot: u32, deadline: Span) {
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

    /// The sender's side ends an attempt: no reply will count any more.
    #[inline]
    pub(super) fn decide(&mut self, slot: u32, status: Status) {
        let x = self.exchanges.at_mut(slot);
        x.decided = true;
        if x.stage != Stage::Sent {
            x.answered = true;
            // it never left: it has no moments but this one
            (x.outcome.times.ready, x.outcome.times.sent) = (self.now, self.now);
        }
        (x.outcome.status, x.outcome.reply_bytes) = (status, 0);
        let from = x.from;
        self.push(self.now, Class::Outcome, from, words(from, slot | LOCAL));
    }

    /// An outcome comes up. A reply that somebody waits for may need some work first.
    #[inline(always)]
    pub(super) fn outcome(&mut self, actor: u32, slot: u32) -> Option<(u32, What)> {
        let (local, slot) = (slot & LOCAL != 0, slot & !LOCAL);
        if !local && self.costs.is_some() && !self.exchanges.at(slot).decided {
            let node = self.node_of(actor);
            self.receive(Way::Reply, node, slot);
            return None;
        }
        self.conclude(actor, slot, local)
    }

    /// A reply has been taken.
    pub(super) fn heard(&mut self, slot: u32) -> Option<(u32, What)> {
        self.closed(slot, true);
        self.conclude(self.exchanges.at(slot).from, slot, false)
    }

    /// An attempt has ended: the books first, then the gate, then the actor.
    #[inline(always)]
    fn conclude(&mut self, actor: u32, slot: u32, local: bool) -> Option<(u32, What)> {
        let stopping = self.phase != Phase::Running;
        let x = self.exchanges.at_mut(slot);
        if !local {
            x.moving = false;
            if std::mem::replace(&mut x.decided, true) {
                self.late_replies += 1;
                self.close(slot);
                return None;
            }
            self.links.at(x.path).answered(x.window);
        } else if x.taken {
            self.links.at(x.path).left(x.window);
        }
        let (path, to, had) = (x.path, x.to, std::mem::take(&mut x.taken));
        x.outcome.times.done = self.now;
        let seat = &mut self.seats[actor as usize];
        let row = seat.group as usize;
        let group = &mut self.groups[row];
        let settled = !x.generated || group.outcome(seat, x, stopping);
        if settled {
            let next = if x.entered { group.leave(seat, actor, x.request.stream) } else { None };
            self.settled(row);
            if let Some(next) = next {
                self.exchanges.at_mut(next).entered = true;
                self.transmit(next);
            }
        }
        if had {
            self.stream_ended(path, to);
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
    pub(super) fn close(&mut self, slot: u32) {
        let x = self.exchanges.at(slot);
        if x.told && x.answered && !x.moving {
            self.disconnected(slot);
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
}
