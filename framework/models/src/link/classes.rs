//! A link that chooses packet by packet: strict priority or weighted shares between classes, and CoDel in each.
//!
//! When something leaves depends on what comes after it, so nothing is known at the offer: the engine is told when to come
//! back ([`Classes::wake`]) and then what has been decided ([`Classes::decided`]). A message of several packets is served
//! packet by packet, so what is urgent waits for one packet and not for a message. Between two visits the packets are
//! walked through without events.

use std::collections::VecDeque;

use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{Codel, LinkClass, LinkSpec, Scheduler};
use rehearsal_core::{Span, Time};

use super::Load;
use super::capacity::Capacity;
use super::codel::State;
use crate::wire::FRAME_BYTES;

/// What a class of weight one may send in a round: a full frame, so that no round is in vain.
const QUANTUM: u64 = 1538;

/// Something that waits, or is being sent.
#[derive(Clone, Copy, Debug)]
struct Item {
    token: u64,
    offered: Time,
    /// What has not been sent.
    left: Load,
    begun: bool,
}

/// What has been decided about an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decided {
    /// The offer's own mark.
    pub token: u64,
    /// When its last bit leaves; `None` if it was dropped instead.
    pub leaves: Option<Time>,
    /// When it was offered.
    pub offered: Time,
}

#[derive(Debug, Default)]
struct Queue {
    weight: u64,
    waiting: VecDeque<Item>,
    bytes: u64,
    packets: u64,
    deficit: u64,
    codel: State,
}

/// See the module.
#[derive(Debug)]
pub struct Classes {
    capacity: Capacity,
    scheduler: Scheduler,
    codel: Option<Codel>,
    bytes_max: u64,
    packets_max: u64,
    queues: Vec<Queue>,
    /// The class of each code point.
    of: Vec<u8>,
    /// Whose turn it is, and whether it has had its share of this round.
    turn: usize,
    granted: bool,
    free_at: Time,
    decided: VecDeque<Decided>,
    busy: Span,
}

impl Classes {
    /// An idle link.
    pub fn of(spec: &LinkSpec) -> Self {
        let classes: &[LinkClass] = if spec.scheduler == Scheduler::Fifo { &[] } else { &spec.classes };
        let last = classes.len().max(1) - 1;
        let class = |number: u64| classes.iter().position(|c| c.dscp.iter().any(|d| u64::from(d.number()) == number));
        let weights = (0..=last).map(|row| classes.get(row).map_or(1, |class| class.weight.max(1)));
        Classes {
            capacity: Capacity::of(spec),
            scheduler: spec.scheduler,
            codel: spec.codel,
            bytes_max: spec.queue.0,
            packets_max: spec.queue_packets.unwrap_or(u64::MAX),
            queues: weights.map(|weight| Queue { weight: u64::from(weight), ..Queue::default() }).collect(),
            of: (0..64).map(|number| class(number).unwrap_or(last) as u8).collect(),
            turn: 0,
            granted: false,
            free_at: Time::ZERO,
            decided: VecDeque::new(),
            busy: Span::ZERO,
        }
    }

    /// Offers something at `now` under a mark of the engine's; false if its class has no room.
    pub fn offer(&mut self, now: Time, load: Load, dscp: Dscp, token: u64) -> bool {
        self.advance(now);
        let idle = self.queues.iter().all(|queue| queue.waiting.is_empty());
        let queue = &mut self.queues[usize::from(self.of[usize::from(dscp.number())])];
        let left = Load { packets: load.packets.max(1), ..load };
        let (bytes, packets) = left.waits();
        let full = queue.bytes.saturating_add(bytes) > self.bytes_max
            || queue.packets.saturating_add(packets) > self.packets_max;
        if full && (self.free_at > now || !idle) {
            return false;
        }
        queue.waiting.push_back(Item { token, offered: now, left, begun: false });
        queue.bytes += bytes;
        queue.packets += packets;
        if idle {
            self.free_at = self.free_at.max(now);
        }
        self.advance(now);
        true
    }

    /// Chooses for every moment up to `now`.
    pub fn advance(&mut self, now: Time) {
        while self.free_at <= now {
            let Some(class) = self.choose() else { return };
            self.send(class);
        }
    }

    /// What has been decided, in the order of time.
    pub fn decided(&mut self) -> Option<Decided> {
        self.decided.pop_front()
    }

    /// The next time at which something may be decided, unless something is offered before; `None` if nothing waits.
    pub fn wake(&self) -> Option<Time> {
        let heads = self.queues.iter().filter_map(|queue| queue.waiting.front());
        let last = |item: &Item| {
            if item.begun || self.codel.is_none() { item.left.bytes - item.left.packet() } else { 0 }
        };
        heads.map(last).min().map(|before| self.capacity.done(self.free_at, before))
    }

    /// Bytes that wait, in all classes; what is being sent does not.
    pub fn waiting_bytes(&mut self, now: Time) -> u64 {
        self.advance(now);
        self.queues.iter().map(|queue| queue.bytes).sum()
    }

    /// How long a full frame takes at `at`, if nothing else is sent.
    #[inline]
    pub fn frame(&self, at: Time) -> Span {
        self.capacity.takes(at, FRAME_BYTES)
    }

    /// How long it has been occupied, or will have been by what was chosen.
    pub fn busy(&self) -> Span {
        self.busy
    }

    /// The class whose head packet goes next.
    fn choose(&mut self) -> Option<usize> {
        let backlogged = |queue: &Queue| !queue.waiting.is_empty();
        if self.scheduler != Scheduler::Weighted {
            return self.queues.iter().position(backlogged);
        }
        if !self.queues.iter().any(backlogged) {
            return None;
        }
        loop {
            let queue = &mut self.queues[self.turn];
            if let Some(head) = queue.waiting.front() {
                let next = head.left.packet();
                if !std::mem::replace(&mut self.granted, true) {
                    queue.deficit += QUANTUM * queue.weight;
                }
                if queue.deficit >= next {
                    queue.deficit -= next;
                    return Some(self.turn);
                }
            } else {
                queue.deficit = 0;
            }
            self.turn = (self.turn + 1) % self.queues.len();
            self.granted = false;
        }
    }

    /// Sends one packet of a class, or drops its head.
    fn send(&mut self, class: usize) {
        let (now, queue) = (self.free_at, &mut self.queues[class]);
        let Some(item) = queue.waiting.front_mut() else { return };
        let packet = item.left.packet();
        let (token, offered, before) = (item.token, item.offered, item.left.waits());
        if let Some(codel) = self.codel.filter(|_| !std::mem::replace(&mut item.begun, true)) {
            let behind = queue.bytes - before.0;
            if queue.codel.drops(&codel, now, now.since(offered), behind) {
                // what it was charged for is not sent
                queue.deficit += if self.scheduler == Scheduler::Weighted { packet } else { 0 };
                queue.bytes -= before.0;
                queue.packets -= before.1;
                queue.waiting.pop_front();
                self.decided.push_back(Decided { token, leaves: None, offered });
                return;
            }
        }
        item.begun = true;
        item.left.bytes -= packet;
        item.left.packets -= 1;
        let (done, after) = (item.left.packets == 0, item.left.waits());
        queue.bytes -= before.0 - after.0;
        queue.packets -= before.1 - after.1;
        self.free_at = self.capacity.done(now, packet);
        self.busy = Span::from_nanos(self.busy.as_nanos().saturating_add(self.free_at.since(now).as_nanos()));
        if done {
            queue.waiting.pop_front();
            self.decided.push_back(Decided { token, leaves: Some(self.free_at), offered });
        }
    }
}

#[cfg(test)]
mod tests;
