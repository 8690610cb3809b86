//! `bench sim`: how fast virtual time passes.
//!
//! Three parts. `engine`: the engine alone beside peers ([`super::crowd`]). `program`: the drones of
//! `configs/uav-control.toml` for a minute, by the clock on the wall, and 1,000 sensors at ten readings a second for a minute,
//! in events per CPU second; start-up, telemetry and the bundle are in both. `campaign`: the nine experiments of the paper
//! with all their repetitions, on all cores.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::figures::{Figures, plain};
use super::lab::{Lab, SENDER_CORE};
use super::report::{Goal, Report};
use super::subject::{self, Outcome};

/// Simulated time.
const SIMULATED_SECONDS: u32 = 60;
/// Sensors in the crowd.
const SENSORS: u32 = 1000;
/// Readings per second of each.
const RATE: u32 = 10;
/// Events per CPU second that are aimed at, in millions.
const GOAL_EVENTS: f64 = 2.0;
/// Rounds of the engine beside its peers: the largest take ten seconds each.
const PEER_ROUNDS_MAX: u32 = 3;
/// Seconds that a whole campaign may take, on two cores.
const GOAL_CAMPAIGN_SECONDS: f64 = 120.0;
/// Longest run of one experiment of the campaign.
const CAMPAIGN_MAX: Duration = Duration::from_secs(600);
/// Longest run; the first one prepares the clip.
const RUN_MAX: Duration = Duration::from_secs(180);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Rounds of each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Engine, Part::Program, Part::Campaign])]
    parts: Vec<Part>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Engine,
    Program,
    Campaign,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::bare()?;
    let mut report = Report::new("sim");
    let wanted = |part| options.parts.contains(&part);
    if wanted(Part::Program) || wanted(Part::Campaign) {
        let root = lab.root.clone();
        lab.cargo("build-release", &root, &["-p", "rehearsal", "--bin", "rehearsal"])?;
    }
    if wanted(Part::Engine) {
        super::crowd::measure(&mut lab, options.rounds.min(PEER_ROUNDS_MAX), &mut report)?;
    }
    if wanted(Part::Program) {
        program(&mut lab, options.rounds, &mut report)?;
    }
    if wanted(Part::Campaign) {
        campaign(&mut lab, &mut report)?;
    }
    report.finish(&lab)
}

/// Two experiments with all that belongs to a run.
fn program(lab: &mut Lab, rounds: u32, report: &mut Report) -> Result<()> {
    let crowd = subject::experiment(lab, "sim-crowd", &experiment())?;
    let drones = lab.root.join("configs/uav-control.toml");
    // once for the clip's frames
    simulate(lab, "sim-drones", &drones)?;
    let (mut walls, mut runs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        walls.push(simulate(lab, "sim-drones", &drones)?.wall_seconds);
        runs.push(simulate(lab, "sim-crowd", &crowd)?);
    }
    let walls = Figures::of(walls);
    report.row("drones_wall_seconds", "four drones for 60 s", &walls, "s", None);
    let faster = Figures::of(walls.rounds.iter().map(|wall| f64::from(SIMULATED_SECONDS) / wall));
    report.row("drones_times_real_time", "times faster than real", &faster, "", None);
    let each = |of: fn(&Outcome) -> f64| Figures::of(runs.iter().map(of));
    report.row("crowd_wall_seconds", "1,000 sensors for 60 s", &each(|r| r.wall_seconds), "s", None);
    report.row("crowd_cpu_seconds", "1,000 sensors for 60 s", &each(|r| r.cpu_seconds), "CPU s", None);
    let exchanges = each(|r| r.number("/total/totals/generated") / r.cpu_seconds / 1e6);
    report.row("crowd_exchanges", "exchanges", &exchanges, "million/CPU s", None);
    let events = each(|r| r.number("/events") / r.cpu_seconds / 1e6);
    report.row("crowd_events", "events", &events, "million/CPU s", Some(Goal::AtLeast(GOAL_EVENTS)));
    let each_exchange = each(|r| r.number("/events") / r.number("/total/totals/generated"));
    report.row("crowd_events_per_exchange", "events of an exchange", &each_exchange, "", None);
    let mut prints: Vec<_> = runs.iter().map(|run| run.summary["fingerprint"].to_string()).collect();
    prints.dedup();
    ensure!(prints.len() == 1, "the same experiment gave different fingerprints: {}", prints.join(", "));
    let generated = runs.first().map_or(0.0, |run| run.number("/total/totals/generated"));
    report.note(format!("{} exchanges in each round, fingerprint {}", plain(generated), prints[0]));
    Ok(())
}

/// The nine experiments of PL-5G with ten repetitions each, one experiment after the other, each on all cores.
fn campaign(lab: &mut Lab, report: &mut Report) -> Result<()> {
    let (mut seconds, mut cpu) = (0.0, 0.0);
    for name in ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"] {
        eprintln!("campaign: {name}");
        let file = lab.root.join("configs/pl5g").join(name).with_extension("toml");
        let mut command = subject::command(lab, &format!("campaign-{name}"), "simulate", &file, None)?;
        command.args(["--repetitions", "10"]);
        let done = lab.start(&format!("campaign-{name}"), &mut command)?.finish(CAMPAIGN_MAX, &[0, 10, 20])?;
        (seconds, cpu) = (seconds + done.wall_seconds, cpu + done.cpu_seconds);
    }
    let goal = Some(Goal::AtMost(GOAL_CAMPAIGN_SECONDS));
    report.row("campaign_wall_seconds", "PL-5G, nine experiments, ten times", &Figures::of([seconds]), "s", goal);
    report.row("campaign_cpu_seconds", "", &Figures::of([cpu]), "CPU s", None);
    Ok(())
}

fn simulate(lab: &mut Lab, name: &str, file: &std::path::Path) -> Result<Outcome> {
    let mut command = subject::command(lab, name, "simulate", file, Some(SENDER_CORE))?;
    command.arg("--duration").arg(format!("{SIMULATED_SECONDS}s"));
    subject::run(lab, name, &mut command, RUN_MAX)
}

fn experiment() -> String {
    format!(
        r#"# A thousand sensors send ten readings a second each to one receiver.
[experiment]
name = "bench-crowd"
duration = "{SIMULATED_SECONDS}s"

[nodes.sensor.actors.main]
kind = "sensor"
count = {SENSORS}
to = "receiver/main"
rate = "{RATE}/s"
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 256
backlog = 1024

[links.default]
carrier = "http1"
connection = "keep-alive"
delay = "1ms"
"#
    )
}
