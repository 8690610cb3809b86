//! The books of one group, written from its snapshots.

use std::collections::BTreeMap;

use rehearsal_core::messages::{GroupSnapshot, Metric};
use rehearsal_core::parts::tally::Tally;

use super::window::{Second, Trim, Window};
use crate::percentiles::{Merged, Part};
use crate::tallies::{below, minus, plus};

/// Everything known of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupBook {
    /// Its kind.
    pub kind: String,
    /// Its instances.
    pub instances: u32,
    /// Totals of the last report, over all processes of the node.
    pub totals: Tally,
    /// What earlier processes of the node had counted, and which one is the present.
    base: (u32, Tally, BTreeMap<String, u64>),
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
            base: (0, Tally::default(), BTreeMap::new()),
            queue_length: 0,
            waiting: 0,
            counts: BTreeMap::new(),
            recorded: BTreeMap::new(),
            window: Window::new(trim),
            broken: None,
            unreported: false,
        }
    }

    /// Another process of the node counts from now on. What was under way in the one before it is lost with it, and
    /// counts as aborted; their number, if this is news.
    pub fn succeed(&mut self, incarnation: u32) -> Option<u64> {
        let (present, base, counts) = &mut self.base;
        if incarnation <= *present {
            return None;
        }
        *present = incarnation;
        *base = self.totals;
        base.close();
        counts.clone_from(&self.counts);
        Some(self.totals.open())
    }

    /// Whether snapshots of this process are of the past.
    pub fn is_past(&self, incarnation: u32) -> bool {
        incarnation < self.base.0
    }

    /// Books the next snapshot; gives what it counted since the last one. `busy`: the thread that runs the group had no time
    /// left.
    pub fn next(&mut self, snapshot: &GroupSnapshot, parts: &[Part], busy: bool) -> Tally {
        let counted = self.advance(&plus(&self.base.1, &snapshot.totals), snapshot.second);
        let queue_grown = snapshot.queue_length.cast_signed().wrapping_sub(self.queue_length.cast_signed());
        self.queue_length = snapshot.queue_length;
        if counted.generated > 0 {
            self.waiting = snapshot.queue_length;
        }
        self.count(&snapshot.counts);
        let metrics = self.merged(parts);
        self.push(snapshot.second, Second { counted, queue_grown, busy, metrics });
        counted
    }

    /// Books the histograms of a second whose counts a later snapshot held.
    pub fn late(&mut self, second: u32, parts: &[Part]) {
        let metrics = self.merged(parts);
        self.push(second, Second { metrics, ..Second::default() });
    }

    /// Books the engine's final totals; gives what no report had counted.
    pub fn close(&mut self, totals: &Tally, second: u32) -> Tally {
        let counted = self.advance(&plus(&self.base.1, totals), second);
        let queue_grown = self.queue_length.cast_signed().saturating_neg();
        self.queue_length = 0;
        if counted != Tally::default() {
            self.unreported = true;
            self.push(second, Second { counted, queue_grown, ..Second::default() });
        }
        counted
    }

    /// Nobody tells the final totals: what was under way at the last report is lost with the node, and counts as aborted.
    pub fn bury(&mut self, second: u32) -> Tally {
        let mut totals = self.totals;
        totals.close();
        self.base.1 = Tally::default();
        self.close(&totals, second)
    }

    /// Takes over the group's own counters.
    pub fn count(&mut self, counts: &[(String, u64)]) {
        for (name, count) in counts {
            let before = self.base.2.get(name).copied().unwrap_or(0);
            self.counts.insert(name.clone(), before.saturating_add(*count));
        }
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
            *self.recorded.entry(part.metric).or_default() += part.merged.count();
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
