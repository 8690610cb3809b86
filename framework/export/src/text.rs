//! The report that is printed at the end of a run: the verdict first, then what was measured.

use std::collections::BTreeMap;
use std::fmt;

use rehearsal_core::parts::tally::Tally;

use crate::summary::{Measured, Summary, TemplateSummary};
pub use crate::text::grid::Grid;
use crate::text::quantity::{nanos, rate, seconds};
use crate::threshold::{Judgement, ThresholdResult};
use crate::verdict::{Code, Reason, Severity, Verdict};

mod connections;
mod grid;
mod links;
mod quantity;
mod users;

/// A time in ns, in the largest unit that keeps it short: `1 ms`, `2.5 s`.
pub(crate) fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    format!("{value} {unit}")
}

/// Reasons of one kind that are printed one by one; the rest is counted.
const REASONS_SHOWN: usize = 3;

/// A run's report, plain text without colour.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What the run came to.
    pub summary: &'a Summary,
    /// May these numbers be trusted?
    pub verdict: &'a Verdict,
    /// The experiment's thresholds.
    pub thresholds: &'a [ThresholdResult],
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.summary;
        writeln!(f, "{}  {}", self.verdict.status.word(), headline(s))?;
        reasons(f, &self.verdict.reasons)?;
        let senders: Vec<&TemplateSummary> = s.templates.iter().filter(|t| t.role == "sender").collect();
        let receivers: Vec<&TemplateSummary> = s.templates.iter().filter(|t| t.role == "receiver").collect();
        if !senders.is_empty() {
            write!(f, "\n{}", sender_grid(&senders))?;
        }
        if !receivers.is_empty() {
            write!(f, "\n{}", receiver_grid(&receivers))?;
        }
        if let Some(grid) = users::grid(s) {
            write!(f, "\n{grid}")?;
        }
        if let Some(grid) = connections::grid(&s.connections) {
            write!(f, "\n{grid}")?;
        }
        if let Some(grid) = links::grid(&s.links) {
            write!(f, "\n{grid}")?;
        }
        footer(f, s)?;
        if !self.thresholds.is_empty() {
            write!(f, "\n{}", threshold_grid(self.thresholds))?;
        }
        Ok(())
    }
}

fn headline(s: &Summary) -> String {
    let engine = match s.engine {
        crate::Engine::Simulate => "simulated",
        crate::Engine::Emulate => "emulated",
    };
    let mut text = format!("{} {engine}: {} of traffic", s.experiment, seconds(s.duration_seconds));
    if s.window.trimmed {
        text += &format!(", {} measured", seconds(s.window.seconds));
    }
    text + &format!(", seed {}, repetition {}", s.seed, s.repetition)
}

/// What the counts of the tables are of, where that is not simply everything.
fn footer(f: &mut fmt::Formatter<'_>, s: &Summary) -> fmt::Result {
    if !s.window.trimmed || s.templates.is_empty() {
        return Ok(());
    }
    let Measured { from_second: from, to_second: to, .. } = s.window;
    let datagrams = s.templates.iter().filter(|t| t.measures.has_datagrams()).count();
    if datagrams < s.templates.iter().filter(|t| t.role != "service").count() {
        write!(
            f,
            "\ncounts are of the measured seconds {from} to {to}: what came due in them, and what ended in them"
        )?;
        match s.total.totals.aborted {
            0 => writeln!(f)?,
            aborted => writeln!(f, "; {aborted} exchanges were stopped at the end of the run")?,
        }
    }
    if datagrams > 0 {
        writeln!(f, "\ndatagrams are settled at the end: their counts and rates are of the whole run")?;
    }
    Ok(())
}

fn reasons(f: &mut fmt::Formatter<'_>, reasons: &[Reason]) -> fmt::Result {
    let mut shown: BTreeMap<(Code, Severity), usize> = BTreeMap::new();
    for reason in reasons {
        *shown.entry((reason.code, reason.severity)).or_default() += reason.count();
    }
    let mut printed: BTreeMap<(Code, Severity), usize> = BTreeMap::new();
    for reason in reasons {
        let key = (reason.code, reason.severity);
        let already = printed.entry(key).or_default();
        *already += 1;
        let word = match reason.severity {
            Severity::Note => "note",
            Severity::Degraded => "degraded",
            Severity::Invalid => "invalid",
        };
        if reason.code == Code::Remark && reason.count() == 1 {
            writeln!(f, "  {word:<8}  {}", reason.text)?;
        } else if *already <= REASONS_SHOWN {
            writeln!(f, "  {word:<8}  {}: {}", reason.code.word(), reason.text)?;
        } else if *already == REASONS_SHOWN + 1 {
            let more = shown.get(&key).copied().unwrap_or_default() - REASONS_SHOWN;
            writeln!(f, "  {word:<8}  {}: {more} more like these in verdict.json", reason.code.word())?;
        }
    }
    Ok(())
}

/// A counter that has a column only when it counted something, and its head.
type Rare = (&'static str, fn(&Tally) -> u64);

const RARE_OUTCOMES: [Rare; 3] = [("invalid", |t| t.invalid), ("failed", |t| t.failed), ("aborted", |t| t.aborted)];
const RARE_ANSWERS: [Rare; 1] = [("unserved", |t| t.unserved)];

/// Those of `rare` that counted something in any row.
fn occurring(rare: &[Rare], templates: &[&TemplateSummary]) -> Vec<Rare> {
    let occurs = |(_, of): &&Rare| templates.iter().any(|t| of(t.measures.judged()) > 0);
    rare.iter().filter(occurs).copied().collect()
}

fn sender_grid(templates: &[&TemplateSummary]) -> Grid {
    let rare = occurring(&RARE_OUTCOMES, templates);
    let mut heads = vec!["sender", "generated", "success", "lost"];
    heads.extend(rare.iter().map(|(head, _)| *head));
    heads.extend(["rate", "target", "response p50", "p99", "service p50", "p99", "lag p99"]);
    let mut grid = Grid::new(&heads);
    for t in templates {
        let counts = t.measures.judged();
        let time = |metric: &str, stat: &str| cell(t, metric, stat);
        let wanted = t.target.and_then(|target| target.per_second);
        let left = t.target.filter(|_| !t.measures.has_datagrams()).and_then(|target| target.achieved_per_second());
        let had = left.unwrap_or(t.measures.per_second.generated);
        let mut row = vec![name(t)];
        row.extend([counts.generated, counts.success, counts.lost].map(|count| count.to_string()));
        row.extend(rare.iter().map(|(_, of)| of(counts).to_string()));
        row.extend([
            rate(had),
            wanted.map_or_else(|| unpaced(t), rate),
            time("response", "p50"),
            time("response", "p99"),
            time("service", "p50"),
            time("service", "p99"),
            time("lag", "p99"),
        ]);
        grid.row(row);
    }
    grid
}

/// What there is instead of a target: what a model of users offers, or what answers decide.
fn unpaced(t: &TemplateSummary) -> String {
    let offered = t.target.and_then(|target| target.target.offered_per_second);
    match offered {
        Some(offered) => format!("{} offered", rate(offered)),
        None if t.kind == "population" => "by its users".to_owned(),
        None => "closed loop".to_owned(),
    }
}

fn receiver_grid(templates: &[&TemplateSummary]) -> Grid {
    let datagrams = templates.iter().any(|t| t.measures.totals.datagrams_received > 0);
    let rare = occurring(&RARE_ANSWERS, templates);
    let mut heads = vec!["receiver", "received", "served", "refused", "turned away"];
    heads.extend(rare.iter().map(|(head, _)| *head));
    heads.extend(["served rate", "handling p50", "p99"]);
    if datagrams {
        heads.extend(["one-way p50", "p99"]);
    }
    let mut grid = Grid::new(&heads);
    for t in templates {
        let counts = t.measures.judged();
        // nobody answers a datagram
        let unanswered = counts.datagrams_received > 0 && counts.received == 0;
        let answer = |text: String| if unanswered { "-".to_owned() } else { text };
        let mut row = vec![name(t), counts.received.saturating_add(counts.datagrams_received).to_string()];
        row.extend([counts.served, counts.refused, counts.turned_away].map(|count| answer(count.to_string())));
        row.extend(rare.iter().map(|(_, of)| answer(of(counts).to_string())));
        row.push(answer(rate(t.measures.per_second.served)));
        row.extend([cell(t, "handling", "p50"), cell(t, "handling", "p99")]);
        if datagrams {
            row.extend([cell(t, "one-way", "p50"), cell(t, "one-way", "p99")]);
        }
        grid.row(row);
    }
    grid
}

fn threshold_grid(thresholds: &[ThresholdResult]) -> Grid {
    let mut grid = Grid::new(&["threshold", "measured", "result"]);
    for result in thresholds {
        let word = match result.result {
            Judgement::Pass => "pass",
            Judgement::Fail if result.aborted.is_some() => "FAIL, ended the run",
            Judgement::Fail => "FAIL",
            Judgement::Unknown => "UNKNOWN",
        };
        grid.row(vec![result.threshold.text.clone(), measured(result), word.to_owned()]);
    }
    grid
}

/// What a threshold was held against; with its name where that is not the statistic of the threshold.
fn measured(result: &ThresholdResult) -> String {
    let Some(value) = result.measured else { return "-".to_owned() };
    let told = quantity::of(&result.threshold, value);
    match &result.stand_in {
        Some(instead) => format!("{} {told} (of {} values)", instead.stat, instead.count),
        None => told,
    }
}

fn name(t: &TemplateSummary) -> String {
    let times = if t.nodes > 1 { format!(" ×{}", t.nodes) } else { String::new() };
    format!("{}/{}{times}", t.template, t.actor)
}

fn cell(t: &TemplateSummary, metric: &str, stat: &str) -> String {
    let value = t.measures.metrics.get(metric).and_then(|p| p.stat(stat));
    value.map_or_else(|| "-".to_owned(), nanos)
}
