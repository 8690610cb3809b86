//! `bench wire`: what a request costs each sender that we know of, and what it costs to be asked by one.
//!
//! All senders aim at one and the same server, the least that hyper can do, on one core; they take turns on the other, as
//! many connections each, with the same body: over HTTP/1.1, over HTTP/2, and at a given rate those that can keep one. What is
//! told is requests per CPU second of the sender's process, start and end included, so that a sender is not measured by the
//! server. Then wrk asks our receiver and the bare server in
//! turn. Datagrams of 1 kB go to iperf3's and D-ITG's own receivers, and camera frames of 150 kB leave one core as fast as it
//! gives them, beside iperf3. A peer that is not installed is named as missing.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::figures::{Figures, plain};
use super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::paper::{Paper, Sending};
use super::process::{Running, free_address};
use super::report::{Goal, Report};
use super::subject;

mod datagrams;
mod frames;
mod peers;

use peers::{Load, Peer};

/// Our requests per CPU second over those of a peer, that are aimed at.
const GOALS: [(Part, &str, f64); 8] = [
    // wrk sends the same bytes again and again
    (Part::Get, "wrk", 0.6),
    // its bodies a Lua script makes, each another, as ours are
    (Part::Post, "wrk", 0.8),
    (Part::Post, "hey", 3.0),
    (Part::Post, "autocannon", 3.0),
    (Part::Post, "locust HttpUser", 50.0),
    (Part::Get2, "h2load", 0.45),
    (Part::Post2, "h2load", 0.45),
    (Part::Open, "oha", 3.0),
];
/// The same over the paper's stack.
const GOAL_PAPER: f64 = 50.0;
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
    /// Connections of each sender over HTTP/2
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections2: u32,
    /// Streams of each of those
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    streams: u32,
    /// Requests a second of those senders that keep a rate
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    rate: u32,
    /// Only these senders, such as rehearsal,wrk
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Measure what the last benchmark built, as it is
    #[arg(long)]
    built: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// GET over HTTP/1.1
    Get,
    /// POST of 1 kB over HTTP/1.1
    Post,
    /// GET over HTTP/2
    Get2,
    /// POST of 1 kB over HTTP/2
    Post2,
    /// POST of 1 kB over HTTP/1.1 at a rate
    Open,
    /// wrk asks our receiver and the bare server
    Receivers,
    /// Beside the paper's stack
    Paper,
    /// Beside iperf3 and D-ITG
    Datagrams,
    /// Camera frames beside iperf3
    Frames,
}

/// Parts in which all senders take turns.
const REQUESTS: [Part; 5] = [Part::Get, Part::Post, Part::Get2, Part::Post2, Part::Open];

impl Part {
    /// Its name in the report's file.
    fn key(self) -> &'static str {
        match self {
            Part::Get => "get",
            Part::Post => "post",
            Part::Get2 => "get2",
            Part::Post2 => "post2",
            Part::Open => "open",
            Part::Receivers => "receivers",
            Part::Paper => "paper",
            Part::Datagrams => "datagrams",
            Part::Frames => "frames",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Part::Get => "GET",
            Part::Post => "POST 1 kB",
            Part::Get2 => "HTTP/2, GET",
            Part::Post2 => "HTTP/2, POST 1 kB",
            Part::Open => "POST 1 kB at a rate",
            _ => self.key(),
        }
    }

    fn two(self) -> bool {
        matches!(self, Part::Get2 | Part::Post2)
    }
}

impl Options {
    /// Whether a part is wanted; some senders alone have none but those in which senders take turns.
    fn wants(&self, part: Part) -> bool {
        if !self.parts.is_empty() {
            return self.parts.contains(&part);
        }
        self.only.is_empty() || REQUESTS.contains(&part) || part == Part::Receivers
    }

    /// What is asked of a sender in a part.
    fn load(&self, part: Part, to: SocketAddr) -> Load {
        Load {
            to,
            post: !matches!(part, Part::Get | Part::Get2),
            connections: if part.two() { self.connections2 } else { self.connections },
            streams: part.two().then_some(self.streams),
            rate: (part == Part::Open).then_some(self.rate),
            seconds: self.seconds,
        }
    }
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
    let mut lab = if options.built { Lab::bare()? } else { Lab::open()? };
    let mut report = Report::new("wire");
    let (peers, missing) = peers::find(&lab, &options.only)?;
    for part in REQUESTS.into_iter().filter(|part| options.wants(*part)) {
        requests(&mut lab, &mut report, options, &peers, part)?;
    }
    if options.wants(Part::Receivers) {
        receivers(&mut lab, &mut report, options, &peers)?;
    }
    if options.wants(Part::Paper) {
        beside_paper(&mut lab, &mut report, options, &peers)?;
    }
    if options.wants(Part::Datagrams) {
        datagrams::run(&mut lab, &mut report, options)?;
    }
    if options.wants(Part::Frames) {
        frames::run(&mut lab, &mut report, options)?;
    }
    for (name, why) in missing {
        report.note(format!("missing: {name}: {why}"));
    }
    for peer in &peers {
        report.note(format!("{}: {}", peer.name, peer.version));
    }
    let Options { connections, connections2, streams, rate, .. } = options;
    report.note(format!(
        "{connections} connections; over HTTP/2 {connections2} with {streams} streams each; at a rate: {rate}/s, by autocannon and oha \
         with times from when a request was due"
    ));
    report.note(
        "a GET has no body; a POST has 1 kB of JSON, which differs each time but for h2load, oha, hey and autocannon",
    );
    report.finish(&lab)
}

/// The least that hyper can do.
fn bare_server(lab: &mut Lab, two: bool) -> Result<(Running, SocketAddr)> {
    let address = free_address()?;
    let (name, verb) = if two { ("wire-server-2", "serve2") } else { ("wire-server", "serve") };
    let mut command = lab.command(lab.example("bare_hyper"), Some(RECEIVER_CORE));
    let server = lab.start(name, command.args([verb, &address.to_string()]))?;
    server.listening(address)?;
    Ok((server, address))
}

/// Requests from every sender that can make them to the bare server.
fn requests(lab: &mut Lab, report: &mut Report, options: &Options, peers: &[Peer], part: Part) -> Result<()> {
    let (server, address) = bare_server(lab, part.two())?;
    let load = options.load(part, address);
    let peers: Vec<&Peer> = peers.iter().filter(|peer| peer.can(&load)).collect();
    let mut all: Vec<Vec<Turn>> = peers.iter().map(|_| Vec::new()).collect();
    let (key, title) = (part.key(), part.title());
    for pair in 0..options.pairs as usize {
        eprintln!("{key}: round {} of {}", pair + 1, options.pairs);
        for turn in 0..peers.len() {
            // who goes first alternates
            let at = (turn + pair) % peers.len();
            all[at].push(turn_of(lab, peers[at], &load, key)?);
        }
    }
    drop(server);
    let per_cpu = |turns: &[Turn]| Figures::of(turns.iter().map(|t| t.requests / t.cpu_seconds));
    for (peer, turns) in peers.iter().zip(&all) {
        let label = format!("{}, {title}", peer.name);
        report.row(&format!("{key}_{}", peer.key()), &label, &per_cpu(turns), "requests/CPU s", None);
        let rate = Figures::of(turns.iter().map(|t| t.requests / t.seconds));
        report.row(&format!("{key}_{}_rate", peer.key()), "", &rate, "requests/s", None);
    }
    let Some(ours) = peers.iter().position(|peer| peer.name == peers::OURS) else { return Ok(()) };
    for (peer, turns) in peers.iter().zip(&all).filter(|(peer, _)| peer.name != peers::OURS) {
        let goal = GOALS.iter().find(|(of, name, _)| *of == part && *name == peer.name);
        let ratio = per_cpu(&all[ours]).over(&per_cpu(turns));
        let label = format!("rehearsal / {}, {title}", peer.name);
        report.row(&format!("{key}_over_{}", peer.key()), &label, &ratio, "", goal.map(|goal| Goal::AtLeast(goal.2)));
    }
    Ok(())
}

fn turn_of(lab: &mut Lab, peer: &Peer, load: &Load, key: &str) -> Result<Turn> {
    let mut command = peer.command(lab, load, Some(SENDER_CORE))?;
    let name = format!("wire-{}-{key}", peer.key());
    let within = Duration::from_secs(load.seconds) + EXTRA;
    let done = lab.start(&name, &mut command)?.finish(within, &peer.codes())?;
    let (requests, failed) = peer.read(&done.stdout, lab, &name)?;
    // what was under way at the end may be counted as failed
    ensure!(
        requests > 0.0 && failed <= f64::from(load.under_way()),
        "{} of the requests of {} failed",
        plain(failed),
        peer.name
    );
    Ok(Turn { requests, cpu_seconds: done.cpu_seconds, seconds: load.seconds as f64 })
}

/// What it costs our receiver and the bare server to be asked by wrk.
fn receivers(lab: &mut Lab, report: &mut Report, options: &Options, peers: &[Peer]) -> Result<()> {
    let Some(wrk) = peers.iter().find(|peer| peer.name == "wrk") else { return Ok(()) };
    let ours = free_address()?;
    let file = subject::experiment(lab, "wire-receiver", &receiver(ours))?;
    let mut command = subject::command(lab, "wire-receiver", "emulate", &file, Some(RECEIVER_CORE))?;
    let receiver = lab.start("wire-receiver", command.args(["--only", "receiver"]))?;
    receiver.listening(ours)?;
    let (server, bare) = bare_server(lab, false)?;
    let mut costs = [Vec::new(), Vec::new()];
    for pair in 0..options.pairs as usize {
        eprintln!("receivers: round {} of {}", pair + 1, options.pairs);
        for turn in 0..2 {
            let at = (turn + pair) % 2;
            let (running, address) = if at == 0 { (&receiver, ours) } else { (&server, bare) };
            let before = running.cpu_seconds()?;
            let turn = turn_of(lab, wrk, &options.load(Part::Post, address), "receivers")?;
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

fn beside_paper(lab: &mut Lab, report: &mut Report, options: &Options, peers: &[Peer]) -> Result<()> {
    let paper = match Paper::prepare(lab) {
        Ok(paper) => paper,
        Err(why) => {
            report.note(format!("missing: the paper's stack (Flask, requests): {why:#}"));
            return Ok(());
        }
    };
    let ours = peers.iter().find(|peer| peer.name == peers::OURS);
    let (receiver, to) = paper.receiver(lab, Duration::ZERO, Some(RECEIVER_CORE))?;
    let (server, bare) = bare_server(lab, false)?;
    let (mut costs, mut our_costs) = (Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        eprintln!("the paper's stack: round {} of {}", pair + 1, options.pairs);
        let (seconds, core) = (options.seconds, Some(SENDER_CORE));
        let is = Sending { bytes: 1000, media_type: "application/json", seconds, processes: 4, core };
        let (sent, cpu_seconds) = paper.send(lab, to, &is)?;
        ensure!(sent.failed == 0, "{} of the paper's requests failed", sent.failed);
        costs.push(sent.requests as f64 / cpu_seconds);
        if let Some(ours) = ours {
            let turn = turn_of(lab, ours, &options.load(Part::Post, bare), "paper")?;
            our_costs.push(turn.requests / turn.cpu_seconds);
        }
    }
    drop((receiver, server));
    let costs = Figures::of(costs);
    report.row("post_paper", "paper's stack, POST 1 kB", &costs, "requests/CPU s", None);
    let ratio = Figures::of(our_costs).over(&costs);
    report.row("post_over_paper", "rehearsal / paper's stack", &ratio, "", Some(Goal::AtLeast(GOAL_PAPER)));
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
