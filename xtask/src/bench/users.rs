//! `bench users`: GenSyn's figure 14, with as many users as one core takes.
//!
//! Telephone users of 0.03 erlang, and GenSyn's users of constant bit rate and of video, send datagrams from a thousand
//! source ports, from one core, to a receiver on the other, which counts what arrives. Users are swept until less than
//! 98 % of what they offer arrives: offered is what the model has in the long run, so that a generator that cannot keep
//! up is seen. Beside it D-ITG sends as many flows of its VoIP mode from as many ports. Another part tells what a user
//! costs while it rests, and another lets a million web users pass ten minutes of virtual time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::figures::{Figures, plain};
use super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::process::free_address;
use super::report::{Goal, Report};
use super::subject::{self, Outcome};

mod ditg;
mod load;

use load::{LOADS, Load};

/// Source ports of the senders.
const PORTS: u32 = 1000;
/// Less of what is offered is saturation.
const ACHIEVED_SHARE: f64 = 0.98;
/// Steps of a sweep, as shares of the goal.
const STEPS: [f64; 7] = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0];
/// Bytes of a resting user that are aimed at.
const GOAL_BYTES: f64 = 100.0;
/// CPU seconds of a million web users for ten minutes that are aimed at.
const GOAL_CPU_SECONDS: f64 = 60.0;
/// What a run may take longer than its traffic.
const EXTRA: Duration = Duration::from_secs(120);
/// Longest dry run.
const DRY_MAX: Duration = Duration::from_secs(900);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Rounds of each sweep
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of traffic at each step
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = ALL)]
    parts: Vec<Part>,
}

/// Every part.
const ALL: [Part; 7] = [Part::Voice, Part::Small, Part::Cbr, Part::Mpeg, Part::Ditg, Part::Memory, Part::Web];

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// 100 B every 100 ms
    Voice,
    /// 10 B every 10 ms
    Small,
    /// 1024 B every 125 ms
    Cbr,
    /// 2.7 packets of 1024 B every 40 ms
    Mpeg,
    /// D-ITG's VoIP mode
    Ditg,
    /// Memory of a user who rests
    Memory,
    /// A million web users in virtual time
    Web,
}

/// One step of a sweep.
#[derive(Clone, Copy, Debug)]
struct Step {
    users: f64,
    offered: f64,
    sent: f64,
    arrived: f64,
    cpu_us: f64,
    receiver_us: f64,
    /// Behind the schedule, p50 and p99.
    lag_ms: (f64, f64),
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::bare()?;
    let root = lab.root.clone();
    lab.cargo("build-release", &root, &["-p", "rehearsal", "--bin", "rehearsal"])?;
    let mut report = Report::new("users");
    let wanted = |part| options.parts.contains(&part);
    for load in LOADS.iter().filter(|load| wanted(load.part)) {
        sweep(&mut lab, &mut report, options, load)?;
    }
    if wanted(Part::Ditg) {
        // its sender dies of too many flows on some machines: that costs nobody else's figures
        if let Err(why) = ditg::run(&mut lab, &mut report, options) {
            report.note(format!("missing: D-ITG: {why:#}"));
        }
    }
    if wanted(Part::Memory) {
        memory(&mut lab, &mut report)?;
    }
    if wanted(Part::Web) {
        web(&mut lab, &mut report, options.rounds)?;
    }
    report.finish(&lab)
}

fn sweep(lab: &mut Lab, report: &mut Report, options: &Options, load: &Load) -> Result<()> {
    let Load { key, label, top, is_goal, gensyn, .. } = load;
    let rate = load.rate(lab)?;
    let (mut best, mut rows) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let mut last: Option<Step> = None;
        for share in STEPS {
            let many = (top * share / rate).round();
            eprintln!("{key}: round {} of {}, {} users", round + 1, options.rounds, plain(many));
            let step = step(lab, options, load, many as u32, rate)?;
            rows.push(json!({
                "round": round + 1, "users": step.users, "offered": step.offered, "sent": step.sent,
                "arrived": step.arrived, "cpu_us_per_packet": step.cpu_us, "receiver_us_per_packet": step.receiver_us,
                "lag_p50_ms": step.lag_ms.0, "lag_p99_ms": step.lag_ms.1,
            }));
            if step.arrived < ACHIEVED_SHARE * step.offered {
                break;
            }
            last = Some(step);
        }
        best.push(last.context("the least load is too much already")?);
    }
    let each = |of: fn(&Step) -> f64| Figures::of(best.iter().map(of));
    let goal = is_goal.then_some(Goal::AtLeast(top * ACHIEVED_SHARE));
    report.row(&format!("{key}_arrived"), &format!("{label}, arrived"), &each(|s| s.arrived), "packets/s", goal);
    report.row(&format!("{key}_users"), "", &each(|s| s.users), "users", None);
    report.row(&format!("{key}_cpu"), "", &each(|s| s.cpu_us), "µs of the sender's CPU for each packet", None);
    report.row(&format!("{key}_receiver_cpu"), "", &each(|s| s.receiver_us), "µs of the receiver's", None);
    report.row(
        &format!("{key}_lag_p50"),
        "",
        &each(|s| s.lag_ms.0),
        "ms behind the schedule after the first second, p50",
        None,
    );
    report.row(&format!("{key}_lag_p99"), "", &each(|s| s.lag_ms.1), "ms, p99", None);
    report.attach(&format!("{key}_steps"), Value::Array(rows));
    report.note(format!(
        "{label}: the largest step at which 98 % arrive; steps end at {} packets/s; {gensyn}",
        plain(top * STEPS[STEPS.len() - 1]),
    ));
    Ok(())
}

fn step(lab: &mut Lab, options: &Options, load: &Load, users: u32, rate: f64) -> Result<Step> {
    let listen = free_address()?;
    let text = load.experiment(lab, users, options.seconds, &listen.to_string())?;
    let file = subject::experiment(lab, "users-load", &text)?;
    let mut command = subject::command(lab, "users-receiver", "emulate", &file, Some(RECEIVER_CORE))?;
    let receiver = lab.start("users-receiver", command.args(["--only", "exchange", "--duration", "24h"]))?;
    // it has no listener to be tried: datagrams alone
    std::thread::sleep(Duration::from_secs(1));
    let mut command = subject::command(lab, "users-sender", "emulate", &file, Some(SENDER_CORE))?;
    let within = Duration::from_secs(options.seconds) + EXTRA;
    let sent = subject::run(lab, "users-sender", command.args(["--without", "exchange"]), within)?;
    receiver.interrupt()?;
    let received = subject::finish(lab, "users-receiver", receiver, EXTRA)?;
    let seconds = sent.number("/duration_seconds");
    let packets = sent.number("/total/totals/datagrams_sent");
    let arrived = received.number("/total/totals/datagrams_received");
    let lag = |quantile: &str| sent.number(&format!("/total/metrics/lag/{quantile}")) / 1e6;
    Ok(Step {
        users: f64::from(users),
        offered: f64::from(users) * rate,
        sent: packets / seconds,
        arrived: arrived / seconds,
        cpu_us: sent.cpu_seconds / packets * 1e6,
        receiver_us: received.cpu_seconds / arrived.max(1.0) * 1e6,
        lag_ms: (lag("p50_ns"), lag("p99_ns")),
    })
}

/// What a million users who rest take, beyond what a thousand do.
fn memory(lab: &mut Lab, report: &mut Report) -> Result<()> {
    let rests = load::voice(100, 100).replace("97min", "8000h");
    let mut peak = |users: u32| -> Result<f64> {
        let text = load::experiment(users, 2, "127.0.0.1:0", &rests);
        let file = subject::experiment(lab, "users-rest", &text)?;
        let name = format!("users-rest-{users}");
        let mut command = subject::command(lab, &name, "emulate", &file, None)?;
        Ok(subject::run(lab, &name, &mut command, EXTRA)?.peak_bytes)
    };
    let each = (peak(1_000_000)? - peak(1000)?) / 999_000.0;
    let goal = Some(Goal::AtMost(GOAL_BYTES));
    report.row("idle_bytes", "a user who rests, emulated", &Figures::of([each]), "B of highest memory", goal);
    Ok(())
}

/// A million users of GenSyn's web model for ten minutes.
fn web(lab: &mut Lab, report: &mut Report, rounds: u32) -> Result<()> {
    let model = lab.root.join("configs/models/gensyn-web.toml");
    let model = fs::read_to_string(&model).with_context(|| format!("reading {}", model.display()))?;
    let folder = lab.folder.join("users-web-model.toml");
    fs::write(&folder, model)?;
    let file = subject::experiment(lab, "users-web", &web_experiment("users-web-model.toml"))?;
    let mut runs: Vec<Outcome> = Vec::new();
    for round in 0..rounds {
        eprintln!("web: round {} of {rounds}", round + 1);
        runs.push(dry(lab, &file)?);
    }
    let each = |of: fn(&Outcome) -> f64| Figures::of(runs.iter().map(of));
    let goal = Some(Goal::AtMost(GOAL_CPU_SECONDS));
    report.row("web_cpu_seconds", "a million web users for 10 min", &each(|run| run.cpu_seconds), "CPU s", goal);
    report.row("web_requests", "", &each(|run| run.number("/total/totals/success") / 1e6), "million objects", None);
    report.row("web_memory", "", &each(|run| run.peak_bytes / 1e6), "MB", None);
    Ok(())
}

fn dry(lab: &mut Lab, file: &Path) -> Result<Outcome> {
    let mut command = subject::command(lab, "users-web", "simulate", file, Some(SENDER_CORE))?;
    subject::run(lab, "users-web", &mut command, DRY_MAX)
}

fn web_experiment(model: &str) -> String {
    format!(
        r#"# A million web users.
[experiment]
name = "bench-web"
duration = "10min"

[nodes.web.actors.main]
kind = "population"
to = "server/main"
users = 1000000
model = "{model}"
timeout = "20s"

[nodes.server.actors.main]
kind = "receiver"
workers = 10000

[links.default]
connection = "keep-alive"
"#
    )
}
