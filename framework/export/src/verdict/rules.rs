//! The rules of a verdict: each looks at the evidence and may leave a reason.

use super::limits::{Limits, Rule};
use super::{Code, Evidence, GroupEvidence, LossEvidence, NodeEvidence, Reason, Severity, Status, Verdict};
use super::{load, lost, machine, sample, told};
use crate::meta::Clock;

/// Applies every rule. Reasons come gravest first, then in the order of their codes.
pub fn judge(evidence: &Evidence, limits: &Limits) -> Verdict {
    let mut found = Findings::default();
    run(evidence, limits, &mut found);
    traffic(evidence, limits, &mut found);
    sample::judge(evidence, limits, &mut found);
    for node in &evidence.nodes {
        machine::node(node, limits, &mut found);
        telemetry(node, &mut found);
    }
    machine::hosts(evidence, limits, &mut found);
    environment(evidence, limits, &mut found);
    told::judge(evidence, limits, &mut found);
    loosened(limits, &mut found);
    notes(evidence, &mut found);
    let mut reasons = found.reasons;
    lost::excuse(evidence, &mut reasons);
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
    pub(crate) fn add(&mut self, code: Code, severity: Severity) -> &mut Reason {
        self.reasons.push(Reason::new(code, severity));
        self.reasons.last_mut().expect("one was just added")
    }

    pub(crate) fn of_node(&mut self, code: Code, severity: Severity, node: &str) -> &mut Reason {
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
    lost::judge(evidence, found);
    for text in &evidence.broken_checks {
        found.add(Code::CountersBroken, Severity::Invalid).says(format!("counters contradict each other: {text}"));
    }
    stretched(evidence, limits, found);
    if evidence.interrupted {
        let text = "the run was stopped before its end; it holds what was done until then";
        found.add(Code::Interrupted, Severity::Degraded).says(text);
    }
    if let Some(aborted) = &evidence.aborted {
        let text = format!(
            "`{}` did not hold after {} s of traffic and ended the run; it holds what was done until then",
            aborted.threshold, aborted.seconds
        );
        let reason = found.add(Code::ThresholdAborted, Severity::Degraded);
        reason.measured(aborted.measured, aborted.limit, &aborted.unit).says(text);
    }
}

fn stretched(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let Some(planned) = evidence.planned_seconds.filter(|planned| *planned > 0.0) else { return };
    let ran = evidence.ran_seconds;
    let percent = (ran / planned - 1.0) * 100.0;
    if ran <= planned + STRETCHED_SECONDS_MIN {
        return;
    }
    let Some((severity, limit)) = limits.judge(Rule::Stretched, percent) else { return };
    let text =
        format!("traffic went on for {ran:.2} s, {planned:.2} s were planned: the load was thinner than it says");
    let limit = planned * (1.0 + limit / 100.0);
    found.add(Code::Stretched, severity).measured(ran, limit, "s").says(text);
}

/// Traffic longer than planned by no more than this is never held against a run, seconds. Assumed: a timer's slack at the
/// end of a run of a second.
const STRETCHED_SECONDS_MIN: f64 = 0.1;

fn traffic(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let senders = || evidence.groups.iter().filter(|group| group.sends);
    if senders().next().is_some() && senders().all(|group| group.generated == 0 && group.skipped == 0) {
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
        let is_of = |loss: &&LossEvidence| loss.node == group.node;
        let lost = evidence.lost_nodes.contains(&group.node) || evidence.losses.iter().any(|loss| is_of(&loss));
        let unexplained = evidence.rate_changed && evidence.steered == 0;
        load::judge(group, unexplained || lost, limits, found);
    }
    if evidence.steered > 0 {
        let text = "the load was steered on the way; rates are held against what was asked for at each time";
        let reason = found.add(Code::RateChanged, Severity::Note);
        reason.measured(evidence.steered as f64, 0.0, "steers").says(text);
    } else if evidence.rate_changed {
        let text = "a rate was changed, or a pause made, on the way; achieved rates are not judged";
        found.add(Code::RateChanged, Severity::Note).says(text);
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
        Clock::Measured { uncertainty_ns } => {
            if let Some((severity, limit)) = limits.judge(Rule::ClockUnknown, uncertainty_ns as f64) {
                let text = "the hosts' clock offsets are too uncertain for times between hosts";
                found.add(Code::ClockUnknown, severity).measured(uncertainty_ns as f64, limit, "ns").says(text);
            }
        }
        Clock::One => {}
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

/// Limits below the usual ones: a reader must not take this verdict for a usual one.
fn loosened(limits: &Limits, found: &mut Findings) {
    for change in limits.changes().iter().filter(|change| change.is_loosened()) {
        let text = format!("the experiment asks for less than usual: {}", change.text());
        found.add(Code::LimitsLoosened, Severity::Note).says(text);
    }
}

fn notes(evidence: &Evidence, found: &mut Findings) {
    if evidence.calibrated == Some(false) {
        let text = match &evidence.calibration {
            None => "not calibrated: CPU, memory and encoding costs are unknown".to_owned(),
            Some(title) => format!("calibrated by {title}: costs and what follows from them are assumptions"),
        };
        found.add(Code::Uncalibrated, Severity::Note).says(text);
    }
    if let (Some(true), Some(title)) = (evidence.calibrated, &evidence.calibration) {
        found.add(Code::Remark, Severity::Note).says(format!("calibrated by {title}"));
    }
    if evidence.limits_enforced == Some(false) {
        let place = &evidence.placement;
        let text = match place.as_str() {
            "" => "vCPU and memory limits were not enforced".to_owned(),
            place => format!("vCPU and memory limits were not enforced ({place} placement)"),
        };
        let text = evidence.limits_why.as_ref().map_or(text.clone(), |why| format!("{text}: {why}"));
        found.add(Code::LimitsUnenforced, Severity::Note).says(text);
    }
    for text in &evidence.notes {
        found.add(Code::Remark, Severity::Note).says(text.clone());
    }
}
