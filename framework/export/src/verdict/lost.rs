//! Rules on nodes that were lost: how grave that is depends on what the experiment wants to follow from it.

use super::rules::Findings;
use super::{Code, Evidence, LossEvidence, Reason, Severity};

/// Doubts that a loss itself gives rise to: where a run outlives a loss, they do not make it INVALID.
const EXCUSED: [Code; 6] = [
    Code::GeneratorLate,
    Code::GeneratorSaturated,
    Code::TargetSaturated,
    Code::RateMissed,
    Code::Skipped,
    Code::Stretched,
];

/// Each lost node is named, with the time in which nobody knew of it.
pub(super) fn judge(evidence: &Evidence, found: &mut Findings) {
    let severity = if evidence.on_loss.is_tolerant() { Severity::Degraded } else { Severity::Invalid };
    for loss in &evidence.losses {
        let reason = found.of_node(Code::NodeLost, severity, &loss.node);
        if let Some(to) = loss.to_seconds {
            reason.value = Some(to - loss.from_seconds);
            reason.unit = Some("s".to_owned());
        }
        reason.says(window(loss));
    }
    for node in &evidence.lost_nodes {
        if !evidence.losses.iter().any(|loss| loss.node == *node && loss.to_seconds.is_none()) {
            let text = format!("{node} fell silent; what it did after its last report is unknown");
            found.of_node(Code::NodeLost, severity, node).says(text);
        }
    }
}

fn window(loss: &LossEvidence) -> String {
    let LossEvidence { node, from_seconds: from, why, .. } = loss;
    match loss.to_seconds {
        None => format!("{node} {why}: lost from {from:.1} s to the end; what it did after its last report is unknown"),
        Some(to) if loss.restarted => {
            format!("{node} {why}: lost from {from:.1} s to {to:.1} s, when a new process of it took part")
        }
        Some(to) => format!("{node} {why}: lost from {from:.1} s to {to:.1} s, then it took part again"),
    }
}

/// A run that outlives a loss is DEGRADED by it: what the lost node did late, and what could not be sent to it, is not held
/// against the run twice.
pub(super) fn excuse(evidence: &Evidence, reasons: &mut [Reason]) {
    if !evidence.on_loss.is_tolerant() || evidence.losses.is_empty() {
        return;
    }
    let receiver_lost = evidence.losses.iter().any(|loss| loss.receives);
    for reason in reasons.iter_mut().filter(|r| r.severity == Severity::Invalid && EXCUSED.contains(&r.code)) {
        let own = evidence.losses.iter().any(|loss| reason.node.as_deref() == Some(&loss.node));
        if own || receiver_lost {
            reason.severity = Severity::Degraded;
            reason.text += if own { "; it was lost for a while" } else { "; a receiver was lost for a while" };
        }
    }
}
