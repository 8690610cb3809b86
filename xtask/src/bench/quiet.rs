//! `bench quiet`: what devices cost that hardly ever send: memory of each, and the share of a core that all take.
//!
//! A process that holds 1,000 of them is held against one that holds 100,000, so what a process takes without devices is left
//! out of their memory. CPU time is read from the kernel over the second half of the traffic, when all is in place.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use super::figures::Figures;
use super::lab::Lab;
use super::report::{Goal, Report};
use super::subject;

/// Devices of the small process and of the large one.
const DEVICES: [u32; 2] = [1000, 100_000];
/// Messages of a device in a second.
const RATES: [&str; 2] = ["0.001/s", "0.01/s"];
/// Bytes for each device that are aimed at.
const GOAL_BYTES: f64 = 1000.0;
/// Share of a core for all of them that is aimed at, at the lower rate.
const GOAL_CORE: f64 = 0.05;
/// What a run may take longer than its traffic.
const EXTRA: Duration = Duration::from_secs(60);
/// Between two looks at the process.
const LOOK: Duration = Duration::from_millis(50);
/// Before the end of the process, what is looked at ends too. Assumed: as long as a run takes from its last message to its end.
const ENDS: Duration = Duration::from_secs(1);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of traffic in each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(4..=600))]
    seconds: u64,
    /// Measure what the last benchmark built, as it is
    #[arg(long)]
    built: bool,
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    resident_bytes: f64,
    core: f64,
}

/// What a process had used at a time since its start.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Duration,
    cpu_seconds: f64,
    resident_bytes: f64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = if options.built { Lab::bare()? } else { Lab::open()? };
    let mut report = Report::new("quiet");
    for rate in RATES {
        let mut runs: [Vec<Run>; 2] = Default::default();
        for round in 0..options.rounds {
            eprintln!("{rate} each: round {} of {}", round + 1, options.rounds);
            for (runs, devices) in runs.iter_mut().zip(DEVICES) {
                runs.push(hold(&mut lab, devices, rate, options)?);
            }
        }
        let key = |name: &str, devices: u32| format!("{name}_{devices}_{}", rate.trim_end_matches("/s"));
        for (runs, devices) in runs.iter().zip(DEVICES) {
            let of = |of: fn(&Run) -> f64| Figures::of(runs.iter().map(of));
            let label = format!("{devices} devices at {rate}");
            report.row(&key("resident", devices), &label, &of(|r| r.resident_bytes / 1e6), "MB resident", None);
            let goal = Some(Goal::AtMost(GOAL_CORE)).filter(|_| devices == DEVICES[1] && rate == RATES[0]);
            report.row(&key("core", devices), "", &of(|r| r.core), "of a core", goal);
        }
        let more = f64::from(DEVICES[1] - DEVICES[0]);
        let each = runs[0].iter().zip(&runs[1]).map(|(few, many)| (many.resident_bytes - few.resident_bytes) / more);
        let goal = Some(Goal::AtMost(GOAL_BYTES));
        report.row(&key("bytes", DEVICES[1]), "each device more", &Figures::of(each), "B resident", goal);
    }
    report.note("both ends are in the process; connections are opened when a device has something to say");
    report.finish(&lab)
}

/// Holds so many devices for a while.
fn hold(lab: &mut Lab, devices: u32, rate: &str, options: &Options) -> Result<Run> {
    let name = format!("quiet-{devices}");
    let file = subject::experiment(lab, &name, &experiment(devices, rate, options.seconds))?;
    let mut command = subject::command(lab, &name, "emulate", &file, None)?;
    let running = lab.start(&name, &mut command)?;
    let (begun, within) = (Instant::now(), Duration::from_secs(options.seconds) + EXTRA);
    let mut looks: Vec<Look> = Vec::new();
    while !running.ended()? && begun.elapsed() < within {
        if let Some(resident_bytes) = resident(running.id()) {
            looks.push(Look { at: begun.elapsed(), cpu_seconds: running.cpu_seconds()?, resident_bytes });
        }
        sleep(LOOK);
    }
    running.finish(EXTRA, &[0, 20])?;
    half(&looks, Duration::from_secs(options.seconds) / 2).with_context(|| format!("{name}: the run was too short"))
}

/// The last half of the traffic, all but what a run takes to end.
fn half(looks: &[Look], half: Duration) -> Option<Run> {
    let end = looks.last()?.at.checked_sub(ENDS)?;
    let from = looks.iter().find(|look| look.at + half >= end)?;
    let to = looks.iter().rfind(|look| look.at <= end).filter(|to| to.at > from.at)?;
    let core = (to.cpu_seconds - from.cpu_seconds) / (to.at - from.at).as_secs_f64();
    Some(Run { resident_bytes: to.resident_bytes, core })
}

/// Resident memory of a process, bytes (proc(5)).
fn resident(id: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn experiment(devices: u32, rate: &str, seconds: u64) -> String {
    format!(
        r#"# Devices that hardly ever have something to say.
[experiment]
name = "bench-quiet"
duration = "{seconds}s"

[nodes.field.actors.device]
kind = "sensor"
count = {devices}
to = "receiver/main"
rate = "{rate}"
bytes = "200B"
# so that few connections can be under way, and few descriptors are asked for
retries = 0
timeout = "5s"

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
    fn the_last_half_leaves_the_end_out() {
        let look = |second: u64| Look {
            at: Duration::from_secs(second),
            cpu_seconds: if second < 4 { 3.0 } else { 3.0 + (second - 4) as f64 * 0.1 },
            resident_bytes: 100.0 + second as f64,
        };
        let looks: Vec<Look> = (0..=9).map(look).collect();
        let run = half(&looks, Duration::from_secs(4)).expect("from 4 s to 8 s");
        assert!((run.core - 0.1).abs() < 1e-9 && run.resident_bytes == 108.0, "{run:?}");
        assert!(half(&looks[..2], Duration::from_secs(4)).is_none());
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        assert!(resident(std::process::id()).expect("proc(5)") > 100_000.0);
        assert_eq!(resident(u32::MAX), None);
    }
}
