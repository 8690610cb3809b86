//! Datagrams on their last step: they wait in their socket's line, and are stamped and booked when they leave.

use rehearsal_core::dscp::Dscp;
use rehearsal_core::payload::Rtp;
use rehearsal_core::{ActorId, Datagram, Head, Payload, Time};

use super::State;
use crate::clock::unix_ns;
use crate::udp::{By, DATAGRAM_BYTES_MAX, HEADER_BYTES, Leaving, Origin, Reach, Sort, Stamp, Target, Way};

impl State {
    /// A datagram waits to leave for a receiver, booked already if it was `sent` before.
    pub(in crate::shard) fn queue_up(
        &mut self,
        row: usize,
        (who, member): (u32, u32),
        (origin, dscp): (Origin, Dscp),
        target: Target,
        datagram: Datagram,
        sent: Option<Time>,
    ) {
        let By::Address(to) = target.by else { return };
        let payload = datagram.payload;
        let wire = (payload.bytes as usize).clamp(HEADER_BYTES, DATAGRAM_BYTES_MAX);
        // who listens on the loopback sees a train as one packet: speech is to be known as speech
        let alone = target.singly || self.speech(payload).is_some();
        let elsewhere = !target.here;
        let one = Leaving { row, member, who, datagram, to, wire, alone, elsewhere, sent };
        match self.udp.outlet(Way { origin, to, dscp, sort: Reach::Receivers }) {
            Ok(outlet) => {
                if self.waiting.push(outlet, one) {
                    self.send_waiting();
                }
            }
            Err(why) => {
                if sent.is_none() {
                    self.book_leaving(&one, self.now(), self.world.start().unwrap_or(Time::ZERO));
                }
                self.note_unsent(&why);
            }
        }
    }

    /// Everything that waits leaves, in as few calls as there can be.
    pub(in crate::shard) fn send_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut train = std::mem::take(&mut waiting.train);
        for outlet in waiting.outlets() {
            for one in waiting.line(outlet) {
                if !self.udp.joins(&train, one) {
                    self.depart_together(outlet, &train);
                    train.clear();
                }
                train.push(*one);
            }
            self.depart_together(outlet, &train);
            train.clear();
        }
        waiting.clear();
        waiting.train = train;
        self.waiting = waiting;
    }

    /// Books, renders, stamps and sends datagrams in one call.
    fn depart_together(&mut self, outlet: usize, train: &[Leaving]) {
        let Some(first) = train.first() else { return };
        let (now, start) = (self.now(), self.world.start().unwrap_or(Time::ZERO));
        let (epoch_ns, mut bytes) = (unix_ns(), self.udp.buffer());
        for one in train {
            let sent = one.sent.unwrap_or(now);
            if one.sent.is_none() {
                self.book_leaving(one, sent, start);
            }
            let Datagram { stream, seq, intended, payload, .. } = one.datagram;
            let begin = bytes.len();
            self.render_at(epoch_ns, payload, one.member, &mut bytes);
            bytes.resize(begin + one.wire, 0);
            let head = Head { from: Some(ActorId(one.who)), stream, seq, ..Head::default() };
            let stamp = Stamp { run: self.world.run_hash, sort: Sort::OneWay, head, intended, sent };
            stamp.write_as(self.speech(payload), &mut bytes[begin..]);
        }
        self.udp.send_by(outlet, first.to, first.wire, bytes);
    }

    fn book_leaving(&mut self, one: &Leaving, sent: Time, start: Time) {
        let books = &mut self.books[one.row];
        books.ledger.datagram(one.member, &one.datagram, sent, start);
        books.elsewhere += u64::from(one.elsewhere);
    }

    /// How a payload stands in RTP, if it is a codec's.
    pub(in crate::shard) fn speech(&self, payload: Payload) -> Option<Rtp> {
        self.world.recipes.get(usize::from(payload.recipe.0)).and_then(|recipe| recipe.rtp())
    }
}
