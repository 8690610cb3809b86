//! Rules on the load that a group offered: was it on time, was it all there, and whose fault is it if not?

use super::limits::{Limits, Rule};
use super::rules::Findings;
use super::{Code, GroupEvidence};

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
    let bounds = limits.lag_ns(group.gap_ns);
    let Some((severity, limit)) = Rule::GeneratorLate.judge(lag as f64, bounds) else { return };
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
    let Some((severity, limit)) = limits.judge(Rule::RateMissed, generous) else { return };
    let (code, why) = culprit(group, expected, limits);
    let text = format!(
        "{}/{} offered {percent:.1} % of the load it should have ({left:.0} of {expected:.0}): {why}",
        group.node, group.actor
    );
    found.of_group(code, severity, group).measured(percent, limit, "%").says(text);
}

/// Lag is time the generator wasted; blocked time is time that `in_flight` was full because answers were missing. No
/// receiver can hold up the schedule itself: slots that never came due are the generator's fault whatever else is late, and
/// so are slots given up by a generator that was late itself. Nor does a full `in_flight` speak against the receiver while
/// the generator's thread has no time left: it may be the one that does not get round to reading the answers.
fn culprit(group: &GroupEvidence, expected: f64, limits: &Limits) -> (Code, String) {
    let bounds = limits.lag_ns(group.gap_ns);
    let high = bounds.doubtful();
    let lag = group.lag_p99_ns.unwrap_or(0) as f64;
    let blocked = group.blocked_p99_ns.unwrap_or(0) as f64;
    let held_up = if lag > high { 0 } else { group.skipped };
    let due = group.generated.saturating_add(held_up) as f64 + group.slack;
    if group.throttled_percent.is_some_and(|percent| percent > limits.of(Rule::Throttled).doubtful()) {
        return (Code::GeneratorSaturated, "its node's CPU quota held the generator back".to_owned());
    }
    // what waits for room in `in_flight` at the end has no blocked time yet, and no lag that is bearable explains it
    let missing = expected - group.left.unwrap_or(0.0);
    let waits = group.waiting as f64 > group.slack.max(missing / 2.0);
    let kept = waits && bounds.invalid.is_none_or(|grave| lag <= grave);
    if lag > high && lag >= blocked && !kept {
        (Code::GeneratorSaturated, "the generator is saturated, it sent late".to_owned())
    } else if group.held_up_busy as f64 > group.held_up as f64 / 2.0 {
        (Code::GeneratorSaturated, exhausted(group))
    } else if blocked > high || group.queue_full > 0 || group.skipped > 0 || group.waiting as f64 > group.slack {
        if limits.judge(Rule::RateMissed, due / expected * 100.0).is_some() {
            let text = "the generator is saturated, it did not keep up with its own schedule";
            return (Code::GeneratorSaturated, text.to_owned());
        }
        (Code::TargetSaturated, format!("the receiver is saturated, `in_flight` was full {}", meanwhile(group, high)))
    } else {
        (Code::RateMissed, "neither lag nor blocked time says why".to_owned())
    }
}

/// What is said of a generator whose thread had no time left.
fn exhausted(group: &GroupEvidence) -> String {
    let share = group.held_up_busy as f64 / group.held_up.max(1) as f64 * 100.0;
    let text = format!(
        "the generator is saturated, its thread had no CPU time left in the seconds that hold {share:.0} % of what is missing"
    );
    if !group.shared {
        return text;
    }
    format!("{text}; it shares its process with receivers: place them apart to tell who took that time")
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
    let slots = group.generated.saturating_add(group.skipped);
    let percent = group.skipped as f64 / slots.max(1) as f64 * 100.0;
    let Some((severity, limit)) = limits.judge(Rule::Skipped, percent) else { return };
    let text = format!(
        "{}/{} gave up {} of {slots} slots of its schedule ({percent:.1} %)",
        group.node, group.actor, group.skipped
    );
    found.of_group(Code::Skipped, severity, group).measured(percent, limit, "%").says(text);
}

fn millis(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}
