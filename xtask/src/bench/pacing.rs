//! `bench pacing`: an open loop of 1,000 requests a second, its lag, and the lag of a plain tokio timer at that rate.
//!
//! Lag is what a sender does to its own schedule: sent − ready. The timer sends nothing, so its lag is that of waking
//! up alone. Sender and receiver share one process, as they do on a laptop.
//!
//! With `--rate` above 1,000 the sender has a process and a core of its own, and D-ITG sends beside it (`fast`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use super::figures::Figures;
use super::lab::Lab;
use super::report::{Goal, Report};
use super::subject;

mod fast;

/// Requests per second.
const RATE: u32 = 1000;
/// Share of its schedule that a sender is to generate.
const GOAL_GENERATED: f64 = 0.999;
/// Lag p99 in µs that a verdict never holds against a run.
const GOAL_LAG_P99_US: f64 = 1000.0;
/// What a run may take longer than its traffic.
const RUN_EXTRA: Duration = Duration::from_secs(30);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved pairs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// Seconds of traffic in each
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Requests per second; above 1,000 from a process and a core of the sender's own, beside D-ITG
    #[arg(long, default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    rate: u32,
    /// What wake-ups are rounded up to, at a rate above 1,000
    #[arg(long, default_value = "50us")]
    quantum: String,
    /// Measure what the last benchmark built, as it is
    #[arg(long)]
    built: bool,
}

/// One run of ours.
struct Run {
    generated: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    crowded: f64,
    cpu: f64,
    judged: String,
}

/// What the peer prints.
#[derive(Deserialize)]
struct Timer {
    lag_p50_ns: f64,
    lag_p99_ns: f64,
    lag_max_ns: f64,
    seconds_above_rate: f64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let mut lab = if options.built { Lab::bare()? } else { Lab::open()? };
    if options.rate > RATE {
        let mut report = Report::new("pacing-fast");
        fast::run(&mut lab, &mut report, options)?;
        return report.finish(&lab);
    }
    let file = subject::experiment(&lab, "pacing", &experiment(options.seconds))?;
    let (mut ours, mut timers) = (Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        eprintln!("pair {} of {}: {} s twice", pair + 1, options.pairs, options.seconds);
        ours.push(pace(&mut lab, &file, options)?);
        timers.push(tick(&mut lab, options)?);
    }
    let mut report = Report::new("pacing");
    let mine = |of: fn(&Run) -> f64| Figures::of(ours.iter().map(of));
    let goal = Some(Goal::AtLeast(GOAL_GENERATED));
    report.row("generated_over_expected", "generated / expected", &mine(|r| r.generated), "", goal);
    report.row("lag_p50_us", "rehearsal, lag p50", &mine(|r| r.p50_us), "µs", None);
    let goal = Some(Goal::AtMost(GOAL_LAG_P99_US));
    report.row("lag_p99_us", "rehearsal, lag p99", &mine(|r| r.p99_us), "µs", goal);
    report.row("lag_max_us", "rehearsal, lag max", &mine(|r| r.max_us), "µs", None);
    let goal = Some(Goal::AtMost(0.0));
    report.row("seconds_above_rate", "rehearsal, seconds above R+1", &mine(|r| r.crowded), "s", goal);
    report.row("cpu_seconds_per_second", "rehearsal, both ends", &mine(|r| r.cpu), "CPU s/s", None);
    let peer = |of: fn(&Timer) -> f64| Figures::of(timers.iter().map(of));
    report.row("timer_lag_p50_us", "tokio timer, lag p50", &peer(|t| t.lag_p50_ns / 1e3), "µs", None);
    report.row("timer_lag_p99_us", "tokio timer, lag p99", &peer(|t| t.lag_p99_ns / 1e3), "µs", None);
    report.row("timer_lag_max_us", "tokio timer, lag max", &peer(|t| t.lag_max_ns / 1e3), "µs", None);
    report.row(
        "timer_seconds_above_rate",
        "tokio timer, seconds above R+1",
        &peer(|t| t.seconds_above_rate),
        "s",
        None,
    );
    let mut verdicts: Vec<_> = ours.iter().map(|run| run.judged.clone()).collect();
    verdicts.dedup();
    report.note(format!("verdicts of our runs: {}", verdicts.join(", ")));
    report.finish(&lab)
}

fn pace(lab: &mut Lab, file: &Path, options: &Options) -> Result<Run> {
    let mut command = subject::command(lab, "pacing", "emulate", file, None)?;
    let run = subject::run(lab, "pacing", command.arg("--csv"), Duration::from_secs(options.seconds) + RUN_EXTRA)?;
    let csv = fs::read_to_string(run.bundle.join("series.csv")).context("the series of our run")?;
    let sent = sent_each_second(&csv).context("the series has no column `sent`")?;
    let lag = |stat: &str| run.number(&format!("/total/metrics/lag/{stat}_ns")) / 1e3;
    Ok(Run {
        generated: run.number("/total/totals/generated") / (f64::from(RATE) * options.seconds as f64),
        p50_us: lag("p50"),
        p99_us: lag("p99"),
        max_us: lag("max"),
        crowded: sent.iter().filter(|sent| **sent > u64::from(RATE) + 1).count() as f64,
        cpu: run.cpu_seconds / run.number("/duration_seconds"),
        judged: run.judged(),
    })
}

fn tick(lab: &mut Lab, options: &Options) -> Result<Timer> {
    let mut command = lab.command(lab.example("tokio_timer"), None);
    command.args([RATE.to_string(), options.seconds.to_string()]);
    let within = Duration::from_secs(options.seconds) + RUN_EXTRA;
    let done = lab.start("tokio-timer", &mut command)?.finish(within, &[0])?;
    serde_json::from_str(&done.stdout).context("what the timer prints")
}

/// What the sensor sent in each second; its rows are those of that kind.
pub fn sent_each_second(csv: &str) -> Option<Vec<u64>> {
    let mut lines = csv.lines();
    let heading: Vec<&str> = lines.next()?.split(',').collect();
    let column = |name: &str| heading.iter().position(|column| *column == name);
    let (kind, sent) = (column("kind")?, column("sent")?);
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let ours = rows.filter(|row| row.get(kind) == Some(&"sensor"));
    Some(ours.filter_map(|row| row.get(sent)?.parse().ok()).collect())
}

fn experiment(seconds: u64) -> String {
    format!(
        r#"# One sensor sends 1,000 readings a second, evenly spaced.
[experiment]
name = "bench-pacing"
duration = "{seconds}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "{RATE}/s"
in_flight = 64
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 64

[links.default]
carrier = "http1"
connection = "keep-alive"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_read_by_its_heading() {
        let csv = "second,node,kind,sent\n0,a,sensor,1000\n0,b,receiver,\n1,a,sensor,1002\n1,a,host,\n";
        assert_eq!(sent_each_second(csv), Some(vec![1000, 1002]));
        assert_eq!(sent_each_second("second,node\n"), None);
    }
}
