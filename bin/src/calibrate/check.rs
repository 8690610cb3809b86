//! `rehearsal calibrate --check FILE`: dry runs with a calibration beside real runs, at loads and shapes that it was not
//! made from. Every try is told; a point is judged by the median errors of the tries that passed the gate.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use rehearsal_core::Span;
use rehearsal_core::calibration::Calibration;
use rehearsal_scenario::load_calibration;
use serde::Serialize;

use super::fit::median;
use super::gate::{Contention, Gate};
use super::room;
use super::runner::Runner;
use crate::cli::{Calibrate, Format};
use crate::compare::{self, Bounds, Comparison, OUTSIDE};
use crate::exit::UsageError;
use crate::report::print;

mod page;
mod points;

use points::{Kind, Point};

/// Tries of a point that must pass the gate.
const WANTED: usize = 3;
/// Largest error of the rate beyond the most that a host can take, %: where the knee is.
const KNEE_PERCENT: f64 = 10.0;

/// What came of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The calibration, in words.
    pub calibration: String,
    /// The gate.
    pub gate: Gate,
    /// What errors are held to.
    pub bounds: Bounds,
    /// The same for the rate at overload, %.
    pub knee_percent: f64,
    /// Point by point.
    pub points: Vec<Outcome>,
}

/// What came of one point.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The shape, how it is connected, and the load.
    pub point: String,
    /// Exchanges per second that came due.
    pub offered: f64,
    /// `inside`, `outside`, or `not shown`.
    pub verdict: &'static str,
    /// Tries that passed the gate.
    pub passed: usize,
    /// Median errors of these.
    pub errors: Errors,
    /// Every try.
    pub tries: Vec<Tried>,
}

/// One real run beside the dry run of the same file.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// What else the host did.
    pub contention: Contention,
    /// Why the gate does not let it pass; empty if it does.
    pub objections: Vec<String>,
    /// How far off the dry run is.
    pub errors: Errors,
}

/// Errors of a dry run; `None` where one side does not know. Positive: the dry run has more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Rate at the receiver, %.
    pub rate_percent: Option<f64>,
    /// CPU load of the receiver, points.
    pub receiver_cpu_points: Option<f64>,
    /// CPU load of the sender, points.
    pub sender_cpu_points: Option<f64>,
    /// Median of the time since a request left, %.
    pub service_p50_percent: Option<f64>,
    /// 99th percentile of the same.
    pub service_p99_percent: Option<f64>,
    /// Median of the time since a request was due, which has the lag of a real generator in it, %.
    pub response_p50_percent: Option<f64>,
    /// 99th percentile of the same.
    pub response_p99_percent: Option<f64>,
}

impl Errors {
    /// Those of a comparison.
    pub fn of(comparison: &Comparison) -> Self {
        let find = |node: &str, figure: &str| {
            comparison.rows.iter().find(|row| row.node == node && row.figure == figure).and_then(|row| row.error)
        };
        Errors {
            rate_percent: find("receiver", "rate"),
            receiver_cpu_points: find("receiver", "cpu"),
            sender_cpu_points: find("sender", "cpu"),
            service_p50_percent: find("sender", "service p50"),
            service_p99_percent: find("sender", "service p99"),
            response_p50_percent: find("sender", "response p50"),
            response_p99_percent: find("sender", "response p99"),
        }
    }

    /// The medians of several.
    pub fn medians<'a>(all: impl Iterator<Item = &'a Errors> + Clone) -> Self {
        let of = |of: fn(&Errors) -> Option<f64>| median(&all.clone().filter_map(of).collect::<Vec<_>>());
        Errors {
            rate_percent: of(|e| e.rate_percent),
            receiver_cpu_points: of(|e| e.receiver_cpu_points),
            sender_cpu_points: of(|e| e.sender_cpu_points),
            service_p50_percent: of(|e| e.service_p50_percent),
            service_p99_percent: of(|e| e.service_p99_percent),
            response_p50_percent: of(|e| e.response_p50_percent),
            response_p99_percent: of(|e| e.response_p99_percent),
        }
    }

    /// Whether all that a point of this kind is judged by is known and inside. A point beyond the knee is judged by its rate
    /// alone: its times are those of a queue that fills up.
    pub fn inside(&self, kind: Kind, bounds: Bounds) -> bool {
        let within = |error: Option<f64>, bound: f64| error.is_some_and(|error| error.abs() <= bound);
        match kind {
            Kind::Knee => within(self.rate_percent, KNEE_PERCENT),
            Kind::Load => {
                let [cpu, p50, p99] = [bounds.cpu_points, bounds.p50_percent, bounds.p99_percent];
                within(self.rate_percent, bounds.rate_percent)
                    && within(self.receiver_cpu_points, cpu)
                    && within(self.sender_cpu_points, cpu)
                    && [self.service_p50_percent, self.response_p50_percent].into_iter().all(|e| within(e, p50))
                    && [self.service_p99_percent, self.response_p99_percent].into_iter().all(|e| within(e, p99))
            }
        }
    }
}

impl Outcome {
    /// Judges a point by its tries.
    pub fn of(point: &Point, tries: Vec<Tried>, bounds: Bounds) -> Self {
        let passed = || tries.iter().filter(|tried| tried.objections.is_empty()).map(|tried| &tried.errors);
        let (errors, count) = (Errors::medians(passed()), passed().count());
        let verdict = match count {
            0 => "not shown",
            _ if errors.inside(point.kind, bounds) => "inside",
            _ => "outside",
        };
        Outcome { point: point.name.clone(), offered: point.offered(), verdict, passed: count, errors, tries }
    }
}

/// Runs a check.
///
/// # Errors
/// When the calibration cannot be read, or a run fails.
pub fn check(args: &Calibrate, file: &Path) -> Result<ExitCode> {
    let calibration = load_calibration(file)?;
    let within: Span = args.within.parse().map_err(|why| UsageError(format!("--within: {why}")))?;
    let end = Instant::now() + within.to_std();
    let points: Vec<Point> =
        points::of(&calibration, args.quick).into_iter().filter(|point| wanted(args, point)).collect();
    if points.is_empty() {
        let text = "has no costs of http1, or no point of that name";
        return Err(UsageError(format!("{} {text}", file.display())).into());
    }
    let room = room()?;
    let mut runner = Runner::within(room.path())?;
    let mut tried: Vec<Vec<Tried>> = points.iter().map(|_| Vec::new()).collect();
    // round after round, so that little time is shared by all points
    for _ in 0..args.tries {
        for (point, tries) in points.iter().zip(&mut tried) {
            let passed = tries.iter().filter(|tried| tried.objections.is_empty()).count();
            let lasts = Duration::from_secs(point.shape.seconds.into());
            if passed < WANTED && Instant::now() + lasts < end {
                tries.push(once(args, &mut runner, point, file, tries.len())?);
            }
        }
    }
    let outcomes = points.iter().zip(tried).map(|(point, tries)| Outcome::of(point, tries, Bounds::default()));
    let check = told(&calibration, outcomes.collect());
    match args.format {
        Format::Text => print(&page::text(&check))?,
        Format::Json => print(&serde_json::to_string_pretty(&check)?)?,
    }
    let bad = check.points.iter().any(|point| point.verdict == "outside");
    let shown = check.points.iter().any(|point| point.verdict != "not shown");
    Ok(if shown && !bad { ExitCode::SUCCESS } else { ExitCode::from(OUTSIDE) })
}

fn told(calibration: &Calibration, points: Vec<Outcome>) -> Check {
    let (gate, bounds) = (Gate::FIXED, Bounds::default());
    Check { calibration: calibration.title(), gate, bounds, knee_percent: KNEE_PERCENT, points }
}

fn wanted(args: &Calibrate, point: &Point) -> bool {
    args.point.is_empty() || args.point.iter().any(|name| point.name.starts_with(name.as_str()))
}

/// A real run of a point beside its dry run. The port is part of the file, so each real run has a dry run of its own.
fn once(args: &Calibrate, runner: &mut Runner, point: &Point, calibration: &Path, before: usize) -> Result<Tried> {
    let real = runner.emulate("check", &point.shape, false)?;
    let dry = runner.simulate(&real.file, calibration)?;
    let comparison = compare::of(&[dry], &real.bundles, Bounds::default())?;
    let objections = Gate::FIXED.objections(&real.contention);
    if !args.quiet {
        let verdict = if objections.is_empty() { "passed".to_owned() } else { objections.join("; ") };
        eprintln!("{}: try {}: {verdict}", point.name, before + 1);
    }
    Ok(Tried { contention: real.contention, objections, errors: Errors::of(&comparison) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(rate: f64, p99: f64) -> Errors {
        let near = Some(1.0);
        Errors {
            rate_percent: Some(rate),
            receiver_cpu_points: near,
            sender_cpu_points: near,
            service_p50_percent: near,
            service_p99_percent: Some(p99),
            response_p50_percent: near,
            response_p99_percent: near,
        }
    }

    fn point(kind: Kind) -> Point {
        let shape = points::of(&crate::calibrate::check::points::tests::calibration(), true).remove(0).shape;
        Point { name: "p".to_owned(), kind, shape }
    }

    fn tried(errors: Errors, passes: bool) -> Tried {
        let objections = if passes { Vec::new() } else { vec!["busy".to_owned()] };
        Tried { contention: Contention::default(), objections, errors }
    }

    #[test]
    fn a_point_without_a_try_through_the_gate_is_not_shown() {
        let bounds = Bounds::default();
        let failed = vec![tried(errors(0.0, 0.0), false); 20];
        let outcome = Outcome::of(&point(Kind::Load), failed, bounds);
        assert_eq!((outcome.verdict, outcome.passed, outcome.tries.len()), ("not shown", 0, 20));
        assert_eq!(outcome.errors, Errors::default());
        assert_eq!(Outcome::of(&point(Kind::Load), Vec::new(), bounds).verdict, "not shown");
    }

    #[test]
    fn medians_are_of_the_tries_that_passed() {
        let tries = vec![
            tried(errors(1.0, 10.0), true),
            tried(errors(90.0, 90.0), false),
            tried(errors(1.5, 20.0), true),
            tried(errors(-9.0, 29.0), true),
        ];
        let outcome = Outcome::of(&point(Kind::Load), tries, Bounds::default());
        assert_eq!((outcome.errors.rate_percent, outcome.errors.service_p99_percent), (Some(1.0), Some(20.0)));
        assert_eq!((outcome.verdict, outcome.passed), ("inside", 3));
    }

    #[test]
    fn each_error_can_put_a_point_outside_and_an_unknown_one_too() {
        let bounds = Bounds::default();
        assert!(errors(2.0, 30.0).inside(Kind::Load, bounds));
        assert!(!errors(2.1, 30.0).inside(Kind::Load, bounds));
        assert!(!errors(2.0, -30.1).inside(Kind::Load, bounds));
        assert!(!Errors { sender_cpu_points: None, ..errors(0.0, 0.0) }.inside(Kind::Load, bounds));
        assert!(!Errors { receiver_cpu_points: Some(-5.1), ..errors(0.0, 0.0) }.inside(Kind::Load, bounds));
        // beyond the knee only the rate counts, by a wider bound
        assert!(errors(9.9, 900.0).inside(Kind::Knee, bounds));
        assert!(!errors(-10.1, 0.0).inside(Kind::Knee, bounds));
    }
}
