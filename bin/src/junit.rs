//! `--junit FILE`: verdict and thresholds in the form that continuous integration shows: one suite for each repetition,
//! one case for the verdict, for each threshold, and for each figure that was compared with a baseline.
//!
//! The form is the common subset of what Ant's JUnit task writes and Jenkins reads: every attribute that either needs is
//! there, and the parts stand in the order that both allow.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use rehearsal_export::verdict::Severity;
use rehearsal_export::{Bundle, Finished, Judgement, Status, Summary, ThresholdResult, Verdict};

use crate::analysis::open::engine_word;
use crate::baseline::{Comparison, Judged};
use crate::destination::civil;
use crate::exit::UsageError;
use crate::facts::unix_ns;

/// One repetition.
pub struct Suite {
    name: String,
    hostname: String,
    seconds: f64,
    properties: Vec<(String, String)>,
    cases: Vec<Case>,
    output: String,
}

struct Case {
    name: String,
    outcome: Outcome,
}

enum Outcome {
    Pass,
    /// It does not hold: what sort, in short, and all of it.
    Failure(&'static str, String, String),
    /// It cannot be told, because the run itself is at fault.
    Error(&'static str, String, String),
}

/// What a suite is made of.
struct Judgements<'a> {
    summary: &'a Summary,
    verdict: &'a Verdict,
    thresholds: &'a [ThresholdResult],
    folder: &'a Path,
    machine: Option<&'a str>,
    tags: &'a BTreeMap<String, String>,
    /// Files that do not hold what the run wrote.
    changed: &'a [String],
    strict: bool,
}

/// Makes sure of a place for the file before anything runs for minutes.
///
/// # Errors
/// When there is none.
pub fn check(file: Option<&Path>) -> Result<(), UsageError> {
    let Some(file) = file else { return Ok(()) };
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.is_dir() || !parent.is_dir() {
        return Err(UsageError(format!(
            "--junit: {} is no place for a file; name one in a folder that is there",
            file.display()
        )));
    }
    Ok(())
}

/// The suite of a run with these tags that has just ended; a DEGRADED one fails if `strict`.
pub fn of_run(finished: &Finished, tags: &BTreeMap<String, String>, strict: bool) -> Suite {
    let Finished { summary, verdict, thresholds, path, .. } = finished;
    Suite::of(&Judgements { summary, verdict, thresholds, folder: path, machine: None, tags, changed: &[], strict })
}

/// The suite of a bundle that was read back.
pub fn of_bundle(bundle: &Bundle) -> Suite {
    let machine = bundle.manifest.machine.as_deref().and_then(|machine| machine.split(',').next());
    let changed = bundle.changed().unwrap_or_default();
    Suite::of(&Judgements {
        summary: &bundle.summary,
        verdict: &bundle.verdict.verdict,
        thresholds: &bundle.verdict.thresholds,
        folder: &bundle.path,
        machine,
        tags: &bundle.manifest.tags,
        changed: &changed,
        strict: false,
    })
}

/// The suite of a comparison.
pub fn of_comparison(comparison: &Comparison) -> Suite {
    let case = |row: &crate::baseline::Row| {
        let text = row.told();
        let outcome = match row.judged {
            Judged::Regression => Outcome::Failure("regression", text.clone(), text),
            Judged::Unknown => Outcome::Failure("unknown", text.clone(), text),
            Judged::Within | Judged::Better | Judged::NotJudged => Outcome::Pass,
        };
        Case { name: format!("{} against the baseline", row.metric), outcome }
    };
    Suite {
        name: format!("{} against {}", comparison.experiment, comparison.baseline),
        hostname: hostname(),
        seconds: 0.0,
        properties: vec![("baseline".to_owned(), comparison.baseline.clone())],
        cases: comparison.rows.iter().map(case).collect(),
        output: comparison.text(),
    }
}

/// Writes the file.
///
/// # Errors
/// When it cannot be written.
pub fn write(file: &Path, suites: &[Suite]) -> Result<(), UsageError> {
    let text = document(suites, &now());
    fs::write(file, text).map_err(|why| UsageError(format!("--junit: {} cannot be written: {why}", file.display())))
}

impl Suite {
    fn of(run: &Judgements<'_>) -> Self {
        let Judgements { summary, verdict, thresholds, folder, .. } = run;
        let mut properties = vec![
            ("seed".to_owned(), summary.seed.to_string()),
            ("repetition".to_owned(), summary.repetition.to_string()),
            ("results".to_owned(), folder.display().to_string()),
        ];
        properties.extend(summary.schedule_digest.iter().map(|digest| ("schedule".to_owned(), digest.clone())));
        properties.extend(run.tags.iter().map(|(key, value)| (format!("tag.{key}"), value.clone())));
        let cases = std::iter::once(Case { name: "verdict".to_owned(), outcome: verdict_outcome(run) });
        let cases =
            cases.chain(thresholds.iter().map(|threshold| Case {
                name: threshold.threshold.text.clone(),
                outcome: threshold_outcome(threshold),
            }));
        let engine = engine_word(summary.engine);
        Suite {
            name: format!("{} {engine}, repetition {}", summary.experiment, summary.repetition),
            hostname: run.machine.map_or_else(hostname, str::to_owned),
            seconds: summary.duration_seconds,
            properties,
            cases: cases.collect(),
            output: reasons(verdict),
        }
    }

    fn count(&self, of: impl Fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| of(&case.outcome)).count()
    }
}

fn verdict_outcome(run: &Judgements<'_>) -> Outcome {
    let Judgements { verdict, changed, strict, .. } = *run;
    if !changed.is_empty() {
        // the verdict itself may be what was changed
        let text = format!("changed since the run: {}", changed.join(", "));
        return Outcome::Error("changed", text.clone(), text);
    }
    let gravest = verdict.reasons.iter().find(|reason| reason.severity != Severity::Note);
    let short = format!(
        "{}{}",
        verdict.status.word(),
        gravest.map_or(String::new(), |reason| format!(": {}: {}", reason.code.word(), reason.text))
    );
    match verdict.status {
        Status::Invalid => Outcome::Error("invalid", short, reasons(verdict)),
        Status::Degraded if strict => Outcome::Failure("degraded", short, reasons(verdict)),
        Status::Degraded | Status::Valid => Outcome::Pass,
    }
}

fn threshold_outcome(result: &ThresholdResult) -> Outcome {
    let measured = result.measured.map_or_else(|| "nothing".to_owned(), |value| format!("{value} {}", result.unit));
    let ended = result.aborted.as_ref().map_or(String::new(), |aborted| {
        format!("; it ended the run after {} s at {} {}", aborted.seconds, aborted.measured, aborted.unit)
    });
    let text = format!("{}: measured {measured}{ended}", result.threshold.text);
    match result.result {
        Judgement::Pass => Outcome::Pass,
        Judgement::Fail => Outcome::Failure("threshold", text.clone(), text),
        Judgement::Unknown => Outcome::Failure("unknown", text.clone(), text),
    }
}

fn reasons(verdict: &Verdict) -> String {
    let mut text = format!("{}\n", verdict.status.word());
    for reason in &verdict.reasons {
        let severity = crate::analysis::severity_word(reason.severity);
        let _ = writeln!(text, "{severity} {}: {}", reason.code.word(), reason.text);
    }
    text
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// `2026-11-30T18:12:32`, UTC.
fn now() -> String {
    let (year, month, day, second) = civil(unix_ns() / 1_000_000_000);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

fn document(suites: &[Suite], now: &str) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for (id, suite) in suites.iter().enumerate() {
        write_suite(&mut text, id, suite, now);
    }
    text + "</testsuites>\n"
}

fn write_suite(text: &mut String, id: usize, suite: &Suite, now: &str) {
    let failures = suite.count(|outcome| matches!(outcome, Outcome::Failure(..)));
    let errors = suite.count(|outcome| matches!(outcome, Outcome::Error(..)));
    let (name, host) = (escape(&suite.name), escape(&suite.hostname));
    let _ = writeln!(
        text,
        "  <testsuite id=\"{id}\" package=\"rehearsal\" name=\"{name}\" timestamp=\"{now}\" hostname=\"{host}\" \
         tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{:.3}\">\n    <properties>",
        suite.cases.len(),
        suite.seconds
    );
    for (key, value) in &suite.properties {
        let _ = writeln!(text, "      <property name=\"{}\" value=\"{}\"/>", escape(key), escape(value));
    }
    text.push_str("    </properties>\n");
    for case in &suite.cases {
        // the time of a run is its suite's: no case has one of its own
        let _ = write!(text, "    <testcase classname=\"{name}\" name=\"{}\" time=\"0.000\"", escape(&case.name));
        match &case.outcome {
            Outcome::Pass => text.push_str("/>\n"),
            Outcome::Failure(kind, short, all) => write_outcome(text, "failure", kind, short, all),
            Outcome::Error(kind, short, all) => write_outcome(text, "error", kind, short, all),
        }
    }
    let _ = writeln!(text, "    <system-out>{}</system-out>", escape(&suite.output));
    text.push_str("    <system-err></system-err>\n  </testsuite>\n");
}

fn write_outcome(text: &mut String, element: &str, kind: &str, short: &str, all: &str) {
    let (short, all) = (escape(short), escape(all));
    let _ =
        writeln!(text, ">\n      <{element} type=\"{kind}\" message=\"{short}\">{all}</{element}>\n    </testcase>");
}

/// Text that may stand in an element or an attribute. What XML 1.0 cannot hold becomes U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\t' => escaped.push(c),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, outcome: Outcome) -> Case {
        Case { name: name.to_owned(), outcome }
    }

    #[test]
    fn a_document_counts_its_cases_and_keeps_its_marks_apart_from_the_text() {
        let suite = Suite {
            name: "a & b".to_owned(),
            hostname: "here".to_owned(),
            seconds: 2.0,
            properties: vec![("tag".to_owned(), "\"x\"".to_owned())],
            cases: vec![
                case("verdict", Outcome::Error("invalid", "<no>".to_owned(), "]]>\u{1}".to_owned())),
                case("response.p99 <1ms", Outcome::Failure("threshold", "'".to_owned(), String::new())),
                case("lost.ratio <1%", Outcome::Pass),
            ],
            output: String::new(),
        };
        let text = document(&[suite], "2026-11-30T18:12:32");
        for part in [
            "name=\"a &amp; b\" timestamp=\"2026-11-30T18:12:32\"",
            "tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\" time=\"2.000\"",
            "value=\"&quot;x&quot;\"",
            "message=\"&lt;no&gt;\">]]&gt;\u{fffd}</error>",
            "name=\"response.p99 &lt;1ms\"",
            "message=\"&apos;\"",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_place_that_is_none_is_told_before_the_run() {
        let refused = |path: &str| check(Some(Path::new(path))).is_err();
        assert!(refused("/nowhere/at/all.xml") && refused("/") && !refused("junit.xml"));
        assert_eq!(check(None), Ok(()));
    }
}
