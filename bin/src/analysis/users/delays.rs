//! Delays by sending actor and its class: how they are spread, and over time.
//!
//! Of requests that is the response time, from when they were meant to leave; of datagrams the one-way delay, which their
//! receiver measures, where clocks tell it.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use rehearsal_core::messages::Metric;
use rehearsal_export::{Bundle, ExportError, Percentiles, merge_latency};
use serde::Serialize;

use super::super::plots::{Points, percentiles};
use super::senders::Sender;

/// Heads of a table.
pub const HEADS: [&str; 8] = ["delay of", "class", "", "values", "p50", "p95", "p99", "largest"];
/// Points of a curve over time.
const POINTS_MAX: u64 = 200;

/// The delays of one sending actor.
#[derive(Clone, Debug, Serialize)]
pub struct Delay {
    /// `node/actor` as in the file.
    pub sender: String,
    /// The class of its traffic.
    pub class: String,
    /// `response`, or `one-way`.
    pub metric: &'static str,
    /// Whether the receiver hears others too, whose delays are among these.
    pub shared: bool,
    /// All repetitions together.
    #[serde(flatten)]
    pub percentiles: Percentiles,
}

impl Delay {
    /// A row of a table.
    pub fn cells(&self) -> Vec<String> {
        let ms =
            |stat: &str| self.percentiles.stat(stat).map_or_else(|| "-".to_owned(), |ns| format!("{:.3} ms", ns / 1e6));
        let metric = if self.shared { format!("{} *", self.metric) } else { self.metric.to_owned() };
        let mut row = vec![self.sender.clone(), self.class.clone(), metric, self.percentiles.count.to_string()];
        row.extend(["p50", "p95", "p99", "max"].map(ms));
        row
    }
}

/// Histograms of all senders: by row, and in the first repetition by row and time.
#[derive(Debug, Default)]
pub struct Times {
    whole: BTreeMap<usize, Histogram<u64>>,
    /// By row and number of the interval.
    parts: BTreeMap<(usize, u64), Histogram<u64>>,
    /// Seconds of an interval.
    step: u64,
}

impl Times {
    /// Reads the logs of all repetitions, measured seconds only.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(bundles: &[Bundle], senders: &[Sender]) -> Result<Times, ExportError> {
        let mut times = Times::default();
        for (repetition, bundle) in bundles.iter().enumerate() {
            let summary = &bundle.summary;
            let (from, to) = (u64::from(summary.window.from_second), u64::from(summary.window.to_second));
            let step = (summary.duration_seconds.ceil() as u64).div_ceil(POINTS_MAX).max(1);
            times.step = if repetition == 0 { step } else { times.step };
            let told = summary.total.metrics.contains_key(Metric::OneWay.name());
            let owners: BTreeMap<(&str, &str), String> = summary
                .groups
                .iter()
                .map(|g| ((g.node.as_str(), g.actor.as_str()), format!("{}/{}", g.template, g.actor)))
                .collect();
            let key = |interval: rehearsal_export::Interval<'_>| {
                let measured = !summary.window.trimmed || (from <= interval.second && interval.until <= to);
                let owner = owners.get(&(interval.node, interval.actor)).filter(|_| measured)?;
                let rows = senders.iter().enumerate().filter(|(_, sender)| match sender.datagrams {
                    true => told && interval.metric == Metric::OneWay.name() && sender.to.contains(owner),
                    false => interval.metric == Metric::Response.name() && sender.name == *owner,
                });
                let rows: Vec<String> = rows.map(|(row, _)| row.to_string()).collect();
                (!rows.is_empty()).then(|| format!("{} {}", rows.join(","), interval.second / step))
            };
            for (key, histogram) in merge_latency(&bundle.path, key)? {
                let Some((rows, part)) = key.split_once(' ') else { continue };
                for row in rows.split(',').filter_map(|row| row.parse().ok()) {
                    add(&mut times.whole, row, &histogram);
                    if repetition == 0 {
                        add(&mut times.parts, (row, part.parse().unwrap_or(0)), &histogram);
                    }
                }
            }
        }
        Ok(times)
    }

    /// All delays of a sender.
    pub fn whole(&self, row: usize) -> Option<&Histogram<u64>> {
        self.whole.get(&row)
    }
}

fn add<K: Ord>(all: &mut BTreeMap<K, Histogram<u64>>, key: K, more: &Histogram<u64>) {
    match all.get_mut(&key) {
        Some(sum) => sum.add(more).expect("the histograms of a metric have one shape"),
        None => _ = all.insert(key, more.clone()),
    }
}

/// The rows of a table.
pub fn of(senders: &[Sender], times: &Times) -> Vec<Delay> {
    let row = |(row, sender): (usize, &Sender)| {
        Some(Delay {
            sender: sender.name.clone(),
            class: sender.class.clone(),
            metric: if sender.datagrams { Metric::OneWay.name() } else { Metric::Response.name() },
            shared: sender.shared,
            percentiles: Percentiles::of(times.whole(row)?)?,
        })
    };
    senders.iter().enumerate().filter_map(row).collect()
}

/// Curves of one sender.
#[derive(Clone, Debug)]
pub struct Curves {
    /// Who, and of which class.
    pub name: String,
    /// Median and 99th percentile, ns, by second, in the first repetition.
    pub over_time: [Points; 2],
    /// Delay in ns by the share of values below; all repetitions.
    pub spectrum: Points,
}

/// What a page draws.
///
/// # Errors
/// When a log cannot be read.
pub fn curves(bundles: &[Bundle]) -> Result<Vec<Curves>, ExportError> {
    let Some(first) = bundles.first() else { return Ok(Vec::new()) };
    let senders = super::senders::of(first);
    let times = Times::read(bundles, &senders)?;
    let curve = |(row, sender): (usize, &Sender)| {
        let whole = times.whole(row)?;
        let parts = times.parts.range((row, 0)..=(row, u64::MAX));
        let at = |share: f64| -> Points {
            let point = |((_, part), histogram): (&(usize, u64), &Histogram<u64>)| {
                (((*part as f64) + 0.5) * times.step as f64, histogram.value_at_quantile(share) as f64)
            };
            parts.clone().map(point).collect()
        };
        Some(Curves {
            name: format!("{}, {}", sender.name, sender.class),
            over_time: [at(0.5), at(0.99)],
            spectrum: percentiles(whole),
        })
    };
    Ok(senders.iter().enumerate().filter_map(curve).collect())
}
