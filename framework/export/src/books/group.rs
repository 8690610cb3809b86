//! The books of one group, written from its snapshots.

use std::collections::BTreeMap;

use rehearsal_core::messages::{GroupSnapshot, Metric};
use rehearsal_core::parts::tally::Tally;

use super::window::{Second, Trim, Window};
use crate::percentiles::{Merged, Part};
use crate::tallies::{below, minus};

/// Everything known of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupBook {
    /// Its kind.
    pub kind: String,
    /// Its instances.
    pub instances: u32,
    /// Totals of the last report.
    pub totals: Tally,
    /// Exchanges that waited at the last report.
    pub queue_length: u64,
    /// Exchanges that waited at the end of the last second in which any came due.
    pub waiting: u64,
    /// Its own counters.
    pub counts: BTreeMap<String, u64>,
    /// Values recorded over the whole run.
    pub recorded: BTreeMap<Metric, u64>,
    /// The measured seconds.
    pub window: Window,
    /// What is wrong with its counters, if anything is.
    pub broken: Option<String>,
    /// Whether the engine counted more than the reports did.
    pub unreported: bool,
}

impl GroupBook {
    /// Nothing yet.
    pub fn new(kind: &str, instances: u32, trim: Trim) -> Self {
        GroupBook {
            kind: kind.to_owned(),
            instances,
            totals: Tally::default(),
            queue_length: 0,
            waiting: 0,
            counts: BTreeMap::new(),
            recorded: BTreeMap::new(),
            window: Window::new(trim),
            broken: None,
            unreported: false,
        }
    }

    /// Books the next snapshot; gives what it counted since the last one.
    pub fn next(&mut self, snapshot: &GroupSnapshot, parts: &[Part]) -> Tally {
        let counted = self.advance(&snapshot.totals, snapshot.second);
        let queue_grown = snapshot.queue_length.cast_signed().wrapping_sub(self.queue_length.cast_signed());
        self.queue_length = snapshot.queue_length;
        if counted.generated > 0 {
            self.waiting = snapshot.queue_length;
        }
        self.counts.extend(snapshot.counts.iter().cloned());
        let metrics = self.merged(parts);
        self.push(snapshot.second, Second { counted, queue_grown, metrics });
        counted
    }

    /// Books the histograms of a second whose counts a later snapshot held.
    pub fn late(&mut self, second: u32, parts: &[Part]) {
        let metrics = self.merged(parts);
        self.push(second, Second { metrics, ..Second::default() });
    }

    /// Books the engine's final totals; gives what no report had counted.
    pub fn close(&mut self, totals: &Tally, second: u32) -> Tally {
        let counted = self.advance(totals, second);
        let queue_grown = -self.queue_length.cast_signed();
        self.queue_length = 0;
        if counted != Tally::default() {
            self.unreported = true;
            self.push(second, Second { counted, queue_grown, ..Second::default() });
        }
        counted
    }

    fn advance(&mut self, totals: &Tally, second: u32) -> Tally {
        if self.broken.is_none() {
            self.broken = below(totals, &self.totals)
                .map(|counter| format!("`{counter}` went backwards in second {second}"))
                .or_else(|| (!totals.consistent()).then(|| unequal(totals, second)));
        }
        let counted = minus(totals, &self.totals);
        self.totals = *totals;
        counted
    }

    fn merged(&mut self, parts: &[Part]) -> Vec<(Metric, Merged)> {
        for part in parts {
            *self.recorded.entry(part.metric).or_default() += part.histogram.len();
        }
        parts.iter().map(|part| (part.metric, part.merged.clone())).collect()
    }

    fn push(&mut self, second: u32, part: Second) {
        self.window.push(second, part);
    }
}

fn unequal(t: &Tally, second: u32) -> String {
    let settled =
        [t.success, t.invalid, t.failed, t.lost, t.aborted].iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
    format!(
        "second {second}: {settled} exchanges are settled of {} generated, or more attempts are over than the {} that left",
        t.generated, t.attempts
    )
}
