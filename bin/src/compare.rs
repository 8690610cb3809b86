//! `rehearsal compare`: a dry run beside the real run of the same experiment, and whether they are as near as they must be.
//!
//! ```text
//!   bundles ──side──> nodes: rate, CPU, times, seconds ──judge──> rows with error and bound ──page──> text | json | csv
//!      └─difference─> refused if they are of different experiments
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use rehearsal_export::{Bundle, Engine, Status};
use rehearsal_scenario::printable;
use serde::Serialize;

use crate::analysis::open;
use crate::cli::{BoundArgs, Compare, ReportFormat};
use crate::exit::UsageError;
use crate::report::{chain, print};

mod difference;
mod judge;
mod page;
mod side;

pub use judge::{Row, SecondRow};
pub use side::{NodeSide, Side, Times};

/// Exit code when something is outside of its bound: a threshold failed.
pub const OUTSIDE: u8 = 10;
/// The code of the verdict's note on a dry run without a measured calibration.
const UNCALIBRATED: &str = "uncalibrated";

/// The largest errors that are inside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Rate of each node, % of the real one.
    pub rate_percent: f64,
    /// CPU load of each node, points.
    pub cpu_points: f64,
    /// Median of times, % of the real one.
    pub p50_percent: f64,
    /// 99th percentile of times, % of the real one.
    pub p99_percent: f64,
}

/// What one side is.
#[derive(Clone, Debug, Serialize)]
pub struct Head {
    /// `simulated` or `emulated`.
    pub engine: &'static str,
    /// The worst verdict.
    pub status: Status,
    /// The folders.
    pub bundles: Vec<String>,
    /// Of a dry run: what it was calibrated by, if by anything.
    pub calibration: Option<String>,
}

/// Both sides, row by row.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The experiment's name.
    pub experiment: String,
    /// Whether all that was judged is inside, and something was judged.
    pub inside: bool,
    /// Rows that were judged.
    pub judged: usize,
    /// Of these, rows that are outside of their bound.
    pub outside: usize,
    /// The bounds.
    pub bounds: Bounds,
    /// The dry run.
    pub simulated: Head,
    /// The real run.
    pub emulated: Head,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Per node: rate, CPU load, losses, percentiles.
    pub rows: Vec<Row>,
    /// Per node and second: rate and CPU load.
    pub seconds: Vec<SecondRow>,
}

/// Runs `compare`.
///
/// # Errors
/// When something is no result, or the two are of different experiments.
pub fn compare(args: &Compare) -> Result<ExitCode> {
    let bounds = Bounds::try_from(args.bounds)?;
    let comparison = of(std::slice::from_ref(&args.simulated), &args.emulated, bounds)?;
    match args.format {
        ReportFormat::Text => print(&page::text(&comparison, args.seconds))?,
        ReportFormat::Json => print(&serde_json::to_string_pretty(&comparison)?)?,
        ReportFormat::Csv => print(&page::csv(&comparison))?,
    }
    Ok(if comparison.inside { ExitCode::SUCCESS } else { ExitCode::from(OUTSIDE) })
}

impl TryFrom<BoundArgs> for Bounds {
    type Error = UsageError;

    fn try_from(args: BoundArgs) -> Result<Self, UsageError> {
        let BoundArgs { rate_percent, cpu_points, p50_percent, p99_percent } = args;
        let flags = [
            ("--rate-percent", rate_percent),
            ("--cpu-points", cpu_points),
            ("--p50-percent", p50_percent),
            ("--p99-percent", p99_percent),
        ];
        match flags.iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
            Some((flag, value)) => Err(UsageError(format!("{flag}: {value} is no bound; write 0 or more, such as 5"))),
            None => Ok(Bounds { rate_percent, cpu_points, p50_percent, p99_percent }),
        }
    }
}

impl Default for Bounds {
    /// What a calibrated dry run is held to: 2 % in rate, 5 points in CPU load, 15 % in p50 and 30 % in p99.
    fn default() -> Self {
        Bounds { rate_percent: 2.0, cpu_points: 5.0, p50_percent: 15.0, p99_percent: 30.0 }
    }
}

/// Compares what lies in the folders.
///
/// # Errors
/// As for [`compare`].
pub fn of(simulated: &[PathBuf], emulated: &[PathBuf], bounds: Bounds) -> Result<Comparison> {
    let (simulated, mut notes) = opened(simulated, Engine::Simulate)?;
    let (emulated, more) = opened(emulated, Engine::Emulate)?;
    notes.extend(more);
    difference::check(&simulated[0], &emulated[0])?;
    let sides = [side::of(&simulated)?, side::of(&emulated)?];
    notes.extend(calibration_notes(&simulated));
    notes.extend(side::notes(&sides));
    let (rows, seconds) = judge::all(&sides[0], &sides[1], bounds);
    let judged = rows.iter().filter(|row| row.inside.is_some()).count();
    let outside = rows.iter().filter(|row| row.inside == Some(false)).count();
    if judged == 0 {
        notes.push("nothing could be judged: the two have no measured second or time in common".to_owned());
    }
    Ok(Comparison {
        experiment: emulated[0].manifest.experiment.clone(),
        inside: judged > 0 && outside == 0,
        judged,
        outside,
        bounds,
        simulated: head(&simulated),
        emulated: head(&emulated),
        notes,
        rows,
        seconds,
    })
}

/// The bundles in the folders, which must be of one experiment and one engine, and what is to be said of them.
fn opened(paths: &[PathBuf], engine: Engine) -> Result<(Vec<Bundle>, Vec<String>)> {
    let named = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut groups = open::groups(paths, &[])?.into_iter();
    let first = groups.next().ok_or_else(|| UsageError(format!("{named} holds no results")))?;
    if let Some(other) = groups.next() {
        let why = match (first.experiment == other.experiment, first.engine == other.engine) {
            (_, false) => "results of both engines".to_owned(),
            (false, _) => format!("results of `{}` and of `{}`", first.experiment, other.experiment),
            _ => match difference::keys(&first.repetitions[0], &other.repetitions[0])? {
                keys if keys.is_empty() => "results of files of different names".to_owned(),
                keys => format!("results of different settings ({})", keys.join("; ")),
            },
        };
        return Err(UsageError(format!("{named} holds {why}; name the folder of one run")).into());
    }
    if first.engine != engine {
        let [is, wanted] = [first.engine, engine].map(open::engine_word);
        let text = format!("{named} was {is}, and the {wanted} run is expected here: write the dry run first");
        return Err(UsageError(text).into());
    }
    Ok(whole(first))
}

/// The repetitions of a group, with those of its INVALID parts that are the only ones to have a node: a sender that was late
/// makes its own part INVALID, and what is compared must still have it.
fn whole(group: open::Group) -> (Vec<Bundle>, Vec<String>) {
    let open::Group { mut repetitions, left_out, mut notes, .. } = group;
    let names = |bundle: &Bundle| bundle.summary.groups.iter().map(|group| group.node.clone()).collect::<Vec<String>>();
    let known: Vec<String> = repetitions.iter().flat_map(names).collect();
    for bundle in left_out {
        if let Some(node) = names(&bundle).into_iter().find(|name| !known.contains(name)) {
            notes.push(format!("{} is INVALID, and used all the same: only it has {node}", bundle.path.display()));
            repetitions.push(bundle);
        }
    }
    (repetitions, notes)
}

/// What the bundles of one run came to, node by node.
///
/// # Errors
/// When one of them cannot be read.
pub fn read(folders: &[PathBuf]) -> Result<Side> {
    let bundles: Result<Vec<Bundle>, _> = folders.iter().map(|folder| Bundle::open(folder)).collect();
    side::of(&bundles.map_err(|why| unreadable(&why))?)
}

fn head(bundles: &[Bundle]) -> Head {
    Head {
        engine: open::engine_word(bundles[0].manifest.engine),
        status: bundles.iter().map(|b| b.verdict.verdict.status).max().unwrap_or_default(),
        bundles: bundles.iter().map(|b| b.path.display().to_string()).collect(),
        calibration: bundles[0].summary.calibration.clone(),
    }
}

/// What to say of how the dry run was calibrated, once each.
fn calibration_notes(simulated: &[Bundle]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for reason in simulated.iter().flat_map(|b| &b.verdict.verdict.reasons) {
        let text = match reason.code.word() {
            UNCALIBRATED => format!("the dry run was not calibrated by measurements: {}", printable(&reason.text)),
            "outside_calibration" => format!("the dry run is {}", printable(&reason.text)),
            _ => continue,
        };
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
    notes
}

/// An error of ours in reading a bundle, as one of the user in naming it.
fn unreadable(why: &rehearsal_export::ExportError) -> UsageError {
    UsageError(chain(why))
}
