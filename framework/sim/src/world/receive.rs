//! The receiver's side of an exchange: arrival, and the answer.

use rehearsal_core::plan::Carrier;
use rehearsal_core::{ExchangeId, Reply, Request, Status};
use rehearsal_models::wire::ECHO_BYTES;

use super::costs::Way;
use super::{What, World};

impl World {
    /// A request reaches its receiver's node, which may have to work on it first.
    #[inline(always)]
    pub(super) fn arrive(&mut self, actor: u32, slot: u32) -> Option<(u32, What)> {
        if self.costs.is_some() {
            let node = self.node_of(actor);
            self.receive(Way::Request, node, slot);
            return None;
        }
        self.deliver(slot)
    }

    /// A request reaches its receiver; one that is dead fails it at once.
    #[inline(always)]
    pub(super) fn deliver(&mut self, slot: u32) -> Option<(u32, What)> {
        let now = self.now;
        let x = self.exchanges.at_mut(slot);
        let (bytes, actor) = (x.reach(now), x.to);
        if !self.links.at(x.path).answered {
            return self.counted(slot);
        }
        let seat = &self.seats[actor as usize];
        let tally = &mut self.groups[seat.group as usize].ledger.tally;
        tally.received += 1;
        tally.bytes_received += u64::from(bytes);
        if seat.dead {
            self.answer(slot, Status::Failed, 0);
            return None;
        }
        if !self.admit_bytes(slot) {
            return None;
        }
        Some((actor, What::Request { slot }))
    }

    /// A request reaches a receiver that counts it as a datagram, and has no part in the answer.
    fn counted(&mut self, slot: u32) -> Option<(u32, What)> {
        let x = self.exchanges.at(slot);
        let (from, to, Request { stream, seq, payload, .. }) = (x.from, x.to, x.request);
        let one_way = self.now.since(x.outcome.times.sent);
        self.arrived((to, from, stream), seq, payload.bytes, one_way);
        Some((to, What::Counted { slot }))
    }

    /// It has been counted: the echo or the acknowledgement goes back.
    pub(super) fn acknowledge(&mut self, slot: u32) {
        let x = self.exchanges.at_mut(slot);
        x.answered = true;
        if !x.decided {
            let bytes = if self.links.at(x.path).carrier == Carrier::Udp { ECHO_BYTES } else { 0 };
            (x.outcome.status, x.outcome.reply_bytes) = (Status::Success, bytes);
        }
        self.reply(slot);
    }

    /// An actor answers a request. An answer to what is answered already is ignored and counted.
    #[inline]
    pub(super) fn respond(&mut self, actor: u32, exchange: ExchangeId, reply: &Reply) {
        let (slot, generation) = (exchange.slot(), exchange.generation());
        if self.exchanges.get(slot, generation).is_some_and(|x| x.awaits(actor)) {
            self.answer(slot, reply.status, reply.payload.bytes);
        } else {
            self.stale_answers += 1;
        }
    }

    /// Books the answer and sends it back.
    #[inline]
    pub(super) fn answer(&mut self, slot: u32, status: Status, bytes: u32) {
        let status = match status {
            Status::Success | Status::Invalid | Status::Rejected => status,
            // nothing else can be said in a reply
            _ => Status::Failed,
        };
        let x = self.exchanges.at_mut(slot);
        x.answered = true;
        if !x.decided {
            (x.outcome.status, x.outcome.reply_bytes) = (status, bytes);
        }
        let handling = self.now.since(x.arrived);
        self.groups[self.seats[x.to as usize].group as usize].ledger.answered(status, handling);
        self.free_bytes(slot);
        self.reply(slot);
    }
}
