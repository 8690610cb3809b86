//! The figures of a run, kept by whoever stores its reports and read by whoever scrapes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use rehearsal_core::messages::Metric;
use rehearsal_core::parts::tally::Tally;
use rehearsal_export::tallies::plus;

use super::page;
use crate::live::SoFar;

/// Actors of the file that are told one by one. Assumed: more makes a page that takes a scraper longer than a second.
const GROUPS_MAX: usize = 256;
/// Nodes whose CPU and memory are told, likewise.
const NODES_MAX: usize = 256;

/// Bounds of buckets, ns: three in each decade from 10 µs to 10 s, as a scraper's histograms mostly have.
pub(super) const BOUNDS_NS: [u64; 19] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Figures of the run that is under way. Clones share them.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<Figures>>);

/// What is known.
#[derive(Clone, Default)]
pub(super) struct Figures {
    /// What the run is, by label.
    pub(super) about: BTreeMap<String, String>,
    /// How long traffic shall run, seconds.
    pub(super) planned: Option<u64>,
    /// Seconds that are complete.
    pub(super) seconds: u32,
    /// Of each actor of the file, by node and name.
    pub(super) groups: BTreeMap<(String, String), Row>,
    /// Of each node instance: share of its cores, bytes.
    pub(super) hosts: BTreeMap<String, (Option<f64>, Option<u64>)>,
    /// Actors and nodes beyond the bounds.
    pub(super) untold: usize,
    /// Connections that found no place.
    pub(super) refused: u64,
    pub(super) templates: BTreeMap<String, String>,
}

/// An actor over all instances of its node.
#[derive(Clone, Default)]
pub(super) struct Row {
    pub(super) tally: Tally,
    pub(super) queue_length: u64,
    pub(super) times: BTreeMap<Metric, Buckets>,
}

/// Times in buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Buckets {
    /// Values at or below each bound and above the one before; then those above all.
    pub(super) counts: [u64; BOUNDS_NS.len() + 1],
    /// Their sum, seconds.
    pub(super) sum_seconds: f64,
}

impl Buckets {
    /// Adds the values of a histogram. Those that it does not tell from a bound count as the bound: its three digits.
    pub(super) fn add(&mut self, times: &Histogram<u64>) {
        for step in times.iter_recorded() {
            let (value, count) = (step.value_iterated_to(), step.count_since_last_iteration());
            let bucket = BOUNDS_NS.partition_point(|bound| *bound < times.lowest_equivalent(value));
            self.counts[bucket] += count;
            self.sum_seconds += times.median_equivalent(value) as f64 / 1e9 * count as f64;
        }
    }
}

impl Board {
    /// Another run begins: everything is at zero.
    pub fn begin(&self, about: BTreeMap<String, String>, templates: BTreeMap<String, String>, planned: Option<u64>) {
        let mut figures = self.figures();
        *figures = Figures { about, templates, planned, refused: figures.refused, ..Figures::default() };
    }

    /// Times of one second of one group.
    pub fn times(&self, node: &str, actor: &str, metric: Metric, times: &Histogram<u64>) {
        let mut figures = self.figures();
        if let Some(row) = figures.row(node, actor) {
            row.times.entry(metric).or_default().add(times);
        }
    }

    /// A second is complete.
    pub fn publish(&self, run: &SoFar) {
        let mut figures = self.figures();
        figures.seconds = run.seconds();
        for row in figures.groups.values_mut() {
            (row.tally, row.queue_length) = (Tally::default(), 0);
        }
        figures.untold = 0;
        for (node, actor, tally, queue_length) in run.groups() {
            match figures.row(node, actor) {
                Some(row) => {
                    row.tally = plus(&row.tally, &tally);
                    row.queue_length += queue_length;
                }
                None => figures.untold += 1,
            }
        }
        for (node, host) in run.hosts() {
            if figures.hosts.len() < NODES_MAX || figures.hosts.contains_key(node) {
                let known = (host.cpu_percent.map(|cpu| cpu / 100.0), host.memory_bytes);
                figures.hosts.insert(node.to_owned(), known);
            } else {
                figures.untold += 1;
            }
        }
    }

    /// The page as it is now.
    pub fn page(&self) -> String {
        // written after the lock is given back: who stores does not wait for who reads
        let figures = self.figures().clone();
        page::of(&figures)
    }

    /// A connection found no place.
    pub(super) fn refuse(&self) {
        self.figures().refused += 1;
    }

    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figures {
    /// The row of a group, as long as there is room.
    fn row(&mut self, node: &str, actor: &str) -> Option<&mut Row> {
        let template = self.templates.get(node).map_or(node, String::as_str);
        let key = (template.to_owned(), actor.to_owned());
        let room = self.groups.len() < GROUPS_MAX || self.groups.contains_key(&key);
        room.then(|| self.groups.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::parts::ledger::histogram;

    use super::*;

    #[test]
    fn a_value_counts_in_the_bucket_whose_bound_it_reaches() {
        let mut times = histogram();
        for ns in [9_000, 10_000, 11_000, 10_000_000_000, 11_000_000_000] {
            times.record(ns).expect("within the bounds");
        }
        let mut buckets = Buckets::default();
        buckets.add(&times);
        let (first, last) = (buckets.counts[..2].to_vec(), buckets.counts[18..].to_vec());
        assert_eq!((first, last), (vec![2, 1], vec![1, 1]));
        assert!((buckets.sum_seconds - 21.00003).abs() < 0.02, "{}", buckets.sum_seconds);
    }

    #[test]
    fn rows_have_a_bound() {
        let mut figures = Figures::default();
        for n in 0..GROUPS_MAX {
            assert!(figures.row(&format!("node-{n}"), "main").is_some());
        }
        assert!(figures.row("one-more", "main").is_none() && figures.row("node-0", "main").is_some());
    }
}
