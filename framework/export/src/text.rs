//! The report that is printed at the end of a run: the verdict first, then what was measured.

use std::collections::BTreeMap;
use std::fmt;

use crate::summary::{Summary, TemplateSummary};
use crate::text::grid::Grid;
use crate::text::quantity::{nanos, rate, seconds};
use crate::threshold::{Judgement, ThresholdResult};
use crate::verdict::{Code, Reason, Severity, Verdict};

mod grid;
mod quantity;

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
        if s.window.seconds < s.duration_seconds && !s.templates.is_empty() {
            writeln!(f, "\ncounts are of the measured seconds: what came due in them, and what ended in them")?;
        }
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
    if s.window.seconds < s.duration_seconds {
        text += &format!(", {} measured", seconds(s.window.seconds));
    }
    text + &format!(", seed {}, repetition {}", s.seed, s.repetition + 1)
}

fn reasons(f: &mut fmt::Formatter<'_>, reasons: &[Reason]) -> fmt::Result {
    let mut shown: BTreeMap<(Code, Severity), usize> = BTreeMap::new();
    for reason in reasons {
        *shown.entry((reason.code, reason.severity)).or_default() += 1;
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
        if reason.code == Code::Remark {
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

fn sender_grid(templates: &[&TemplateSummary]) -> Grid {
    let mut grid = Grid::new(&[
        "sender",
        "generated",
        "success",
        "lost",
        "rate",
        "target",
        "response p50",
        "p99",
        "service p50",
        "p99",
        "lag p99",
    ]);
    for t in templates {
        let counts = t.measures.judged();
        let time = |metric: &str, stat: &str| cell(t, metric, stat);
        let wanted = t.target.and_then(|target| target.per_second);
        let had = t.target.and_then(|target| target.achieved_per_second()).unwrap_or(t.measures.per_second.generated);
        grid.row(vec![
            name(t),
            counts.generated.to_string(),
            counts.success.to_string(),
            counts.lost.to_string(),
            rate(had),
            wanted.map_or_else(|| "closed loop".to_owned(), rate),
            time("response", "p50"),
            time("response", "p99"),
            time("service", "p50"),
            time("service", "p99"),
            time("lag", "p99"),
        ]);
    }
    grid
}

fn receiver_grid(templates: &[&TemplateSummary]) -> Grid {
    let datagrams = templates.iter().any(|t| t.measures.totals.datagrams_received > 0);
    let mut heads =
        vec!["receiver", "received", "served", "refused", "turned away", "served rate", "handling p50", "p99"];
    if datagrams {
        heads.extend(["one-way p50", "p99"]);
    }
    let mut grid = Grid::new(&heads);
    for t in templates {
        let counts = t.measures.judged();
        let mut row = vec![
            name(t),
            (counts.received + counts.datagrams_received).to_string(),
            counts.served.to_string(),
            counts.refused.to_string(),
            counts.turned_away.to_string(),
            rate(t.measures.per_second.served),
            cell(t, "handling", "p50"),
            cell(t, "handling", "p99"),
        ];
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
            Judgement::Fail => "FAIL",
            Judgement::Unknown => "UNKNOWN",
        };
        let measured = result.measured.map_or_else(|| "-".to_owned(), |value| quantity::of(&result.threshold, value));
        grid.row(vec![result.threshold.text.clone(), measured, word.to_owned()]);
    }
    grid
}

fn name(t: &TemplateSummary) -> String {
    let times = if t.nodes > 1 { format!(" ×{}", t.nodes) } else { String::new() };
    format!("{}/{}{times}", t.template, t.actor)
}

fn cell(t: &TemplateSummary, metric: &str, stat: &str) -> String {
    let value = t.measures.metrics.get(metric).and_then(|p| p.stat(stat));
    value.map_or_else(|| "-".to_owned(), nanos)
}
