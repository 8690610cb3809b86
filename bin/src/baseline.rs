//! `--baseline BUNDLE --fail-on-regression`: is a run worse than an earlier one of the same experiment?
//!
//! Of each figure the means over repetitions are compared. A figure is worse when its change goes beyond the limit, and,
//! if both sides have two repetitions or more, when Welch's interval of the difference does not hold zero either.
//! Source: B. L. Welch, Biometrika 34 (1947), for the degrees of freedom.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rehearsal_export::{Bundle, Engine, Finished, Grid, Status, Summary, measure};
use rehearsal_scenario::printable;
use serde::Serialize;

use crate::analysis::open::{engine_word, groups};
use crate::cli::Against;
use crate::exit::UsageError;

mod differ;
mod limits;
mod row;

use differ::differences;
pub use limits::Limits;
pub use row::{Judged, Row};

/// Differences of two experiments that are told.
const DIFFERENCES_MAX: usize = 6;

/// An earlier result to be compared with.
pub struct Baseline {
    path: PathBuf,
    repetitions: Vec<Bundle>,
    limits: Option<Limits>,
    forced: bool,
}

/// What a run is, before it is compared.
pub struct Subject<'a> {
    /// The experiment's name.
    pub experiment: &'a str,
    /// Which engine runs it.
    pub engine: Engine,
    /// Its resolved file.
    pub resolved: &'a str,
}

/// A run beside its baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The experiment's name.
    pub experiment: String,
    /// Where the baseline lies.
    pub baseline: String,
    /// Whether any figure that is judged is worse than its limit allows, or is not known any more.
    pub regression: bool,
    /// What differs, if that was to be passed over.
    pub notes: Vec<String>,
    /// Each figure.
    pub rows: Vec<Row>,
}

impl Baseline {
    /// Opens what the user names; `None` if nothing is named.
    ///
    /// # Errors
    /// When it holds no result or several, when none of its repetitions may be trusted, or a limit cannot be read.
    pub fn open(against: &Against) -> Result<Option<Self>> {
        let Some(path) = &against.baseline else { return Ok(None) };
        let limits = against.fail_on_regression.as_deref().map(Limits::read).transpose()?;
        let mut found = groups(std::slice::from_ref(path), &[])?;
        if found.len() > 1 {
            let text = format!("--baseline: {} holds several experiments; name one result", path.display());
            return Err(UsageError(text).into());
        }
        let repetitions = found.pop().map(|group| group.repetitions).unwrap_or_default();
        let invalid = repetitions.iter().all(|bundle| bundle.verdict.verdict.status == Status::Invalid);
        if invalid && !against.baseline_force {
            let text = format!("--baseline: {} is INVALID; name another, or add --baseline-force", path.display());
            return Err(UsageError(text).into());
        }
        Ok(Some(Baseline { path: path.clone(), repetitions, limits, forced: against.baseline_force }))
    }

    /// What makes it another measurement than `subject`, in words.
    ///
    /// # Errors
    /// When anything does, unless that is forced.
    pub fn check(&self, subject: &Subject<'_>) -> Result<Vec<String>> {
        let Some(first) = self.repetitions.first() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut differs = |what: &str, there: &str, here: &str| {
            if there != here {
                found.push(format!("{what}: `{there}` there, `{here}` here"));
            }
        };
        differs("name", &first.manifest.experiment, subject.experiment);
        differs("engine", engine_word(first.manifest.engine), engine_word(subject.engine));
        let file = first.path.join("experiment.toml");
        let there = std::fs::read_to_string(&file)
            .map_err(|why| UsageError(format!("--baseline: {} cannot be read: {why}", file.display())))?;
        found.extend(differences(&there, subject.resolved));
        if found.is_empty() || self.forced {
            return Ok(found);
        }
        let more = found.len().saturating_sub(DIFFERENCES_MAX);
        let mut text = found[..found.len() - more].iter().map(|d| format!("\n  {}", printable(d))).collect::<String>();
        if more > 0 {
            text += &format!("\n  and {more} more");
        }
        let path = self.path.display();
        Err(UsageError(format!(
            "--baseline: {path} is of another experiment; add --baseline-force to compare all the same{text}"
        ))
        .into())
    }

    /// Compares repetitions with it; `notes` are what [`Baseline::check`] found.
    pub fn compare(&self, experiment: &str, now: &[&Summary], notes: Vec<String>) -> Comparison {
        let then: Vec<&Summary> = self.repetitions.iter().map(|bundle| &bundle.summary).collect();
        let limits = self.limits.clone().unwrap_or_default();
        let rows: Vec<Row> = limits
            .figures()
            .filter_map(|(metric, stat, limit)| {
                let of = |summaries: &[&Summary]| -> Vec<Option<f64>> {
                    summaries.iter().map(|summary| measure(&summary.total, metric, stat)).collect()
                };
                Row::of(metric, stat, &of(&then), &of(now), limit.filter(|_| self.limits.is_some()))
            })
            .collect();
        let bad = |row: &Row| matches!(row.judged, Judged::Regression | Judged::Unknown);
        Comparison {
            experiment: experiment.to_owned(),
            baseline: self.path.display().to_string(),
            regression: rows.iter().any(bad),
            notes,
            rows,
        }
    }

    /// Compares runs that have just ended: those that may be trusted, or all if none may.
    pub fn compare_finished(&self, experiment: &str, finished: &[Finished], notes: Vec<String>) -> Comparison {
        let trusted = finished.iter().filter(|f| f.verdict.status != Status::Invalid).map(|f| &f.summary);
        let mut now: Vec<&Summary> = trusted.collect();
        if now.is_empty() {
            now = finished.iter().map(|f| &f.summary).collect();
        }
        self.compare(experiment, &now, notes)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Comparison {
    /// The differences, as a table.
    pub fn text(&self) -> String {
        let mut text = format!("against {}\n", printable(&self.baseline));
        for note in self.notes.iter().take(DIFFERENCES_MAX) {
            text += &format!("  differs   {}\n", printable(note));
        }
        if self.notes.len() > DIFFERENCES_MAX {
            text += &format!("  differs   in {} more\n", self.notes.len() - DIFFERENCES_MAX);
        }
        let mut grid =
            Grid::new(&["figure", "baseline", "n", "now", "n", "change", "95 % interval", "limit", "result"]);
        self.rows.iter().for_each(|row| grid.row(row.cells()));
        text + &grid.to_string()
    }
}
