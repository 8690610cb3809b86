//! Limits on results, `"response.p99" = "<100ms"`: read here, held against the summary at the end of a run; with
//! `{ limit = "<100ms", abort = true, after = "10s" }` also on the way, and then the run ends as soon as it does not hold.

use std::fmt;

use rehearsal_core::time::Span;
use rehearsal_core::units::{Fraction, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::suggest;

/// Metrics that are durations.
pub const TIMES: [&str; 9] =
    ["response", "service", "lag", "blocked", "handling", "one-way", "inter-departure", "jitter", "ipdv"];
/// Statistics of a duration.
pub const STATISTICS: [&str; 7] = ["p50", "p90", "p95", "p99", "p999", "max", "mean"];
/// Metrics that count, and what their `ratio` is a share of. What is `sent` are attempts, so that it may be more than
/// what is `generated`.
pub const COUNTS: [(&str, &str); 15] = [
    ("generated", "generated"),
    ("success", "generated"),
    ("invalid", "generated"),
    ("failed", "generated"),
    ("lost", "generated"),
    ("aborted", "generated"),
    ("rejected", "sent"),
    ("unacknowledged", "sent"),
    ("deadline-missed", "success"),
    ("skipped", "generated + skipped"),
    ("sent", "generated"),
    ("received", "sent"),
    ("served", "received"),
    ("refused", "received"),
    ("unserved", "received"),
];

/// Statistics of a count.
pub const COUNT_STATISTICS: [&str; 3] = ["ratio", "rate", "count"];

/// A limit that a result must keep for the experiment to pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// What is limited, `response` or `lost`.
    pub metric: String,
    /// Which statistic of it: `p99` of a time; `ratio`, `rate` or `count` of a count.
    pub stat: String,
    /// How it must compare with `value`.
    pub op: Comparison,
    /// The limit, in `unit`.
    pub value: f64,
    /// The unit of `value`.
    pub unit: ThresholdUnit,
    /// The limit as it was written, `<100ms`.
    pub text: String,
    /// When it is held against the run so far, each second, from so long after the start of traffic; the run ends when
    /// it does not hold. `None` for the end of the run alone.
    pub abort_after: Option<Span>,
}

/// A threshold as a table: the limit, and whether the run ends as soon as it does not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThresholdTable {
    /// How the result must compare, such as `<100ms`.
    pub(crate) limit: String,
    /// Whether it is held against the run so far each second, from the end of the warm-up on, and ends the run when it
    /// does not hold: what is under way may end, and the bundle is written.
    #[serde(default)]
    pub(crate) abort: bool,
    /// From when on, after the start of traffic.
    #[serde(default = "ten_seconds")]
    pub(crate) after: Span,
}

/// Assumed: at ten requests per second a p99 then rests on a hundred.
pub(crate) const fn ten_seconds() -> Span {
    Span::from_secs(10)
}

/// How a result must compare with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// Below.
    #[serde(rename = "<")]
    Below,
    /// Below or equal.
    #[serde(rename = "<=")]
    AtMost,
    /// Above.
    #[serde(rename = ">")]
    Above,
    /// Above or equal.
    #[serde(rename = ">=")]
    AtLeast,
}

/// The unit in which a threshold's value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// A share from 0 to 1.
    Ratio,
    /// Events per second.
    PerSecond,
    /// Events.
    Count,
}

/// Why a threshold cannot be read, and what to write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ThresholdError {
    pub(crate) in_key: bool,
    pub(crate) reason: String,
    pub(crate) help: Option<String>,
}

impl Comparison {
    /// Whether `measured` keeps the limit.
    pub fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Comparison::Below => measured < limit,
            Comparison::AtMost => measured <= limit,
            Comparison::Above => measured > limit,
            Comparison::AtLeast => measured >= limit,
        }
    }
}

impl Threshold {
    /// Reads a key and its value.
    pub(crate) fn read(key: &str, text: &str) -> Result<Self, ThresholdError> {
        let (metric, stat) = key.split_once('.').unwrap_or((key, ""));
        // columns of the series have `_` where names of metrics have `-`
        let metric = metric.replace('_', "-");
        let unit = unit_of(&metric, stat)?;
        let trimmed = text.trim();
        let operators = [
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Below),
            (">", Comparison::Above),
        ];
        let Some((limit, op)) = operators.into_iter().find_map(|(sign, op)| Some((trimmed.strip_prefix(sign)?, op)))
        else {
            let example = if unit == ThresholdUnit::PerSecond { ">" } else { "<" };
            let help = Some(format!("write for instance `{example}{trimmed}`"));
            return Err(ThresholdError {
                in_key: false,
                reason: "a limit begins with `<`, `<=`, `>` or `>=`".into(),
                help,
            });
        };
        let wrong = |error: rehearsal_core::units::UnitError| {
            let (reason, help) = (error.to_string(), None);
            ThresholdError { in_key: false, reason, help }
        };
        let value = match unit {
            ThresholdUnit::Nanoseconds => limit.parse::<Span>().map_err(wrong)?.as_nanos() as f64,
            ThresholdUnit::Ratio => limit.parse::<Fraction>().map_err(wrong)?.0,
            ThresholdUnit::PerSecond => limit.parse::<Rate>().map_err(wrong)?.as_f64(),
            ThresholdUnit::Count => count(limit)?,
        };
        Ok(Threshold { metric, stat: stat.to_owned(), op, value, unit, text: trimmed.to_owned(), abort_after: None })
    }

    /// The same, which ends the run when it does not hold from `after` on.
    pub(crate) fn aborting(self, after: Span) -> Result<Self, ThresholdError> {
        if self.stat == "count" && matches!(self.op, Comparison::Above | Comparison::AtLeast) {
            let reason =
                format!("`{}` grows until the end, so `{}` cannot end a run on the way", self.key(), self.text);
            let help = Some(format!(
                "limit its rate, such as \"{}.rate\" = {{ limit = \">10/s\", abort = true }}",
                self.metric
            ));
            return Err(ThresholdError { in_key: false, reason, help });
        }
        Ok(Threshold { abort_after: Some(after), ..self })
    }

    /// Its key in the file, `response.p99`.
    pub fn key(&self) -> String {
        format!("{}.{}", self.metric, self.stat)
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} {}", self.metric, self.stat, self.text)
    }
}

fn count(limit: &str) -> Result<f64, ThresholdError> {
    // 2^53: larger counts cannot be told apart as floats
    let read = limit.trim().replace('_', "").parse::<u64>().ok().filter(|count| *count <= 1 << 53);
    read.map(|count| count as f64).ok_or_else(|| {
        let help = Some("write for instance `<10`".to_owned());
        ThresholdError { in_key: false, reason: format!("`{}` is no count", limit.trim()), help }
    })
}

/// The unit of a statistic, if there is such a one.
fn unit_of(metric: &str, stat: &str) -> Result<ThresholdUnit, ThresholdError> {
    let wrong = |reason: String, help: Option<String>| Err(ThresholdError { in_key: true, reason, help });
    if metric == "latency" {
        let stat = if stat.is_empty() { "p99" } else { stat };
        let help = format!(
            "write `response.{stat}` (from the intended time), `service.{stat}` (from the sending) or `lag.{stat}` (sent late)"
        );
        return wrong("`latency` does not say from when it counts".into(), Some(help));
    }
    let counts = COUNTS.iter().map(|(name, _)| *name);
    if TIMES.contains(&metric) {
        if STATISTICS.contains(&stat) {
            return Ok(ThresholdUnit::Nanoseconds);
        }
        return wrong(format!("`{metric}` has no statistic `{stat}`"), suggest::help(stat, STATISTICS));
    }
    if counts.clone().any(|name| name == metric) {
        return match stat {
            "ratio" => Ok(ThresholdUnit::Ratio),
            "rate" => Ok(ThresholdUnit::PerSecond),
            "count" => Ok(ThresholdUnit::Count),
            _ => wrong(format!("`{metric}` has no statistic `{stat}`"), suggest::help(stat, COUNT_STATISTICS)),
        };
    }
    wrong(format!("there is no metric `{metric}`"), suggest::help(metric, TIMES.into_iter().chain(counts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_in_base_units() {
        let read = |key: &str, text: &str| Threshold::read(key, text).expect(key);
        let p99 = read("response.p99", "<100ms");
        assert_eq!((p99.op, p99.value, p99.unit), (Comparison::Below, 1e8, ThresholdUnit::Nanoseconds));
        let lost = read("lost.ratio", "<= 0.1%");
        assert_eq!((lost.op, lost.value, lost.unit), (Comparison::AtMost, 0.001, ThresholdUnit::Ratio));
        let rate = read("success.rate", ">20/s");
        assert_eq!((rate.op, rate.value, rate.unit), (Comparison::Above, 20.0, ThresholdUnit::PerSecond));
        assert_eq!(rate.to_string(), "success.rate >20/s");
        let gap = read("inter_departure.p99", "<12ms");
        assert_eq!((gap.metric.as_str(), gap.key()), ("inter-departure", "inter-departure.p99".to_owned()));
        let count = read("lost.count", "<1_000");
        assert_eq!((count.value, count.unit), (1000.0, ThresholdUnit::Count));
    }

    #[test]
    fn comparisons_differ_at_the_limit() {
        let at_limit = [Comparison::Below, Comparison::AtMost, Comparison::Above, Comparison::AtLeast];
        assert_eq!(at_limit.map(|op| op.holds(1.0, 1.0)), [false, true, false, true]);
        assert!(Comparison::Below.holds(0.5, 1.0) && !Comparison::Above.holds(0.5, 1.0));
    }

    #[test]
    fn what_cannot_be_read_is_answered() {
        let error = |key: &str, text: &str| Threshold::read(key, text).expect_err(key);
        let bare = error("latency.p95", "<1ms");
        let help = bare.help.unwrap_or_default();
        assert!(["`response.p95`", "`service.p95`", "`lag.p95`"].iter().all(|word| help.contains(word)), "{help}");
        assert_eq!(error("respnse.p99", "<1ms").help.as_deref(), Some("did you mean `response`?"));
        assert_eq!(error("response.p98", "<1ms").help.as_deref(), Some("did you mean `p90`?"));
        assert!(!error("response.p99", "100ms").in_key);
        assert_eq!(error("response.p99", "<100").reason, "`100` has no unit; write for instance `100s`");
        assert!(error("lost.ratio", "<0.1").reason.contains("has no unit"));
        assert!(error("lost", "<1%").reason.contains("no statistic"));
        assert_eq!(error("lost.count", "<1%").reason, "`1%` is no count");
        assert_eq!(error("lost.count", "<-1").reason, "`-1` is no count");
    }
}
