//! Thresholds as the experiment states them, in the form that the bundle evaluates.

use rehearsal_export::{Op, Threshold};
use rehearsal_scenario::{Comparison, Experiment};

/// The experiment's thresholds that this process can judge.
pub fn of(experiment: &Experiment) -> Vec<Threshold> {
    let all = experiment.judged().map(|t| Threshold {
        text: format!("{}.{} {}", t.metric, t.stat, t.text),
        scope: None,
        metric: t.metric.clone(),
        stat: t.stat.clone(),
        op: match t.op {
            Comparison::Below => Op::Less,
            Comparison::AtMost => Op::LessOrEqual,
            Comparison::Above => Op::Greater,
            Comparison::AtLeast => Op::GreaterOrEqual,
        },
        value: t.value,
        abort_after_ns: t.abort_after.map(rehearsal_core::time::Span::as_nanos),
    });
    all.collect()
}
