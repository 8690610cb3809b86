//! Requests and replies on their links: offered, retransmitted when lost, given up in the end.

use rehearsal_core::plan::Carrier;
use rehearsal_core::{ActorId, Span, Time};
use rehearsal_models::compute::Lane;
use rehearsal_models::link::classes::Decided;
use rehearsal_models::path::{Direction, Offer, Taken};
use rehearsal_models::transport::{RETRANSMISSIONS_MAX, Window, retransmission};

use super::class::{Class, words};
use super::cores::Task;
use super::{What, World};
use crate::Crossing;

/// Set in the mark of a datagram's offer.
pub(super) const DATAGRAM: u64 = 1 << 32;

impl World {
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

    /// Offers the request, or the reply if there is one, to its link.
    #[inline]
    pub(super) fn onto_link(&mut self, slot: u32) {
        if self.crossings.is_some() {
            self.seen_crossing(slot);
        }
        let (now, offer) = (self.now, self.offer_of(slot));
        let taken = self.links.offer(now, &offer, &mut self.exchanges.at_mut(slot).window);
        self.taken(slot, &offer, now, taken);
    }

    /// Keeps for whoever looks on what goes onto a link.
    #[cold]
    fn seen_crossing(&mut self, slot: u32) {
        let x = self.exchanges.at(slot);
        let (reply, carrier) = (x.answered, self.links.at(x.path).carrier);
        let payload = if reply { x.outcome.reply_bytes } else { x.request.payload.bytes };
        let ends = (x.from, x.to);
        let seq = x.request.seq;
        self.crossed(ends, carrier, reply, payload, seq);
    }

    /// The same for whatever goes from one of `ends`, or back.
    pub(super) fn crossed(&mut self, ends: (u32, u32), carrier: Carrier, reply: bool, payload: u32, seq: u64) {
        let (here, there) = (self.node_of(ends.0), self.node_of(ends.1));
        let (from, to) = if reply { (there, here) } else { (here, there) };
        let (at, sender, receiver) = (self.now, ActorId(ends.0), ActorId(ends.1));
        if let Some(crossings) = &mut self.crossings {
            crossings.push(Crossing { at, from, to, sender, receiver, carrier, reply, payload, seq });
        }
    }

    /// What is offered to a link for an exchange.
    #[inline]
    fn offer_of(&mut self, slot: u32) -> Offer {
        let x = self.exchanges.at(slot);
        let (direction, bytes) = if x.answered {
            (Direction::Down, x.outcome.reply_bytes)
        } else {
            (Direction::Up, x.request.payload.bytes)
        };
        let dscp = self.groups[self.seats[x.from as usize].group as usize].dscp;
        let load = self.links.at(x.path).load(direction, bytes, &x.window);
        Offer { path: x.path, direction, load, dscp, again: x.tries > 0, token: u64::from(slot) }
    }

    /// What has become of it. What found no room is offered again later; what its stream gave up is over: the sender learns
    /// of it by its deadline.
    #[inline]
    fn taken(&mut self, slot: u32, offer: &Offer, offered: Time, taken: Taken) {
        let x = self.exchanges.at_mut(slot);
        let (class, source, target) = match offer.direction {
            Direction::Up => (Class::Request, x.from, x.to),
            Direction::Down => (Class::Outcome, x.to, x.from),
        };
        match taken {
            Taken::Out(at) => {
                let at = self.come_out(offer, offered, at);
                return self.push(at, class, source, words(target, slot));
            }
            Taken::Queued => return self.watch(offer),
            Taken::Full if x.tries < RETRANSMISSIONS_MAX && self.links.at(offer.path).carrier.is_reliable() => {
                x.tries += 1;
                let wait = retransmission(self.links.at(offer.path).round_trip, x.tries);
                return self.push(self.now + wait, Class::Carry, source, words(0, slot));
            }
            Taken::Full | Taken::Lost => {}
        }
        (x.moving, x.answered) = (false, true);
        self.close(slot);
    }

    /// Books what comes out of a link at `at`, and tells when it is at the other end.
    ///
    /// A link is the whole way between two nodes. If a NATS server lies on it, that takes a message in and sends it on,
    /// which costs its own time; that others wait for it too is not modelled.
    #[inline]
    pub(super) fn come_out(&mut self, offer: &Offer, offered: Time, mut at: Time) -> Time {
        let path = self.links.at(offer.path);
        let (carrier, link) = (path.carrier, path.link(offer.direction));
        let confirm = if offer.direction == Direction::Up { path.confirm } else { Span::ZERO };
        if carrier == Carrier::Nats {
            self.brokered = true;
            at = at.saturating_add(self.broker.unwrap_or(Span::ZERO));
        }
        if let Some(link) = link {
            self.links.delivered(link, offered, at, offer.load.bytes);
        }
        at.saturating_add(confirm)
    }

    /// Something waits where packets are chosen one by one.
    pub(super) fn watch(&mut self, offer: &Offer) {
        if let Some(cell) = self.links.cell(offer.path, offer.direction) {
            self.choices(cell);
        }
    }

    /// The time has come to look at what was chosen.
    pub(super) fn visit(&mut self, cell: u32) -> Option<(u32, What)> {
        self.links.visit(cell, self.now);
        self.choices(cell);
        None
    }

    /// What was chosen travels on, what was dropped is told; then the next visit is planned.
    fn choices(&mut self, cell: u32) {
        while let Some(Decided { token, leaves, offered }) = self.links.decided(cell) {
            let slot = token as u32;
            let datagram = token & DATAGRAM != 0;
            let offer = if datagram { self.offer_of_flight(slot) } else { self.offer_of(slot) };
            let mut none = Window::default();
            let window = if datagram { &mut none } else { &mut self.exchanges.at_mut(slot).window };
            let taken = match leaves {
                Some(left) => self.links.travel(offered, left, &offer, window),
                None => self.links.drop_one(&offer),
            };
            if datagram {
                self.flown(slot, &offer, offered, taken);
            } else {
                self.taken(slot, &offer, offered, taken);
            }
        }
        if let Some(at) = self.links.wake(cell, self.now) {
            self.push(at, Class::Link, self.engine(), words(0, cell));
        }
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
        if self.costs.is_some() {
            return self.labour_of_reply(slot);
        }
        self.onto_link(slot);
    }

    /// The receiver's node works on the reply first.
    fn labour_of_reply(&mut self, slot: u32) {
        let x = self.exchanges.at(slot);
        let (node, path) = (self.node_of(x.to), x.path);
        let carrier = self.links.at(path).carrier;
        let nanos = self.reply_cost(node, carrier, slot);
        self.compute(node, Lane::Traffic, nanos, Task::Reply(slot));
    }
}
