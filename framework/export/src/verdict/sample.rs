//! Rules on what was measured: is it enough, and is it of the state that is meant?

use super::limits::{Limits, Rule};
use super::rules::Findings;
use super::{Code, Evidence, GroupEvidence};

/// What the first measured seconds of a group do to a percentile of its response time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Opening {
    /// Which percentile, `p50` or `p99`: the one that they raise more.
    pub stat: &'static str,
    /// How many seconds.
    pub seconds: u32,
    /// The percentile of all that was measured, ns.
    pub all_ns: u64,
    /// The percentile without those seconds, ns.
    pub rest_ns: u64,
}

impl Opening {
    /// How much it is raised, per cent.
    pub fn percent(&self) -> f64 {
        (self.all_ns as f64 / self.rest_ns.max(1) as f64 - 1.0) * 100.0
    }
}

/// All rules on what was measured.
pub(super) fn judge(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    short(evidence, limits, found);
    for group in &evidence.groups {
        opening(group, limits, found);
    }
    few(evidence, limits, found);
}

fn short(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let Some(seconds) = evidence.measured_seconds.filter(|seconds| *seconds > 0.0) else { return };
    let Some((severity, limit)) = limits.judge(Rule::ShortRun, seconds * 1e9) else { return };
    let limit = limit / 1e9;
    let text =
        format!("{seconds:.1} s were measured, {limit:.0} s are wanted: what happens once in a while is not in it");
    found.add(Code::ShortRun, severity).measured(seconds, limit, "s").says(text);
}

fn opening(group: &GroupEvidence, limits: &Limits, found: &mut Findings) {
    let Some(opening) = &group.opening else { return };
    let Some((severity, limit)) = limits.judge(Rule::WarmupIncluded, opening.percent()) else { return };
    let millis = |ns: u64| format!("{:.2} ms", ns as f64 / 1e6);
    let text = format!(
        "the first {} measured seconds of {}/{} raise its response {} from {} to {}: set a (longer) `warmup`",
        opening.seconds,
        group.node,
        group.actor,
        opening.stat,
        millis(opening.rest_ns),
        millis(opening.all_ns)
    );
    found.of_group(Code::WarmupIncluded, severity, group).measured(opening.percent(), limit, "%").says(text);
}

/// One reason for all groups, on the one with the fewest values.
fn few(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let broken = |group: &GroupEvidence| limits.judge(Rule::FewSamples, group.samples? as f64);
    let few = || evidence.groups.iter().filter_map(|g| Some((g.samples?, g, broken(g)?)));
    let Some((samples, group, (severity, limit))) = few().min_by_key(|(samples, ..)| *samples) else { return };
    let others = match few().count() - 1 {
        0 => String::new(),
        1 => format!(", 1 more has fewer than {limit}"),
        others => format!(", {others} more have fewer than {limit}"),
    };
    let told = if samples < 100 { "no p99 is told of fewer than 100" } else { "a p99 rests on fewer than ten of them" };
    let text = format!("{}/{} has {samples} values{others}: {told}", group.node, group.actor);
    found.of_group(Code::FewSamples, severity, group).measured(samples as f64, limit, "values").says(text);
}
