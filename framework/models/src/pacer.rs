//! When one stream is due: evenly spaced, exact to the nanosecond, whatever else happens.

use rehearsal_core::flow::FlowSet;
use rehearsal_core::units::Rate;
use rehearsal_core::{Span, Time};

/// The schedule of one stream: slot `k` is due `k / rate` after the first.
///
/// Due times follow from the schedule alone and never from the present, so they do not drift. At a constant rate of R
/// per second at most R + 1 of them lie in any sliding second, both of its ends included.
///
/// ```
/// use rehearsal_core::units::Rate;
/// use rehearsal_core::{Span, Time};
/// use rehearsal_models::Pacer;
///
/// let start = Time::ZERO + Span::from_secs(1);
/// let mut pacer = Pacer::new(Rate::per_second(3), start, Span::from_millis(10), None, Some(2));
/// assert_eq!(pacer.take(), Some(Time::from_nanos(1_010_000_000)));
/// assert_eq!(pacer.take(), Some(Time::from_nanos(1_343_333_333)));
/// assert_eq!(pacer.take(), None, "both requests are used up");
/// ```
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Rate,
    /// When slot 0 of the present rate is due.
    base: Time,
    /// The slot that is due next, counted from `base`.
    step: u64,
    /// When the last slot was due that was taken; the start before that.
    anchor: Time,
    until: Time,
    left: u64,
    taken: bool,
    paused: bool,
}

impl Pacer {
    /// A schedule whose first slot is due `phase` after `start`, and none at or after `until`; it ends after
    /// `requests` slots that were taken.
    pub fn new(rate: Rate, start: Time, phase: Span, until: Option<Time>, requests: Option<u64>) -> Self {
        Pacer {
            rate,
            base: start.saturating_add(phase),
            step: 0,
            anchor: start,
            until: until.unwrap_or(Time::MAX),
            left: requests.unwrap_or(u64::MAX),
            taken: false,
            paused: false,
        }
    }

    /// When slot `k` of the present rate is due, wherever the schedule ends.
    #[inline]
    pub fn due(&self, k: u64) -> Time {
        self.base.saturating_add(self.rate.offset(k))
    }

    /// When the next slot is due; `None` at the end, and in a pause.
    #[inline]
    pub fn next_due(&self) -> Option<Time> {
        (!self.paused && !self.is_finished()).then(|| self.due(self.step))
    }

    /// Takes the next slot; it uses up one request.
    #[inline]
    pub fn take(&mut self) -> Option<Time> {
        let due = self.next_due()?;
        self.step += 1;
        self.left -= 1;
        (self.anchor, self.taken) = (due, true);
        Some(due)
    }

    /// Gives the next slot up; it uses up no request.
    #[inline]
    pub fn skip(&mut self) -> Option<Time> {
        let due = self.next_due()?;
        self.step += 1;
        Some(due)
    }

    /// Gives up every slot that is due before `time`, and counts them.
    pub fn skip_before(&mut self, time: Time) -> u64 {
        if self.paused || self.is_finished() {
            return 0;
        }
        let first = self.step;
        self.step = first.max(self.first_at(time.min(self.until)));
        self.step - first
    }

    /// Whether no slot is left, or the next one would be due too late.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.left == 0 || self.due(self.step) >= self.until
    }

    /// Requests that are left, `None` if their number is not limited.
    pub fn remaining(&self) -> Option<u64> {
        (self.left != u64::MAX).then_some(self.left)
    }

    /// Mean gap at the present rate.
    #[inline]
    pub fn gap(&self) -> Span {
        self.rate.gap()
    }

    /// Changes the schedule from `now` on; returns the number of slots that a pause has given up, when it ends.
    ///
    /// After a pause the slots fall where they would have fallen without it. A new rate counts from the last slot that
    /// was taken, so that no change of rate brings two slots closer together than the new gap.
    pub fn set(&mut self, set: FlowSet, now: Time) -> u64 {
        match set {
            FlowSet::Pause => self.paused = true,
            FlowSet::Resume if self.paused => {
                self.paused = false;
                return self.skip_before(now);
            }
            FlowSet::Resume => {}
            FlowSet::Rate(rate) => self.change(rate, now),
            FlowSet::Stop => self.left = 0,
        }
        0
    }

    fn change(&mut self, rate: Rate, now: Time) {
        let next = if self.taken {
            now.max(self.anchor.saturating_add(rate.gap()))
        } else {
            self.base.min(now.max(self.anchor).saturating_add(rate.gap()))
        };
        (self.rate, self.base, self.step) = (rate, next, 0);
    }

    /// The first slot that is due at `time` or later.
    fn first_at(&self, time: Time) -> u64 {
        // near enough to be a few steps off: the mean gap is exact to the nanosecond
        let mut k = (time.since(self.base).as_secs_f64() * self.rate.as_f64()) as u64;
        while k > 0 && self.due(k - 1) >= time {
            k -= 1;
        }
        while self.due(k) < time {
            k += 1;
        }
        k
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Time = Time::from_nanos(5_000_000_000);

    fn pacer(rate: Rate, requests: Option<u64>) -> Pacer {
        Pacer::new(rate, START, Span::ZERO, None, requests)
    }

    fn after(millis: u64) -> Time {
        START + Span::from_millis(millis)
    }

    #[test]
    fn a_schedule_does_not_drift() {
        let mut pacer = pacer(Rate::per_second(3), None);
        for k in 0..3_000_000_u64 {
            let due = pacer.take().expect("it does not end");
            if k % 3 == 0 {
                assert_eq!(due, START + Span::from_secs(k / 3), "slot {k}");
            }
        }
    }

    #[test]
    fn it_ends_by_count_and_by_time() {
        let mut counted = pacer(Rate::per_second(10), Some(3));
        assert_eq!([counted.take(), counted.take()], [Some(after(0)), Some(after(100))]);
        assert_eq!((counted.skip(), counted.remaining()), (Some(after(200)), Some(1)), "a skip uses up no request");
        assert_eq!((counted.take(), counted.take()), (Some(after(300)), None));
        assert!(counted.is_finished());

        let mut timed = Pacer::new(Rate::per_second(10), START, Span::from_millis(50), Some(after(250)), None);
        let all: Vec<Time> = std::iter::from_fn(|| timed.take()).collect();
        assert_eq!(all, [after(50), after(150)], "nothing at the end itself");
        let mut never = Pacer::new(Rate::per_second(10), START, Span::from_millis(50), Some(after(50)), Some(5));
        assert_eq!((never.is_finished(), never.take()), (true, None));
    }

    #[test]
    fn late_slots_are_given_up_in_one_go() {
        let mut pacer = Pacer::new(Rate::per_second(1000), START, Span::ZERO, Some(after(10_000)), Some(100));
        assert_eq!(pacer.skip_before(after(0)), 0);
        assert_eq!(pacer.skip_before(after(3_600_000)), 10_000, "none after the end");
        assert_eq!((pacer.next_due(), pacer.remaining()), (None, Some(100)));
    }

    #[test]
    fn a_pause_gives_slots_up_and_keeps_the_beat() {
        let mut pacer = pacer(Rate::per_second(10), None);
        pacer.take();
        assert_eq!(pacer.set(FlowSet::Pause, after(10)), 0);
        assert_eq!((pacer.next_due(), pacer.take(), pacer.is_finished()), (None, None, false));
        assert_eq!(pacer.set(FlowSet::Resume, after(450)), 4, "100, 200, 300 and 400 ms");
        assert_eq!(pacer.set(FlowSet::Resume, after(480)), 0);
        assert_eq!(pacer.take(), Some(after(500)));
        pacer.set(FlowSet::Stop, after(510));
        assert!(pacer.is_finished());
    }

    #[test]
    fn a_new_rate_counts_from_the_last_slot() {
        let mut pacer = pacer(Rate::per_second(10), None);
        pacer.take();
        pacer.set(FlowSet::Rate(Rate::per_second(100)), after(5));
        assert_eq!([pacer.take(), pacer.take()], [Some(after(10)), Some(after(20))]);
        // a slip of the hand: one per hour, put right a moment later
        pacer.set(FlowSet::Rate(Rate::new(1, Span::from_secs(3600)).expect("a rate")), after(21));
        pacer.set(FlowSet::Rate(Rate::per_second(10)), after(22));
        assert_eq!([pacer.take(), pacer.take()], [Some(after(120)), Some(after(220))]);
    }

    proptest! {
        #[test]
        fn at_most_one_more_than_the_rate_in_any_sliding_second(
            rate in 1_u64..2_000,
            phase in 0_u64..1_000_000_000,
            first in 0_u64..10_000,
        ) {
            let pacer = Pacer::new(Rate::per_second(rate), START, Span::from_nanos(phase), None, None);
            for k in first..first + 50 {
                // the window begins at a slot: no other place holds more
                let end = pacer.due(k) + Span::from_secs(1);
                let inside = (k..).take_while(|i| pacer.due(*i) <= end).count() as u64;
                prop_assert!(inside <= rate + 1, "{inside} from slot {k} at {rate}/s");
            }
        }

        #[test]
        fn changes_bring_no_two_slots_closer_than_the_gap(
            changes in prop::collection::vec((1_u64..500, 0_u64..300, prop::bool::ANY), 1..40),
        ) {
            let mut pacer = pacer(Rate::per_second(50), None);
            let (mut now, mut last) = (START, None::<Time>);
            for (rate, wait, pause) in changes {
                now += Span::from_millis(wait);
                while pacer.next_due().is_some_and(|due| due <= now) {
                    let due = pacer.take().expect("one is due");
                    // floors of two exact times may be one nanosecond closer
                    let apart = last.is_none_or(|l| due.since(l).as_nanos() + 1 >= pacer.gap().as_nanos());
                    prop_assert!(apart, "{last:?} and {due:?} at a gap of {:?}", pacer.gap());
                    last = Some(due);
                }
                if pause {
                    pacer.set(FlowSet::Pause, now);
                    now += Span::from_millis(wait);
                    pacer.set(FlowSet::Resume, now);
                }
                pacer.set(FlowSet::Rate(Rate::per_second(rate)), now);
                prop_assert!(pacer.next_due().is_some_and(|due| due >= now));
            }
        }

        #[test]
        fn skipping_in_one_go_is_skipping_one_by_one(
            events in 1_u64..5_000, per_ms in 1_u64..5_000, until_ms in 0_u64..4_000, to_ns in 0_u64..4_000_000_000,
        ) {
            let rate = Rate::new(events, Span::from_millis(per_ms)).expect("a rate");
            let mut one = Pacer::new(rate, START, Span::ZERO, Some(after(until_ms)), None);
            let mut all = one.clone();
            let time = START + Span::from_nanos(to_ns);
            let mut count = 0;
            while one.next_due().is_some_and(|due| due < time) && count < 20_000 {
                one.skip();
                count += 1;
            }
            prop_assume!(count < 20_000);
            prop_assert_eq!(all.skip_before(time), count);
            prop_assert_eq!(all.next_due(), one.next_due());
        }
    }
}
