//! Datagrams: each packet takes its link once; what is lost is lost, and the receivers' counts settle it at the end.
//!
//! The link model makes no copies, so the receivers' count of duplicates stays zero in a simulation.

use rehearsal_core::event::Head;
use rehearsal_core::plan::Carrier;
use rehearsal_core::{ActorId, Datagram, Span, Time, Times};
use rehearsal_models::compute::Lane;
use rehearsal_models::path::{Direction, Offer, Taken};
use rehearsal_models::seen::Place;
use rehearsal_models::transport::{RETRANSMISSIONS_MAX, Window, retransmission};

use super::carriage::DATAGRAM;
use super::class::{Class, words};
use super::cores::Task;
use super::costs::Way;
use super::{Phase, What, World};

/// A datagram, from the wish to send it until its receiver has seen it.
#[derive(Debug)]
pub(super) struct Flight {
    pub datagram: Datagram,
    pub from: u32,
    /// The receiver, once it is sent.
    pub to: u32,
    /// When its time had come, and the core time it took to send it.
    due: Time,
    cost: Span,
    sent: Option<Time>,
    /// Times that it was offered to its link again.
    tries: u8,
    /// The stop came before its time.
    void: bool,
}

impl Flight {
    /// What the receiver may know of it.
    #[inline]
    pub(super) fn head(&self) -> Head {
        let Datagram { stream, seq, .. } = self.datagram;
        Head { from: Some(ActorId(self.from)), stream, seq, ..Head::default() }
    }

    /// Its moments, if it arrives at `done`.
    #[inline]
    pub(super) fn times(&self, done: Time) -> Times {
        let sent = self.sent.unwrap_or(done);
        Times { intended: self.datagram.intended, ready: sent, sent, done }
    }
}

impl World {
    /// An actor, or a flow of its, sends a datagram. After the stop there are none.
    #[inline]
    pub(super) fn send(&mut self, actor: u32, datagram: Datagram) {
        if self.phase != Phase::Running {
            return;
        }
        let (group, _) = self.place(actor);
        self.opened(group);
        self.flights_due += 1;
        let slot = self.flights.insert(Flight {
            datagram,
            from: actor,
            to: u32::MAX,
            due: Time::ZERO,
            cost: Span::ZERO,
            sent: None,
            tries: 0,
            void: false,
        });
        if datagram.at > self.now {
            self.push(datagram.at, Class::SendDatagram, actor, words(0, slot));
        } else {
            self.fly(slot);
        }
    }

    /// Its time has come; its sender's node may have to work on it first.
    #[inline]
    pub(super) fn fly(&mut self, slot: u32) -> Option<(u32, What)> {
        let now = self.now;
        let flight = self.flights.at_mut(slot);
        if flight.sent.is_some() {
            self.offer(slot);
            return None;
        }
        flight.due = now;
        if self.costs.is_some() && !flight.void {
            let (from, bytes) = (flight.from, flight.datagram.payload.bytes);
            let node = self.node_of(from);
            let carrier = self.carrier_of(slot);
            if let Some(nanos) = self.send_cost(node, carrier, bytes, false) {
                let cost = self.alone(node, nanos);
                self.flights.at_mut(slot).cost = cost;
                self.compute(node, Lane::Traffic, nanos, Task::SendDatagram(slot));
                return None;
            }
        }
        self.launch(slot)
    }

    /// It leaves. The wait for the work of others is lag.
    #[inline]
    pub(super) fn launch(&mut self, slot: u32) -> Option<(u32, What)> {
        let origin = self.origin();
        let flight = self.flights.at_mut(slot);
        if flight.void {
            self.flights.remove(slot);
            return None;
        }
        let sent = flight.due + (self.now.since(flight.due) - flight.cost);
        flight.sent = Some(sent);
        let (from, datagram) = (flight.from, Datagram { at: flight.due, ..flight.datagram });
        let seat = &mut self.seats[from as usize];
        let group = &mut self.groups[seat.group as usize];
        let (gap, member) = (group.gap(seat, from, datagram.stream, sent), group.member(from));
        group.ledger.datagram_after(gap, member, &datagram, sent, origin);
        let Some(to) = self.subjects.owner(datagram.to) else {
            self.vanish(slot);
            return None;
        };
        self.flights.at_mut(slot).to = to.0;
        if self.crossings.is_some() {
            let carrier = self.carrier_of(slot);
            self.crossed((from, to.0), carrier, false, datagram.payload.bytes, datagram.seq);
        }
        self.offer(slot);
        None
    }

    fn offer(&mut self, slot: u32) {
        let (now, offer) = (self.now, self.offer_of_flight(slot));
        let taken = self.links.offer(now, &offer, &mut Window::default());
        self.flown(slot, &offer, now, taken);
    }

    /// What moves it.
    pub(super) fn carrier_of(&mut self, slot: u32) -> Carrier {
        let flight = self.flights.at(slot);
        let Some(to) = self.subjects.owner(flight.datagram.to) else { return Carrier::Udp };
        let row = |actor: u32| self.seats[actor as usize].group as usize;
        let (here, there) = (self.groups[row(flight.from)].node, self.groups[row(to.0)].node);
        let path = self.links.path(&self.plan, here, there);
        self.links.at(path).carrier
    }

    /// What is offered to a link for a datagram.
    #[inline]
    pub(super) fn offer_of_flight(&mut self, slot: u32) -> Offer {
        let flight = self.flights.at(slot);
        let row = |actor: u32| self.seats[actor as usize].group as usize;
        let (here, there) = (&self.groups[row(flight.from)], self.groups[row(flight.to)].node);
        let (dscp, direction, bytes) = (here.dscp, Direction::Up, flight.datagram.payload.bytes);
        let path = self.links.path(&self.plan, here.node, there);
        let load = self.links.at(path).load(direction, bytes, &Window::default());
        Offer { path, direction, load, dscp, again: self.flights.at(slot).tries > 0, token: u64::from(slot) | DATAGRAM }
    }

    /// What has become of it: what found no room is lost as well.
    #[inline]
    pub(super) fn flown(&mut self, slot: u32, offer: &Offer, offered: Time, taken: Taken) {
        let reliable = self.links.at(offer.path).carrier.is_reliable();
        let again = reliable && self.flights.at(slot).tries < RETRANSMISSIONS_MAX;
        match taken {
            Taken::Out(at) => {
                let at = self.come_out(offer, offered, at);
                let Flight { from, to, .. } = *self.flights.at(slot);
                self.push(at, Class::Datagram, from, words(to, slot));
            }
            Taken::Queued => self.watch(offer),
            // what goes over a stream is sent again
            Taken::Full if again => {
                let flight = self.flights.at_mut(slot);
                flight.tries += 1;
                let at = self.now + retransmission(self.links.at(offer.path).round_trip, flight.tries);
                let from = flight.from;
                self.push(at, Class::SendDatagram, from, words(0, slot));
            }
            Taken::Full | Taken::Lost => self.vanish(slot),
        }
    }

    /// It is lost.
    pub(super) fn vanish(&mut self, slot: u32) {
        let from = self.flights.remove(slot).from;
        self.flights_due -= 1;
        self.settled(self.seats[from as usize].group as usize);
    }

    /// It reaches its receiver's node, which may have to work on it first.
    #[inline]
    pub(super) fn land(&mut self, actor: u32, slot: u32) -> Option<(u32, What)> {
        if self.costs.is_some() {
            let node = self.node_of(actor);
            self.receive(Way::Datagram, node, slot);
            return None;
        }
        self.landed(slot)
    }

    /// It reaches its receiver.
    #[inline]
    pub(super) fn landed(&mut self, slot: u32) -> Option<(u32, What)> {
        let flight = self.flights.at(slot);
        let actor = flight.to;
        let (bytes, times) = (flight.datagram.payload.bytes, flight.times(self.now));
        let (from, stream, seq) = (flight.from, flight.datagram.stream, flight.datagram.seq);
        let sender = self.seats[from as usize].group as usize;
        self.arrived((actor, from, stream), seq, bytes, times.done.since(times.sent));
        self.groups[sender].delivered += 1;
        self.flights_due -= 1;
        self.settled(sender);
        Some((actor, What::Datagram { slot }))
    }

    /// Books one that arrives, by receiver, sender and stream.
    #[inline]
    pub(super) fn arrived(&mut self, stream: (u32, u32, u32), seq: u64, bytes: u32, one_way: Span) {
        let transit = i64::try_from(one_way.as_nanos()).unwrap_or(i64::MAX);
        let (place, variation) = self.arrivals.arrive(stream, seq, transit);
        let ledger = &mut self.groups[self.seats[stream.0 as usize].group as usize].ledger;
        ledger.tally.datagrams_received += 1;
        ledger.tally.bytes_received += u64::from(bytes);
        ledger.tally.datagrams_reordered += u64::from(place == Place::Reordered);
        ledger.arrived(Some(one_way), &variation);
    }

    /// At the stop: those whose time has not come never leave.
    pub(super) fn void_all(&mut self) {
        let planned: Vec<u32> = self.flights.iter().filter(|(_, f)| f.sent.is_none()).map(|(slot, _)| slot).collect();
        for slot in planned {
            let flight = self.flights.at_mut(slot);
            flight.void = true;
            let group = self.seats[flight.from as usize].group as usize;
            self.flights_due -= 1;
            self.settled(group);
        }
    }

    /// At the end: each group's datagrams are what its receivers counted, and the rest is lost.
    pub(super) fn settle_datagrams(&mut self) {
        for group in &mut self.groups {
            let tally = &mut group.ledger.tally;
            let lost = tally.datagrams_sent - group.delivered;
            tally.success += group.delivered;
            tally.lost += lost;
            tally.unacknowledged += lost;
        }
    }
}
