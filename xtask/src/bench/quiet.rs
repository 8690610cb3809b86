//! `bench quiet`: what devices cost that hardly ever send: memory of each, and the share of a core that all take.
//!
//! A process that holds 1,000 of them is held against one that holds 100,000, so what a process takes without devices is left
//! out of their memory. CPU time is read from the kernel over the second half of the traffic, when all is in place.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
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
/// Between two looks at whether traffic has begun.
const LOOK: Duration = Duration::from_millis(20);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of traffic in each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(4..=600))]
    seconds: u64,
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    resident_bytes: f64,
    core: f64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::open()?;
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
    let stored = lab.folder.join("bundles").join(format!("{name}.partial")).join("latency.hlog");
    let running = lab.start(&name, &mut command)?;
    let begun = Instant::now();
    while !fs::metadata(&stored).is_ok_and(|log| log.len() > 0) {
        ensure!(!running.ended()? && begun.elapsed() < EXTRA, "{name}: traffic does not begin");
        sleep(LOOK);
    }
    // a second of it is over
    sleep(Duration::from_secs(options.seconds / 2 - 1));
    let (before, at) = (running.cpu_seconds()?, Instant::now());
    sleep(Duration::from_secs(options.seconds / 2) - LOOK * 5);
    let core = (running.cpu_seconds()? - before) / at.elapsed().as_secs_f64();
    let resident_bytes = resident(running.id()).context("the run ended too early to be looked at")?;
    running.finish(Duration::from_secs(options.seconds) + EXTRA, &[0, 20])?;
    Ok(Run { resident_bytes, core })
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
    fn the_kernel_tells_of_this_process() {
        assert!(resident(std::process::id()).expect("proc(5)") > 100_000.0);
        assert_eq!(resident(u32::MAX), None);
    }
}
