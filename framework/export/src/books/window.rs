//! What of a run the summary measures, in bounded memory: everything, or, once warm-up or cool-down leave something out,
//! the whole seconds between them, without the drain.

use std::collections::BTreeMap;

use rehearsal_core::messages::Metric;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::time::{NANOS_PER_SECOND, Span};

use crate::percentiles::Merged;
use crate::tallies::plus;
use crate::verdict::Opening;

/// Seconds that may pass between the end of traffic and the last report, while it is not known when traffic ends;
/// assumed, above three attempts of ten seconds.
const DRAIN_SECONDS: u32 = 40;

/// The first measured seconds, in which connections are set up and caches are cold. Assumed: a second for either, and
/// one of reserve.
const OPENING_SECONDS: u32 = 3;
/// Values without which nothing is said of them: as many as a p99 needs.
const REST_VALUES_MIN: u64 = 100;

/// The seconds that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trim {
    /// At the beginning.
    pub warmup: u32,
    /// At the end.
    pub cooldown: u32,
    /// How long traffic shall run; `None` for a count-driven run.
    pub planned: Option<Span>,
}

impl Trim {
    /// Rounds both up to whole seconds.
    pub fn new(warmup: Span, cooldown: Span, planned: Option<Span>) -> Self {
        let whole = |span: Span| u32::try_from(span.as_nanos().div_ceil(NANOS_PER_SECOND)).unwrap_or(u32::MAX);
        Trim { warmup: whole(warmup), cooldown: whole(cooldown), planned }
    }

    /// Whether anything is left out.
    pub const fn any(&self) -> bool {
        self.warmup > 0 || self.cooldown > 0
    }

    /// The first second that is left out at the end of a run whose traffic went on for `length`; `None` if nothing is
    /// left out at all. Traffic beyond the plan is not measured. The cool-down is the end of the plan: a run that was
    /// ended before has none, and loses no more than the second in which it ended.
    pub fn end(&self, length: Span) -> Option<u32> {
        let last = whole_seconds(self.planned.unwrap_or(length)).saturating_sub(self.cooldown);
        self.any().then(|| last.min(whole_seconds(length)).max(self.warmup))
    }
}

/// The whole seconds in `length`.
pub(crate) fn whole_seconds(length: Span) -> u32 {
    u32::try_from(length.as_nanos() / NANOS_PER_SECOND).unwrap_or(u32::MAX)
}

/// One second of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Second {
    pub counted: Tally,
    /// How many more exchanges wait than a second ago.
    pub queue_grown: i64,
    /// Whether the thread that runs the group had no time left; unknown is no.
    pub busy: bool,
    pub metrics: Vec<(Metric, Merged)>,
}

/// The measured seconds of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    trim: Trim,
    held: BTreeMap<u32, Second>,
    /// Counts of the measured seconds.
    pub counted: Tally,
    /// Times of the measured seconds.
    pub metrics: BTreeMap<Metric, Merged>,
    /// Response times of the first of them.
    opening: Merged,
    /// How fast it went.
    pub pace: Pace,
    /// Exchanges that did not leave in the second in which they came due.
    pub held_up: HeldUp,
    /// The second after the last that is in.
    pub until: u32,
}

impl Window {
    /// Nothing yet.
    pub fn new(trim: Trim) -> Self {
        Window { trim, pace: Pace { until: trim.warmup, ..Pace::default() }, ..Window::default() }
    }

    /// Adds a second; it is held back as long as it may belong to the cool-down or to the drain.
    pub fn push(&mut self, second: u32, part: Second) {
        if !self.trim.any() {
            return self.absorb(second, &part);
        }
        let planned_end = self.trim.planned.and_then(|planned| self.trim.end(planned));
        if second < self.trim.warmup || planned_end.is_some_and(|end| second >= end) {
            return;
        }
        self.held.insert(second, part);
        let newest = self.held.last_key_value().map_or(second, |(newest, _)| *newest);
        let hold = self.trim.cooldown.saturating_add(DRAIN_SECONDS);
        while let Some(first) = self.held.first_entry() {
            if newest - *first.key() < hold {
                break;
            }
            let (second, part) = first.remove_entry();
            self.absorb(second, &part);
        }
    }

    /// What the first seconds do to the response time; `None` if they do nothing, or the rest has too few values to be
    /// held against.
    pub fn opening(&self) -> Option<Opening> {
        let all = self.metrics.get(&Metric::Response)?;
        let rest = all.without(&self.opening);
        if rest.count() < REST_VALUES_MIN {
            return None;
        }
        let of = |stat: &'static str, share: f64| {
            let (all_ns, rest_ns) = (all.quantile(share)?, rest.quantile(share)?);
            Some(Opening { stat, seconds: OPENING_SECONDS, all_ns, rest_ns })
        };
        let raised = [of("p50", 0.5), of("p99", 0.99)].into_iter().flatten().filter(|o| o.all_ns > o.rest_ns);
        raised.max_by(|a, b| a.percent().total_cmp(&b.percent()))
    }

    /// Lets in what is held back before `end` and drops the rest.
    pub fn close(&mut self, end: Option<u32>) {
        for (second, part) in std::mem::take(&mut self.held) {
            if end.is_none_or(|end| second < end) {
                self.absorb(second, &part);
            }
        }
    }

    fn absorb(&mut self, second: u32, part: &Second) {
        let mut counted = part.counted;
        if self.trim.any() {
            // the drain begins with what still waits, and that may be the last instant of the last second
            (counted.aborted, counted.aborted_attempts) = (0, 0);
        }
        self.counted = plus(&self.counted, &counted);
        for (metric, merged) in &part.metrics {
            self.metrics.entry(*metric).or_default().merge(merged);
            if *metric == Metric::Response && second < self.trim.warmup.saturating_add(OPENING_SECONDS) {
                self.opening.merge(merged);
            }
        }
        self.pace.push(second, part);
        self.held_up.push(part);
        self.until = self.until.max(second + 1);
    }
}

/// Exchanges that came due and did not leave, second by second: who held them up shows in the seconds in which they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldUp {
    /// All of them.
    pub all: u64,
    /// Those of seconds in which the sending thread had no time left.
    pub busy: u64,
}

impl HeldUp {
    fn push(&mut self, part: &Second) {
        let skipped = i64::try_from(part.counted.skipped).unwrap_or(i64::MAX);
        let more = never_left(&part.counted).saturating_add(part.queue_grown).saturating_add(skipped);
        let more = u64::try_from(more).unwrap_or(0);
        self.all = self.all.saturating_add(more);
        if part.busy {
            self.busy = self.busy.saturating_add(more);
        }
    }
}

/// Exchanges that were settled without having left. Counters that somebody else's program reports may be any numbers.
fn never_left(t: &Tally) -> i64 {
    let [queue_full, aborted, aborted_attempts] =
        [t.queue_full, t.aborted, t.aborted_attempts].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    queue_full.saturating_add(aborted).saturating_sub(aborted_attempts)
}

/// How many exchanges left in the whole seconds of sending. The last second of sending is usually cut short, so it
/// counts only once a later one has sent too, or when the run's plan says that it was whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Exchanges that left before `until`.
    pub left: i64,
    /// The second after the last whole one.
    pub until: u32,
    last: i64,
    last_until: Option<u32>,
}

impl Pace {
    fn push(&mut self, second: u32, part: &Second) {
        let t = &part.counted;
        let generated = i64::try_from(t.generated).unwrap_or(i64::MAX);
        let left = generated.saturating_sub(never_left(t)).saturating_sub(part.queue_grown);
        if t.generated > 0 || left != 0 {
            self.commit();
            self.last_until = Some(second + 1);
        }
        self.last = self.last.saturating_add(left);
    }

    /// Counts the last second too.
    pub fn commit(&mut self) {
        if let Some(until) = self.last_until.take() {
            self.until = self.until.max(until);
            self.left = self.left.saturating_add(std::mem::take(&mut self.last));
        }
    }

    /// The second after the last that is not known to be whole.
    pub fn last_until(&self) -> Option<u32> {
        self.last_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(generated: u64) -> Second {
        Second { counted: Tally { generated, attempts: generated, ..Tally::default() }, ..Second::default() }
    }

    #[test]
    fn warm_up_and_cool_down_are_left_out() {
        let trim = Trim::new(Span::from_millis(1500), Span::from_secs(3), None);
        let expected = Trim { warmup: 2, cooldown: 3, planned: None };
        assert_eq!((trim, trim.end(Span::from_millis(10_900))), (expected, Some(7)));
        let mut window = Window::new(trim);
        for second in 0..12 {
            window.push(second, sent(10));
        }
        window.close(trim.end(Span::from_millis(10_900)));
        assert_eq!((window.counted.generated, window.until), (50, 7));
    }

    #[test]
    fn a_run_that_ended_early_has_no_cool_down() {
        let trim = Trim::new(Span::from_secs(2), Span::from_secs(3), Some(Span::from_secs(20)));
        let ends = [1_500, 3_003, 16_900, 17_100, 19_999, 20_000, 20_700].map(|ms| trim.end(Span::from_millis(ms)));
        assert_eq!(ends, [2, 3, 16, 17, 17, 17, 17].map(Some));
    }

    #[test]
    fn the_drain_counts_only_when_nothing_is_left_out() {
        let planned = Some(Span::from_secs(10));
        for (trim, counted) in [
            (Trim::new(Span::ZERO, Span::ZERO, planned), 130),
            (Trim::new(Span::from_secs(2), Span::ZERO, planned), 80),
            (Trim::new(Span::from_secs(2), Span::ZERO, None), 80),
            (Trim::new(Span::ZERO, Span::from_secs(2), planned), 80),
        ] {
            let mut window = Window::new(trim);
            for second in 0..13 {
                window.push(second, sent(10));
            }
            window.close(trim.end(Span::from_millis(10_001)));
            assert_eq!(window.counted.generated, counted, "{trim:?}");
        }
    }

    #[test]
    fn what_is_held_back_does_not_grow_with_the_run() {
        let mut window = Window::new(Trim { warmup: 0, cooldown: 5, planned: None });
        for second in 0..1000 {
            window.push(second, sent(1));
            assert!(window.held.len() <= 5 + DRAIN_SECONDS as usize);
        }
        window.close(Some(995));
        assert_eq!(window.counted.generated, 995);
    }

    #[test]
    fn pace_leaves_out_the_last_second_unless_told() {
        let mut pace = Pace::default();
        for (second, generated) in [(0, 25), (1, 25), (2, 0), (3, 12), (4, 0)] {
            pace.push(second, &sent(generated));
        }
        assert_eq!((pace.left, pace.until, pace.last_until()), (50, 2, Some(4)));
        pace.commit();
        assert_eq!((pace.left, pace.until), (62, 4));
    }

    #[test]
    fn what_waits_has_not_left() {
        let mut pace = Pace::default();
        pace.push(0, &Second { queue_grown: 5, ..sent(25) });
        pace.push(1, &Second { queue_grown: -5, ..sent(25) });
        pace.commit();
        assert_eq!(pace.left, 50);
        let mut counted = sent(25);
        counted.counted.queue_full = 20;
        pace.push(2, &counted);
        pace.commit();
        assert_eq!(pace.left, 55);
    }
}
