//! `bench closed`: scenario A as a closed loop against its ceiling, beside the paper's stack.
//!
//! Four cameras with one request in flight each meet an analyzer that pauses 20 ms, so no more than 4 / 20 ms = 200
//! requests a second are possible. What is missing from them is what a request costs on top of the pause: encoding,
//! connections, the ways there and back, and the timers' grain.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use super::figures::Figures;
use super::lab::Lab;
use super::paper::{Paper, Sending};
use super::report::{Goal, Report};
use super::subject;

/// Cameras, each with one request in flight.
const CAMERAS: u32 = 4;
/// The analyzer's pause.
const PAUSE: Duration = Duration::from_millis(20);
/// Share of the ceiling that is aimed at.
const GOAL_OF_CEILING: f64 = 0.97;
/// What a run may take longer than its traffic; the first one prepares the clip.
const RUN_EXTRA: Duration = Duration::from_secs(120);
/// Mean size of a frame in PL-5G, bytes.
const FRAME_BYTES: u32 = 150_000;

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of traffic of each sender in each round, one of them to warm up
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
}

/// Rates of each round, requests per second.
#[derive(Default)]
struct Rates {
    kept: Vec<f64>,
    fresh: Vec<f64>,
    paper: Vec<f64>,
    verdicts: Vec<String>,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
    let paper = Paper::prepare(&lab);
    let mut rates = Rates::default();
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        let kept = ours(&mut lab, "keep-alive", options, &mut rates.verdicts)?;
        rates.kept.push(kept);
        let fresh = ours(&mut lab, "per-request", options, &mut rates.verdicts)?;
        rates.fresh.push(fresh);
        if let Ok(paper) = &paper {
            rates.paper.push(theirs(&mut lab, paper, options)?);
        }
    }
    let ceiling = f64::from(CAMERAS) / PAUSE.as_secs_f64();
    let mut report = Report::new("closed");
    let (kept, fresh) = (Figures::of(rates.kept), Figures::of(rates.fresh));
    report.row("kept_rate", "rehearsal, connections kept", &kept, "requests/s", None);
    report.row("fresh_rate", "rehearsal, a connection each", &fresh, "requests/s", None);
    let goal = Some(Goal::AtLeast(GOAL_OF_CEILING));
    report.row("kept_over_ceiling", "connections kept / ceiling of 200/s", &kept.times(1.0 / ceiling), "", goal);
    report.row("fresh_over_ceiling", "a connection each / ceiling of 200/s", &fresh.times(1.0 / ceiling), "", goal);
    match paper {
        Ok(paper) => {
            let theirs = Figures::of(rates.paper);
            report.row("paper_rate", "paper's stack, a connection each", &theirs, "requests/s", None);
            report.row("fresh_over_paper", "rehearsal / paper's stack", &fresh.over(&theirs), "", None);
            report.note(format!("paper's stack: {}, 150 kB that are no picture", paper.versions));
        }
        Err(why) => report.note(format!("missing: the paper's stack (Flask, requests): {why:#}")),
    }
    rates.verdicts.dedup();
    report.note(format!("verdicts of our runs: {}", rates.verdicts.join(", ")));
    report.note("nothing is pinned here: both ends share all cores");
    report.finish(&lab)
}

fn ours(lab: &mut Lab, connection: &str, options: &Options, verdicts: &mut Vec<String>) -> Result<f64> {
    let name = format!("closed-{connection}");
    let clip = lab.root.join("configs/media/reference.mp4");
    let text = experiment(&clip.to_string_lossy(), connection, options.seconds);
    let file = subject::experiment(lab, &name, &text)?;
    let mut command = subject::command(lab, &name, "emulate", &file, None)?;
    let run = subject::run(lab, &name, &mut command, Duration::from_secs(options.seconds) + RUN_EXTRA)?;
    verdicts.push(run.judged());
    Ok(run.number("/total/per_second/success"))
}

fn theirs(lab: &mut Lab, paper: &Paper, options: &Options) -> Result<f64> {
    let (_receiver, to) = paper.receiver(lab, PAUSE, None)?;
    let is = Sending {
        bytes: FRAME_BYTES,
        media_type: "application/octet-stream",
        seconds: options.seconds,
        processes: CAMERAS,
        core: None,
    };
    let (sent, _) = paper.send(lab, to, &is)?;
    ensure!(sent.failed == 0, "{} of the paper's requests failed", sent.failed);
    Ok(sent.requests as f64 / sent.seconds)
}

fn experiment(clip: &str, connection: &str, seconds: u64) -> String {
    let pause = PAUSE.as_millis();
    format!(
        r#"# Scenario A as a closed loop: four cameras, one request in flight each, a pause of {pause} ms.
[experiment]
name = "bench-closed"
duration = "{seconds}s"
warmup = "1s"

[nodes.camera]
count = {CAMERAS}

[nodes.camera.actors.main]
kind = "camera"
to = "receiver/main"
in_flight = 1
media = "{clip}"
frame = "100kB..200kB"
encode = "prepared"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 16
analyzer = {{ pause = "{pause}ms" }}

[links.default]
carrier = "http1"
connection = "{connection}"
"#
    )
}
