//! `bench wire`: what a request costs each sender that we know of, and what it costs to be asked by one.
//!
//! All senders aim at one and the same server, the least that hyper can do, on one core; they take turns on the other, as
//! many connections each, with the same body. What is told is requests per CPU second of the sender's process, start and end
//! included, so that a sender is not measured by the server. In a second part wrk asks our receiver and the bare server in
//! turn. Datagrams of 1 kB go to iperf3's and D-ITG's own receivers, and camera frames of 150 kB leave one core as fast as it
//! gives them, beside iperf3. A peer that is not installed is named as missing.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use super::figures::{Figures, plain};
use super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::paper::{Paper, Sending};
use super::process::free_address;
use super::report::{Goal, Report};
use super::subject;

mod datagrams;
mod frames;
mod peers;

use peers::{Load, Peer};

/// Our rate over that of wrk, whose bodies a Lua script makes, with a body that differs each time.
const GOAL_POST: f64 = 0.8;
/// Our rate over that of wrk, which sends the same bytes again and again.
const GOAL_GET: f64 = 0.6;
/// What a run may take longer than its traffic.
pub(super) const EXTRA: Duration = Duration::from_secs(40);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// Seconds of traffic of each sender in each round
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections of each sender
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Only these senders, such as rehearsal,wrk; `frames` is the part with camera frames
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// What a sender did in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Answered, or sent where nothing is answered.
    pub requests: f64,
    pub cpu_seconds: f64,
    pub seconds: f64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
    let mut report = Report::new("wire");
    let (peers, missing) = peers::find(&lab, &options.only)?;
    for (key, post) in [("get", false), ("post", true)] {
        requests(&mut lab, &mut report, options, &peers, (key, post))?;
    }
    receivers(&mut lab, &mut report, options, &peers)?;
    if options.only.is_empty() {
        beside_paper(&mut lab, &mut report, options)?;
        datagrams::run(&mut lab, &mut report, options)?;
    }
    if options.only.is_empty() || options.only.iter().any(|name| name == "frames") {
        frames::run(&mut lab, &mut report, options)?;
    }
    for (name, why) in missing {
        report.note(format!("missing: {name}: {why}"));
    }
    for peer in &peers {
        report.note(format!("{}: {}", peer.name, peer.version));
    }
    report
        .note("a GET has no body; a POST has 1 kB of JSON, which differs each time but for h2load, hey and autocannon");
    report.finish(&lab)
}

/// GET or POST from every sender to the bare server.
fn requests(
    lab: &mut Lab,
    report: &mut Report,
    options: &Options,
    peers: &[Peer],
    (key, post): (&str, bool),
) -> Result<()> {
    let address = free_address()?;
    let mut command = lab.command(lab.example("bare_hyper"), Some(RECEIVER_CORE));
    let server = lab.start("wire-server", command.args(["serve", &address.to_string()]))?;
    server.listening(address)?;
    let mut all: Vec<Vec<Turn>> = peers.iter().map(|_| Vec::new()).collect();
    for pair in 0..options.pairs as usize {
        eprintln!("{key}: round {} of {}", pair + 1, options.pairs);
        for turn in 0..peers.len() {
            // who goes first alternates
            let at = (turn + pair) % peers.len();
            all[at].push(turn_of(lab, &peers[at], address, post, options)?);
        }
    }
    drop(server);
    let title = if post { "POST 1 kB" } else { "GET" };
    let per_cpu = |turns: &[Turn]| Figures::of(turns.iter().map(|t| t.requests / t.cpu_seconds));
    for (peer, turns) in peers.iter().zip(&all) {
        let label = format!("{}, {title}", peer.name);
        report.row(&format!("{key}_{}", peer.key()), &label, &per_cpu(turns), "requests/CPU s", None);
        let rate = Figures::of(turns.iter().map(|t| t.requests / t.seconds));
        report.row(&format!("{key}_{}_rate", peer.key()), "", &rate, "requests/s", None);
    }
    let of = |name: &str| peers.iter().position(|peer| peer.name == name).map(|at| per_cpu(&all[at]));
    if let (Some(ours), Some(wrk)) = (of(peers::OURS), of("wrk")) {
        let goal = Some(Goal::AtLeast(if post { GOAL_POST } else { GOAL_GET }));
        report.row(&format!("{key}_over_wrk"), &format!("rehearsal / wrk, {title}"), &ours.over(&wrk), "", goal);
    }
    Ok(())
}

fn turn_of(lab: &mut Lab, peer: &Peer, to: SocketAddr, post: bool, options: &Options) -> Result<Turn> {
    let load = Load { to, post, connections: options.connections, seconds: options.seconds };
    let mut command = peer.command(lab, &load, Some(SENDER_CORE))?;
    let name = format!("wire-{}-{}", peer.key(), if post { "post" } else { "get" });
    let within = Duration::from_secs(options.seconds) + EXTRA;
    let done = lab.start(&name, &mut command)?.finish(within, &peer.codes())?;
    let (requests, failed) = peer.read(&done.stdout, lab, &name)?;
    // what was under way at the end may be counted as failed
    ensure!(
        requests > 0.0 && failed <= f64::from(options.connections),
        "{} of the requests of {} failed",
        plain(failed),
        peer.name
    );
    Ok(Turn { requests, cpu_seconds: done.cpu_seconds, seconds: options.seconds as f64 })
}

/// What it costs our receiver and the bare server to be asked by wrk.
fn receivers(lab: &mut Lab, report: &mut Report, options: &Options, peers: &[Peer]) -> Result<()> {
    let Some(wrk) = peers.iter().find(|peer| peer.name == "wrk") else { return Ok(()) };
    let (ours, bare) = (free_address()?, free_address()?);
    let file = subject::experiment(lab, "wire-receiver", &receiver(ours))?;
    let mut command = subject::command(lab, "wire-receiver", "emulate", &file, Some(RECEIVER_CORE))?;
    let receiver = lab.start("wire-receiver", command.args(["--only", "receiver"]))?;
    receiver.listening(ours)?;
    let mut command = lab.command(lab.example("bare_hyper"), Some(RECEIVER_CORE));
    let server = lab.start("wire-bare-server", command.args(["serve", &bare.to_string()]))?;
    server.listening(bare)?;
    let mut costs = [Vec::new(), Vec::new()];
    for pair in 0..options.pairs as usize {
        eprintln!("receivers: round {} of {}", pair + 1, options.pairs);
        for turn in 0..2 {
            let at = (turn + pair) % 2;
            let (running, address) = if at == 0 { (&receiver, ours) } else { (&server, bare) };
            let before = running.cpu_seconds()?;
            let turn = turn_of(lab, wrk, address, true, options)?;
            costs[at].push(turn.requests / (running.cpu_seconds()? - before));
        }
    }
    let [ours, bare] = costs.map(Figures::of);
    let unit = "requests/CPU s";
    report.row("receiver_ours", "our receiver, asked by wrk", &ours, unit, None);
    report.row("receiver_bare", "bare server, asked by wrk", &bare, unit, None);
    report.row("receiver_over_bare", "our receiver / bare server", &ours.over(&bare), "", None);
    Ok(())
}

fn beside_paper(lab: &mut Lab, report: &mut Report, options: &Options) -> Result<()> {
    let paper = match Paper::prepare(lab) {
        Ok(paper) => paper,
        Err(why) => {
            report.note(format!("missing: the paper's stack (Flask, requests): {why:#}"));
            return Ok(());
        }
    };
    let (receiver, to) = paper.receiver(lab, Duration::ZERO, Some(RECEIVER_CORE))?;
    let mut costs = Vec::new();
    for pair in 0..options.pairs {
        eprintln!("the paper's stack: round {} of {}", pair + 1, options.pairs);
        let (seconds, core) = (options.seconds, Some(SENDER_CORE));
        let is = Sending { bytes: 1000, media_type: "application/json", seconds, processes: 4, core };
        let (sent, cpu_seconds) = paper.send(lab, to, &is)?;
        ensure!(sent.failed == 0, "{} of the paper's requests failed", sent.failed);
        costs.push(sent.requests as f64 / cpu_seconds);
    }
    drop(receiver);
    report.row("post_paper", "paper's stack, POST 1 kB", &Figures::of(costs), "requests/CPU s", None);
    report.note(format!("paper's stack: {}, a connection for each request, its own receiver", paper.versions));
    Ok(())
}

fn receiver(listen: SocketAddr) -> String {
    format!(
        r#"# A receiver for whoever asks; the sender is there because an experiment has one, and is not run.
[experiment]
name = "bench-wire"
duration = "24h"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"

[nodes.receiver.actors.main]
kind = "receiver"
listen = "{listen}"
workers = 1000
"#
    )
}
