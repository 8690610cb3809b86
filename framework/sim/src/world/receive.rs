//! The receiver's side of an exchange: arrival, and the answer.

use rehearsal_core::{ExchangeId, Reply, Status};

use super::{What, World};

impl World {
    /// A request reaches its receiver; one that is dead fails it at once.
    #[inline]
    pub(super) fn arrive(&mut self, actor: u32, slot: u32) -> Option<(u32, What)> {
        let now = self.now;
        let bytes = self.exchanges.at_mut(slot).reach(now);
        let seat = &self.seats[actor as usize];
        let tally = &mut self.groups[seat.group as usize].ledger.tally;
        tally.received += 1;
        tally.bytes_received += u64::from(bytes);
        if seat.dead {
            self.answer(slot, Status::Failed, 0);
            return None;
        }
        Some((actor, What::Request { slot }))
    }

    /// An actor answers a request. An answer to what is answered already is ignored and counted.
    #[inline]
    pub(super) fn respond(&mut self, actor: u32, exchange: ExchangeId, reply: Reply) {
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
        self.reply(slot);
    }
}
