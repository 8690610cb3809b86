//! A run so far, second by second, put together from the reports of its nodes.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use rehearsal_core::messages::{GroupSnapshot, HostSample, Metric, NodeReport};
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::time::Span;
use rehearsal_export::Percentiles;
use rehearsal_export::summary::Measures;
use rehearsal_export::tallies::{below, minus, plus};

use crate::histograms::read_v2;

/// Seconds that a report may come late; an older one is stored all the same, but not seen here. Assumed: twice what the
/// books wait for.
const LATE_SECONDS_MAX: u32 = 64;

/// Histograms by metric.
type Times = BTreeMap<Metric, Histogram<u64>>;

/// What all nodes did so far.
pub struct SoFar {
    /// Seconds left out at the beginning.
    warmup: u32,
    /// The second that is under way; `None` before the first report.
    second: Option<u32>,
    told: bool,
    nodes: BTreeMap<String, Node>,
    /// Counters when the second before was told, and which it was.
    before: (Tally, u32),
    /// Counters at the end of the warm-up.
    warm: Tally,
    here: Times,
    /// Times since the warm-up, if they are judged.
    whole: Option<Times>,
}

#[derive(Default)]
struct Node {
    groups: BTreeMap<String, Group>,
    host: Option<HostSample>,
    /// Parts of reports that came.
    came: BTreeSet<(u32, u32)>,
    /// The latest second of which all came.
    whole: Option<u32>,
}

#[derive(Default)]
struct Group {
    /// What earlier processes of the node counted.
    base: Tally,
    totals: Tally,
    second: u32,
    queue_length: u64,
}

impl SoFar {
    /// A run that nothing is known of, whose summary leaves `warmup` out. Times of `metrics` are read; those since the
    /// warm-up are kept if they are `judged`.
    pub fn new(warmup: Span, metrics: BTreeSet<Metric>, judged: bool) -> Self {
        let empty = || metrics.iter().map(|metric| (*metric, histogram())).collect::<Times>();
        SoFar {
            warmup: u32::try_from(warmup.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX),
            second: None,
            told: true,
            nodes: BTreeMap::new(),
            before: (Tally::default(), 0),
            warm: Tally::default(),
            here: empty(),
            whole: judged.then(empty),
        }
    }

    /// Whether a report is of a later second than the one under way, which then is over.
    pub fn is_later(&self, report: &NodeReport) -> bool {
        self.second.is_some_and(|second| report.second > second)
    }

    /// Whether nothing more is expected of the second under way: all nodes that told of the one before have told of it.
    pub fn is_whole(&self) -> bool {
        let Some(second) = self.second.filter(|second| *second > 0 && !self.told) else { return false };
        let lately = |node: &&Node| node.whole.is_some_and(|whole| whole + 1 >= second);
        let waited = self.nodes.values().any(|node| node.whole.is_none() && !node.came.is_empty());
        !waited && self.nodes.values().filter(lately).all(|node| node.whole == Some(second))
    }

    /// Whether a second is under way that [`SoFar::told`] was not called for.
    pub fn is_untold(&self) -> bool {
        !self.told
    }

    /// Takes a report in; `times` is called with each histogram of it that is read.
    pub fn add(&mut self, report: &NodeReport, mut times: impl FnMut(&str, &str, Metric, &Histogram<u64>)) {
        let node = self.nodes.entry(report.node.clone()).or_default();
        let newest = node.came.last().map_or(0, |(second, _)| *second).max(report.second);
        if report.second + LATE_SECONDS_MAX < newest || !node.came.insert((report.second, report.part)) {
            return;
        }
        node.came.retain(|(second, _)| *second + LATE_SECONDS_MAX >= newest);
        let parts = node.came.range((report.second, 0)..=(report.second, u32::MAX)).count();
        if parts >= report.parts.max(1) as usize {
            node.whole = node.whole.max(Some(report.second));
        }
        if let Some(host) = report.host.as_ref().filter(|_| report.second == newest) {
            node.host = Some(host.clone());
        }
        if self.second.is_none_or(|second| report.second > second) {
            (self.second, self.told) = (Some(report.second), false);
        }
        let now = self.second == Some(report.second) && !self.told;
        for group in &report.groups {
            node.groups.entry(group.actor.clone()).or_default().take(group);
            for part in &group.histograms {
                let Some(here) = self.here.get_mut(&part.metric) else { continue };
                let Some(read) = read_v2(&part.v2) else { continue };
                times(&report.node, &group.actor, part.metric, &read);
                // both have the bounds of all histograms here
                if now {
                    here.add(&read).ok();
                }
                let whole = self.whole.as_mut().filter(|_| report.second >= self.warmup);
                if let Some(whole) = whole.and_then(|whole| whole.get_mut(&part.metric)) {
                    whole.add(&read).ok();
                }
            }
        }
    }

    /// The second under way has been told: what comes of it later counts for the whole alone.
    pub fn told(&mut self) {
        let (sum, second) = (self.sum(), self.second.unwrap_or(0));
        if second < self.warmup {
            self.warm = sum;
        }
        self.before = (sum, second + 1);
        self.here.values_mut().for_each(Histogram::reset);
        self.told = true;
    }

    /// Seconds of traffic so far, the one under way included.
    pub fn seconds(&self) -> u32 {
        self.second.map_or(0, |second| second + 1)
    }

    /// Counters of all groups so far.
    pub fn sum(&self) -> Tally {
        let groups = self.nodes.values().flat_map(|node| node.groups.values());
        groups.fold(Tally::default(), |sum, group| plus(&sum, &group.all()))
    }

    /// Counters since the second that was told last, and how many seconds that is, at least one.
    pub fn lately(&self) -> (Tally, u32) {
        let (before, second) = &self.before;
        (minus(&self.sum(), before), self.seconds().saturating_sub(*second).max(1))
    }

    /// Times of the second under way.
    pub fn times(&self, metric: Metric) -> Option<&Histogram<u64>> {
        self.here.get(&metric).filter(|times| !times.is_empty())
    }

    /// The busiest node's CPU load, per cent of the cores it is allowed, if it is known of any.
    pub fn cpu_percent_max(&self) -> Option<f64> {
        let known = self.nodes.values().filter_map(|node| node.host.as_ref()?.cpu_percent);
        known.max_by(f64::total_cmp)
    }

    /// Node, actor, counters so far and exchanges waiting now, of every group.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &str, Tally, u64)> {
        self.nodes.iter().flat_map(|(node, known)| {
            known.groups.iter().map(move |(actor, g)| (node.as_str(), actor.as_str(), g.all(), g.queue_length))
        })
    }

    /// The latest sample of each node that has one.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &HostSample)> {
        self.nodes.iter().filter_map(|(node, known)| Some((node.as_str(), known.host.as_ref()?)))
    }

    /// What a threshold is held against: everything since the warm-up; `None` while that lasts.
    pub fn measures(&self) -> Option<Measures> {
        let seconds = self.seconds().checked_sub(self.warmup).filter(|seconds| *seconds > 0)?;
        let totals = self.sum();
        let times = self.whole.iter().flatten();
        let metrics = times.filter_map(|(metric, of)| Some((metric.name().to_owned(), Percentiles::of(of)?)));
        let mut measures = Measures {
            totals,
            window: minus(&totals, &self.warm),
            judged_seconds: f64::from(seconds),
            metrics: metrics.collect(),
            ..Measures::default()
        };
        if measures.has_datagrams() {
            // their counters are of the whole run
            measures.judged_seconds = f64::from(self.seconds());
        }
        Some(measures)
    }
}

impl Group {
    fn all(&self) -> Tally {
        plus(&self.base, &self.totals)
    }

    fn take(&mut self, snapshot: &GroupSnapshot) {
        if snapshot.second < self.second {
            return;
        }
        if below(&snapshot.totals, &self.totals).is_some() {
            // another process of the node counts from zero
            self.base = self.all();
        }
        (self.totals, self.second, self.queue_length) = (snapshot.totals, snapshot.second, snapshot.queue_length);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A report of one node and group, whose counters stand at `sent` and `success`.
    pub(crate) fn report(node: &str, second: u32, sent: u64, success: u64) -> NodeReport {
        let totals = Tally { generated: sent, attempts: sent, success, ..Tally::default() };
        let group = GroupSnapshot {
            node: node.to_owned(),
            actor: "main".to_owned(),
            kind: "sensor".to_owned(),
            instances: 1,
            second,
            totals,
            queue_length: 0,
            histograms: Vec::new(),
            counts: Vec::new(),
            requests: None,
        };
        NodeReport { node: node.to_owned(), second, groups: vec![group], ..NodeReport::default() }
    }

    fn run(warmup: u64) -> SoFar {
        SoFar::new(Span::from_secs(warmup), BTreeSet::new(), true)
    }

    fn add(run: &mut SoFar, report: &NodeReport) {
        run.add(report, |_, _, _, _| {});
    }

    #[test]
    fn a_second_is_whole_when_all_that_told_of_the_one_before_have_told_of_it() {
        let mut run = run(0);
        add(&mut run, &report("a", 0, 10, 10));
        assert!(!run.is_whole(), "who else is there is not known yet");
        add(&mut run, &report("b", 0, 5, 5));
        assert!(run.is_later(&report("a", 1, 20, 20)));
        run.told();
        add(&mut run, &report("a", 1, 20, 19));
        assert!(!run.is_whole());
        add(&mut run, &report("b", 1, 10, 10));
        assert!(run.is_whole());
        let (lately, seconds) = run.lately();
        assert_eq!((lately.attempts, lately.success, seconds), (15, 14, 1));
    }

    #[test]
    fn what_comes_twice_or_anew_is_counted_once() {
        let mut run = run(0);
        for _ in 0..2 {
            add(&mut run, &report("a", 0, 10, 10));
        }
        assert_eq!(run.sum().attempts, 10);
        add(&mut run, &report("a", 1, 4, 4));
        assert_eq!(run.sum().attempts, 14, "a process that counts from zero adds to the one before");
        add(&mut run, &report("a", 0, 3, 3));
        assert_eq!(run.sum().attempts, 14);
    }

    #[test]
    fn the_warm_up_is_left_out_of_what_is_judged() {
        let mut run = run(2);
        for second in 0..5 {
            add(&mut run, &report("a", second, u64::from(second + 1) * 10, 0));
            assert_eq!(run.measures().is_none(), second < 2);
            run.told();
        }
        let measures = run.measures().expect("three seconds after the warm-up");
        assert_eq!((measures.window.attempts, measures.totals.attempts, measures.judged_seconds), (30, 50, 3.0));
    }
}
