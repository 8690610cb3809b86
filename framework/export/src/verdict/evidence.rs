//! What a verdict is based on, as plain facts: gathered from the summary and from what the engine says.

use crate::books::Books;
use crate::meta::{BundleMeta, Clock, Fault, GroupFacts, Overcommit, RunFacts};
use crate::summary::{GroupSummary, Summary};

/// Silence after which a node counts as lost, seconds; the heartbeat's limit.
const SILENT_SECONDS: u32 = 5;

/// What a verdict is based on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Every group that sends or receives.
    pub groups: Vec<GroupEvidence>,
    /// Every node with samples or missing telemetry.
    pub nodes: Vec<NodeEvidence>,
    /// How long traffic was to run, seconds; `None` for a count-driven run.
    pub planned_seconds: Option<f64>,
    /// How long it ran, seconds.
    pub ran_seconds: f64,
    /// Whether somebody stopped the run before its end.
    pub interrupted: bool,
    /// What broke.
    pub faults: Vec<Fault>,
    /// Nodes that fell silent.
    pub lost_nodes: Vec<String>,
    /// Checks of the counters that fail.
    pub broken_checks: Vec<String>,
    /// How far the hosts' clocks are known.
    pub clock: Clock,
    /// Whether limits were enforced; `None` when there were none.
    pub limits_enforced: Option<bool>,
    /// Whether a simulation had measured costs; `None` for an emulation.
    pub calibrated: Option<bool>,
    /// What no calibration covers.
    pub outside_calibration: Vec<String>,
    /// Hosts with more enforced vCPU than cores.
    pub overcommitted: Vec<Overcommit>,
    /// Whether a rate was changed, or a pause made, on the way.
    pub rate_changed: bool,
    /// Where the nodes ran.
    pub placement: String,
    /// Whatever else a reader should know.
    pub notes: Vec<String>,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupEvidence {
    /// The node instance.
    pub node: String,
    /// The actor.
    pub actor: String,
    /// Whether it was to send.
    pub sends: bool,
    /// Mean gap of each stream, ns; `None` for a closed loop.
    pub gap_ns: Option<u64>,
    /// Exchanges that should have left in the whole seconds of sending.
    pub expected: Option<f64>,
    /// Exchanges that did.
    pub left: Option<f64>,
    /// Exchanges that may be missing without anything being wrong: one per stream, more if gaps are random.
    pub slack: f64,
    /// Exchanges that came due.
    pub generated: u64,
    /// Exchanges that were answered as wanted.
    pub success: u64,
    /// Exchanges that were refused, answered otherwise, lost, or at the end of the run stopped by us.
    pub in_vain: u64,
    /// Slots that were given up.
    pub skipped: u64,
    /// Exchanges that found their queue full.
    pub queue_full: u64,
    /// Exchanges that waited for `in_flight` when the last ones came due, or that never left before the run was over.
    pub waiting: u64,
    /// Requests and datagrams that came in.
    pub received: u64,
    /// 99th percentile of lag, ns.
    pub lag_p99_ns: Option<u64>,
    /// 99th percentile of blocked time, ns.
    pub blocked_p99_ns: Option<u64>,
    /// Values behind the percentiles of its main time: response, or handling of a receiver.
    pub samples: Option<u64>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeEvidence {
    /// The node instance.
    pub node: String,
    /// Whether it has senders.
    pub sends: bool,
    /// Share of the time that its CPU quota held it back, per cent.
    pub throttled_percent: Option<f64>,
    /// Share of the time that the hypervisor took, per cent.
    pub steal_percent: Option<f64>,
    /// Seconds without a report.
    pub missing_seconds: u64,
    /// Reports that its logger had to drop.
    pub dropped: u64,
}

impl Evidence {
    /// Gathers it for a run whose books are closed.
    pub(crate) fn gather(meta: &BundleMeta, facts: &RunFacts, summary: &Summary, books: &Books) -> Self {
        let checks = summary.checks.iter().filter(|check| check.holds == Some(false));
        Evidence {
            groups: summary.groups.iter().filter(|g| g.role != "service").map(|g| group(g, books)).collect(),
            nodes: nodes(summary, books, facts),
            planned_seconds: meta.planned.map(|planned| planned.as_secs_f64()),
            ran_seconds: summary.duration_seconds,
            interrupted: facts.interrupted,
            faults: facts.faults.clone(),
            lost_nodes: lost(facts, books),
            broken_checks: checks.map(|check| format!("{}: {}", check.name, check.text)).collect(),
            clock: facts.clock,
            limits_enforced: facts.limits_enforced,
            calibrated: facts.calibrated,
            outside_calibration: facts.outside_calibration.clone(),
            overcommitted: facts.overcommitted.clone(),
            rate_changed: false,
            placement: facts.placement.clone(),
            notes: facts.notes.clone(),
        }
    }
}

fn group(summary: &GroupSummary, books: &Books) -> GroupEvidence {
    let p99 = |metric: &str| summary.measures.metrics.get(metric).map(|p| p.p99_ns);
    let sends = summary.role == "sender";
    let main = summary.measures.metrics.get(if sends { "response" } else { "handling" });
    let target = summary.target.unwrap_or_default();
    let random = if target.target.stochastic { 4.0 * target.expected.unwrap_or(0.0).sqrt() } else { 0.0 };
    let (t, judged, all) = (&summary.measures.window, summary.measures.judged(), &summary.measures.totals);
    let book = books.nodes.get(&summary.node).and_then(|node| node.groups.get(&summary.actor));
    let never_left = all.aborted.saturating_sub(all.aborted_attempts);
    GroupEvidence {
        node: summary.node.clone(),
        actor: summary.actor.clone(),
        sends,
        gap_ns: target.target.gap_ns,
        expected: target.expected,
        left: target.left,
        slack: target.target.streams as f64 + random,
        generated: t.generated,
        success: judged.success,
        in_vain: judged.invalid + judged.failed + judged.lost + all.aborted,
        skipped: t.skipped,
        queue_full: t.queue_full,
        waiting: book.map_or(0, |book| book.waiting).max(never_left),
        received: judged.received + judged.datagrams_received,
        lag_p99_ns: p99("lag"),
        blocked_p99_ns: p99("blocked"),
        samples: main.map(|p| p.count),
    }
}

fn nodes(summary: &Summary, books: &Books, facts: &RunFacts) -> Vec<NodeEvidence> {
    let last = books.next_second();
    let one = |(name, book): (&String, &crate::books::NodeBook)| {
        let resources = summary.nodes.iter().find(|r| r.node == *name);
        let works = summary.groups.iter().any(|g| g.node == *name && g.role != "service");
        let silent = if works && !facts.lost_nodes.contains(name) { last - book.next_second() } else { 0 };
        NodeEvidence {
            node: name.clone(),
            sends: summary.groups.iter().any(|g| g.node == *name && g.role == "sender"),
            throttled_percent: resources.and_then(|r| r.throttled_percent),
            steal_percent: resources.and_then(|r| r.steal_percent_mean),
            // the last report of a node may be one second behind that of another
            missing_seconds: book.missing() + u64::from(silent.saturating_sub(1)),
            dropped: book.dropped,
        }
    };
    books.nodes.iter().map(one).collect()
}

/// Nodes that the engine lost, and those that fell silent and of which it has no final counters either.
fn lost(facts: &RunFacts, books: &Books) -> Vec<String> {
    let mut lost = facts.lost_nodes.clone();
    let last = books.next_second();
    let unknown = |name: &str| {
        let mut groups = facts.groups.iter().filter(|g| g.node == name).peekable();
        groups.peek().is_some() && groups.all(|g: &GroupFacts| g.tally.is_none())
    };
    for (name, book) in &books.nodes {
        if last - book.next_second() >= SILENT_SECONDS && unknown(name) && !lost.contains(name) {
            lost.push(name.clone());
        }
    }
    lost
}
