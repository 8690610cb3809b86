//! How long bytes occupy a link: for no time, at a rate, or at rates that change and begin again.

use rehearsal_core::plan::LinkSpec;
use rehearsal_core::time::NANOS_PER_SECOND;
use rehearsal_core::units::BitRate;
use rehearsal_core::{Span, Time};

/// What a link carries per time.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// Serialisation takes no time.
    Free,
    /// So many bits per second.
    Fixed(BitRate),
    /// A trace that begins again at its end.
    Steps(Steps),
}

/// Rates over time, with a period. Work is counted in bits times nanoseconds per second, so that nothing is rounded on
/// the way.
#[derive(Clone, Debug)]
pub struct Steps {
    /// When each rate begins within the period, ns; the first is zero.
    starts: Vec<u64>,
    /// Bits per second.
    rates: Vec<u64>,
    /// ns.
    period: u64,
    /// What one period carries.
    whole: u128,
}

impl Steps {
    /// The trace of these rows, in the order of time from zero on. The last rate holds as long as the one before it;
    /// a single one for ever. `None` without rows.
    pub fn new(rows: &[(Span, BitRate)]) -> Option<Self> {
        let (last, _) = rows.last()?;
        let before = rows.len().checked_sub(2).map_or(Span::ZERO, |row| rows[row].0);
        let held = last.as_nanos().saturating_sub(before.as_nanos()).max(1);
        let held = if rows.len() == 1 { NANOS_PER_SECOND } else { held };
        let period = last.as_nanos().saturating_add(held);
        let starts: Vec<u64> = rows.iter().map(|(at, _)| at.as_nanos()).collect();
        let rates: Vec<u64> = rows.iter().map(|(_, rate)| rate.0.max(1)).collect();
        let mut steps = Steps { starts, rates, period, whole: 0 };
        steps.whole = (0..rows.len()).map(|row| u128::from(steps.end(row) - steps.starts[row]) * steps.bits(row)).sum();
        Some(steps)
    }

    fn end(&self, row: usize) -> u64 {
        self.starts.get(row + 1).copied().unwrap_or(self.period)
    }

    fn bits(&self, row: usize) -> u128 {
        u128::from(self.rates[row])
    }

    fn row(&self, at: u64) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// When `work` begun at `from` is done.
    fn done(&self, from: u64, work: u128) -> u64 {
        let mut left = work % self.whole;
        let periods = u64::try_from(work / self.whole).unwrap_or(u64::MAX);
        let mut passed = self.period.saturating_mul(periods);
        let mut at = from % self.period;
        let mut row = self.row(at);
        loop {
            let here = u128::from(self.end(row) - at) * self.bits(row);
            if left <= here {
                let takes = u64::try_from(left.div_ceil(self.bits(row))).unwrap_or(u64::MAX);
                return from.saturating_add(passed).saturating_add(takes);
            }
            left -= here;
            passed = passed.saturating_add(self.end(row) - at);
            row = (row + 1) % self.rates.len();
            at = self.starts[row];
        }
    }
}

impl Capacity {
    /// That of a link.
    pub fn of(spec: &LinkSpec) -> Self {
        match (Steps::new(&spec.rate_steps), spec.rate) {
            (Some(steps), _) => Capacity::Steps(steps),
            (None, Some(rate)) => Capacity::Fixed(rate),
            (None, None) => Capacity::Free,
        }
    }

    /// When `bytes` bytes whose first bit leaves at `from` have left.
    #[inline]
    pub fn done(&self, from: Time, bytes: u64) -> Time {
        match self {
            Capacity::Free => from,
            Capacity::Fixed(rate) => from.saturating_add(rate.serialisation(bytes)),
            Capacity::Steps(steps) => {
                let work = u128::from(bytes) * 8 * u128::from(NANOS_PER_SECOND);
                Time::from_nanos(steps.done(from.as_nanos(), work))
            }
        }
    }

    /// How long `bytes` bytes take from `at` on.
    #[inline]
    pub fn takes(&self, at: Time, bytes: u64) -> Span {
        self.done(at, bytes).since(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(rows: &[(u64, u64)]) -> Capacity {
        let rows: Vec<_> = rows.iter().map(|(ms, mbit)| (Span::from_millis(*ms), BitRate(mbit * 1_000_000))).collect();
        Capacity::Steps(Steps::new(&rows).expect("rows"))
    }

    #[test]
    fn a_trace_is_walked_and_begins_again() {
        // 8 Mbit/s for 10 ms, then 80 Mbit/s for 10 ms: 10 kB and 100 kB, 110 kB in a period of 20 ms
        let capacity = trace(&[(0, 8), (10, 80)]);
        let done = |from_ms: u64, bytes| capacity.done(Time::from_nanos(from_ms * 1_000_000), bytes).as_nanos() / 1000;
        assert_eq!(done(0, 1000), 1_000);
        assert_eq!(done(0, 10_000), 10_000);
        assert_eq!(done(0, 20_000), 11_000);
        assert_eq!(done(9, 11_000), 11_000, "1 kB at the slow rate, 10 kB at the fast one");
        assert_eq!(done(19, 11_000), 21_000, "and round the corner");
        assert_eq!(done(0, 110_000 * 50 + 1000), 1_001_000, "whole periods are skipped");
        assert_eq!(trace(&[(0, 8)]).done(Time::ZERO, 10_000_000).as_nanos(), 10_000_000_000, "one row for ever");
    }

    proptest! {
        #[test]
        fn work_in_two_parts_ends_when_work_in_one_does(
            rows in prop::collection::vec((1_u64..50, 1_u64..100), 1..6),
            from in 0_u64..1_000_000_000,
            (a, b) in (0_u64..2_000_000, 0_u64..2_000_000),
        ) {
            let mut at = 0;
            let rows: Vec<_> = rows.into_iter().map(|(gap, rate)| { let row = (at, rate); at += gap; row }).collect();
            let capacity = trace(&rows);
            let from = Time::from_nanos(from);
            let once = capacity.done(from, a + b);
            let twice = capacity.done(capacity.done(from, a), b);
            // a nanosecond that rounding costs at the fastest rate takes a hundred at the slowest
            prop_assert!(twice >= once && twice.since(once).as_nanos() <= 101, "{twice} {once}");
        }
    }
}
