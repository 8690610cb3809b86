//! Thresholds: what the user wants to hold of a summary, and whether it does.

use rehearsal_core::messages::Metric;
use serde::{Deserialize, Serialize};

use crate::percentiles::Percentiles;
use crate::summary::{Measures, Summary};
use crate::tallies::counter;

/// A bound on one number of the summary. Times are nanoseconds, ratios are shares between 0 and 1, rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// As the user wrote it, such as `response.p99 <100ms`.
    pub text: String,
    /// A template, `template/actor` or `node/actor`; the whole run without it.
    pub scope: Option<String>,
    /// A metric (`response`, `service`, `lag`, `blocked`, `handling`, `one-way`, `inter-departure`, `jitter`, `ipdv`) or a
    /// counter (`lost`, `success`, …).
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
    /// From when on it is held against the run so far each second, ns after the start of traffic, and ends the run when
    /// it does not hold; `None` for the end of the run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_after_ns: Option<u64>,
}

/// A run that a threshold ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Aborted {
    /// The threshold, as the user wrote it.
    pub threshold: String,
    /// Whole seconds of traffic until then.
    pub seconds: u32,
    /// What was measured from the end of the warm-up until then, in `unit`.
    pub measured: f64,
    /// The bound, in `unit`.
    pub limit: f64,
    /// The unit of both, as in [`ThresholdResult::unit`].
    pub unit: String,
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
    /// The value it was held against, in `unit`: that of its statistic, unless `stand_in` names another.
    pub measured: Option<f64>,
    /// What was judged instead, where there are too few values for the percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<StandIn>,
    /// The unit of both: `ns`, `count`, `bytes`, `ratio` (a share between 0 and 1), `1/s` or `bytes/s`.
    pub unit: String,
    /// Whether it holds. One that ended the run does not, whatever was measured after that.
    pub result: Judgement,
    /// How it ended the run, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<Aborted>,
}

/// What a threshold was held against in place of a percentile of too few values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandIn {
    /// The statistic that [`ThresholdResult::measured`] is: `max`, which no percentile exceeds.
    pub stat: String,
    /// Of how many values.
    pub count: u64,
}

/// Holds each threshold against the measured seconds of a run.
pub fn evaluate(thresholds: &[Threshold], summary: &Summary) -> Vec<ThresholdResult> {
    let judge = |threshold: &Threshold| {
        let measures = summary.scope(threshold.scope.as_deref());
        let (measured, result) = measures.map_or((None, Judgement::Unknown), |measures| threshold.judge(measures));
        let stand_in = measures.and_then(|measures| threshold.stand_in(measures)).filter(|_| measured.is_some());
        let unit = unit(&threshold.metric, &threshold.stat).to_owned();
        ThresholdResult { threshold: threshold.clone(), measured, stand_in, unit, result, aborted: None }
    };
    thresholds.iter().map(judge).collect()
}

/// What ended the run has not held.
pub(crate) fn mark(results: &mut [ThresholdResult], aborted: &Aborted) {
    for result in results.iter_mut().filter(|result| result.threshold.text == aborted.threshold) {
        result.result = Judgement::Fail;
        result.aborted = Some(aborted.clone());
    }
}

impl Threshold {
    /// What was measured, and whether the threshold holds.
    pub fn judge(&self, measures: &Measures) -> (Option<f64>, Judgement) {
        let measured = measure(measures, &self.metric, &self.stat).or_else(|| self.at_most(measures));
        let result = match measured {
            Some(value) if self.op.holds(value, self.value) => Judgement::Pass,
            Some(_) => Judgement::Fail,
            None => Judgement::Unknown,
        };
        (measured, result)
    }

    /// A percentile of too few values is not told, but it is at most the largest of them: a bound that even this keeps
    /// holds.
    fn at_most(&self, measures: &Measures) -> Option<f64> {
        let largest = measures.metrics.get(&self.metric)?.stat("max")?;
        let below = matches!(self.op, Op::Less | Op::LessOrEqual) && Percentiles::has(&self.stat);
        (below && self.op.holds(largest, self.value)).then_some(largest)
    }

    /// What [`judge`](Self::judge) takes in place of the statistic, if that is not told.
    fn stand_in(&self, measures: &Measures) -> Option<StandIn> {
        let percentiles = measures.metrics.get(&self.metric)?;
        let missing = percentiles.stat(&self.stat).is_none() && self.at_most(measures).is_some();
        missing.then(|| StandIn { stat: "max".to_owned(), count: percentiles.count })
    }

    /// The unit of what is measured and of the bound, as in [`ThresholdResult::unit`].
    pub fn unit(&self) -> &'static str {
        unit(&self.metric, &self.stat)
    }
}

/// Whether a threshold can be held against anything: the metric and the statistic exist.
pub fn is_known(metric: &str, stat: &str) -> bool {
    let times = Metric::ALL.iter().any(|m| m.name() == metric) && Percentiles::has(stat);
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

/// The statistic of a metric that a threshold of these names is held against; `None` if it is not known.
pub fn measure(measures: &Measures, metric: &str, stat: &str) -> Option<f64> {
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
                "skipped" => t.generated.saturating_add(t.skipped),
                "served" | "refused" | "turned_away" | "unserved" => t.received,
                "datagrams_duplicate" | "datagrams_reordered" => t.datagrams_received,
                "deadline_missed" => t.success,
                "datagrams_received" => t.datagrams_sent,
                "received" => t.attempts,
                "success" | "invalid" | "failed" | "lost" => {
                    [t.success, t.invalid, t.failed, t.lost].iter().fold(0, |n, m| m.saturating_add(n))
                }
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
