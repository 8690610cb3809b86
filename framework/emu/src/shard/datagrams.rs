//! Datagrams and flows: one way, no outcome; the receiver's counts settle them at the end.

use std::sync::atomic::Ordering;

use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{Carrier, Impose};
use rehearsal_core::{ActorId, Datagram, Head, Payload, Span, SubjectId, Time};
use rehearsal_models::path::Direction;
use rehearsal_models::transport::Window;

use super::State;
use super::rides::{Cargo, Parcel};
use super::timers::class;
use crate::udp::{By, DATAGRAM_BYTES_MAX, HEADER_BYTES, Origin, Sent, Sort, Stamp, Target, Way};

mod arrivals;
mod echoes;
mod flows;
mod leaving;
mod outbound;

pub(super) use echoes::Echo;
pub(super) use flows::{FIRES, Flow};
pub(super) use outbound::Outbound;

/// A datagram whose time has not come.
pub(super) struct Later {
    who: u32,
    row: usize,
    datagram: Datagram,
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
        let head = Head { from: Some(ActorId(who)), stream, seq, ..Head::default() };
        self.send_one(row, to, head, (intended, at), payload);
    }

    /// Sends and books one datagram. One without a way to its target is booked too, and lost.
    fn send_one(&mut self, row: usize, to: SubjectId, head: Head, (intended, at): (Time, Time), payload: Payload) {
        let books = &self.books[row];
        let who = head.from.map_or(books.base, |a| a.0);
        let group = &self.world.groups[books.group];
        let (node, dscp, member) = (group.node, group.dscp, books.first + who - books.base);
        let datagram = Datagram { to, stream: head.stream, seq: head.seq, intended, at, payload };
        let target = self.datagram_target(node, to, dscp);
        let path = target.and_then(|_| self.imposed_path(node, to));
        let origin = self.origin(row, head.stream);
        if let (Some(target @ Target { by: By::Address(_), outside: false, .. }), None) = (target, path) {
            return self.queue_up(row, (who, member), (origin, dscp), target, datagram, None);
        }
        let (sent, start) = (self.now(), self.world.start().unwrap_or(Time::ZERO));
        self.books[row].ledger.datagram(member, &datagram, sent, start);
        let Some(target) = target else { return };
        let parcel = Parcel { row, origin, node, member, to, target, head, intended, sent, payload, dscp };
        if target.outside {
            return self.post_outside(row, &parcel);
        }
        if !target.here {
            self.books[row].elsewhere += 1;
        }
        match path {
            None => self.post(&parcel),
            Some(path) => {
                let cargo = Cargo::Datagram(Box::new(parcel));
                let ride = self.rides.ride(cargo, (path, Direction::Up), payload.bytes, dscp, Window::default());
                self.set_off(ride, Span::ZERO);
            }
        }
    }

    /// Sends a datagram that no imposed link holds back, or no longer.
    pub(super) fn post(&mut self, parcel: &Parcel) {
        let Parcel { row, origin, node, member, to, target, head, intended, sent, payload, dscp } = *parcel;
        match target.by {
            By::Frames(actor) => self.post_frame(parcel, actor),
            By::Address(_) => {
                let who = head.from.map_or(0, |a| a.0);
                let datagram = Datagram { to, stream: head.stream, seq: head.seq, intended, at: intended, payload };
                self.queue_up(row, (who, member), (origin, dscp), target, datagram, Some(sent));
            }
            By::Broker(line) => {
                let mut datagram = self.udp.buffer();
                self.render_into(payload, member, &mut datagram);
                datagram.resize(datagram.len().clamp(HEADER_BYTES, DATAGRAM_BYTES_MAX), 0);
                let stamp = Stamp { run: self.world.run_hash, sort: Sort::OneWay, head, intended, sent };
                stamp.write_as(self.speech(payload), &mut datagram);
                if let Some((topic, _)) = self.topic_of(node, to) {
                    self.publishers.at(line).send(&*topic, &datagram);
                }
                self.udp.give_back(datagram);
            }
        }
    }

    /// Where datagrams of a stream come from: a port of their own where the group has several.
    pub(super) fn origin(&self, row: usize, stream: u32) -> Origin {
        let books = &self.books[row];
        match books.spec.ports {
            1 => Origin::Node(self.world.groups[books.group].node),
            ports => Origin::Port(books.group, (stream % u32::from(ports)) as u16),
        }
    }

    /// Puts datagrams of `each` bytes on the wire; how many of them left.
    fn put_out(&mut self, way: Way, each: usize, datagrams: bytes::BytesMut) -> Sent {
        let count = datagrams.len().div_ceil(each.max(1)).max(1) as u64;
        self.udp.send(way, each, datagrams).unwrap_or_else(|why| {
            self.note_unsent(&why);
            Sent { kept: count, unheard: 0 }
        })
    }

    fn note_unsent(&self, why: &std::io::Error) {
        self.notes.note(format!("datagrams could not be sent: {why}"));
    }

    fn datagram_target(&mut self, node: usize, to: SubjectId, dscp: Dscp) -> Option<Target> {
        let (world, publishers) = (&self.world, &self.publishers);
        if world.has_moved() {
            self.udp.forget(node, to, dscp);
        }
        self.udp.target((node, to, dscp), || {
            let owner = world.subjects.owner(to)?;
            let receiver = world.groups[world.group_of(owner.0)].node;
            let link = world.plan.link(node, receiver);
            let by = match link.carrier {
                _ if link.is_exchange() => return None,
                Carrier::Udp => By::Address(world.address(owner)?),
                Carrier::Frames => By::Frames(owner.0),
                _ => By::Broker(publishers.of(node, link, dscp)?),
            };
            let (here, singly) = (world.plan.nodes[receiver].local, link.impose == Impose::Kernel);
            Some(Target { by, here, outside: link.outside, singly })
        })
    }

    /// The receivers' counts settle a group's datagrams: what arrived is a success, the rest is lost. Nobody here knows
    /// what became of those that went elsewhere: they stay open, and end as aborted.
    pub(super) fn settle_datagrams(&mut self) {
        for books in &mut self.books {
            let tally = &mut books.ledger.tally;
            let Outbound { left, lost: refused } = books.outside;
            let sent = tally.datagrams_sent - books.elsewhere - left - refused;
            let arrived = self.world.shared.arrived[books.group].load(Ordering::Acquire).min(sent);
            let lost = sent - arrived + refused;
            if books.elsewhere > 0 && self.world.options.remote.is_none() {
                self.notes.note("what became of datagrams to receivers elsewhere is not known here".to_owned());
            }
            tally.success += arrived + left;
            tally.lost += lost;
            tally.unacknowledged += lost;
        }
    }

    /// Datagrams sent from here that have not arrived anywhere.
    pub(super) fn datagrams_missing(&self) -> u64 {
        let missing = |books: &super::Books| {
            let arrived = self.world.shared.arrived[books.group].load(Ordering::Acquire);
            let outside = books.outside.left + books.outside.lost;
            (books.ledger.tally.datagrams_sent + books.acknowledged - books.elsewhere - outside).saturating_sub(arrived)
        };
        self.books.iter().map(missing).sum()
    }
}
