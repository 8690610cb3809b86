//! When one stream is due: evenly spaced, exact to the nanosecond, or by arrivals that are drawn.

use rehearsal_core::flow::FlowSet;
use rehearsal_core::units::Rate;
use rehearsal_core::{Span, Time};

use crate::arrivals::Draws;

/// The schedule of one stream. At a constant rate slot `k` is due `k / rate` after the first; drawn slots are due when
/// their arrivals say.
///
/// Due times follow from the schedule alone and never from the present, so they do not drift. At a constant rate of R
/// per second at most R + 1 of them lie in any sliding second, both of its ends included. Drawn arrivals (Poisson, renewal,
/// on/off, MMPP, stages, traces) make no such promise: any number of them may lie in a second.
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
    beat: Beat,
    /// When the last slot was due that was taken; the start before that.
    anchor: Time,
    until: Time,
    left: u64,
    taken: bool,
    paused: bool,
}

/// Where the slots are.
#[derive(Clone, Debug)]
enum Beat {
    Even(Even),
    Drawn(Box<Drawn>),
}

#[derive(Clone, Debug)]
struct Even {
    rate: Rate,
    /// When slot 0 of the present rate is due.
    base: Time,
    /// The slot that is due next, counted from `base`.
    step: u64,
}

/// Arrivals on a clock of their own, which a change of rate makes run faster or slower: phases and stages with it.
#[derive(Clone, Debug)]
struct Drawn {
    draws: Draws,
    /// The next arrival by its own clock; `None` at the end.
    own: Option<u64>,
    /// The same in time.
    next: Time,
    /// When the own clock was last set, in time and by itself.
    set: (Time, f64),
    /// How fast it runs: 1, until the rate is changed.
    pace: f64,
    rate: Rate,
}

impl Even {
    #[inline]
    fn due(&self, k: u64) -> Time {
        self.base.saturating_add(self.rate.offset(k))
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

impl Drawn {
    fn advance(&mut self) {
        self.own = self.draws.advance();
        self.place();
    }

    /// Puts the next arrival into time.
    fn place(&mut self) {
        let (from, own) = self.set;
        self.next = match self.own {
            None => Time::MAX,
            // until the rate is changed, all is in whole nanoseconds
            Some(next) if self.pace == 1.0 && own == 0.0 => from.saturating_add(Span::from_nanos(next)),
            Some(next) => {
                let wait = (next as f64 - own).max(0.0) / self.pace;
                from.saturating_add(Span::from_nanos(wait.round() as u64))
            }
        };
    }

    fn change(&mut self, rate: Rate, now: Time) {
        let (from, own) = self.set;
        self.set = (now, own + now.since(from).as_nanos() as f64 * self.pace);
        (self.pace, self.rate) = (rate.as_f64() / self.draws.per_second(), rate);
        self.place();
    }
}

impl Pacer {
    /// A schedule whose first slot is due `phase` after `start`, and none at or after `until`; it ends after
    /// `requests` slots that were taken.
    pub fn new(rate: Rate, start: Time, phase: Span, until: Option<Time>, requests: Option<u64>) -> Self {
        Pacer::by(Beat::Even(Even { rate, base: start.saturating_add(phase), step: 0 }), start, until, requests)
    }

    /// A schedule of drawn arrivals from `start` on, whose mean rate is `rate`.
    pub fn drawn(draws: Draws, rate: Rate, start: Time, until: Option<Time>, requests: Option<u64>) -> Self {
        let mut drawn = Drawn { draws, own: None, next: start, set: (start, 0.0), pace: 1.0, rate };
        drawn.advance();
        Pacer::by(Beat::Drawn(Box::new(drawn)), start, until, requests)
    }

    fn by(beat: Beat, start: Time, until: Option<Time>, requests: Option<u64>) -> Self {
        Pacer {
            beat,
            anchor: start,
            until: until.unwrap_or(Time::MAX),
            left: requests.unwrap_or(u64::MAX),
            taken: false,
            paused: false,
        }
    }

    /// When the next slot is due, wherever the schedule ends.
    #[inline]
    fn due(&self) -> Time {
        match &self.beat {
            Beat::Even(even) => even.due(even.step),
            Beat::Drawn(drawn) => drawn.next,
        }
    }

    #[inline]
    fn advance(&mut self) {
        match &mut self.beat {
            Beat::Even(even) => even.step += 1,
            Beat::Drawn(drawn) => drawn.advance(),
        }
    }

    /// When the next slot is due; `None` at the end, and in a pause.
    #[inline]
    pub fn next_due(&self) -> Option<Time> {
        (!self.paused && !self.is_finished()).then(|| self.due())
    }

    /// Takes the next slot; it uses up one request.
    #[inline]
    pub fn take(&mut self) -> Option<Time> {
        let due = self.next_due()?;
        self.advance();
        self.left -= 1;
        (self.anchor, self.taken) = (due, true);
        Some(due)
    }

    /// Gives the next slot up; it uses up no request.
    #[inline]
    pub fn skip(&mut self) -> Option<Time> {
        let due = self.next_due()?;
        self.advance();
        Some(due)
    }

    /// Gives up every slot that is due before `time`, and counts them.
    pub fn skip_before(&mut self, time: Time) -> u64 {
        if self.paused || self.is_finished() {
            return 0;
        }
        self.pass(time, u64::MAX).0
    }

    /// Takes every slot that is due before `time`, as an earlier incarnation of the stream did, and counts them.
    pub fn use_up_before(&mut self, time: Time) -> u64 {
        if self.paused || self.is_finished() {
            return 0;
        }
        let (count, last) = self.pass(time, self.left);
        if let Some(last) = last {
            (self.anchor, self.taken) = (last, true);
            self.left -= count;
        }
        count
    }

    /// Passes at most so many slots that are due before `time` and before the end: their number, and when the last was due.
    fn pass(&mut self, time: Time, most: u64) -> (u64, Option<Time>) {
        let end = time.min(self.until);
        match &mut self.beat {
            Beat::Even(even) => {
                let count = even.first_at(end).saturating_sub(even.step).min(most);
                even.step += count;
                (count, (count > 0).then(|| even.due(even.step - 1)))
            }
            Beat::Drawn(drawn) => {
                let (mut count, mut last) = (0, None);
                while drawn.next < end && count < most {
                    last = Some(drawn.next);
                    drawn.advance();
                    count += 1;
                }
                (count, last)
            }
        }
    }

    /// Whether it pauses.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether no slot is left, or the next one would be due too late.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.left == 0 || self.due() >= self.until
    }

    /// Requests that are left, `None` if their number is not limited.
    pub fn remaining(&self) -> Option<u64> {
        (self.left != u64::MAX).then_some(self.left)
    }

    /// Mean gap at the present rate.
    #[inline]
    pub fn gap(&self) -> Span {
        match &self.beat {
            Beat::Even(even) => even.rate.gap(),
            Beat::Drawn(drawn) => drawn.rate.gap(),
        }
    }

    /// Changes the schedule from `now` on; returns the number of slots that a pause has given up, when it ends.
    ///
    /// After a pause the slots fall where they would have fallen without it. A new constant rate counts from the last slot
    /// that was taken, so that no change of rate brings two slots closer together than the new gap. Of drawn arrivals a new
    /// rate is a new pace of their clock: gaps, phases and stages shrink or grow alike, from `now` on.
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
        let (anchor, taken) = (self.anchor, self.taken);
        match &mut self.beat {
            Beat::Even(even) => {
                let next = if taken {
                    now.max(anchor.saturating_add(rate.gap()))
                } else {
                    even.base.min(now.max(anchor).saturating_add(rate.gap()))
                };
                *even = Even { rate, base: next, step: 0 };
            }
            Beat::Drawn(drawn) => drawn.change(rate, now),
        }
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

    /// When slot `k` is due at its constant rate.
    fn due(pacer: &Pacer, k: u64) -> Time {
        match &pacer.beat {
            Beat::Even(even) => even.due(k),
            Beat::Drawn(_) => panic!("drawn slots have no number"),
        }
    }

    /// Gaps of 1 s, 2 s and 3 s, again and again.
    fn traced() -> Pacer {
        let rows = [1, 2, 3].map(|s| Span::from_secs(s).as_nanos()).to_vec();
        let course = rehearsal_core::arrivals::Course::Trace { gaps: rows, repeat: true };
        let seed =
            rehearsal_core::rng::Seed { seed: 1, repetition: 0, group: "a/b", member: 0, stream: 0, purpose: "x" };
        let pattern = crate::arrivals::Pattern::new(&course).expect("a trace");
        let draws = Draws::new(&pattern, rehearsal_core::RngStream::new(seed));
        Pacer::drawn(draws, course.rate().expect("a rate"), START, None, None)
    }

    #[test]
    fn drawn_slots_are_taken_given_up_and_paused_like_even_ones() {
        let mut pacer = traced();
        assert_eq!([pacer.take(), pacer.take(), pacer.take()], [1, 3, 6].map(|s| Some(after(s * 1000))));
        assert_eq!(pacer.gap(), Span::from_secs(2));
        pacer.set(FlowSet::Pause, after(6_500));
        assert_eq!(pacer.next_due(), None);
        assert_eq!(pacer.set(FlowSet::Resume, after(9_500)), 2, "at 7 and 9 s");
        assert_eq!((pacer.use_up_before(after(15_500)), pacer.take()), (3, Some(after(18_000))), "12, 13 and 15 s");
    }

    #[test]
    fn another_rate_is_another_pace_of_drawn_slots() {
        let mut pacer = traced();
        pacer.take();
        // a second on the way to 3 s at the old pace, the other at twice it
        pacer.set(FlowSet::Rate(Rate::per_second(1)), after(2_000));
        assert_eq!([pacer.take(), pacer.take()], [Some(after(2_500)), Some(after(4_000))]);
        pacer.set(FlowSet::Rate(Rate::new(1, Span::from_secs(2)).expect("a rate")), after(4_000));
        assert_eq!([pacer.take(), pacer.take()], [Some(after(5_000)), Some(after(7_000))]);
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
                let end = due(&pacer, k) + Span::from_secs(1);
                let inside = (k..).take_while(|i| due(&pacer, *i) <= end).count() as u64;
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
