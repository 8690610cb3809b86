//! Rules on the load that a group offered: was it on time, was it all there, and whose fault is it if not?

use super::rules::Findings;
use super::{Code, GroupEvidence, Limits, Pair, Severity};

/// How grave `value` is when more is worse.
pub(crate) fn above(value: f64, limits: Pair) -> Option<(Severity, f64)> {
    if value > limits.invalid {
        Some((Severity::Invalid, limits.invalid))
    } else if value > limits.degraded {
        Some((Severity::Degraded, limits.degraded))
    } else {
        None
    }
}

/// All rules on one sending group; its rate is not judged if that is unknown.
pub(crate) fn judge(group: &GroupEvidence, rate_unknown: bool, limits: &Limits, found: &mut Findings) {
    lag(group, limits, found);
    if !rate_unknown {
        achieved(group, limits, found);
    }
    skipped(group, limits, found);
}

fn lag(group: &GroupEvidence, limits: &Limits, found: &mut Findings) {
    let Some(lag) = group.lag_p99_ns else { return };
    let Some((severity, limit)) = above(lag as f64, limits.lag_ns(group.gap_ns)) else { return };
    let text = format!(
        "{}/{} sent late by its own fault: lag p99 is {}, the limit is {}",
        group.node,
        group.actor,
        millis(lag as f64),
        millis(limit)
    );
    found.of_group(Code::GeneratorLate, severity, group).measured(lag as f64, limit, "ns").says(text);
}

fn achieved(group: &GroupEvidence, limits: &Limits, found: &mut Findings) {
    let (Some(expected), Some(left)) = (group.expected, group.left) else { return };
    if expected <= 0.0 {
        return;
    }
    let percent = left / expected * 100.0;
    // below the limit even if every exchange that may be missing had left
    let generous = (left + group.slack) / expected * 100.0;
    let (severity, limit) = if generous < limits.achieved_percent.invalid {
        (Severity::Invalid, limits.achieved_percent.invalid)
    } else if generous < limits.achieved_percent.degraded {
        (Severity::Degraded, limits.achieved_percent.degraded)
    } else {
        return;
    };
    let (code, why) = culprit(group, expected, limits);
    let text = format!(
        "{}/{} offered {percent:.1} % of the load it should have ({left:.0} of {expected:.0}): {why}",
        group.node, group.actor
    );
    found.of_group(code, severity, group).measured(percent, limit, "%").says(text);
}

/// Lag is time the generator wasted; blocked time is time that `in_flight` was full because answers were missing. No
/// receiver can hold up the schedule itself: slots that never came due are the generator's fault whatever else is late, and
/// so are slots given up by a generator that was late itself.
fn culprit(group: &GroupEvidence, expected: f64, limits: &Limits) -> (Code, String) {
    let high = limits.lag_ns(group.gap_ns).degraded;
    let lag = group.lag_p99_ns.unwrap_or(0) as f64;
    let blocked = group.blocked_p99_ns.unwrap_or(0) as f64;
    let held_up = if lag > high { 0 } else { group.skipped };
    let due = (group.generated + held_up) as f64 + group.slack;
    if lag > high && lag >= blocked {
        (Code::GeneratorSaturated, "the generator is saturated, it sent late".to_owned())
    } else if blocked > high || group.queue_full > 0 || group.skipped > 0 || group.waiting as f64 > group.slack {
        if due / expected * 100.0 < limits.achieved_percent.degraded {
            let text = "the generator is saturated, it did not keep up with its own schedule";
            return (Code::GeneratorSaturated, text.to_owned());
        }
        (Code::TargetSaturated, format!("the receiver is saturated, `in_flight` was full {}", meanwhile(group, high)))
    } else {
        (Code::RateMissed, "neither lag nor blocked time says why".to_owned())
    }
}

/// What the generator did while `in_flight` was full.
fn meanwhile(group: &GroupEvidence, lag_limit: f64) -> String {
    match (group.lag_p99_ns, group.waiting) {
        (Some(lag), _) if lag as f64 > lag_limit => "for longer than the generator was late".to_owned(),
        (None, waiting) if waiting > 0 => format!("all the time and {waiting} exchanges waited at the end"),
        _ => "while the generator was on time".to_owned(),
    }
}

fn skipped(group: &GroupEvidence, limits: &Limits, found: &mut Findings) {
    let slots = group.generated + group.skipped;
    let percent = group.skipped as f64 / slots.max(1) as f64 * 100.0;
    if percent > limits.skipped_percent {
        let text = format!(
            "{}/{} gave up {} of {slots} slots of its schedule ({percent:.1} %)",
            group.node, group.actor, group.skipped
        );
        let finding = found.of_group(Code::Skipped, Severity::Invalid, group);
        finding.measured(percent, limits.skipped_percent, "%").says(text);
    }
}

fn millis(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}
