//! `rehearsal runs`: one line for each finished run of a folder, the latest last.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use anyhow::Result;
use rehearsal_export::{Bundle, Grid, Status};
use rehearsal_scenario::printable;
use serde::Serialize;

use super::open::{engine_word, find};
use crate::cli::{ReportFormat, Runs};
use crate::destination::stamp;
use crate::exit::UsageError;
use crate::report::{chain, print};
use crate::tags::{self, Tag};

/// One run: a bundle, or a folder of repetitions.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The worst verdict of its repetitions.
    pub status: Status,
    /// The experiment's name.
    pub experiment: String,
    /// `simulated` or `emulated`.
    pub engine: &'static str,
    /// Repetitions that finished.
    pub repetitions: usize,
    /// When its last file was written, UTC, as in names of results.
    pub written: String,
    /// Mean duration of traffic, seconds.
    pub duration_seconds: f64,
    /// Exchanges of all repetitions.
    pub generated: u64,
    /// Those that were lost.
    pub lost: u64,
    /// Tags that all of its repetitions have.
    pub tags: BTreeMap<String, String>,
    /// Where it lies.
    pub folder: PathBuf,
}

/// Runs `runs`.
///
/// # Errors
/// When the folder cannot be listed or holds no runs, or none of them can be read.
pub fn runs(args: &Runs) -> Result<ExitCode> {
    let Listed { runs, unreadable } = of(&args.folder, &args.tagged.tags)?;
    // one broken result among many is no reason to hide the others, nor to be silent about it
    for why in &unreadable {
        eprintln!("warning: {why}; it is left out");
    }
    match args.format {
        ReportFormat::Text => print(&grid(&runs).to_string())?,
        ReportFormat::Json => print(&serde_json::to_string_pretty(&runs)?)?,
        ReportFormat::Csv => print(&csv(&runs))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What a folder holds.
#[derive(Debug)]
pub struct Listed {
    /// Runs, in the order in which they were written.
    pub runs: Vec<Run>,
    /// Why others cannot be read, a line for each.
    pub unreadable: Vec<String>,
}

/// The runs of a folder.
///
/// # Errors
/// As for [`runs`].
pub fn of(folder: &Path, tagged: &[Tag]) -> Result<Listed> {
    let found = find(folder)?;
    if found.is_empty() {
        return Err(
            UsageError(format!("{} holds no results; name the folder that they lie in", folder.display())).into()
        );
    }
    let (mut runs, mut unreadable): (Vec<(u64, Run)>, Vec<String>) = (Vec::new(), Vec::new());
    let mut read = 0;
    for bundle in found.chunk_by(|a, b| home(a, folder) == home(b, folder)) {
        match run(bundle, home(&bundle[0], folder), tagged) {
            Ok(run) => {
                read += 1;
                runs.extend(run);
            }
            Err(why) => unreadable.push(why.0),
        }
    }
    if read == 0 {
        return Err(UsageError(unreadable.swap_remove(0)).into());
    }
    runs.sort_by(|a, b| (a.0, &a.1.folder).cmp(&(b.0, &b.1.folder)));
    Ok(Listed { runs: runs.into_iter().map(|(_, run)| run).collect(), unreadable })
}

/// The folder of a run: that of its repetitions, or its own.
fn home<'a>(bundle: &'a Path, top: &Path) -> &'a Path {
    let name = bundle.file_name().unwrap_or_default().to_string_lossy();
    let repetition = name.strip_prefix("rep-").is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()));
    match bundle.parent() {
        Some(parent) if repetition && bundle != top => parent,
        _ => bundle,
    }
}

/// The run of some repetitions; `None` if none of them has all of the tags.
fn run(bundles: &[PathBuf], folder: &Path, tagged: &[Tag]) -> Result<Option<(u64, Run)>, UsageError> {
    let opened: Result<Vec<Bundle>, _> = bundles.iter().map(|path| Bundle::open(path)).collect();
    let mut opened = opened.map_err(|why| UsageError(chain(&why)))?;
    opened.retain(|bundle| tags::has(bundle, tagged));
    if opened.is_empty() {
        return Ok(None);
    }
    let written = bundles.iter().filter_map(|path| written(path)).max().unwrap_or(0);
    let sum = |of: fn(&Bundle) -> u64| opened.iter().map(of).sum();
    let run = Run {
        status: opened.iter().map(|b| b.verdict.verdict.status).max().unwrap_or_default(),
        experiment: opened[0].manifest.experiment.clone(),
        engine: engine_word(opened[0].manifest.engine),
        repetitions: opened.len(),
        written: stamp(written),
        duration_seconds: opened.iter().map(|b| b.summary.duration_seconds).sum::<f64>() / opened.len() as f64,
        generated: sum(|b| b.summary.total.totals.generated),
        lost: sum(|b| b.summary.total.totals.lost),
        tags: tags::shared(opened.iter().map(|bundle| &bundle.manifest.tags)),
        folder: folder.to_owned(),
    };
    Ok(Some((written, run)))
}

fn written(bundle: &Path) -> Option<u64> {
    let modified = bundle.join("manifest.json").metadata().and_then(|m| m.modified()).ok()?;
    modified.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

fn grid(runs: &[Run]) -> Grid {
    // most runs have none, and a line is long enough
    let tagged = runs.iter().any(|run| !run.tags.is_empty());
    let mut heads = vec![
        "verdict",
        "experiment",
        "engine",
        "repetitions",
        "written, UTC",
        "duration, s",
        "exchanges",
        "lost",
        "folder",
    ];
    if tagged {
        heads.push("tags");
    }
    let mut grid = Grid::new(&heads);
    for run in runs {
        let mut row = vec![run.status.word().to_owned(), printable(&run.experiment), run.engine.to_owned()];
        row.extend([run.repetitions.to_string(), run.written.clone(), format!("{:.1}", run.duration_seconds)]);
        row.extend([run.generated.to_string(), run.lost.to_string(), printable(&run.folder.display().to_string())]);
        row.extend(tagged.then(|| printable(&tags::told(&run.tags))));
        grid.row(row);
    }
    grid
}

fn csv(runs: &[Run]) -> String {
    let head = "verdict,experiment,engine,repetitions,written,duration_seconds,generated,lost,folder,tags".to_owned();
    let line = |run: &Run| {
        let folder = super::rows::quoted(&run.folder.display().to_string());
        let Run { experiment, engine, repetitions, written, duration_seconds, generated, lost, .. } = run;
        format!(
            "{},{experiment},{engine},{repetitions},{written},{duration_seconds},{generated},{lost},{folder},{}",
            run.status.word(),
            super::rows::quoted(&tags::told(&run.tags))
        )
    };
    let lines: Vec<String> = std::iter::once(head).chain(runs.iter().map(line)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Recipe, Scratch, wave, write};
    use super::*;

    #[test]
    fn a_broken_result_hides_no_other() {
        let scratch = Scratch::new();
        for name in ["broken", "whole"] {
            let seconds = &wave(0.5)[..3];
            write(
                &scratch.path().join(name),
                &Recipe { experiment: "e", settings: "", repetition: 0, seconds, fault: false },
            );
        }
        let broken = scratch.path().join("broken");
        std::fs::remove_file(broken.join("summary.json")).unwrap();
        let listed = of(scratch.path(), &[]).unwrap();
        let folders: Vec<&Path> = listed.runs.iter().map(|run| run.folder.as_path()).collect();
        assert_eq!(folders, [scratch.path().join("whole")]);
        assert!(listed.unreadable.len() == 1 && listed.unreadable[0].contains("broken"), "{:?}", listed.unreadable);
        // where nothing else is, it is the answer
        let why = of(&broken, &[]).unwrap_err().to_string();
        assert!(why.contains("summary.json"), "{why}");
    }
}
