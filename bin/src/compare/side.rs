//! One side of a comparison: what each node came to over the measured seconds of all repetitions.

use std::collections::BTreeMap;

use anyhow::Result;
use hdrhistogram::Histogram;
use rehearsal_export::summary::GroupSummary;
use rehearsal_export::{Bundle, merge_latency};
use serde::Serialize;

use super::unreadable;
use crate::analysis::nodes::{self, NodeSeries, Role};

/// Nodes that are told; of more only the first, receivers before senders. Assumed: more than anybody reads.
const NODES_MAX: usize = 64;
/// The times that are compared: what a sender waits since a request was due and since it left, how long a datagram travels,
/// what a receiver takes.
pub(super) const METRICS: [&str; 4] = ["response", "service", "one-way", "handling"];

/// What one engine made of an experiment.
#[derive(Clone, Debug)]
pub struct Side {
    /// Receivers first, each in the order of the experiment.
    pub nodes: Vec<NodeSide>,
    /// Nodes that are not among them.
    pub left_out: usize,
}

/// One node over the repetitions that it is in.
#[derive(Clone, Debug)]
pub struct NodeSide {
    /// The node instance.
    pub node: String,
    /// What it does.
    pub role: Role,
    /// Repetitions.
    pub repetitions: usize,
    /// Mean rate over measured seconds, 1/s; `None` if none is known.
    pub rate: Option<f64>,
    /// Mean CPU load over measured seconds, % of what the node is allowed.
    pub cpu_percent: Option<f64>,
    /// How often its threads fell asleep, 1/s.
    pub sleeps: Option<f64>,
    /// Of what a sender generated, the share that was lost, %.
    pub lost_percent: Option<f64>,
    /// Times by their metric.
    pub times: BTreeMap<&'static str, Times>,
    /// Rate and CPU load of each measured second by its number, means over the repetitions.
    pub seconds: BTreeMap<usize, (Option<f64>, Option<f64>)>,
}

/// Percentiles of a time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Values.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |share| histogram.value_at_quantile(share) as f64;
        (!histogram.is_empty()).then(|| Times {
            count: histogram.len(),
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
        })
    }
}

/// Reads the bundles of one side.
///
/// # Errors
/// When a series or a histogram log cannot be read.
pub fn of(bundles: &[Bundle]) -> Result<Side> {
    let mut found: Vec<Found> = Vec::new();
    let mut merged: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for bundle in bundles {
        let Measured { range, shift } = Measured::of(bundle, bundles);
        for series in nodes::of(bundle).map_err(|why| unreadable(&why))? {
            let lost = lost(bundle, &series.node);
            match found.iter_mut().find(|known| known.node == series.node) {
                Some(known) => known.parts.push((series, range, shift, lost)),
                None => found.push(Found { node: series.node.clone(), parts: vec![(series, range, shift, lost)] }),
            }
        }
        let named: Vec<&str> = found.iter().take(NODES_MAX).map(|known| known.node.as_str()).collect();
        let of_interest = |interval: rehearsal_export::Interval<'_>| {
            let second = interval.second as usize;
            let wanted = METRICS.contains(&interval.metric) && named.contains(&interval.node);
            let within = second >= range.0 && second < range.1.max(range.0 + 1);
            (wanted && within).then(|| format!("{}/{}", interval.node, interval.metric))
        };
        for (key, histogram) in merge_latency(&bundle.path, of_interest).map_err(|why| unreadable(&why))? {
            match merged.get_mut(&key) {
                Some(known) => known.add(&histogram).map_err(|why| anyhow::anyhow!("{key}: {why}"))?,
                None => drop(merged.insert(key, histogram)),
            }
        }
    }
    found.sort_by_key(|known| known.parts[0].0.role);
    let left_out = found.len().saturating_sub(NODES_MAX);
    let nodes = found.into_iter().take(NODES_MAX).map(|known| known.side(&merged)).collect();
    Ok(Side { nodes, left_out })
}

/// What is to be said of nodes that one side does not have, or that are not told.
pub fn notes(sides: &[Side; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, word) in [(0, "dry run"), (1, "real run")] {
        let [one, other] = [&sides[at], &sides[1 - at]];
        for node in one.nodes.iter().filter(|node| other.get(&node.node).is_none()) {
            notes.push(format!("only the {word} has node {}", node.node));
        }
    }
    if let Some(more) = sides.iter().map(|side| side.left_out).max().filter(|more| *more > 0) {
        notes.push(format!("{more} more nodes are not told"));
    }
    notes
}

impl Side {
    /// The node of that name.
    pub fn get(&self, node: &str) -> Option<&NodeSide> {
        self.nodes.iter().find(|known| known.node == node)
    }
}

/// A series of a node, its measured seconds, what to add to their numbers, and the losses.
type Part = (NodeSeries, (usize, usize), i64, Option<f64>);

/// All series of one node.
struct Found {
    node: String,
    parts: Vec<Part>,
}

impl Found {
    fn side(self, merged: &BTreeMap<String, Histogram<u64>>) -> NodeSide {
        let Found { node, parts } = self;
        let mut columns: BTreeMap<usize, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        let mut sleeps = Vec::new();
        for (series, (from, to), shift, _) in &parts {
            for second in *from..(*to).min(series.rate.len()) {
                let number = usize::try_from(second as i64 + shift).unwrap_or(0);
                let (rates, loads) = columns.entry(number).or_default();
                rates.push(series.rate[second]);
                loads.push(series.cpu_percent[second]);
                sleeps.push(series.sleeps[second]);
            }
        }
        let (rates, loads): (Vec<&Vec<f64>>, Vec<&Vec<f64>>) =
            columns.values().map(|(rates, loads)| (rates, loads)).unzip();
        let [rate, cpu_percent] =
            [rates, loads].map(|all| mean(&all.into_iter().flatten().copied().collect::<Vec<f64>>()));
        let lost: Vec<f64> = parts.iter().filter_map(|(_, _, _, lost)| *lost).collect();
        let times = METRICS.into_iter().filter_map(|metric| {
            let histogram = merged.get(&format!("{node}/{metric}"))?;
            Some((metric, Times::of(histogram)?))
        });
        NodeSide {
            role: parts[0].0.role,
            repetitions: parts.len(),
            rate,
            cpu_percent,
            sleeps: mean(&sleeps),
            lost_percent: mean(&lost),
            times: times.collect(),
            seconds: columns.iter().map(|(at, (rates, loads))| (*at, (mean(rates), mean(loads)))).collect(),
            node,
        }
    }
}

/// The mean of those that are known.
fn mean(values: &[f64]) -> Option<f64> {
    let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The seconds of a bundle that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    /// The first one, and the first one that is not.
    range: (usize, usize),
    /// What to add to their numbers, so that they are those of the senders.
    shift: i64,
}

impl Measured {
    /// Those between warm-up and cool-down, else all whole ones. A part of a run without senders counts from its own start, which
    /// says nothing of the traffic: of it these are the seconds that lie within the measured ones of the senders' part.
    fn of(bundle: &Bundle, all: &[Bundle]) -> Self {
        let own = measured(bundle);
        let plain = Measured { range: own, shift: 0 };
        let other = all.iter().find(|other| other.manifest.repetition == bundle.manifest.repetition && sends(other));
        let (false, Some(senders)) = (sends(bundle), other) else { return plain };
        let (Some(here), Some(there)) = (began(bundle), began(senders)) else { return plain };
        let (from, to) = measured(senders);
        let whole = bundle.summary.duration_seconds.floor() as usize;
        Measured::within(here - there, (from, to), whole).unwrap_or(plain)
    }

    /// The seconds of a part that begins `later` ns than the other, and has `whole` of them, within a window of the other.
    fn within(later: i64, (from, to): (usize, usize), whole: usize) -> Option<Self> {
        let first = from as i64 * SECOND_NS - later;
        let first = first.div_euclid(SECOND_NS) + i64::from(first.rem_euclid(SECOND_NS) > 0);
        let end = (to as i64 * SECOND_NS - later).div_euclid(SECOND_NS).min(whole as i64);
        let range = (usize::try_from(first.max(0)).ok()?, usize::try_from(end).ok()?);
        let shift = (later + SECOND_NS / 2).div_euclid(SECOND_NS);
        (range.1 > range.0).then_some(Measured { range, shift })
    }
}

/// A second, ns.
const SECOND_NS: i64 = 1_000_000_000;

/// When a bundle's second 0 begins, ns since 1970.
fn began(bundle: &Bundle) -> Option<i64> {
    let manifest = &bundle.manifest;
    i64::try_from(manifest.created_unix_ns?.checked_add(manifest.started_ns)?).ok()
}

/// Whether any group of a bundle sends.
fn sends(bundle: &Bundle) -> bool {
    bundle.summary.groups.iter().any(|group| group.role == "sender")
}

fn measured(bundle: &Bundle) -> (usize, usize) {
    let window = bundle.summary.window;
    if window.trimmed {
        return (window.from_second as usize, window.to_second as usize);
    }
    (0, bundle.summary.duration_seconds.floor() as usize)
}

/// The share of a sender's exchanges that were lost in the whole run, %. A sender of datagrams alone cannot know it.
fn lost(bundle: &Bundle, node: &str) -> Option<f64> {
    let sends = |group: &&GroupSummary| group.node == node && group.role == "sender";
    let totals = bundle.summary.groups.iter().filter(sends).map(|group| &group.measures.totals);
    let (lost, generated) = totals.fold((0, 0), |(lost, all), t| (lost + t.lost, all + t.generated));
    (generated > 0).then(|| lost as f64 * 100.0 / generated as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_senders_is_measured_while_they_send() {
        let of = |later, window, whole| Measured::within(later, window, whole).map(|m| (m.range, m.shift));
        let ms = 1_000_000;
        // it began 1.5 s before the senders, whose seconds 1 to 4 are its 2.5 to 6.5
        assert_eq!(of(-1500 * ms, (1, 5), 9), Some(((3, 6), -1)));
        assert_eq!(of(0, (1, 5), 9), Some(((1, 5), 0)));
        assert_eq!(of(-2000 * ms, (1, 5), 9), Some(((3, 7), -2)));
        // it was over before the last of them, or began after the first
        assert_eq!(of(-1500 * ms, (1, 5), 5), Some(((3, 5), -1)));
        assert_eq!(of(2200 * ms, (1, 5), 9), Some(((0, 2), 2)));
        // nothing whole is left
        assert_eq!(of(-1500 * ms, (1, 2), 9), None);
        assert_eq!(of(9000 * ms, (1, 5), 9), None);
    }
}
