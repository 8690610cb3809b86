//! Thresholds: what the user wants to hold of a summary, and whether it does.

use rehearsal_core::messages::Metric;
use serde::{Deserialize, Serialize};

use crate::summary::{Measures, Summary};
use crate::tallies::counter;

/// A bound on one number of the summary. Times are nanoseconds, ratios are shares between 0 and 1, rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// As the user wrote it, such as `response.p99 <100ms`.
    pub text: String,
    /// A template, `template/actor` or `node/actor`; the whole run without it.
    pub scope: Option<String>,
    /// A metric (`response`, `service`, `lag`, `blocked`, `handling`, `one-way`) or a counter (`lost`, `success`, …).
    pub metric: String,
    /// Of a metric: `mean`, `min`, `p50`, `p90`, `p95`, `p99`, `p999`, `max`, `count`; of a counter: `count`, `ratio`,
    /// `rate`. The ratio of a sender's outcome is to the exchanges that were settled, those that we stopped left aside
    /// (over a whole run: generated − aborted); of an attempt's to the attempts, of a receiver's to what it received, of
    /// the other counters to the exchanges generated.
    pub stat: String,
    /// How the measured value must compare with `value`.
    pub op: Op,
    /// The bound.
    pub value: f64,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Below.
    #[serde(rename = "<")]
    Less,
    /// At most.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Above.
    #[serde(rename = ">")]
    Greater,
    /// At least.
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// Exactly.
    #[serde(rename = "==")]
    Equal,
}

impl Op {
    /// Whether `measured` compares so with `bound`.
    pub fn holds(self, measured: f64, bound: f64) -> bool {
        match self {
            Op::Less => measured < bound,
            Op::LessOrEqual => measured <= bound,
            Op::Greater => measured > bound,
            Op::GreaterOrEqual => measured >= bound,
            Op::Equal => measured == bound,
        }
    }
}

/// Whether a threshold holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// Nothing was measured that it could be held against. Counts like a failure.
    Unknown,
}

/// A threshold beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdResult {
    /// The threshold.
    #[serde(flatten)]
    pub threshold: Threshold,
    /// The value it was held against, in `unit`.
    pub measured: Option<f64>,
    /// The unit of both: `ns`, `count`, `bytes`, `ratio` (a share between 0 and 1), `1/s` or `bytes/s`.
    pub unit: String,
    /// Whether it holds.
    pub result: Judgement,
}

/// Holds each threshold against the measured seconds of a run.
pub fn evaluate(thresholds: &[Threshold], summary: &Summary) -> Vec<ThresholdResult> {
    let judge = |threshold: &Threshold| {
        let measures = summary.scope(threshold.scope.as_deref());
        let measured = measures.and_then(|m| measure(m, &threshold.metric, &threshold.stat));
        let result = match measured {
            Some(value) if threshold.op.holds(value, threshold.value) => Judgement::Pass,
            Some(_) => Judgement::Fail,
            None => Judgement::Unknown,
        };
        let unit = unit(&threshold.metric, &threshold.stat).to_owned();
        ThresholdResult { threshold: threshold.clone(), measured, unit, result }
    };
    thresholds.iter().map(judge).collect()
}

/// Whether a threshold can be held against anything: the metric and the statistic exist.
pub fn is_known(metric: &str, stat: &str) -> bool {
    let times = Metric::ALL.iter().any(|m| m.name() == metric) && crate::Percentiles::default().stat(stat).is_some();
    let counts =
        counter(&Default::default(), counter_name(metric)).is_some() && matches!(stat, "count" | "ratio" | "rate");
    times || counts
}

fn unit(metric: &str, stat: &str) -> &'static str {
    let bytes = metric.starts_with("bytes_");
    match stat {
        "ratio" => "ratio",
        "rate" if bytes => "bytes/s",
        "rate" => "1/s",
        "count" if bytes => "bytes",
        "count" => "count",
        _ => "ns",
    }
}

fn measure(measures: &Measures, metric: &str, stat: &str) -> Option<f64> {
    if Metric::ALL.iter().any(|m| m.name() == metric) {
        return measures.metrics.get(metric)?.stat(stat);
    }
    let name = counter_name(metric);
    let t = measures.judged();
    let count = counter(t, name)? as f64;
    match stat {
        "count" => Some(count),
        "rate" => (measures.judged_seconds > 0.0).then(|| count / measures.judged_seconds),
        "ratio" => {
            let of = match name {
                "rejected" | "unacknowledged" | "aborted_attempts" => t.attempts,
                "skipped" => t.generated + t.skipped,
                "served" | "refused" | "turned_away" | "unserved" => t.received,
                "datagrams_duplicate" | "datagrams_reordered" => t.datagrams_received,
                "deadline_missed" => t.success,
                "datagrams_received" => t.datagrams_sent,
                "received" => t.attempts,
                "success" | "invalid" | "failed" | "lost" => t.success + t.invalid + t.failed + t.lost,
                _ => t.generated,
            };
            (of > 0).then(|| count / of as f64)
        }
        _ => None,
    }
}

/// What users call a counter otherwise.
fn counter_name(metric: &str) -> &str {
    match metric {
        "sent" => "attempts",
        "deadline-missed" | "deadline_misses" | "deadline-misses" => "deadline_missed",
        other => other,
    }
}
