//! The part of `bench pacing` at a high rate: a sender alone on one core, evenly spaced and as a Poisson process, and D-ITG at
//! the same rate. The receivers have the other core.
//!
//! D-ITG keeps the time of each packet and not when it was due, so its lag is told against the even pace that it was asked for,
//! counted from the packet that was most on time.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::figures::Figures;
use super::super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::super::process::free_address;
use super::super::report::{Goal, Report};
use super::super::subject;
use super::{GOAL_GENERATED, Options, RUN_EXTRA};

/// Lag p99 in µs that is aimed at, on a core of the sender's own.
const GOAL_LAG_P99_US: f64 = 250.0;
/// Time that a program has to begin to listen.
const BEGINS: Duration = Duration::from_secs(1);

/// One run of a sender.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Of what was to be sent, what was.
    generated: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// Share of the sender's core.
    core: f64,
}

/// Adds its rows.
pub(super) fn run(lab: &mut Lab, report: &mut Report, options: &Options) -> Result<()> {
    let (mut even, mut poisson, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let installed = |program: &str| Command::new(program).arg("-h").output().is_ok();
    let ditg = ["ITGSend", "ITGRecv", "ITGDec"].into_iter().all(installed);
    for pair in 0..options.pairs {
        eprintln!("{}/s: pair {} of {}", options.rate, pair + 1, options.pairs);
        even.push(ours(lab, options, &format!("rate = \"{}/s\"", options.rate))?);
        let arrivals = format!("arrivals = {{ process = \"poisson\", rate = \"{}/s\" }}", options.rate);
        poisson.push(ours(lab, options, &arrivals)?);
        if ditg {
            others.push(theirs(lab, options)?);
        }
    }
    for (key, label, runs, aimed) in [
        ("even", "rehearsal, evenly spaced", &even, true),
        ("poisson", "rehearsal, Poisson", &poisson, false),
        ("ditg", "D-ITG, evenly spaced", &others, false),
    ] {
        if runs.is_empty() {
            report.note(format!("missing: {label}: apt-get install d-itg"));
            continue;
        }
        let each = |of: fn(&Run) -> f64| Figures::of(runs.iter().map(of));
        let ours = key != "ditg";
        let goal = Some(Goal::AtLeast(GOAL_GENERATED)).filter(|_| aimed);
        report.row(&format!("{key}_generated"), &format!("{label}, sent / expected"), &each(|r| r.generated), "", goal);
        let goal = Some(Goal::AtMost(GOAL_LAG_P99_US)).filter(|_| ours);
        report.row(&format!("{key}_lag_p50_us"), "  lag p50", &each(|r| r.p50_us), "µs", None);
        report.row(&format!("{key}_lag_p99_us"), "  lag p99", &each(|r| r.p99_us), "µs", goal);
        report.row(&format!("{key}_lag_max_us"), "  lag max", &each(|r| r.max_us), "µs", None);
        report.row(&format!("{key}_core"), "  share of its core", &each(|r| r.core), "", None);
    }
    report.note(format!(
        "{}/s, 1 kB each: ours as requests of HTTP/1.1 with answers and --quantum {}, D-ITG's as datagrams one way; each sender \
         has a core of its own",
        options.rate, options.quantum
    ));
    Ok(())
}

fn within(options: &Options) -> Duration {
    Duration::from_secs(options.seconds) + RUN_EXTRA
}

fn ours(lab: &mut Lab, options: &Options, pace: &str) -> Result<Run> {
    let listen = free_address()?;
    let file = subject::experiment(lab, "pacing-fast", &experiment(options.seconds, pace, &listen.to_string()))?;
    let mut command = subject::command(lab, "pacing-receiver", "emulate", &file, Some(RECEIVER_CORE))?;
    let receiver = lab.start("pacing-receiver", command.args(["--only", "receiver", "--duration", "24h"]))?;
    receiver.listening(listen)?;
    let mut command = subject::command(lab, "pacing-sender", "emulate", &file, Some(SENDER_CORE))?;
    command.args(["--without", "receiver", "--quantum", &options.quantum]);
    let run = subject::run(lab, "pacing-sender", &mut command, within(options))?;
    drop(receiver);
    let lag = |stat: &str| run.number(&format!("/total/metrics/lag/{stat}_ns")) / 1e3;
    Ok(Run {
        generated: run.number("/total/totals/attempts") / (f64::from(options.rate) * options.seconds as f64),
        p50_us: lag("p50"),
        p99_us: lag("p99"),
        max_us: lag("max"),
        core: run.cpu_seconds / run.number("/duration_seconds"),
    })
}

fn theirs(lab: &mut Lab, options: &Options) -> Result<Run> {
    let (log, text) = (lab.folder.join("pacing-ditg.bin"), lab.folder.join("pacing-ditg.txt"));
    let mut command = lab.command("ITGRecv", Some(RECEIVER_CORE));
    let receiver = lab.start("pacing-ditg-receiver", &mut command)?;
    std::thread::sleep(BEGINS);
    let mut command = lab.command("ITGSend", Some(SENDER_CORE));
    command.args(["-a", "127.0.0.1", "-T", "UDP", "-c", "1000", "-C", &options.rate.to_string(), "-t"]);
    command.arg((options.seconds * 1000).to_string()).arg("-l").arg(&log);
    let done = lab.start("pacing-ditg", &mut command)?.finish(within(options), &[0])?;
    drop(receiver);
    let decoded = Command::new("ITGDec").arg(&log).arg("-l").arg(&text).output().context("ITGDec")?;
    ensure!(decoded.status.success(), "ITGDec: {}", String::from_utf8_lossy(&decoded.stderr));
    let times = sent_us(&fs::read_to_string(&text).context("what ITGDec writes")?);
    let mut run = paced(&times, f64::from(options.rate)).context("D-ITG told of no packet")?;
    run.generated = times.len() as f64 / (f64::from(options.rate) * options.seconds as f64);
    run.core = done.cpu_seconds / options.seconds as f64;
    Ok(run)
}

/// When packets were sent, µs of the day: `… txTime>12:34:56.123456 …` on each line.
fn sent_us(text: &str) -> Vec<f64> {
    let one = |line: &str| {
        let time = line.split("txTime>").nth(1)?.split_whitespace().next()?;
        let mut parts = time.split(':').map(str::parse::<f64>);
        let (hours, minutes, seconds) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
        Some((hours * 3600.0 + minutes * 60.0 + seconds) * 1e6)
    };
    text.lines().filter_map(one).collect()
}

/// How late each was against an even pace from the first on, counted from the one that was most on time.
fn paced(times: &[f64], rate: f64) -> Option<Run> {
    let first = *times.first()?;
    let mut late: Vec<f64> =
        times.iter().enumerate().map(|(row, time)| time - first - row as f64 * 1e6 / rate).collect();
    late.sort_by(f64::total_cmp);
    let least = *late.first()?;
    let at = |share: f64| late[((late.len() - 1) as f64 * share).round() as usize] - least;
    Some(Run { p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0), ..Run::default() })
}

fn experiment(seconds: u64, pace: &str, listen: &str) -> String {
    format!(
        r#"# One sensor at a high rate, its receiver in a process of its own.
[experiment]
name = "bench-pacing-fast"
duration = "{seconds}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
{pace}
in_flight = 256
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
listen = "{listen}"
workers = 256

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
    fn packets_are_held_against_an_even_pace() {
        let line =
            |us: u32| format!("Flow>1 Seq>1 Src>x/1 Dest>y/2 txTime>0:00:01.{us:06} rxTime>0:00:01.9 Size>1000\n");
        // at 10,000/s one each 100 µs; the third is 30 µs late
        let text: String = [0, 100, 230, 300].map(line).concat();
        let times = sent_us(&text);
        assert_eq!(times.len(), 4);
        let run = paced(&times, 10_000.0).expect("packets");
        assert_eq!((run.p50_us.round(), run.max_us.round()), (0.0, 30.0));
        assert!(paced(&sent_us("nothing\n"), 1.0).is_none());
    }
}
