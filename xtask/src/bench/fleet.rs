//! `bench fleet`: how together nodes on several agents start, and how long it takes a leader to get twenty of them going.
//!
//! All agents run on this machine, each with a node of its own, over one nats-server with JetStream. The start skew is the
//! bundle's: the largest difference between the moments at which nodes began. From the leader's start to the first
//! traffic is at most its whole time but the traffic's, which is what is told.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use super::figures::Figures;
use super::lab::Lab;
use super::process::{Running, free_address};
use super::report::{Goal, Report};
use super::subject;

/// Agents whose starts are compared.
const FEW: u32 = 5;
/// Agents that are scanned and started at once.
const MANY: u32 = 20;
/// Largest start skew aimed at, ms.
const GOAL_OF_SKEW_MS: f64 = 20.0;
/// Longest time aimed at from the leader's start to the first traffic on all of [`MANY`] agents, seconds.
const GOAL_OF_START_SECONDS: f64 = 5.0;
/// Traffic of each run.
const TRAFFIC: Duration = Duration::from_secs(1);
/// What a run may take longer than its traffic.
const RUN_EXTRA: Duration = Duration::from_secs(60);
/// How long agents may take to be found, and between two looks.
const FOUND: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Starts of five agents
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    starts: u32,
    /// Starts of twenty agents
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    scans: u32,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
    let (_server, url) = server(&mut lab)?;
    let mut agents = Vec::new();
    let (mut skews, mut verdicts) = (Vec::new(), Vec::new());
    more(&mut lab, &url, &mut agents, FEW)?;
    for start in 0..options.starts {
        eprintln!("start {} of {} on {FEW} agents", start + 1, options.starts);
        let outcome = once(&mut lab, &url, FEW)?;
        let skew = outcome.summary["start_skew_ns"].as_f64().context("the bundle knows no start skew")?;
        skews.push(skew / 1e6);
        verdicts.push(outcome.judged());
    }
    more(&mut lab, &url, &mut agents, MANY)?;
    let (mut starts, mut many_skews) = (Vec::new(), Vec::new());
    for scan in 0..options.scans {
        eprintln!("start {} of {} on {MANY} agents", scan + 1, options.scans);
        let outcome = once(&mut lab, &url, MANY)?;
        starts.push(outcome.wall_seconds - TRAFFIC.as_secs_f64());
        many_skews.push(outcome.summary["start_skew_ns"].as_f64().unwrap_or(f64::NAN) / 1e6);
        verdicts.push(outcome.judged());
    }
    let (skews, starts) = (Figures::of(skews), Figures::of(starts));
    let (largest, longest) = (Figures::of([skews.max]), Figures::of([starts.max]));
    let mut report = Report::new("fleet");
    report.row("skew", "start skew of 5 agents", &skews, "ms", None);
    report.row("largest_skew", "the largest of them", &largest, "ms", Some(Goal::AtMost(GOAL_OF_SKEW_MS)));
    report.row("start", "all of a run of 20 agents but its traffic", &starts, "s", None);
    report.row("longest_start", "the longest of them", &longest, "s", Some(Goal::AtMost(GOAL_OF_START_SECONDS)));
    report.row("many_skew", "start skew of 20 agents", &Figures::of(many_skews), "ms", None);
    verdicts.sort();
    verdicts.dedup();
    report.note(format!("verdicts: {}", verdicts.join(", ")));
    report.note("all agents and their nodes share this machine's cores");
    report.finish(&lab)
}

/// A run with a sender on each of `agents` agents, which send to each other's receiver on the first.
fn once(lab: &mut Lab, url: &str, agents: u32) -> Result<subject::Outcome> {
    let name = format!("fleet-{agents}");
    let file = subject::experiment(lab, &name, &experiment(agents))?;
    let mut command = subject::command(lab, &name, "emulate", &file, None)?;
    command.args(["--placement", "agents", "--nats", url, "--expect-agents", &agents.to_string()]);
    subject::run(lab, &name, &mut command, TRAFFIC + RUN_EXTRA)
}

/// Starts agents until there are `all`, and waits until they are found.
fn more(lab: &mut Lab, url: &str, agents: &mut Vec<Running>, all: u32) -> Result<()> {
    for number in agents.len() as u32 + 1..=all {
        let name = format!("agent-{number}");
        let cache = lab.folder.join("fleet-cache").join(&name);
        fs::create_dir_all(&cache)?;
        let mut command = Command::new(lab.rehearsal());
        command.args(["agent", "--nats", url, "--name", &name, "--cores", "1", "--memory", "256MiB", "--cache"]);
        agents.push(lab.start(&name, command.arg(cache))?);
    }
    let end = Instant::now() + FOUND;
    while found(lab, url)? < agents.len() {
        ensure!(Instant::now() < end, "not all of {all} agents are found");
        sleep(LOOK);
    }
    Ok(())
}

fn found(lab: &Lab, url: &str) -> Result<usize> {
    let output = Command::new(lab.rehearsal()).args(["agents", "--nats", url, "--format", "json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cards: Value = serde_json::from_slice(&output.stdout)?;
    Ok(cards.as_array().map_or(0, Vec::len))
}

fn server(lab: &mut Lab) -> Result<(Running, String)> {
    let named = std::env::var_os("NATS_SERVER").map(std::path::PathBuf::from);
    let program = named.unwrap_or_else(|| lab.target.join("venv/bin/nats-server"));
    ensure!(program.exists(), "{} is missing; name a nats-server by NATS_SERVER", program.display());
    let address = free_address()?;
    let store = lab.folder.join("fleet-store");
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &address.port().to_string(), "-js", "-sd"]).arg(store);
    let server = lab.start("nats-server", &mut command)?;
    server.listening(address)?;
    Ok((server, format!("nats://{address}")))
}

fn experiment(agents: u32) -> String {
    let mut text = format!(
        r#"# A sensor on each of {agents} agents, and a receiver beside the first.
[experiment]
name = "bench-fleet"
duration = "{}s"

"#,
        TRAFFIC.as_secs()
    );
    for number in 1..=agents {
        text += &format!(
            r#"[hosts.host-{number}]
cores = 1
agent = "agent-{number}"
[nodes.sensor-{number}]
host = "host-{number}"
vcpu = 0.5
memory = "64MiB"
actors.main = {{ kind = "sensor", to = "receiver/main", rate = "20/s" }}

"#
        );
    }
    text + r#"[nodes.receiver]
host = "host-1"
vcpu = 0.5
memory = "64MiB"
actors.main = { kind = "receiver" }
"#
}
