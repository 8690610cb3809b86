//! Datagrams: each packet takes its link once; what is lost is lost, and the receivers' counts settle it at the end.
//!
//! The link model keeps the order of a path and makes no copies, so the receivers' counts of duplicate and reordered
//! datagrams stay zero in a simulation.

use rehearsal_core::event::Head;
use rehearsal_core::messages::Metric;
use rehearsal_core::{ActorId, Datagram, Span, Time, Times};

use super::class::{Class, words};
use super::links::datagram_bytes;
use super::{Phase, What, World};

/// A datagram, from the wish to send it until its receiver has seen it.
#[derive(Debug)]
pub(super) struct Flight {
    pub datagram: Datagram,
    from: u32,
    sent: Option<Time>,
    /// The stop came before its time.
    void: bool,
}

impl Flight {
    /// What the receiver may know of it.
    #[inline]
    pub(super) fn head(&self) -> Head {
        let Datagram { stream, seq, .. } = self.datagram;
        Head { from: Some(ActorId(self.from)), stream, class: 0, seq, limit: Span::ZERO }
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
        let slot = self.flights.insert(Flight { datagram, from: actor, sent: None, void: false });
        if datagram.at > self.now {
            self.push(datagram.at, Class::SendDatagram, actor, words(0, slot));
        } else {
            self.fly(slot);
        }
    }

    /// Its time has come.
    #[inline]
    pub(super) fn fly(&mut self, slot: u32) -> Option<(u32, What)> {
        let origin = self.origin();
        let flight = self.flights.at_mut(slot);
        if flight.void {
            self.flights.remove(slot);
            return None;
        }
        flight.sent = Some(self.now);
        let (from, Datagram { to, stream, seq, intended, payload, .. }) = (flight.from, flight.datagram);
        let row = self.seats[from as usize].group as usize;
        let group = &mut self.groups[row];
        let member = group.first_member + from - group.base;
        group.ledger.datagram(member, stream, seq, intended.since(origin), payload.bytes, Span::ZERO);
        let here = group.node;
        let arrival = self.subjects.owner(to).and_then(|to| {
            let there = self.groups[self.seats[to.0 as usize].group as usize].node;
            let path = self.links.path(&self.plan, here, there);
            Some((to.0, self.links.offer(path, false, self.now, datagram_bytes(payload.bytes))?))
        });
        match arrival {
            Some((to, at)) => self.push(at, Class::Datagram, from, words(to, slot)),
            None => {
                self.flights.remove(slot);
                self.flights_due -= 1;
                self.settled(row);
            }
        }
        None
    }

    /// It reaches its receiver.
    #[inline]
    pub(super) fn land(&mut self, actor: u32, slot: u32) -> Option<(u32, What)> {
        let flight = self.flights.at(slot);
        let (bytes, times) = (flight.datagram.payload.bytes, flight.times(self.now));
        let sender = self.seats[flight.from as usize].group as usize;
        let ledger = &mut self.groups[self.seats[actor as usize].group as usize].ledger;
        ledger.tally.datagrams_received += 1;
        ledger.tally.bytes_received += u64::from(bytes);
        ledger.record(Metric::OneWay, times.done.since(times.sent));
        self.groups[sender].delivered += 1;
        self.flights_due -= 1;
        self.settled(sender);
        Some((actor, What::Datagram { slot }))
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
