//! The rules of a verdict: each looks at the evidence and may leave a reason.

use super::load::{self, above};
use super::{Code, Evidence, GroupEvidence, Limits, NodeEvidence, Reason, Severity, Status, Verdict};
use crate::meta::Clock;

/// Applies every rule. Reasons come gravest first, then in the order of their codes.
pub fn judge(evidence: &Evidence, limits: &Limits) -> Verdict {
    let mut found = Findings::default();
    run(evidence, limits, &mut found);
    traffic(evidence, limits, &mut found);
    for node in &evidence.nodes {
        resources(node, limits, &mut found);
        telemetry(node, &mut found);
    }
    environment(evidence, limits, &mut found);
    notes(evidence, &mut found);
    let mut reasons = found.reasons;
    reasons.sort_by_key(|reason| (std::cmp::Reverse(reason.severity), reason.code));
    let reasons = folded(reasons);
    let status = match reasons.first().map(|reason| reason.severity) {
        Some(Severity::Invalid) => Status::Invalid,
        Some(Severity::Degraded) => Status::Degraded,
        _ => Status::Valid,
    };
    Verdict { status, reasons }
}

/// Reasons of one code and severity that are told one by one.
const REASONS_MAX: usize = 20;

/// Sorted reasons, of which those beyond [`REASONS_MAX`] of one code and severity become one that counts them.
fn folded(reasons: Vec<Reason>) -> Vec<Reason> {
    let mut all = Vec::new();
    for same in reasons.chunk_by(|a, b| (a.code, a.severity) == (b.code, b.severity)) {
        let (told, rest) = same.split_at(same.len().min(REASONS_MAX));
        all.extend_from_slice(told);
        if let Some(first) = rest.first() {
            all.push(Reason::more(first.code, first.severity, rest.len()));
        }
    }
    all
}

/// The reasons so far.
#[derive(Default)]
pub(crate) struct Findings {
    reasons: Vec<Reason>,
}

impl Findings {
    fn add(&mut self, code: Code, severity: Severity) -> &mut Reason {
        self.reasons.push(Reason::new(code, severity));
        self.reasons.last_mut().expect("one was just added")
    }

    fn of_node(&mut self, code: Code, severity: Severity, node: &str) -> &mut Reason {
        let reason = self.add(code, severity);
        reason.node = Some(node.to_owned());
        reason
    }

    /// A reason about a group.
    pub fn of_group(&mut self, code: Code, severity: Severity, group: &GroupEvidence) -> &mut Reason {
        let reason = self.of_node(code, severity, &group.node);
        reason.actor = Some(group.actor.clone());
        reason
    }
}

impl Reason {
    /// How many reasons of one kind are not told one by one; the unit of [`Reason::value`].
    const FOLDED: &str = "reasons";

    fn new(code: Code, severity: Severity) -> Self {
        let (node, actor, value, limit, unit, text) = (None, None, None, None, None, String::new());
        Reason { code, severity, node, actor, value, limit, unit, text }
    }

    fn more(code: Code, severity: Severity, count: usize) -> Self {
        let unit = Some(Reason::FOLDED.to_owned());
        let text = format!("{count} more like these");
        Reason { value: Some(count as f64), unit, text, ..Reason::new(code, severity) }
    }

    /// The reasons that this one stands for: itself, or those that are folded into it.
    pub fn count(&self) -> usize {
        let folded = self.unit.as_deref() == Some(Reason::FOLDED);
        self.value.filter(|_| folded).map_or(1, |count| count as usize)
    }

    /// What was measured, and what it is held against.
    pub(crate) fn measured(&mut self, value: f64, limit: f64, unit: &str) -> &mut Self {
        self.value = Some(value);
        self.limit = Some(limit);
        self.unit = Some(unit.to_owned());
        self
    }

    /// The doubt, for a reader.
    pub(crate) fn says(&mut self, text: impl Into<String>) {
        self.text = text.into();
    }
}

/// What happened to the run as a whole.
fn run(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    for fault in &evidence.faults {
        let reason = found.add(Code::Fault, Severity::Invalid);
        reason.node = Some(fault.node.clone()).filter(|node| !node.is_empty());
        reason.actor = Some(fault.actor.clone()).filter(|actor| !actor.is_empty());
        let place = [&fault.node, &fault.actor].map(String::as_str).join("/");
        let place = place.trim_matches('/');
        reason.says(if place.is_empty() { fault.text.clone() } else { format!("{place}: {}", fault.text) });
    }
    for node in &evidence.lost_nodes {
        let text = format!("{node} fell silent; what it did after its last report is unknown");
        found.of_node(Code::NodeLost, Severity::Invalid, node).says(text);
    }
    for text in &evidence.broken_checks {
        found.add(Code::CountersBroken, Severity::Invalid).says(format!("counters contradict each other: {text}"));
    }
    stretched(evidence, limits, found);
    if evidence.interrupted {
        let text = "the run was stopped before its end; it holds what was done until then";
        found.add(Code::Interrupted, Severity::Degraded).says(text);
    }
}

fn stretched(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let Some(planned) = evidence.planned_seconds else { return };
    let limit = planned + (planned * limits.stretched_percent / 100.0).max(limits.stretched_seconds_min);
    if evidence.ran_seconds > limit {
        let ran = evidence.ran_seconds;
        let text =
            format!("traffic went on for {ran:.2} s, {planned:.2} s were planned: the load was thinner than it says");
        found.add(Code::Stretched, Severity::Invalid).measured(ran, limit, "s").says(text);
    }
}

fn traffic(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let senders = || evidence.groups.iter().filter(|group| group.sends);
    if senders().next().is_some() && senders().all(|group| group.generated + group.skipped == 0) {
        found.add(Code::NoTraffic, Severity::Invalid).says("no exchange came due in the measured seconds");
    }
    let idle = evidence.groups.iter().all(|group| !group.sends && group.received == 0);
    if idle && !evidence.groups.is_empty() {
        let text = "nobody here sends, and nothing came in in the measured seconds";
        found.add(Code::NoTraffic, Severity::Invalid).says(text);
    }
    if senders().all(|group| group.success == 0) && senders().any(|group| group.in_vain > 0) {
        let text = "not one exchange succeeded: is this the target that was meant?";
        found.add(Code::NoSuccess, Severity::Degraded).says(text);
    }
    for group in senders() {
        // what a lost node still sent is unknown, and that it is lost is said
        let rate_unknown = evidence.rate_changed || evidence.lost_nodes.contains(&group.node);
        load::judge(group, rate_unknown, limits, found);
    }
    if evidence.rate_changed {
        let text = "a rate was changed, or a pause made, on the way; achieved rates are not judged";
        found.add(Code::RateChanged, Severity::Note).says(text);
    }
    samples(evidence, limits, found);
}

/// One note for all groups, on the one with the fewest values.
fn samples(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let few = || evidence.groups.iter().filter_map(|g| Some((g.samples?, g))).filter(|(n, _)| *n < limits.samples_p99);
    let Some((samples, group)) = few().min_by_key(|(samples, _)| *samples) else { return };
    let others = match few().count() - 1 {
        0 => String::new(),
        1 => format!(", 1 more has fewer than {}", limits.samples_p99),
        others => format!(", {others} more have fewer than {}", limits.samples_p99),
    };
    let text =
        format!("{}/{} has {samples} values{others}: a p99 rests on fewer than ten of them", group.node, group.actor);
    let reason = found.of_group(Code::FewSamples, Severity::Note, group);
    reason.measured(samples as f64, limits.samples_p99 as f64, "values").says(text);
}

fn resources(node: &NodeEvidence, limits: &Limits, found: &mut Findings) {
    if let Some(percent) = node.throttled_percent
        && let Some((severity, limit)) = above(percent, limits.throttled_percent)
    {
        let name = &node.node;
        let (code, severity, text) = if node.sends {
            let text = format!("{name} sends and was held back by its CPU quota for {percent:.1} % of the time");
            (Code::Throttled, severity, text)
        } else {
            let text = format!("{name} was held back by its CPU quota for {percent:.1} % of the time");
            (Code::ReceiverThrottled, Severity::Note, text)
        };
        found.of_node(code, severity, name).measured(percent, limit, "%").says(text);
    }
    if let Some(percent) = node.steal_percent
        && let Some((severity, limit)) = above(percent, limits.steal_percent)
    {
        let text = format!("the hypervisor took {percent:.1} % of the time from {}", node.node);
        found.of_node(Code::Stolen, severity, &node.node).measured(percent, limit, "%").says(text);
    }
}

fn telemetry(node: &NodeEvidence, found: &mut Findings) {
    if node.dropped > 0 {
        let text = format!("{} had to drop {} reports that nobody acknowledged", node.node, node.dropped);
        let reason = found.of_node(Code::TelemetryDropped, Severity::Degraded, &node.node);
        reason.measured(node.dropped as f64, 0.0, "reports").says(text);
    }
    if node.missing_seconds > 0 {
        let text = format!("{} seconds of {} have no report; their times are missing", node.missing_seconds, node.node);
        let reason = found.of_node(Code::SnapshotsMissing, Severity::Degraded, &node.node);
        reason.measured(node.missing_seconds as f64, 0.0, "s").says(text);
    }
}

fn environment(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    match evidence.clock {
        Clock::Unknown => {
            let text = "the hosts' clock offsets are unknown: do not compare times between hosts";
            found.add(Code::ClockUnknown, Severity::Degraded).says(text);
        }
        Clock::Measured { uncertainty_ns } if uncertainty_ns > limits.clock_uncertainty_ns => {
            let text = "the hosts' clock offsets are too uncertain for times between hosts";
            let reason = found.add(Code::ClockUnknown, Severity::Degraded);
            reason.measured(uncertainty_ns as f64, limits.clock_uncertainty_ns as f64, "ns").says(text);
        }
        Clock::Measured { .. } | Clock::One => {}
    }
    for over in &evidence.overcommitted {
        let text = format!("host {} has {} cores for {} vCPU of its nodes", over.host, over.cores, over.vcpu);
        let reason = found.add(Code::HostOvercommitted, Severity::Degraded);
        reason.measured(over.vcpu, over.cores.into(), "vCPU").says(text);
    }
    for text in &evidence.outside_calibration {
        found.add(Code::OutsideCalibration, Severity::Degraded).says(format!("outside of what was calibrated: {text}"));
    }
}

fn notes(evidence: &Evidence, found: &mut Findings) {
    if evidence.calibrated == Some(false) {
        let text = "not calibrated: CPU, memory and encoding costs are unknown";
        found.add(Code::Uncalibrated, Severity::Note).says(text);
    }
    if evidence.limits_enforced == Some(false) {
        let place = &evidence.placement;
        let text = match place.as_str() {
            "" => "vCPU and memory limits were not enforced".to_owned(),
            place => format!("vCPU and memory limits were not enforced ({place} placement)"),
        };
        found.add(Code::LimitsUnenforced, Severity::Note).says(text);
    }
    for text in &evidence.notes {
        found.add(Code::Remark, Severity::Note).says(text.clone());
    }
}
