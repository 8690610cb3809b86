//! Sums and merged histograms on the way to a summary.

use std::collections::BTreeMap;

use rehearsal_core::messages::Metric;
use rehearsal_core::parts::tally::Tally;

use super::{Achieved, Measures, Rates};
use crate::books::GroupBook;
use crate::meta::Target;
use crate::percentiles::Merged;
use crate::tallies::plus;

/// What rates are divided by, seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds {
    /// Counts of the measured seconds.
    pub window: f64,
    /// Counts of the whole run: how long traffic went on.
    pub whole: f64,
}

/// What one or several groups did, before percentiles are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    instances: u64,
    totals: Tally,
    window: Tally,
    merged: BTreeMap<Metric, Merged>,
    counts: BTreeMap<String, u64>,
}

impl Draft {
    /// That of one group.
    pub fn of(book: &GroupBook) -> Self {
        Draft {
            instances: book.instances.into(),
            totals: book.totals,
            window: book.window.counted,
            merged: book.window.metrics.clone(),
            counts: book.counts.clone(),
        }
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Draft) {
        self.instances = self.instances.saturating_add(other.instances);
        self.totals = plus(&self.totals, &other.totals);
        self.window = plus(&self.window, &other.window);
        for (metric, merged) in &other.merged {
            self.merged.entry(*metric).or_default().merge(merged);
        }
        for (name, count) in &other.counts {
            let sum = self.counts.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// Takes rates and percentiles.
    pub fn measures(&self, seconds: Seconds) -> Measures {
        let percentiles =
            self.merged.iter().filter_map(|(m, merged)| Some((m.name().to_owned(), merged.percentiles()?)));
        let mut measures = Measures {
            instances: self.instances,
            totals: self.totals,
            open: self.totals.open(),
            open_attempts: self.totals.open_attempts(),
            window: self.window,
            per_second: Rates::default(),
            judged_seconds: 0.0,
            metrics: percentiles.collect(),
            counts: self.counts.clone(),
        };
        measures.judged_seconds = if measures.has_datagrams() { seconds.whole } else { seconds.window };
        measures.per_second = rates(measures.judged(), measures.judged_seconds);
        measures
    }
}

fn rates(t: &Tally, seconds: f64) -> Rates {
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    Rates {
        generated: rate(t.generated),
        sent: rate(t.attempts),
        success: rate(t.success),
        received: rate(t.received.saturating_add(t.datagrams_received)),
        served: rate(t.served),
        bytes_sent: rate(t.bytes_sent),
        bytes_received: rate(t.bytes_received),
    }
}

/// Two groups of one template: what both were to send.
pub(crate) fn join(a: Option<Achieved>, b: Option<Achieved>) -> Option<Achieved> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    let sum = |x: Option<f64>, y: Option<f64>| Some(x? + y?);
    let mut target = a.target;
    target.streams += b.target.streams;
    target.stochastic |= b.target.stochastic;
    target.offered_per_second = sum(a.target.offered_per_second, b.target.offered_per_second);
    // the more scattered one speaks for both; if one is not known, neither is
    let known = |t: &Target| if t.stochastic { t.dispersion } else { Some(0.0) };
    target.dispersion = known(&a.target).zip(known(&b.target)).map(|(a, b)| a.max(b)).filter(|_| target.stochastic);
    Some(Achieved {
        target,
        per_second: sum(a.per_second, b.per_second),
        seconds: a.seconds.max(b.seconds),
        expected: sum(a.expected, b.expected),
        left: sum(a.left, b.left),
    })
}
