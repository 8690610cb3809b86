//! The gate of each stream: how many exchanges are under way, and which wait. The engine owns it, so that blocked time
//! is always seen.

use std::collections::VecDeque;

use crate::kind::StreamSpec;

/// The gates of one group, by member and stream.
#[derive(Debug)]
pub struct Gates {
    spec: StreamSpec,
    gates: Vec<Gate>,
    waiting: u64,
}

#[derive(Debug, Default, Clone)]
struct Gate {
    under_way: u32,
    queue: VecDeque<u32>,
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
        Gates { spec, gates: vec![Gate::default(); count], waiting: 0 }
    }

    /// The number of a member's stream among all gates.
    #[inline]
    pub fn index(&self, member: u32, stream: u32) -> usize {
        (member * self.spec.per_member + stream.min(self.spec.per_member - 1)) as usize
    }

    /// The exchange in `slot` is due.
    #[inline]
    pub fn enter(&mut self, gate: usize, slot: u32) -> Admission {
        let room =
            if self.spec.burst { self.spec.in_flight.saturating_add(self.spec.queue) } else { self.spec.in_flight };
        let state = &mut self.gates[gate];
        if state.under_way < room {
            state.under_way += 1;
            Admission::Go
        } else if !self.spec.burst && state.queue.len() < self.spec.queue as usize {
            state.queue.push_back(slot);
            self.waiting += 1;
            Admission::Wait
        } else {
            Admission::Full
        }
    }

    /// An exchange is settled; the one that may go in its place, if one waits.
    #[inline]
    pub fn leave(&mut self, gate: usize) -> Option<u32> {
        let state = &mut self.gates[gate];
        match state.queue.pop_front() {
            Some(slot) => {
                self.waiting -= 1;
                Some(slot)
            }
            None => {
                debug_assert!(state.under_way > 0, "an exchange left a gate that none had entered");
                state.under_way = state.under_way.saturating_sub(1);
                None
            }
        }
    }

    /// Empties all queues, at the stop: the slots that waited.
    pub fn flush(&mut self) -> Vec<u32> {
        self.waiting = 0;
        self.gates.iter_mut().flat_map(|g| g.queue.drain(..)).collect()
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
        StreamSpec { per_member: 2, in_flight, queue, burst, gap: None, requests: None, threshold: None }
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
    fn a_burst_goes_up_to_both_together() {
        let mut gates = Gates::new(spec(1, 2, true), 1);
        assert_eq!(
            [1, 2, 3, 4].map(|slot| gates.enter(0, slot)),
            [Admission::Go, Admission::Go, Admission::Go, Admission::Full]
        );
    }
}
