//! `bench http`: what a request costs a sender, beside the least that hyper can do and beside the paper's stack.
//!
//! 32 closed loops post 1 kB of JSON over kept connections. The receiver is one and the same process on one core, the
//! senders take turns on another. A round gives a pair, and the ratio is that of the pairs. Start-up and end of the
//! processes are in their CPU time. In a third turn bare hyper sends to a bare server, which tells what receiving costs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;

use super::figures::{Figures, plain};
use super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::paper::{Paper, Sending};
use super::process::{Running, free_address};
use super::report::{Goal, Report};
use super::subject;

/// Closed loops of every sender but the paper's.
const CONNECTIONS: u32 = 32;
/// Requests per CPU second, over bare hyper's: what actors, schedule and histograms may cost.
const GOAL_OF_BARE: f64 = 0.70;
/// What a run may take longer than its traffic: to start, to agree on the start, to drain.
const RUN_EXTRA: Duration = Duration::from_secs(30);
/// Processes of the paper's senders.
const PAPER_PROCESSES: [u32; 2] = [2, 4];

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved pairs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// Seconds of traffic of each sender in each pair
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// What one sender did in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    requests: f64,
    /// Of its traffic, without start and end.
    seconds: f64,
    cpu_seconds: f64,
    /// What the receiver spent meanwhile.
    receiver_cpu_seconds: f64,
}

#[derive(Deserialize)]
struct BareOutput {
    requests: u64,
    failed: u64,
    seconds: f64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
    let paper = Paper::prepare(&lab);
    let address = free_address()?;
    let text = experiment(address, options.seconds);
    let file = subject::experiment(&lab, "http", &text)?;
    let mut command = subject::command(&lab, "http-receiver", "emulate", &file, Some(RECEIVER_CORE))?;
    // it is there for all rounds, and ended with them
    let receiver = lab.start("http-receiver", command.args(["--only", "receiver", "--duration", "24h"]))?;
    receiver.listening(address)?;
    let (mut ours, mut bare, mut served, mut verdicts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        eprintln!("pair {} of {}", pair + 1, options.pairs);
        for turn in 0..3 {
            // who goes first alternates
            match (turn + pair) % 3 {
                0 => {
                    let (sender, judged) = send_ours(&mut lab, &file, options, &receiver)?;
                    ours.push(sender);
                    verdicts.push(judged);
                }
                1 => bare.push(send_bare(&mut lab, address, options, &receiver)?),
                _ => served.push(send_to_bare(&mut lab, options)?),
            }
        }
    }
    drop(receiver);
    let mut report = Report::new("http");
    let rate = compare(&mut report, &ours, &bare, &served);
    verdicts.dedup();
    report.note(format!("verdicts of our runs: {}", verdicts.join(", ")));
    match paper {
        Ok(paper) => beside_paper(&mut report, &mut lab, &paper, options, &rate)?,
        Err(why) => report.note(format!("missing: the paper's stack (Flask, requests): {why:#}")),
    }
    report.finish(&lab)
}

/// Rows for our sender and bare hyper, and for what receives; returns our rate.
fn compare(report: &mut Report, ours: &[Sender], bare: &[Sender], served: &[Sender]) -> Figures {
    let each = |senders: &[Sender], of: fn(&Sender) -> f64| Figures::of(senders.iter().map(of));
    let per_cpu = |s: &Sender| s.requests / s.cpu_seconds;
    let (our_cost, bare_cost) = (each(ours, per_cpu), each(bare, per_cpu));
    report.row("ours_per_cpu_second", "rehearsal", &our_cost, "requests/CPU s", None);
    report.row("bare_per_cpu_second", "bare hyper", &bare_cost, "requests/CPU s", None);
    let goal = Some(Goal::AtLeast(GOAL_OF_BARE));
    report.row("ours_over_bare", "rehearsal / bare hyper", &our_cost.over(&bare_cost), "", goal);
    let micros = |s: &Sender| 1e6 * s.cpu_seconds / s.requests;
    report.row("ours_us", "rehearsal, a request", &each(ours, micros), "µs of CPU", None);
    report.row("bare_us", "bare hyper, a request", &each(bare, micros), "µs of CPU", None);
    let receiving = |s: &Sender| 1e6 * s.receiver_cpu_seconds / s.requests;
    report.row("receiver_us", "our receiver, a request of ours", &each(ours, receiving), "µs of CPU", None);
    report.row("receiver_bare_us", "our receiver, a bare request", &each(bare, receiving), "µs of CPU", None);
    report.row("server_bare_us", "bare server, a bare request", &each(served, receiving), "µs of CPU", None);
    let rate = |s: &Sender| s.requests / s.seconds;
    report.row("bare_rate", "bare hyper", &each(bare, rate), "requests/s", None);
    let ours = each(ours, rate);
    report.row("ours_rate", "rehearsal", &ours, "requests/s", None);
    ours
}

fn beside_paper(report: &mut Report, lab: &mut Lab, paper: &Paper, options: &Options, ours: &Figures) -> Result<()> {
    let (receiver, to) = paper.receiver(lab, Duration::ZERO, Some(RECEIVER_CORE))?;
    let mut best = Figures::default();
    for processes in PAPER_PROCESSES {
        eprintln!("the paper's stack, {processes} senders");
        let (seconds, core) = (options.seconds, Some(SENDER_CORE));
        let is = Sending { bytes: 1000, media_type: "application/json", seconds, processes, core };
        let (mut rates, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..options.pairs {
            let (sent, cpu_seconds) = paper.send(lab, to, &is)?;
            ensure!(sent.failed == 0, "{} of the paper's requests failed", sent.failed);
            rates.push(sent.requests as f64 / sent.seconds);
            costs.push(sent.requests as f64 / cpu_seconds);
        }
        let (rates, costs) = (Figures::of(rates), Figures::of(costs));
        let label = format!("paper's stack, {processes} senders");
        report.row(&format!("paper_{processes}_rate"), &label, &rates, "requests/s", None);
        report.row(&format!("paper_{processes}_per_cpu_second"), &label, &costs, "requests/CPU s", None);
        if rates.median > best.median {
            best = rates;
        }
    }
    drop(receiver);
    report.row("ours_over_paper", "rehearsal / paper's stack, rate", &ours.over(&best), "", None);
    report.note(format!("paper's stack: {}, a connection for each request", paper.versions));
    Ok(())
}

fn send_ours(lab: &mut Lab, file: &std::path::Path, options: &Options, at: &Running) -> Result<(Sender, String)> {
    let before = at.cpu_seconds()?;
    let mut command = subject::command(lab, "http-sender", "emulate", file, Some(SENDER_CORE))?;
    command.args(["--without", "receiver"]);
    let within = Duration::from_secs(options.seconds) + RUN_EXTRA;
    let run = subject::run(lab, "http-sender", &mut command, within)?;
    let requests = run.number("/total/totals/success");
    let others = run.number("/total/totals/generated") - requests;
    // what was under way at the stop may be given up
    ensure!(requests > 0.0 && others <= f64::from(CONNECTIONS), "{} of our requests failed", plain(others));
    let receiver_cpu_seconds = at.cpu_seconds()? - before;
    let (seconds, cpu_seconds) = (run.number("/duration_seconds"), run.cpu_seconds);
    Ok((Sender { requests, seconds, cpu_seconds, receiver_cpu_seconds }, run.judged()))
}

fn send_bare(lab: &mut Lab, to: SocketAddr, options: &Options, at: &Running) -> Result<Sender> {
    let before = at.cpu_seconds()?;
    let mut command = lab.command(lab.example("bare_hyper"), Some(SENDER_CORE));
    command.args(["load", &to.to_string(), &CONNECTIONS.to_string(), &options.seconds.to_string()]);
    let within = Duration::from_secs(options.seconds) + RUN_EXTRA;
    let done = lab.start("bare-hyper", &mut command)?.finish(within, &[0])?;
    let said: BareOutput = serde_json::from_str(&done.stdout).context("what bare hyper prints")?;
    ensure!(said.failed == 0, "{} connections of bare hyper failed", said.failed);
    Ok(Sender {
        requests: said.requests as f64,
        seconds: said.seconds,
        cpu_seconds: done.cpu_seconds,
        receiver_cpu_seconds: at.cpu_seconds()? - before,
    })
}

/// Bare hyper at both ends.
fn send_to_bare(lab: &mut Lab, options: &Options) -> Result<Sender> {
    let address = free_address()?;
    let mut command = lab.command(lab.example("bare_hyper"), Some(RECEIVER_CORE));
    let server = lab.start("bare-server", command.args(["serve", &address.to_string()]))?;
    server.listening(address)?;
    send_bare(lab, address, options, &server)
}

fn experiment(listen: SocketAddr, seconds: u64) -> String {
    format!(
        r#"# 32 closed loops of 1 kB over kept connections, as fast as they go.
[experiment]
name = "bench-http"
duration = "{seconds}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
streams = {CONNECTIONS}
in_flight = 1
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
listen = "{listen}"
workers = 64

[links.default]
carrier = "http1"
connection = "keep-alive"
"#
    )
}
