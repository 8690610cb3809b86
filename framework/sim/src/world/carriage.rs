//! Requests and replies on their links: offered, retransmitted when lost, given up in the end.

use super::class::{Class, words};
use super::links::{RETRANSMISSIONS_MAX, wire_bytes};
use super::{What, World};

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

    /// Offers the request, or the reply if there is one, to its link. What gets lost is retransmitted later.
    #[inline]
    pub(super) fn onto_link(&mut self, slot: u32) {
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
}
