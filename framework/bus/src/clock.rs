//! How far apart two hosts' clocks are, found by asking: the answer's reading was taken between the question and the
//! answer, so half the round trip bounds the error, whatever either way took. The shortest of several counts.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Questions of one burst. Assumed: on a busy host some of so many are answered at once.
pub const BURST: u32 = 48;

/// CLOCK_MONOTONIC of this host, ns: no change of the date moves it.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// One question and its answer: ours before and after, theirs in between, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Our clock when it was asked.
    pub asked_ns: u64,
    /// Their clock in between.
    pub theirs_ns: u64,
    /// Our clock when the answer was there.
    pub answered_ns: u64,
}

/// Another host's clock as seen from ours, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Our clock, ns.
    pub at_ns: u64,
    /// Theirs less ours, ns.
    pub offset_ns: i64,
    /// Largest error of the offset: half the round trip, ns.
    pub uncertainty_ns: u64,
}

impl Offset {
    /// What the exchange with the shortest round trip tells; `None` of none.
    pub fn of(burst: &[Exchange]) -> Option<Offset> {
        let whole = |e: &&Exchange| e.answered_ns.saturating_sub(e.asked_ns);
        let best = burst.iter().min_by_key(whole)?;
        let round = whole(&best);
        let middle = best.asked_ns + round / 2;
        let offset_ns = best.theirs_ns.cast_signed().wrapping_sub(middle.cast_signed());
        Some(Offset { at_ns: middle, offset_ns, uncertainty_ns: round.div_ceil(2) })
    }

    /// Whether the two clocks may be one.
    pub fn may_be_zero(&self) -> bool {
        self.offset_ns.unsigned_abs() <= self.uncertainty_ns
    }
}

/// What is known of a host's clock over a run. Its size does not grow with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// By which the run's times are translated, from beginning to end: the first that was found, or exactly 0 of one clock.
    applied_ns: i64,
    one_clock: bool,
    first: Offset,
    last: Offset,
    worst_ns: u64,
    readings: u32,
}

/// The same for a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracked {
    /// Theirs less ours, as the run's times were translated, ns; exactly 0 where both read one clock.
    pub offset_ns: i64,
    /// Largest error of that at any time it was looked at, drift included, ns.
    pub uncertainty_ns: u64,
    /// Theirs gains on ours, parts per billion; `None` if too little time passed to tell it from the uncertainty.
    pub drift_ppb: Option<i64>,
    /// How often it was looked at: before, during and after the run.
    pub readings: u32,
    /// Whether both hosts read one clock.
    pub one_clock: bool,
}

impl Track {
    /// Begins with the offset before the run. `same` tells whether both clocks have one name; they are taken for one only
    /// if what was measured agrees, for a copy of a virtual machine has its original's name.
    pub fn new(first: Offset, same: bool) -> Track {
        let one_clock = same && first.may_be_zero();
        let applied_ns = if one_clock { 0 } else { first.offset_ns };
        let mut track = Track { applied_ns, one_clock, first, last: first, worst_ns: 0, readings: 0 };
        track.add(first);
        track
    }

    /// Takes in what was found later.
    pub fn add(&mut self, found: Offset) {
        let away = found.offset_ns.abs_diff(self.applied_ns).saturating_add(found.uncertainty_ns);
        self.worst_ns = self.worst_ns.max(away);
        self.last = found;
        self.readings += 1;
    }

    /// Our time `ns` on their clock; 0 if that lies before it began.
    pub fn theirs(&self, ns: u64) -> u64 {
        ns.saturating_add_signed(self.applied_ns)
    }

    /// What is known by now.
    pub fn known(&self) -> Tracked {
        let uncertainty_ns = if self.one_clock { 0 } else { self.worst_ns };
        let drift_ppb = self.drift().filter(|_| !self.one_clock);
        Tracked {
            offset_ns: self.applied_ns,
            uncertainty_ns,
            drift_ppb,
            readings: self.readings,
            one_clock: self.one_clock,
        }
    }

    fn drift(&self) -> Option<i64> {
        let (moved, past) =
            (self.last.offset_ns - self.first.offset_ns, self.last.at_ns.checked_sub(self.first.at_ns)?);
        let doubt = self.last.uncertainty_ns + self.first.uncertainty_ns;
        let ppb = i128::from(moved) * 1_000_000_000 / i128::from(past.max(1));
        (moved.unsigned_abs() > doubt).then_some(i64::try_from(ppb).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(asked_ns: u64, theirs_ns: u64, answered_ns: u64) -> Exchange {
        Exchange { asked_ns, theirs_ns, answered_ns }
    }

    #[test]
    fn the_shortest_round_trip_bounds_the_error() {
        let ahead = 86_400_000_000_000;
        // the true offset is `ahead`; ways of 10 and 90, 400 and 100, 30 and 31
        let burst = [
            exchange(1_000, 1_010 + ahead, 1_100),
            exchange(2_000, 2_400 + ahead, 2_500),
            exchange(3_000, 3_030 + ahead, 3_061),
        ];
        let found = Offset::of(&burst).expect("three");
        assert_eq!((found.at_ns, found.uncertainty_ns), (3_030, 31));
        assert!(found.offset_ns.abs_diff(ahead.cast_signed()) <= found.uncertainty_ns);
        assert!(!found.may_be_zero());
        assert_eq!(Offset::of(&[]), None);
    }

    #[test]
    fn a_clock_behind_ours_has_a_negative_offset() {
        let found = Offset::of(&[exchange(5_000, 105, 5_200)]).expect("one");
        assert_eq!(found.offset_ns, 105 - 5_100);
        let track = Track::new(found, true);
        assert_eq!(track.theirs(6_000), 1_005, "one name is not one clock if the readings say otherwise");
        assert_eq!(track.theirs(10), 0, "before it began");
    }

    #[test]
    fn one_clock_is_exactly_zero_apart() {
        let track = Track::new(Offset { at_ns: 0, offset_ns: 40, uncertainty_ns: 50 }, true);
        assert_eq!((track.known().offset_ns, track.known().uncertainty_ns, track.theirs(7)), (0, 0, 7));
        let other = Track::new(Offset { at_ns: 0, offset_ns: 40, uncertainty_ns: 50 }, false);
        assert_eq!((other.known().offset_ns, other.known().uncertainty_ns), (40, 50));
    }

    #[test]
    fn drift_is_told_once_it_outgrows_the_doubt() {
        let at = |at_ns, offset_ns| Offset { at_ns, offset_ns, uncertainty_ns: 1_000 };
        let mut track = Track::new(at(0, 5_000), false);
        track.add(at(1_000_000_000, 6_500));
        assert_eq!(track.known().drift_ppb, None, "1.5 µs may be the error of two readings");
        track.add(at(10_000_000_000, 25_000));
        let known = track.known();
        assert_eq!((known.drift_ppb, known.uncertainty_ns, known.readings), (Some(2_000), 21_000, 3));
    }
}
