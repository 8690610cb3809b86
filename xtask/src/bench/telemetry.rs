//! `bench telemetry`: what the reports of fifty node processes cost the traffic.
//!
//! Closed loops of 49 senders, each in a process of its own, keep a receiver and all cores busy. Runs with and without
//! telemetry take turns; a pair gives a ratio of the requests that came through. Meanwhile the CPU time of the threads
//! that carry the bus is read from the kernel: the first thread of each process, which serves no traffic.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::figures::Figures;
use super::lab::Lab;
use super::report::{Goal, Report};
use super::subject;

/// Processes with senders; the receiver's is the fiftieth.
const SENDERS: u32 = 49;
/// Requests that come through with telemetry, over those without.
const GOAL_OF_RATIO: f64 = 0.97;
/// Share of all CPU time that may go to the threads of the bus.
const GOAL_OF_BUS: f64 = 0.02;
/// What a run may take longer than its traffic: fifty processes start on few cores.
const RUN_EXTRA: Duration = Duration::from_secs(90);
/// Between two looks at the CPU time of all processes.
const LOOK: Duration = Duration::from_millis(250);
/// Left out at the end of what was looked at: the drain.
const TAIL: Duration = Duration::from_secs(2);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved pairs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// Seconds of traffic of each run
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
}

/// CPU time of a run's processes up to one moment, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// First threads of node processes and of the process that leads.
    bus: u64,
    /// The NATS server.
    server: u64,
    /// Everything.
    all: u64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
    let file = subject::experiment(&lab, "telemetry", &experiment(options.seconds))?;
    let (mut with, mut without, mut bus, mut server) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut verdicts = Vec::new();
    for pair in 0..options.pairs {
        eprintln!("pair {} of {}", pair + 1, options.pairs);
        for turn in 0..2 {
            // who goes first alternates
            let telling = (turn + pair) % 2 == 0;
            let name = if telling { "telemetry-with" } else { "telemetry-without" };
            let mut command = subject::command(&lab, name, "emulate", &file, None)?;
            command.args(["--placement", "processes"]);
            if !telling {
                command.arg("--without-telemetry");
            }
            let within = Duration::from_secs(options.seconds) + RUN_EXTRA;
            let (outcome, shares) = watched(options, || subject::run(&mut lab, name, &mut command, within))?;
            let rate = outcome.number("/total/totals/success") / options.seconds as f64;
            ensure!(rate > 0.0, "nothing came through");
            if telling {
                with.push(rate);
                bus.push(shares.0);
                server.push(shares.1);
                verdicts.push(outcome.judged());
            } else {
                without.push(rate);
            }
        }
    }
    let (with, without) = (Figures::of(with), Figures::of(without));
    let mut report = Report::new("telemetry");
    report.row("with", "with telemetry each second", &with, "requests/s", None);
    report.row("without", "without", &without, "requests/s", None);
    report.row("ratio", "with / without, of pairs", &with.over(&without), "", Some(Goal::AtLeast(GOAL_OF_RATIO)));
    report.row("bus", "threads of the bus / all CPU time", &Figures::of(bus), "", Some(Goal::AtMost(GOAL_OF_BUS)));
    report.row("server", "nats-server / all CPU time", &Figures::of(server), "", None);
    verdicts.dedup();
    report.note(format!("verdicts with telemetry: {}", verdicts.join(", ")));
    report.note(format!("{} node processes and a private nats-server; nothing is pinned", SENDERS + 1));
    report.finish(&lab)
}

/// Does `what`, and tells which shares of the CPU time of this process's family went to the bus and to the server.
fn watched<T>(options: &Options, what: impl FnOnce() -> Result<T>) -> Result<(T, (f64, f64))> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut looks: Vec<(Instant, Spent)> = Vec::new();
            // a family that is on its way out is smaller than it was
            while !over.load(Ordering::Acquire) {
                looks.push((Instant::now(), look()));
                thread::sleep(LOOK);
            }
            looks
        });
        let done = what();
        over.store(true, Ordering::Release);
        let looks = watch.join().ok().context("the thread that looks at CPU time ended early")?;
        let done = done?;
        let top = looks.iter().max_by_key(|(_, spent)| spent.all).context("the run was too short to look at")?;
        let (end, begin) = (top.0 - TAIL, top.0 - Duration::from_secs(options.seconds));
        let at = |moment: Instant| looks.iter().rev().find(|(when, _)| *when <= moment).map(|(_, spent)| *spent);
        let (from, to) = at(begin).zip(at(end)).context("the run was too short to look at")?;
        let all = (to.all - from.all) as f64;
        ensure!(all > 0.0, "no CPU time was used");
        Ok((done, ((to.bus - from.bus) as f64 / all, (to.server - from.server) as f64 / all)))
    })
}

/// CPU time so far of the processes below this one.
fn look() -> Spent {
    let stats: BTreeMap<u32, (u32, String, u64)> = processes().collect();
    let below = |mut id: u32| {
        // no family has so many generations
        for _ in 0..16 {
            match stats.get(&id) {
                Some((above, ..)) if *above == std::process::id() => return true,
                Some((above, ..)) => id = *above,
                None => return false,
            }
        }
        false
    };
    let mut spent = Spent::default();
    for (id, (_, name, ticks)) in stats.iter().filter(|(id, _)| below(**id)) {
        spent.all += ticks;
        match name.as_str() {
            "nats-server" => spent.server += ticks,
            "rehearsal" => spent.bus += stat(&format!("/proc/{id}/task/{id}/stat")).map_or(0, |(_, _, ticks)| ticks),
            _ => {}
        }
    }
    spent
}

fn processes() -> impl Iterator<Item = (u32, (u32, String, u64))> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| Some((id, stat(&format!("/proc/{id}/stat"))?)))
}

/// Parent, name, and ticks of user and system time (proc(5): fields 4, 2, 14 and 15).
fn stat(path: &str) -> Option<(u32, String, u64)> {
    let text = fs::read_to_string(path).ok()?;
    let (head, rest) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((number(1)? as u32, name, number(11)? + number(12)?))
}

fn experiment(seconds: u64) -> String {
    format!(
        r#"# Closed loops of {SENDERS} senders in processes of their own, and a receiver.
[experiment]
name = "bench-telemetry"
duration = "{seconds}s"

[nodes.sensor]
count = {SENDERS}

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
in_flight = 1
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 64
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_this_process() {
        let own = std::process::id();
        let (above, name, _) = stat("/proc/self/stat").expect("proc(5)");
        assert!(above > 0 && !name.is_empty());
        assert!(processes().any(|(id, _)| id == own));
    }
}
