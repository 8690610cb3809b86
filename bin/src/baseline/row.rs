//! One figure of a run beside that of its baseline.

use rehearsal_stats::distributions::student_quantile;
use serde::Serialize;

/// Level of confidence of the interval of a difference.
const LEVEL: f64 = 0.95;
/// A change of a ratio below this is none, whatever share of the baseline it is. Assumed: of a thousand exchanges one.
const RATIO_MIN: f64 = 0.001;
/// Metrics of which more is better; of all others less is.
const MORE_IS_BETTER: [&str; 5] = ["success", "sent", "generated", "received", "served"];

/// What a change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// Not worse than the limit allows, or not surely.
    Within,
    /// Better.
    Better,
    /// Worse than the limit allows.
    Regression,
    /// It was known in the baseline, and is not now.
    Unknown,
    /// It has no limit.
    NotJudged,
}

impl Judged {
    const fn word(self) -> &'static str {
        match self {
            Judged::Within => "within",
            Judged::Better => "better",
            Judged::Regression => "REGRESSION",
            Judged::Unknown => "UNKNOWN",
            Judged::NotJudged => "not judged",
        }
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name, as a threshold has it: `response.p99`.
    pub metric: String,
    /// Its mean in the baseline: ns, a share between 0 and 1, or per second.
    pub baseline: f64,
    /// Repetitions of the baseline that know it.
    pub baseline_n: usize,
    /// Its mean now; `None` if it is not known.
    pub now: Option<f64>,
    /// Repetitions that know it now.
    pub now_n: usize,
    /// By how much it is more now, as a share of the baseline; `None` if that is zero.
    pub change: Option<f64>,
    /// The interval of the difference of the means, in the figure's unit; `None` with a single repetition.
    pub interval: Option<(f64, f64)>,
    /// How much worse it may be, as a share of the baseline; `None` if it is not judged.
    pub limit: Option<f64>,
    /// What the change means.
    pub judged: Judged,
}

impl Row {
    /// Compares the values of repetitions; `None` if the baseline does not know the figure.
    pub fn of(metric: &str, stat: &str, then: &[Option<f64>], now: &[Option<f64>], limit: Option<f64>) -> Option<Self> {
        let known = |values: &[Option<f64>]| values.iter().copied().flatten().collect::<Vec<f64>>();
        let (then, now) = (known(then), known(now));
        let baseline = mean(&then)?;
        let mut row = Row {
            metric: format!("{metric}.{stat}"),
            baseline,
            baseline_n: then.len(),
            now: mean(&now),
            now_n: now.len(),
            change: None,
            interval: welch(&then, &now),
            limit,
            judged: Judged::NotJudged,
        };
        let difference = row.now.map(|now| now - baseline);
        row.change = difference.filter(|_| baseline != 0.0).map(|difference| difference / baseline);
        let worse = if MORE_IS_BETTER.contains(&metric) { -1.0 } else { 1.0 };
        row.judged = match (limit, difference) {
            (None, _) => Judged::NotJudged,
            (Some(_), None) => Judged::Unknown,
            (Some(limit), Some(difference)) => {
                let allowed = (limit * baseline.abs()).max(if stat == "ratio" { RATIO_MIN } else { 0.0 });
                // without repetitions the difference is taken as it is
                let sure = |sign: f64| row.interval.is_none_or(|(low, high)| (sign * low).min(sign * high) > 0.0);
                if worse * difference > allowed && sure(worse) {
                    Judged::Regression
                } else if -worse * difference > allowed && sure(-worse) {
                    Judged::Better
                } else {
                    Judged::Within
                }
            }
        };
        Some(row)
    }

    /// The cells of its row in the table.
    pub fn cells(&self) -> Vec<String> {
        let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| self.value(value));
        let share = |share: f64| format!("{:+.1} %", share * 100.0);
        let interval = self.interval.map(|(low, high)| format!("{}..{}", self.signed(low), self.signed(high)));
        vec![
            self.metric.clone(),
            self.value(self.baseline),
            self.baseline_n.to_string(),
            value(self.now),
            self.now_n.to_string(),
            self.change.map_or_else(|| "-".to_owned(), share),
            interval.unwrap_or_else(|| "-".to_owned()),
            self.limit.map_or_else(|| "-".to_owned(), |limit| format!("{:.1} %", limit * 100.0)),
            self.judged.word().to_owned(),
        ]
    }

    /// It in one line.
    pub fn told(&self) -> String {
        let now = self.now.map_or_else(|| "nothing".to_owned(), |now| self.value(now));
        let limit = self.limit.map_or(String::new(), |limit| format!(", {:.1} % are allowed", limit * 100.0));
        format!(
            "{}: {} in the baseline, {now} now{limit}: {}",
            self.metric,
            self.value(self.baseline),
            self.judged.word()
        )
    }

    fn value(&self, value: f64) -> String {
        let stat = self.metric.rsplit('.').next().unwrap_or_default();
        match stat {
            "ratio" => format!("{:.3} %", value * 100.0),
            "rate" => format!("{value:.2}/s"),
            "count" => format!("{value:.0}"),
            _ => format!("{:.3} ms", value / 1e6),
        }
    }

    fn signed(&self, value: f64) -> String {
        let sign = if value < 0.0 { "-" } else { "+" };
        format!("{sign}{}", self.value(value.abs()))
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Mean, square of its standard error, and degrees of freedom.
fn spread(values: &[f64]) -> Option<(f64, f64, f64)> {
    let (n, mean) = (values.len() as f64, mean(values)?);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (mean, squares / (n - 1.0) / n, n - 1.0))
}

/// Welch's interval of `now` less `then`.
fn welch(then: &[f64], now: &[f64]) -> Option<(f64, f64)> {
    let ((then, a, a_freedom), (now, b, b_freedom)) = (spread(then)?, spread(now)?);
    let difference = now - then;
    if a + b == 0.0 {
        return Some((difference, difference));
    }
    let freedom = (a + b).powi(2) / (a * a / a_freedom + b * b / b_freedom);
    let half = student_quantile(LEVEL, freedom).ok()? * (a + b).sqrt();
    Some((difference - half, difference + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(metric: &str, stat: &str, then: &[f64], now: &[f64], limit: f64) -> Judged {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        Row::of(metric, stat, &some(then), &some(now), Some(limit)).expect("the baseline knows it").judged
    }

    #[test]
    fn a_change_beyond_the_limit_in_the_bad_direction_is_a_regression() {
        assert_eq!(judged("response", "p99", &[100.0], &[111.0], 0.1), Judged::Regression);
        assert_eq!(judged("response", "p99", &[100.0], &[110.0], 0.1), Judged::Within);
        assert_eq!(judged("response", "p99", &[100.0], &[80.0], 0.1), Judged::Better);
        assert_eq!(judged("success", "rate", &[100.0], &[89.0], 0.1), Judged::Regression);
        assert_eq!(judged("success", "rate", &[100.0], &[120.0], 0.1), Judged::Better);
        assert_eq!(judged("lost", "ratio", &[0.0], &[0.0009], 0.1), Judged::Within, "one of a thousand is none");
        assert_eq!(judged("lost", "ratio", &[0.0], &[0.01], 0.1), Judged::Regression);
        assert_eq!(judged("response", "p99", &[100.0], &[], 0.1), Judged::Unknown);
        assert_eq!(Row::of("response", "p99", &[None], &[Some(1.0)], Some(0.1)), None);
    }

    #[test]
    fn repetitions_that_scatter_do_not_prove_a_regression() {
        assert_eq!(judged("response", "p99", &[90.0, 110.0, 100.0], &[80.0, 160.0, 120.0], 0.1), Judged::Within);
        assert_eq!(judged("response", "p99", &[99.0, 100.0, 101.0], &[119.0, 120.0, 121.0], 0.1), Judged::Regression);
    }

    #[test]
    fn the_interval_is_welchs() {
        // by hand: means 2 and 5; squared errors 1/3 and 4/3; freedom (5/3)² / ((1/3)²/2 + (4/3)²/2) = 2.9412;
        // t(0.975; 2.9412) = 3.2213 (interpolated between 4.3027 and 3.1824 by the density's root)
        let (low, high) = welch(&[1.0, 2.0, 3.0], &[3.0, 5.0, 7.0]).expect("three repetitions each");
        assert!((low + high - 6.0).abs() < 1e-9, "{low} {high}");
        let half = (high - low) / 2.0;
        let t = half / (5.0_f64 / 3.0).sqrt();
        assert!((3.1824..4.3027).contains(&t), "between the quantiles of 3 and 2 degrees: {t}");
        assert_eq!(welch(&[1.0], &[2.0, 3.0]), None);
    }
}
