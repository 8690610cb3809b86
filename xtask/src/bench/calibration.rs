//! `bench calibration`: this host is calibrated, and dry runs with what was measured are held against real runs at loads and
//! shapes that it was not measured at.
//!
//! The program does both (`rehearsal calibrate`, and the same with `--check`); here its answer becomes a table. Every try
//! is told, those that the gate did not let pass among them; a point without one that passed is not shown.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use super::figures::{Figures, plain};
use super::lab::Lab;
use super::report::{Goal, Report};

/// Longest calibration: each of its points has at most six tries of some seconds.
const CALIBRATE_MAX: Duration = Duration::from_secs(3600);
/// What a check may take longer than it is told to.
const CHECK_EXTRA: Duration = Duration::from_secs(600);
/// It passed; a point is outside of its bounds.
const OVER: [i32; 2] = [0, 10];

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Tries of a point, at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// Minutes that the check may take; points that are left are told as not tried
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Fewer and shorter tries of the calibration
    #[arg(long)]
    quick: bool,
    /// Use this calibration of this host instead of making one
    #[arg(long, value_name = "FILE")]
    calibration: Option<std::path::PathBuf>,
    /// Only points whose name begins so (repeatable)
    #[arg(long, value_name = "NAME")]
    point: Vec<String>,
}

/// The errors of a point: their key, what they are called, their unit, and the bound's key.
const ERRORS: [(&str, &str, &str, &str); 7] = [
    ("rate_percent", "rate", "%", "rate_percent"),
    ("receiver_cpu_points", "CPU of the receiver", "points", "cpu_points"),
    ("sender_cpu_points", "CPU of the sender", "points", "cpu_points"),
    ("service_p50_percent", "service p50", "%", "p50_percent"),
    ("service_p99_percent", "service p99", "%", "p99_percent"),
    ("response_p50_percent", "response p50", "%", "p50_percent"),
    ("response_p99_percent", "response p99", "%", "p99_percent"),
];

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
    let file = match &options.calibration {
        Some(file) => file.clone(),
        None => calibrate(&mut lab, options.quick)?,
    };
    let check = check(&mut lab, options, &file)?;
    let mut report = Report::new("calibration");
    let said = check["calibration"].as_str().unwrap_or("unknown");
    report.note(format!("errors of dry runs with {said} against real runs, medians of tries that passed the gate"));
    let points = check["points"].as_array().context("a check has points")?;
    for point in points {
        rows(&mut report, &check, point);
    }
    let of = |verdict: &str| points.iter().filter(|point| point["verdict"] == verdict).count();
    let (inside, outside, hidden) = (of("inside"), of("outside"), of("not shown"));
    report.note(format!("{} points: {inside} inside, {outside} outside, {hidden} not shown", points.len()));
    for point in points {
        tries(&mut report, point);
    }
    report.attach("check", check.clone());
    report.finish(&lab)
}

/// Makes the calibration of this host anew.
fn calibrate(lab: &mut Lab, quick: bool) -> Result<std::path::PathBuf> {
    let file = lab.folder.join("calibration.toml");
    if file.exists() {
        fs::remove_file(&file)?;
    }
    eprintln!("calibrating; its tries are in {}", lab.folder.join("calibrate.log").display());
    let mut command = lab.command(lab.rehearsal(), None);
    command.arg("calibrate").arg("--out").arg(&file);
    if quick {
        command.arg("--quick");
    }
    lab.start("calibrate", &mut command)?.finish(CALIBRATE_MAX, &[0])?;
    Ok(file)
}

fn check(lab: &mut Lab, options: &Options, file: &std::path::Path) -> Result<Value> {
    eprintln!("checking; its tries are in {}", lab.folder.join("check.log").display());
    let mut command = lab.command(lab.rehearsal(), None);
    command.args(["calibrate", "--format", "json", "--check"]).arg(file);
    command.arg("--tries").arg(options.tries.to_string());
    command.arg("--within").arg(format!("{}min", options.minutes));
    for name in &options.point {
        command.arg("--point").arg(name);
    }
    let within = Duration::from_secs(options.minutes * 60) + CHECK_EXTRA;
    let done = lab.start("check", &mut command)?.finish(within, &OVER)?;
    serde_json::from_str(&done.stdout).context("what a check prints is JSON")
}

/// A row for each error that is known, against its bound.
fn rows(report: &mut Report, check: &Value, point: &Value) {
    let name = point["point"].as_str().unwrap_or_default();
    let tries = point["tries"].as_array().map_or(&[][..], Vec::as_slice);
    let passed: Vec<&Value> = tries.iter().filter(|tried| passes(tried)).collect();
    if passed.is_empty() {
        report.note(format!("not shown: {name}, none of {} tries passed the gate", tries.len()));
        return;
    }
    let overload = name.ends_with("overload");
    for (key, what, unit, bound) in ERRORS {
        let known: Vec<f64> = passed.iter().filter_map(|tried| tried["errors"][key].as_f64()).collect();
        // beyond the knee the times are those of a queue that fills up
        if known.is_empty() || (overload && key != "rate_percent") {
            continue;
        }
        let bound = if overload { &check["knee_percent"] } else { &check["bounds"][bound] };
        let errors = Figures::of(known.iter().map(|error| error.abs()));
        let signed = Figures::of(known).median;
        let label = format!("{name}: {what}, {}{}", if signed < 0.0 { "" } else { "+" }, plain(signed));
        let goal = bound.as_f64().map(Goal::AtMost);
        report.row(&format!("{name}/{key}"), &label, &errors, unit, goal);
    }
}

fn passes(tried: &Value) -> bool {
    tried["objections"].as_array().is_some_and(Vec::is_empty)
}

/// Every try in a line.
fn tries(report: &mut Report, point: &Value) {
    let name = point["point"].as_str().unwrap_or_default();
    for (number, tried) in (1..).zip(point["tries"].as_array().into_iter().flatten()) {
        let objections = tried["objections"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let verdict = match passes(tried) {
            true => "passed".to_owned(),
            false => format!("failed the gate: {}", objections.collect::<Vec<_>>().join("; ")),
        };
        let errors = ERRORS.iter().map(|(key, what, unit, _)| {
            tried["errors"][key]
                .as_f64()
                .map_or_else(|| format!("{what} ?"), |error| format!("{what} {error:+.1} {unit}"))
        });
        report.note(format!("{name}, try {number}: {}; {verdict}", errors.collect::<Vec<_>>().join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn point(name: &str, rate: f64, objections: &[&str]) -> Value {
        json!({ "point": name, "tries": [{ "objections": objections, "errors": { "rate_percent": rate } }] })
    }

    fn reported(point: &Value) -> Report {
        let check = json!({ "knee_percent": 10.0, "bounds": { "rate_percent": 2.0 } });
        let mut report = Report::new("test");
        rows(&mut report, &check, point);
        report
    }

    #[test]
    fn a_point_is_held_against_its_bound_and_a_failed_try_is_not() {
        let report = reported(&point("a, 30 %", -3.0, &[]));
        assert_eq!(report.json()["a, 30 %/rate_percent"]["met"], false);
        assert_eq!(report.json()["a, 30 %/rate_percent"]["figures"]["median"], 3.0);
        assert_eq!(reported(&point("a, overload", -3.0, &[])).json()["a, overload/rate_percent"]["met"], true);
        assert!(reported(&point("a, 30 %", -3.0, &["busy"])).json().is_empty());
    }
}
