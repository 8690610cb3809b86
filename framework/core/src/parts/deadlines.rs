//! Deadlines of one length expire in the order they were set: a ring per length, and one wake-up for each ring.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// All pending deadlines of an engine. Memory: 16 bytes each.
#[derive(Debug, Default)]
pub struct Deadlines {
    rings: Vec<Ring>,
}

#[derive(Debug)]
struct Ring {
    span: Span,
    entries: VecDeque<(Time, u32, u32)>,
}

impl Deadlines {
    /// Sets a deadline `span` after `now` for the exchange in `slot` and generation; returns the ring it went to and
    /// whether that ring was empty, so that the engine must arm a wake-up for it.
    #[inline]
    pub fn set(&mut self, now: Time, span: Span, slot: u32, generation: u32) -> (usize, bool) {
        let ring = match self.rings.iter().position(|r| r.span == span) {
            Some(ring) => ring,
            None => {
                self.rings.push(Ring { span, entries: VecDeque::new() });
                self.rings.len() - 1
            }
        };
        let entries = &mut self.rings[ring].entries;
        let first = entries.is_empty();
        entries.push_back((now.saturating_add(span), slot, generation));
        (ring, first)
    }

    /// Drops up to `budget` settled entries from the front of a ring, so that rings stay as short as what is under way.
    #[inline]
    pub fn trim(&mut self, ring: usize, budget: usize, mut settled: impl FnMut(u32, u32) -> bool) {
        let entries = &mut self.rings[ring].entries;
        for _ in 0..budget {
            match entries.front() {
                // the last entry stays: the ring's wake-up is armed for it
                Some(&(_, slot, generation)) if entries.len() > 1 && settled(slot, generation) => {
                    entries.pop_front();
                }
                _ => break,
            }
        }
    }

    /// The next deadline of a ring that has passed at `now`: its exchange, or when to look again, or nothing pending.
    #[inline]
    pub fn expire(&mut self, ring: usize, now: Time, mut settled: impl FnMut(u32, u32) -> bool) -> Expiry {
        let entries = &mut self.rings[ring].entries;
        while let Some(&(at, slot, generation)) = entries.front() {
            if settled(slot, generation) {
                entries.pop_front();
            } else if at <= now {
                entries.pop_front();
                return Expiry::Passed { slot, generation };
            } else {
                return Expiry::Next(at);
            }
        }
        Expiry::Empty
    }

    /// How many rings there are.
    pub fn rings(&self) -> usize {
        self.rings.len()
    }
}

/// What [`Deadlines::expire`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// This exchange's deadline has passed.
    Passed {
        /// Its slot.
        slot: u32,
        /// Its generation.
        generation: u32,
    },
    /// Nothing has passed; look again at this time.
    Next(Time),
    /// Nothing is pending in this ring.
    Empty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_pass_in_order_and_settled_ones_are_left_out() {
        let mut d = Deadlines::default();
        let ms = |n: u64| Time::from_nanos(n * 1_000_000);
        let (ring, first) = d.set(ms(0), Span::from_millis(10), 1, 0);
        assert!(first);
        assert_eq!(d.set(ms(1), Span::from_millis(10), 2, 0), (ring, false));
        assert_eq!(d.set(ms(2), Span::from_millis(10), 3, 0), (ring, false));
        let settled = |slot: u32, _| slot == 2;
        assert_eq!(d.expire(ring, ms(5), settled), Expiry::Next(ms(10)));
        assert_eq!(d.expire(ring, ms(12), settled), Expiry::Passed { slot: 1, generation: 0 });
        assert_eq!(d.expire(ring, ms(12), settled), Expiry::Passed { slot: 3, generation: 0 });
        assert_eq!(d.expire(ring, ms(12), settled), Expiry::Empty);
        assert_eq!(d.set(ms(20), Span::from_millis(3), 4, 1), (1, true));
    }
}
