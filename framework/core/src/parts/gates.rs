//! The gate of each stream: how many exchanges are under way, and which wait. The engine owns it, so that blocked time
//! is always seen.

use std::collections::{BTreeMap, VecDeque};

use crate::kind::StreamSpec;

/// The gates of one group, by member and stream: 4 bytes each, and a queue for each at which something ever waited.
#[derive(Debug)]
pub struct Gates {
    spec: StreamSpec,
    under_way: Vec<u32>,
    queues: BTreeMap<usize, VecDeque<u32>>,
    waiting: u64,
}

/// What a gate says to a new exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Go.
    Go,
    /// Wait; [`Gates::leave`] will name it.
    Wait,
    /// There is no room to wait: it stays unsent.
    Full,
}

impl Gates {
    /// Gates for `members` members.
    pub fn new(spec: StreamSpec, members: u32) -> Self {
        let count = members as usize * spec.per_member as usize;
        Gates { spec, under_way: vec![0; count], queues: BTreeMap::new(), waiting: 0 }
    }

    /// The same for an engine that counts itself what is under way through the first gate of each member, and lends the
    /// count: [`Gates::enter_counted`], [`Gates::leave_counted`].
    pub fn lent(spec: StreamSpec, members: u32) -> Self {
        Gates::new(spec, if spec.per_member > 1 { members } else { 0 })
    }

    /// The number of a member's stream among all gates.
    #[inline]
    pub fn index(&self, member: u32, stream: u32) -> usize {
        (member * self.spec.per_member + stream.min(self.spec.per_member - 1)) as usize
    }

    /// Whether a stream's gate is the first of its member.
    #[inline]
    pub fn is_first(&self, stream: u32) -> bool {
        stream == 0 || self.spec.per_member <= 1
    }

    /// The exchange in `slot` is due.
    #[inline]
    pub fn enter(&mut self, gate: usize, slot: u32) -> Admission {
        let mut under_way = self.under_way[gate];
        let admission = self.enter_counted(&mut under_way, gate, slot);
        self.under_way[gate] = under_way;
        admission
    }

    /// The same at a gate whose count the engine keeps.
    #[inline]
    pub fn enter_counted(&mut self, under_way: &mut u32, gate: usize, slot: u32) -> Admission {
        let room =
            if self.spec.burst { self.spec.in_flight.saturating_add(self.spec.queue) } else { self.spec.in_flight };
        if *under_way < room {
            *under_way += 1;
            return Admission::Go;
        }
        if self.spec.burst || self.spec.queue == 0 {
            return Admission::Full;
        }
        let queue = self.queues.entry(gate).or_default();
        if queue.len() >= self.spec.queue as usize {
            return Admission::Full;
        }
        queue.push_back(slot);
        self.waiting += 1;
        Admission::Wait
    }

    /// An exchange is settled; the one that may go in its place, if one waits.
    #[inline]
    pub fn leave(&mut self, gate: usize) -> Option<u32> {
        let mut under_way = self.under_way[gate];
        let next = self.leave_counted(&mut under_way, gate);
        self.under_way[gate] = under_way;
        next
    }

    /// The same at a gate whose count the engine keeps.
    #[inline]
    pub fn leave_counted(&mut self, under_way: &mut u32, gate: usize) -> Option<u32> {
        if self.waiting > 0
            && let Some(slot) = self.queues.get_mut(&gate).and_then(VecDeque::pop_front)
        {
            self.waiting -= 1;
            return Some(slot);
        }
        debug_assert!(*under_way > 0, "an exchange left a gate that none had entered");
        *under_way = under_way.saturating_sub(1);
        None
    }

    /// Empties all queues, at the stop: the slots that waited.
    pub fn flush(&mut self) -> Vec<u32> {
        self.waiting = 0;
        self.queues.values_mut().flat_map(|queue| queue.drain(..)).collect()
    }

    /// Exchanges that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// What was declared.
    pub fn spec(&self) -> &StreamSpec {
        &self.spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(in_flight: u32, queue: u32, burst: bool) -> StreamSpec {
        StreamSpec { per_member: 2, in_flight, queue, burst, ..StreamSpec::UNDECLARED }
    }

    #[test]
    fn one_under_way_two_wait_and_the_fourth_is_full() {
        let mut gates = Gates::new(spec(1, 2, false), 3);
        let g = gates.index(2, 1);
        assert_eq!(g, 5);
        assert_eq!(
            [10, 11, 12, 13].map(|slot| gates.enter(g, slot)),
            [Admission::Go, Admission::Wait, Admission::Wait, Admission::Full]
        );
        assert_eq!(gates.waiting(), 2);
        assert_eq!([gates.leave(g), gates.leave(g), gates.leave(g)], [Some(11), Some(12), None]);
        assert_eq!(gates.enter(g, 14), Admission::Go);
    }

    #[test]
    fn a_count_that_is_lent_counts_the_same() {
        let (mut own, mut lent) = (Gates::new(spec(2, 1, false), 3), Gates::lent(spec(2, 1, false), 3));
        let (g, mut under_way) = (own.index(1, 0), 0);
        assert!(own.is_first(0) && !own.is_first(1));
        for slot in 0..4 {
            assert_eq!(own.enter(g, slot), lent.enter_counted(&mut under_way, g, slot));
        }
        for left in [Some(2), None, None] {
            assert_eq!((own.leave(g), lent.leave_counted(&mut under_way, g)), (left, left));
        }
        assert_eq!(under_way, 0);
        let other = lent.index(1, 1);
        assert_eq!(
            (lent.enter(other, 9), lent.leave(other)),
            (Admission::Go, None),
            "beyond the first nothing is lent"
        );
    }

    #[test]
    fn a_burst_goes_up_to_both_together() {
        let mut gates = Gates::new(spec(1, 2, true), 1);
        assert_eq!(
            [1, 2, 3, 4].map(|slot| gates.enter(0, slot)),
            [Admission::Go, Admission::Go, Admission::Go, Admission::Full]
        );
    }
}
