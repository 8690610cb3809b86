//! `plan --find`: the largest value of a parameter with which a condition holds, by dry runs.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use rehearsal_export::{Finished, Judgement, Status, ThresholdResult};
use rehearsal_scenario::printable;
use schemars::JsonSchema;
use serde::Serialize;

use super::page::{Page, Style};
use super::search::{Found, search};
use crate::calibration;
use crate::cli::{Overrides, Part, Plan, PlanFormat};
use crate::exit::UsageError;
use crate::experiment::load;
use crate::report::print;
use crate::trial::Trials;

/// What was searched and found.
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The experiment.
    experiment: String,
    /// The parameter.
    find: String,
    /// The condition.
    condition: String,
    /// The largest value below which every try holds.
    largest: Option<u64>,
    /// The unit of values.
    unit: String,
    /// The smallest value that was tried and does not hold.
    fails_at: Option<u64>,
    /// Whether nothing lies between the two.
    exact: bool,
    /// Values that hold although a smaller one does not: the condition is not monotone.
    violations: Vec<u64>,
    /// Every try, in the order in which it was made.
    tries: Vec<Try>,
}

/// One dry run.
#[derive(Debug, Serialize, JsonSchema)]
struct Try {
    value: u64,
    /// What was measured, in the threshold's unit; times in ms.
    measured: Option<f64>,
    holds: bool,
    status: String,
    per_second: f64,
}

/// A condition, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Condition {
    /// `response.p99`.
    key: String,
    /// `<100ms`.
    limit: String,
}

impl Condition {
    fn read(text: &str) -> Result<Self, UsageError> {
        let at = text.find(['<', '>']).filter(|at| *at > 0);
        let at = at.ok_or_else(|| {
            UsageError(format!("--while {text}: write a metric and its limit, such as \"response.p99<100ms\""))
        })?;
        Ok(Condition { key: text[..at].trim().to_owned(), limit: text[at..].trim().to_owned() })
    }

    fn judged<'a>(&self, finished: &'a Finished) -> Option<&'a ThresholdResult> {
        finished.thresholds.iter().find(|t| format!("{}.{}", t.threshold.metric, t.threshold.stat) == self.key)
    }
}

/// Runs the search.
///
/// # Errors
/// What is wrong with the file, the path or the condition; what a dry run cannot do.
pub fn find(args: &Plan) -> Result<ExitCode> {
    let (Some(path), Some(text)) = (&args.find, &args.condition) else {
        return Err(anyhow!("--find and --while go together"));
    };
    let [file] = args.files.as_slice() else {
        return Err(
            UsageError(format!("--find searches in one experiment, {} files are named", args.files.len())).into()
        );
    };
    let condition = Condition::read(text)?;
    let (from, unit) = quantity(&args.from)?;
    if from > args.up_to {
        let text = format!("--from {} is above --up-to {}: nothing lies between them", args.from, args.up_to);
        return Err(UsageError(text).into());
    }
    let trials = Trials::within(&std::env::temp_dir())?;
    let mut name = String::new();
    let mut tries = Vec::new();
    let mut told = false;
    let found = search(from, args.up_to, args.tries, |value| {
        let overrides = changed(&args.overrides, path, &format!("{value}{unit}"), &condition);
        let experiment = load(file, &overrides, &Part::default())?;
        name.clone_from(&experiment.name);
        if !std::mem::replace(&mut told, true) {
            crate::report::notes(&experiment.notes, false);
        }
        let calibration = calibration::of(&experiment, args.calibration.as_deref())?;
        let one = tried(value, &trials.run(&experiment, 0, calibration)?, &condition);
        let holds = one.holds;
        tries.push(one);
        Ok::<_, anyhow::Error>(holds)
    })?;
    let Found { largest, fails_at, exact, violations } = found;
    let answer = Answer {
        experiment: name,
        find: path.clone(),
        condition: text.clone(),
        largest,
        unit: unit.to_owned(),
        fails_at,
        exact,
        violations,
        tries,
    };
    print(&match args.format {
        PlanFormat::Json => serde_json::to_string_pretty(&answer)?,
        PlanFormat::Text => page(&answer, Style::Text),
        PlanFormat::Markdown => page(&answer, Style::Markdown),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn changed(overrides: &Overrides, path: &str, value: &str, condition: &Condition) -> Overrides {
    let mut set = overrides.set.clone();
    set.push(format!("{path}={value}"));
    set.push(format!("thresholds.{}={}", condition.key, condition.limit));
    Overrides {
        set,
        scale: overrides.scale,
        seed: overrides.seed,
        repetitions: Some(1),
        duration: overrides.duration.clone(),
        base: overrides.base.clone(),
    }
}

fn tried(value: u64, finished: &Finished, condition: &Condition) -> Try {
    let judged = condition.judged(finished);
    // nothing may be concluded from a run that is not valid
    let valid = finished.verdict.status != Status::Invalid;
    let in_ms = |t: &ThresholdResult| if t.unit == "ns" { t.measured.map(|ns| ns / 1e6) } else { t.measured };
    Try {
        value,
        measured: judged.and_then(in_ms),
        holds: valid && judged.is_some_and(|t| t.result == Judgement::Pass),
        status: finished.verdict.status.word().to_owned(),
        per_second: finished.summary.total.per_second.success,
    }
}

/// `10/s` as 10 and `/s`.
fn quantity(text: &str) -> Result<(u64, &str), UsageError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    match number.parse::<u64>() {
        Ok(number) if number > 0 => Ok((number, unit)),
        _ => Err(UsageError(format!(
            "--from {text}: write a whole number above zero, with the key's unit if it has one"
        ))),
    }
}

fn page(answer: &Answer, style: Style) -> String {
    let mut page = Page::new(style);
    page.heading(1, &format!("{}: {} while {}", answer.experiment, answer.find, printable(&answer.condition)));
    let value = |v: u64| format!("{v}{}", answer.unit);
    let mut lines = vec![match (answer.largest, answer.fails_at) {
        (None, _) => "not even the first value holds".to_owned(),
        (Some(l), None) => format!("{} holds, and nothing larger was tried", value(l)),
        (Some(l), Some(f)) if answer.exact => format!("{} fit: {} do not", value(l), value(f)),
        (Some(l), Some(f)) => {
            format!("at least {} fit: {} do not, and between them nothing was tried", value(l), value(f))
        }
    }];
    if !answer.violations.is_empty() {
        let some: Vec<String> = answer.violations.iter().map(|v| value(*v)).collect();
        let (verb, fails) =
            (if some.len() == 1 { "holds" } else { "hold" }, answer.fails_at.map(value).unwrap_or_default());
        lines.push(format!("not monotone: {} {verb} although {fails} does not; a sweep shows more", some.join(", ")));
    }
    page.items(lines);
    page.heading(2, "tries, in their order");
    let rows = answer.tries.iter().map(|t| {
        let measured = t.measured.map_or("-".to_owned(), |m| format!("{m:.4}"));
        vec![
            value(t.value),
            measured,
            if t.holds { "yes" } else { "no" }.to_owned(),
            t.status.clone(),
            format!("{:.1}", t.per_second),
        ]
    });
    page.table(&["value", "measured", "holds", "verdict", "successes/s"], rows.collect());
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_thresholds() {
        let of = |text: &str| Condition::read(text).map(|c| (c.key, c.limit));
        assert_eq!(of("response.p99<100ms"), Ok(("response.p99".to_owned(), "<100ms".to_owned())));
        assert_eq!(of("success.rate >= 20/s"), Ok(("success.rate".to_owned(), ">= 20/s".to_owned())));
        assert!(of("response.p99").is_err_and(|e| e.to_string().contains("\"response.p99<100ms\"")));
        assert!(of("<100ms").is_err());
    }

    #[test]
    fn quantities_keep_their_unit() {
        assert_eq!(quantity("10/s"), Ok((10, "/s")));
        assert_eq!(quantity("1"), Ok((1, "")));
        assert!(quantity("/s").is_err() && quantity("0").is_err() && quantity("-1").is_err());
    }
}
