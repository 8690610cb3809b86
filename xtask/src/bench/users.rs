//! `bench users`: GenSyn's figure 14, with as many users as one core takes.
//!
//! Telephone users of 0.03 erlang send datagrams from a thousand source ports, from one core, to a receiver on the other, which
//! counts what arrives. Users are swept until less than 98 % of what they offer arrives: offered is what the model has in the
//! long run, so that a generator that cannot keep up is seen. Beside it D-ITG sends as many flows of its VoIP mode from as many
//! ports. A third part tells what a user costs while it rests, and a fourth lets a million web users pass ten minutes of
//! virtual time.

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

/// Source ports of the senders.
const PORTS: u32 = 1000;
/// Load of one user, erlang. Source: GenSyn's knees.
const ERLANG: f64 = 0.03;
/// Less of what is offered is saturation.
const ACHIEVED_SHARE: f64 = 0.98;
/// Steps of a sweep, as shares of the goal.
const STEPS: [f64; 6] = [0.125, 0.25, 0.5, 0.75, 1.0, 1.25];
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
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Voice, Part::Small, Part::Ditg, Part::Memory, Part::Web])]
    parts: Vec<Part>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// 100 B every 100 ms
    Voice,
    /// 10 B every 10 ms
    Small,
    /// D-ITG's VoIP mode
    Ditg,
    /// Memory of a user who rests
    Memory,
    /// A million web users in virtual time
    Web,
}

/// A kind of voice, and how many packets a second are aimed at.
struct Voice {
    key: &'static str,
    bytes: u32,
    every_ms: u32,
    goal: f64,
    /// GenSyn's knee, packets/s and users.
    gensyn: (u32, u32),
}

const VOICES: [(Part, Voice); 2] = [
    (Part::Voice, Voice { key: "voice", bytes: 100, every_ms: 100, goal: 300_000.0, gensyn: (2400, 8000) }),
    (Part::Small, Voice { key: "small", bytes: 10, every_ms: 10, goal: 500_000.0, gensyn: (8500, 3000) }),
];

/// One step of a sweep.
#[derive(Clone, Copy, Debug)]
struct Step {
    users: f64,
    offered: f64,
    sent: f64,
    arrived: f64,
    cpu_us: f64,
    receiver_us: f64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::bare()?;
    let root = lab.root.clone();
    lab.cargo("build-release", &root, &["-p", "rehearsal", "--bin", "rehearsal"])?;
    let mut report = Report::new("users");
    let wanted = |part| options.parts.contains(&part);
    for (part, voice) in &VOICES {
        if wanted(*part) {
            sweep(&mut lab, &mut report, options, voice)?;
        }
    }
    if wanted(Part::Ditg) {
        ditg::run(&mut lab, &mut report, options)?;
    }
    if wanted(Part::Memory) {
        memory(&mut lab, &mut report)?;
    }
    if wanted(Part::Web) {
        web(&mut lab, &mut report, options.rounds)?;
    }
    report.finish(&lab)
}

impl Voice {
    /// Packets a second that one user offers in the mean.
    fn rate(&self) -> f64 {
        ERLANG * 1000.0 / f64::from(self.every_ms)
    }
}

fn sweep(lab: &mut Lab, report: &mut Report, options: &Options, voice: &Voice) -> Result<()> {
    let (mut knees, mut users, mut costs, mut receiving) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for round in 0..options.rounds {
        let mut best: Option<Step> = None;
        for share in STEPS {
            let many = (voice.goal * share / voice.rate()).round();
            eprintln!("{}: round {} of {}, {} users", voice.key, round + 1, options.rounds, plain(many));
            let step = step(lab, options, voice, many as u32)?;
            rows.push(json!({
                "round": round + 1, "users": step.users, "offered": step.offered, "sent": step.sent,
                "arrived": step.arrived, "cpu_us_per_packet": step.cpu_us, "receiver_us_per_packet": step.receiver_us,
            }));
            if step.arrived < ACHIEVED_SHARE * step.offered {
                break;
            }
            best = Some(step);
        }
        let best = best.context("the least load is too much already")?;
        knees.push(best.arrived);
        users.push(best.users);
        costs.push(best.cpu_us);
        receiving.push(best.receiver_us);
    }
    let Voice { key, bytes, every_ms, goal, gensyn } = voice;
    let label = format!("{bytes} B every {every_ms} ms, arrived");
    report.row(
        &format!("{key}_arrived"),
        &label,
        &Figures::of(knees),
        "packets/s",
        Some(Goal::AtLeast(goal * ACHIEVED_SHARE)),
    );
    report.row(&format!("{key}_users"), "", &Figures::of(users), "users", None);
    report.row(&format!("{key}_cpu"), "", &Figures::of(costs), "µs of the sender's CPU for each packet", None);
    report.row(&format!("{key}_receiver_cpu"), "", &Figures::of(receiving), "µs of the receiver's", None);
    report.attach(&format!("{key}_steps"), Value::Array(rows));
    report.note(format!(
        "{bytes} B every {every_ms} ms: the largest step at which 98 % arrive; steps end at {} packets/s; GenSyn's knee: {} packets/s \
         of {} users, on a machine of 2001",
        plain(goal * STEPS[STEPS.len() - 1]),
        plain(f64::from(gensyn.0)),
        plain(f64::from(gensyn.1))
    ));
    Ok(())
}

fn step(lab: &mut Lab, options: &Options, voice: &Voice, users: u32) -> Result<Step> {
    let listen = free_address()?;
    let text = experiment(voice, users, options.seconds, &listen.to_string());
    let file = subject::experiment(lab, "users-voice", &text)?;
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
    Ok(Step {
        users: f64::from(users),
        offered: f64::from(users) * voice.rate(),
        sent: packets / seconds,
        arrived: arrived / seconds,
        cpu_us: sent.cpu_seconds / packets * 1e6,
        receiver_us: received.cpu_seconds / arrived.max(1.0) * 1e6,
    })
}

/// Users of 0.03 erlang without silence suppression, whose calls end as GenSyn's do.
fn experiment(voice: &Voice, users: u32, seconds: u64, listen: &str) -> String {
    let Voice { bytes, every_ms, .. } = voice;
    format!(
        r#"# Telephone users: three minutes of each hundred in a call.
[experiment]
name = "bench-users"
duration = "{seconds}s"

[nodes.phones.actors.main]
kind = "population"
to = "exchange/main"
users = {users}
ports = {PORTS}

[nodes.phones.actors.main.diagram.states]
idle = {{ stay = {{ dist = "exponential", mean = "97min" }}, to = {{ call = 1 }} }}
call = {{ module = "voice", to = {{ idle = 1 }} }}

[nodes.phones.actors.main.diagram.modules.voice]
kind = "cbr"
bytes = "{bytes}B"
every = "{every_ms}ms"
lasts = {{ dist = "exponential", mean = "180s" }}

[nodes.exchange.actors.main]
kind = "receiver"
listen = "{listen}"

[links.default]
carrier = "udp"
"#
    )
}

/// What a million users who rest take, beyond what a thousand do.
fn memory(lab: &mut Lab, report: &mut Report) -> Result<()> {
    let voice = &VOICES[0].1;
    let mut peak = |users: u32| -> Result<f64> {
        let text = experiment(voice, users, 2, "127.0.0.1:0").replace("97min", "30000h");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_of_the_users_that_they_are_told_for() {
        let [(_, voice), (_, small)] = &VOICES;
        // a million users of 0.03 erlang at ten packets a second
        assert_eq!((voice.goal / voice.rate()).round(), 1e6);
        assert!((small.rate() - 3.0).abs() < 1e-9);
        let text = experiment(voice, 1_000_000, 5, "127.0.0.1:9");
        assert!(text.contains("users = 1000000\nports = 1000") && text.contains("every = \"100ms\""), "{text}");
    }
}
