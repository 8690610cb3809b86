//! How much worse a figure may get: `10%`, or `5%,response.p99=20%`.

use rehearsal_core::units::Fraction;
use rehearsal_export::is_known;

use crate::exit::UsageError;

/// What is compared unless something else is named.
const FIGURES: [(&str, &str); 6] = [
    ("response", "p50"),
    ("response", "p90"),
    ("response", "p95"),
    ("response", "p99"),
    ("success", "rate"),
    ("lost", "ratio"),
];

/// Limits by figure, as shares of the baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    all: Option<f64>,
    own: Vec<(String, String, f64)>,
}

impl Limits {
    /// Reads the flag's value.
    ///
    /// # Errors
    /// What to write instead.
    pub fn read(text: &str) -> Result<Self, UsageError> {
        let wrong = |why: String| UsageError(format!("--fail-on-regression: {why}"));
        let share =
            |text: &str| text.trim().parse::<Fraction>().map(|share| share.0).map_err(|why| wrong(why.to_string()));
        let mut limits = Limits::default();
        for part in text.split(',') {
            let Some((figure, limit)) = part.split_once('=') else {
                if limits.all.replace(share(part)?).is_some() {
                    return Err(wrong(format!(
                        "`{text}` has two limits for all figures; name the figure, `response.p99=20%`"
                    )));
                }
                continue;
            };
            let (metric, stat) = figure.trim().split_once('.').unwrap_or((figure.trim(), ""));
            if !is_known(metric, stat) {
                let text = format!(
                    "there is no figure `{}`; write one of a threshold, such as `response.p99=20%`",
                    figure.trim()
                );
                return Err(wrong(text));
            }
            if limits.own.iter().any(|(m, s, _)| m == metric && s == stat) {
                return Err(wrong(format!("`{}` is limited twice", figure.trim())));
            }
            limits.own.push((metric.to_owned(), stat.to_owned(), share(limit)?));
        }
        Ok(limits)
    }

    /// Every figure that is compared, and its limit if it is judged.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &str, Option<f64>)> {
        let own = |metric: &str, stat: &str| self.own.iter().find(|(m, s, _)| m == metric && s == stat).map(|o| o.2);
        let usual = FIGURES.iter().map(move |(metric, stat)| (*metric, *stat, own(metric, stat).or(self.all)));
        let usual_one = |metric: &str, stat: &str| FIGURES.contains(&(metric, stat));
        let named = self.own.iter().filter(move |(metric, stat, _)| !usual_one(metric, stat));
        usual.chain(named.map(|(metric, stat, limit)| (metric.as_str(), stat.as_str(), Some(*limit))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_for_all_figures_or_for_one() {
        let limit = |text: &str, figure: (&str, &str)| {
            let limits = Limits::read(text).expect(text);
            limits.figures().find(|(m, s, _)| (*m, *s) == figure).map(|(_, _, limit)| limit)
        };
        assert_eq!(limit("10%", ("response", "p99")), Some(Some(0.1)));
        assert_eq!(limit("5%,response.p99=20%", ("response", "p99")), Some(Some(0.2)));
        assert_eq!(limit("5%,response.p99=20%", ("lost", "ratio")), Some(Some(0.05)));
        assert_eq!(limit("response.p99=20%", ("lost", "ratio")), Some(None), "shown, not judged");
        assert_eq!(limit("handling.p99=20%", ("handling", "p99")), Some(Some(0.2)));
        assert_eq!(limit("10%", ("handling", "p99")), None);
    }

    #[test]
    fn what_cannot_be_read_is_answered() {
        let why = |text: &str| Limits::read(text).expect_err(text).0;
        assert!(why("10").contains("has no unit"), "{}", why("10"));
        assert!(why("response.p98=1%").contains("there is no figure `response.p98`"));
        assert!(why("1%,2%").contains("two limits"));
        assert!(why("lag.p99=1%,lag.p99=2%").contains("twice"));
    }
}
