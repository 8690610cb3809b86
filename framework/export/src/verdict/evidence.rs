//! What a verdict is based on, as plain facts: gathered from the summary and from what the engine says.

use rehearsal_core::kind::Role;
use rehearsal_core::life::{LossWindow, OnLoss};
use rehearsal_core::messages::Scope;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::plan::Impose;
use rehearsal_core::time::Time;

use crate::books::{Books, Strain, Use};
use crate::meta::{BundleMeta, Clock, Fault, GroupFacts, Overcommit, RunFacts};
use crate::summary::{GroupSummary, Summary};
use crate::tallies::plus;
use crate::threshold::Aborted;
use crate::verdict::machine::UDP_RECEIVE_BUFFER;
use crate::verdict::{BufferDrops, Contention, Opening, Told};

/// Silence after which a node counts as lost, seconds; the heartbeat's limit.
const SILENT_SECONDS: u32 = 5;

/// The placement in which all nodes share a process.
const EMBEDDED: &str = "embedded";

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
    /// How much of that was measured, seconds; `None` if there was no traffic to measure.
    pub measured_seconds: Option<f64>,
    /// Whether somebody stopped the run before its end.
    pub interrupted: bool,
    /// The threshold that ended the run, if one did.
    pub aborted: Option<Aborted>,
    /// What broke.
    pub faults: Vec<Fault>,
    /// Nodes that fell silent, and whose end nobody knows.
    pub lost_nodes: Vec<String>,
    /// What follows when a node is lost.
    pub on_loss: OnLoss,
    /// Times in which nobody knew of a node, in seconds since the start of traffic.
    pub losses: Vec<LossEvidence>,
    /// How often the load was steered; what was done is in what groups were expected to send.
    pub steered: usize,
    /// Checks of the counters that fail.
    pub broken_checks: Vec<String>,
    /// How far the hosts' clocks are known.
    pub clock: Clock,
    /// Whether limits were enforced; `None` when there were none.
    pub limits_enforced: Option<bool>,
    /// Why they were not.
    pub limits_why: Option<String>,
    /// Whether a simulation had measured costs; `None` for an emulation.
    pub calibrated: Option<bool>,
    /// Which calibration that was, if any.
    pub calibration: Option<String>,
    /// What no calibration covers.
    pub outside_calibration: Vec<String>,
    /// Hosts with more enforced vCPU than cores.
    pub overcommitted: Vec<Overcommit>,
    /// Whether events tell of a changed rate, or of a pause.
    pub rate_changed: bool,
    /// What others used of the machines; `None` if that is not known.
    pub contention: Option<Contention>,
    /// Doubts that the engines told.
    pub told: Told,
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
    /// Share of the time that its node's CPU quota held it back, per cent.
    pub throttled_percent: Option<f64>,
    /// Exchanges that did not leave in the second in which they came due.
    pub held_up: u64,
    /// Those among them of seconds in which the thread that sends had no time left; 0 where that is unknown.
    pub held_up_busy: u64,
    /// Whether receivers of the run share its process, so that one may have taken the time of the other.
    pub shared: bool,
    /// Values behind the percentiles of its main time: response, or handling of a receiver.
    pub samples: Option<u64>,
    /// What the first measured seconds do to its response time; `None` where there are too few values to tell.
    pub opening: Option<Opening>,
}

/// A time in which nobody knew of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossEvidence {
    /// The node instance.
    pub node: String,
    /// When it was heard last, seconds since the start of traffic; below zero before it.
    pub from_seconds: f64,
    /// When it was heard again; `None` if never.
    pub to_seconds: Option<f64>,
    /// Whether a new process took its place.
    pub restarted: bool,
    /// Whether it receives: who sends to it was held up.
    pub receives: bool,
    /// What was seen of it.
    pub why: String,
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
    /// Most file descriptors in use in any second, per cent of those that it may have.
    pub descriptors_percent: Option<f64>,
    /// Most ephemeral ports in use in any second, per cent of the range.
    pub ports_percent: Option<f64>,
    /// What the kernel dropped because a buffer was full.
    pub buffer_drops: Vec<BufferDrops>,
    /// Seconds without a report.
    pub missing_seconds: u64,
    /// Reports that its logger had to drop.
    pub dropped: u64,
}

impl Evidence {
    /// Gathers it for a run whose books are closed.
    pub(crate) fn gather(meta: &BundleMeta, facts: &RunFacts, summary: &Summary, books: &Books) -> Self {
        let strain = strain(books);
        let checks = summary.checks.iter().filter(|check| check.holds == Some(false));
        Evidence {
            groups: summary.groups.iter().filter(|g| g.role != "service").map(|g| group(g, facts, books)).collect(),
            nodes: nodes(summary, books, facts).into_iter().chain(around(summary, &strain)).collect(),
            planned_seconds: meta.planned.map(|planned| planned.as_secs_f64()),
            ran_seconds: summary.duration_seconds,
            measured_seconds: Some(summary.window.seconds).filter(|_| summary.total.totals.generated > 0),
            interrupted: facts.interrupted,
            aborted: facts.aborted.clone(),
            faults: facts.faults.clone(),
            lost_nodes: lost(facts, books),
            on_loss: facts.on_loss,
            losses: facts.losses.iter().map(|window| loss(facts, window)).collect(),
            steered: facts.steers.len(),
            broken_checks: checks.map(|check| format!("{}: {}", check.name, check.text)).collect(),
            clock: facts.clock,
            limits_enforced: facts.limits_enforced,
            limits_why: facts.limits_why.clone(),
            calibrated: facts.calibrated,
            calibration: facts.calibration.clone(),
            outside_calibration: facts.outside_calibration.clone(),
            overcommitted: facts.overcommitted.clone(),
            rate_changed: false,
            contention: contention(&strain),
            told: Told::default(),
            placement: facts.placement.clone(),
            notes: facts.notes.clone(),
        }
    }
}

fn group(summary: &GroupSummary, facts: &RunFacts, books: &Books) -> GroupEvidence {
    // of fewer than a hundred values, none is above the 99th percentile but the largest is at it
    let p99 = |metric: &str| summary.measures.metrics.get(metric).map(|p| p.p99_ns.unwrap_or(p.max_ns));
    let sends = summary.role == "sender";
    let main = summary.measures.metrics.get(if sends { "response" } else { "handling" });
    let target = summary.target.unwrap_or_default();
    let expected = target.expected.unwrap_or(0.0);
    let random = match (target.target.stochastic, target.target.dispersion) {
        (false, _) => 0.0,
        // four standard deviations of a count
        (true, Some(dispersion)) => 4.0 * (dispersion * expected).sqrt(),
        // the mean rate tells nothing of a part of the run: nothing is missing
        (true, None) => expected,
    };
    let (t, judged, all) = (&summary.measures.window, summary.measures.judged(), &summary.measures.totals);
    let book = books.nodes.get(&summary.node).and_then(|node| node.groups.get(&summary.actor));
    let resources = books.nodes.get(&summary.node).and_then(|node| node.host.resources(&summary.node));
    let throttled = resources.and_then(|resources| resources.throttled_percent);
    let changes = facts.steers.iter().filter(|steer| steer.is_for(&summary.node)).count();
    let never_left = all.aborted.saturating_sub(all.aborted_attempts);
    GroupEvidence {
        node: summary.node.clone(),
        actor: summary.actor.clone(),
        sends,
        gap_ns: target.target.gap_ns,
        expected: target.expected,
        left: target.left,
        // each change of the rate moves a stream by up to a gap
        slack: target.target.streams as f64 * (1 + changes) as f64 + random,
        generated: t.generated,
        success: judged.success,
        in_vain: [judged.invalid, judged.failed, judged.lost, all.aborted].iter().fold(0, |n, m| m.saturating_add(n)),
        skipped: t.skipped,
        queue_full: t.queue_full,
        waiting: book.map_or(0, |book| book.waiting).max(never_left),
        received: judged.received.saturating_add(judged.datagrams_received),
        lag_p99_ns: p99("lag"),
        blocked_p99_ns: p99("blocked"),
        throttled_percent: throttled,
        held_up: book.map_or(0, |book| book.window.held_up.all),
        held_up_busy: book.map_or(0, |book| book.window.held_up.busy),
        shared: facts.placement == EMBEDDED && facts.groups.iter().any(|g| g.role == Role::Receiver),
        samples: main.map(|p| p.count),
        opening: book.and_then(|book| book.window.opening()),
    }
}

fn nodes(summary: &Summary, books: &Books, facts: &RunFacts) -> Vec<NodeEvidence> {
    let last = books.next_second();
    let one = |(name, book): (&String, &crate::books::NodeBook)| {
        let resources = summary.nodes.iter().find(|r| r.node == *name);
        let works = summary.groups.iter().any(|g| g.node == *name && g.role != "service");
        let own = |(scope, of, used): (Scope, &str, &Use)| (scope == Scope::Node && of == name).then_some(*used);
        let used = book.strain.all().find_map(own);
        // what a shaper of ours turned away is counted there too: the link was full, as it was meant to be
        let shaped = facts.groups.iter().any(|g| g.node == *name && is_shaped(summary, &g.template));
        let used = used.map(|mut used| {
            used.udp_sent = if shaped { 0 } else { used.udp_sent };
            used
        });
        let silent = if works && !facts.lost_nodes.contains(name) { last - book.next_second() } else { 0 };
        NodeEvidence {
            node: name.clone(),
            sends: summary.groups.iter().any(|g| g.node == *name && g.role == "sender"),
            throttled_percent: resources.and_then(|r| r.throttled_percent),
            steal_percent: resources.and_then(|r| r.steal_percent_mean),
            descriptors_percent: used.as_ref().and_then(|used| used.files_percent),
            ports_percent: used.as_ref().and_then(|used| used.ports_percent),
            buffer_drops: used.map(|used| drops(&used, &traffic(summary, Some(name)), u64::MAX)).unwrap_or_default(),
            // the last report of a node may be one second behind that of another
            missing_seconds: book.missing() + u64::from(silent.saturating_sub(1)),
            dropped: book.dropped,
        }
    };
    books.nodes.iter().map(one).collect()
}

/// Whether the kernel imposes a link that begins at nodes of this name in the file.
fn is_shaped(summary: &Summary, template: &str) -> bool {
    summary.links.iter().any(|link| link.imposed == Impose::Kernel && link.from == template)
}

/// What all nodes tell of themselves, their processes and their machines.
fn strain(books: &Books) -> Strain {
    let mut all = Strain::default();
    books.nodes.values().for_each(|node| all.merge(&node.strain));
    all
}

fn contention(strain: &Strain) -> Option<Contention> {
    let (all, own) = strain.cpu_percent()?;
    Some(Contention { others_percent: (all - own).max(0.0), own_percent: own })
}

/// Processes and machines, held to the same limits as nodes.
fn around(summary: &Summary, strain: &Strain) -> Vec<NodeEvidence> {
    let all = traffic(summary, None);
    let missing = all.datagrams_sent.saturating_sub(all.datagrams_received);
    let lost = all.lost.max(missing).saturating_add(all.unacknowledged);
    let others = strain.all().filter(|(scope, ..)| *scope != Scope::Node);
    let evidence = |(scope, name, used): (Scope, &str, &Use)| NodeEvidence {
        node: format!("{} {name}", scope.name()),
        // a machine's open files have no limit that a process meets
        descriptors_percent: used.files_percent.filter(|_| scope == Scope::Process),
        ports_percent: used.ports_percent,
        // others use its buffers too: of what they dropped, the run lost no more than it lost at all
        buffer_drops: drops(used, &all, lost),
        ..NodeEvidence::default()
    };
    others.map(evidence).collect()
}

/// Counters of one node's groups, or of all.
fn traffic(summary: &Summary, node: Option<&String>) -> Tally {
    let groups = summary.groups.iter().filter(|group| node.is_none_or(|node| group.node == *node));
    groups.fold(Tally::default(), |sum, group| plus(&sum, &group.measures.totals))
}

/// What was dropped, but no more than `most` of each.
fn drops(used: &Use, traffic: &Tally, most: u64) -> Vec<BufferDrops> {
    let rows = [
        (UDP_RECEIVE_BUFFER, used.udp_received, traffic.datagrams_received.saturating_add(used.udp_received)),
        ("a UDP send buffer", used.udp_sent, traffic.datagrams_sent),
        ("a TCP receive buffer", used.tcp_received, traffic.received.saturating_add(traffic.attempts)),
        ("a queue of new connections", used.listening, traffic.received.saturating_add(used.listening)),
    ];
    let rows = rows.into_iter().map(|(what, count, of)| (what, count.min(most), of)).filter(|(_, count, _)| *count > 0);
    rows.map(|(what, count, of)| BufferDrops {
        what: what.to_owned(),
        count,
        percent: count as f64 / of.max(count) as f64 * 100.0,
    })
    .collect()
}

fn loss(facts: &RunFacts, window: &LossWindow) -> LossEvidence {
    let seconds = |at: Time| (at.as_nanos() as f64 - facts.started.as_nanos() as f64) / 1e9;
    let receives = |g: &&GroupFacts| g.node == window.node && g.role == Role::Receiver;
    LossEvidence {
        node: window.node.clone(),
        from_seconds: seconds(window.from),
        to_seconds: window.to.map(seconds),
        restarted: window.restarted,
        receives: facts.groups.iter().any(|g| receives(&g)),
        why: window.why.clone(),
    }
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
