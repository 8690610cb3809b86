//! Datagrams to targets outside: payloads as they are. Nobody there tells what arrived, so that what has left is a success.

use bytes::BytesMut;
use rehearsal_core::outside::template::Item;

use super::super::rides::Parcel;
use super::super::{Books, State};
use crate::clock::unix_ns;
use crate::losses::{Loss, Peer};
use crate::udp::{By, DATAGRAM_BYTES_MAX, Reach, Sent, Way};

/// What became of a group's datagrams to targets outside, as far as anybody here knows.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::shard) struct Outbound {
    /// They left.
    pub left: u64,
    /// This host kept them, or they came back as refused.
    pub lost: u64,
}

impl Books {
    fn left(&mut self, all: u64, sent: Sent) {
        let lost = (sent.kept + sent.unheard).min(all);
        self.outside.left += all - lost;
        self.outside.lost += lost;
    }
}

impl State {
    /// Sends a datagram to a target outside.
    pub(super) fn post_outside(&mut self, row: usize, parcel: &Parcel) {
        let Parcel { origin, node, member, to: subject, target, payload, dscp, .. } = *parcel;
        let mut datagram = self.udp.buffer();
        self.render_into(payload, member, &mut datagram);
        match target.by {
            By::Address(to) => {
                datagram.truncate(DATAGRAM_BYTES_MAX);
                let way = Way { origin, to, dscp, sort: Reach::Outside };
                let bytes = datagram.len();
                let sent = self.put_out(way, bytes, datagram);
                self.sent_outside(row, node, way, (1, sent));
            }
            By::Broker(line) => {
                let form = self.world.groups[self.books[row].group].form.clone();
                let (mut topic, item) = (BytesMut::new(), Item { seq: payload.seq, member, epoch_ns: unix_ns() });
                if let Some(form) = form {
                    form.topic(item, &mut topic);
                }
                debug_assert!(self.world.subjects.owner(subject).is_some(), "a target outside is an actor of the plan");
                let kept = u64::from(!self.publishers.at(line).send(&topic, &datagram));
                self.udp.give_back(datagram);
                self.books[row].left(1, Sent { kept, unheard: 0 });
            }
            // whole frames go to receivers of ours alone
            By::Frames(_) => self.udp.give_back(datagram),
        }
    }

    /// Books what has left for a target outside.
    pub(super) fn sent_outside(&mut self, row: usize, node: usize, way: Way, (all, sent): (u64, Sent)) {
        self.books[row].left(all, sent);
        for _ in 0..sent.unheard {
            self.target_lost(node, Peer::Address(way.to), Loss::Unheard);
        }
    }
}
