//! Controlled delay (CoDel): drops what has waited when waiting has gone on for too long. Source: RFC 8289 §4 and §5.
//!
//! The estimator asks each packet how long it waited when its turn comes; one above `target` for a whole `interval`
//! begins a series of drops, each `interval / sqrt(count)` after the last, until a packet waited less. What waits in less
//! than a full packet is never dropped.

use rehearsal_core::plan::Codel;
use rehearsal_core::{Span, Time};

/// A packet more or less in the queue makes no standing queue. Source: RFC 8289 §5.4, MAXPACKET: a full Ethernet frame.
const PACKET_BYTES: u64 = 1538;
/// A new series soon after the last goes on from its count. Source: RFC 8289 §5.5, 16 intervals.
const SOON: u64 = 16;

/// The state of one queue.
#[derive(Clone, Debug, Default)]
pub struct State {
    first_above: Option<Time>,
    dropping: bool,
    next: Time,
    count: u32,
    count_before: u32,
}

impl State {
    /// Whether the packet whose turn has come at `now`, after `waited`, is dropped; `behind` bytes wait after it.
    pub fn drops(&mut self, codel: &Codel, now: Time, waited: Span, behind: u64) -> bool {
        let above = self.is_above(codel, now, waited, behind);
        if self.dropping {
            if !above {
                self.dropping = false;
            } else if now >= self.next {
                self.count = self.count.saturating_add(1);
                self.next = self.next.saturating_add(self.gap(codel));
                return true;
            }
            return false;
        }
        if !above {
            return false;
        }
        self.dropping = true;
        let series = self.count.saturating_sub(self.count_before);
        let soon = now.as_nanos() < self.next.as_nanos().saturating_add(codel.interval.saturating_mul(SOON).as_nanos());
        self.count = if series > 1 && soon { series } else { 1 };
        self.count_before = self.count;
        self.next = now.saturating_add(self.gap(codel));
        true
    }

    /// Whether waits have been above the target for an interval.
    fn is_above(&mut self, codel: &Codel, now: Time, waited: Span, behind: u64) -> bool {
        if waited < codel.target || behind < PACKET_BYTES {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            Some(at) => now >= at,
            None => {
                self.first_above = Some(now.saturating_add(codel.interval));
                false
            }
        }
    }

    fn gap(&self, codel: &Codel) -> Span {
        Span::from_nanos((codel.interval.as_nanos() as f64 / f64::from(self.count).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_come_closer_by_the_root_of_their_count() {
        let (codel, ms) = (Codel::default(), |n: u64| Time::from_nanos(n * 1_000_000));
        let mut state = State::default();
        let wait = Span::from_millis(6);
        let dropped: Vec<u64> = (0..400).filter(|t| state.drops(&codel, ms(*t), wait, 10_000)).collect();
        // 100 ms above the target; then 100, 100/√2, 100/√3 … after each other, on the next whole millisecond
        assert_eq!(dropped, [100, 200, 271, 329, 379]);
        assert!(!state.drops(&codel, ms(400), Span::from_millis(4), 10_000), "one short wait ends it");
        assert!((401..500).all(|t| !state.drops(&codel, ms(t), wait, 10_000)));
        // soon after a series of five, the next one begins with the gap that it had reached
        let again: Vec<u64> = (500..560).filter(|t| state.drops(&codel, ms(*t), wait, 10_000)).collect();
        assert_eq!(again, [501, 551]);
    }

    #[test]
    fn a_last_packet_is_left_alone() {
        let mut state = State::default();
        let at = |t: u64| Time::from_nanos(t * 1_000_000);
        assert!((0..1000).all(|t| !state.drops(&Codel::default(), at(t), Span::from_secs(1), 1000)));
    }
}
