//! Camera frames of 150 kB from one process on one core: a hundred cameras at 30 frames a second and how late they are, then as
//! many frames as the core gives, beside the bytes that iperf3 gets through it.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::figures::Figures;
use super::super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::super::process::free_address;
use super::super::report::{Goal, Report};
use super::super::subject;
use super::{EXTRA, Options};

/// Cameras that are to send without lag, and their frames in a second.
const CAMERAS: u32 = 100;
const FRAMES: u32 = 30;
/// Lag p99 in ms of those: a tenth of what is between two frames.
const GOAL_LAG_P99_MS: f64 = 3.3;
/// Share of its schedule that a sender is to generate.
const GOAL_SENT: f64 = 0.999;
/// Our bytes per CPU second over those of iperf3, which sends the same bytes again and again from one buffer.
const GOAL_OVER_IPERF: f64 = 0.7;
/// The clip is prepared once.
const PREPARES: Duration = Duration::from_secs(120);

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Gbit of payload in a second, and in a CPU second of the sender.
    rate: f64,
    per_core: f64,
    frames: f64,
    lag_ms: f64,
    blocked_ms: f64,
}

/// Adds a row for each sender that is there.
pub(super) fn run(lab: &mut Lab, report: &mut Report, options: &Options) -> Result<()> {
    let (mut paced, mut full, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let iperf = std::process::Command::new("iperf3").arg("-v").output().is_ok();
    for pair in 0..options.pairs {
        eprintln!("frames: round {} of {}", pair + 1, options.pairs);
        paced.push(ours(lab, options, CAMERAS, &format!("rate = \"{FRAMES}/s\"\nin_flight = 8"))?);
        full.push(ours(lab, options, 16, "in_flight = 1")?);
        if iperf {
            others.push(iperf3(lab, options)?);
        }
    }
    let each = |runs: &[Run], of: fn(&Run) -> f64| Figures::of(runs.iter().map(of));
    let label = format!("{CAMERAS} cameras at {FRAMES}/s, 150 kB");
    let expected = f64::from(CAMERAS * FRAMES);
    let sent = each(&paced, |r| r.frames).times(1.0 / expected);
    report.row("frames_sent", &format!("{label}, sent / expected"), &sent, "", Some(Goal::AtLeast(GOAL_SENT)));
    let goal = Some(Goal::AtMost(GOAL_LAG_P99_MS));
    report.row("frames_lag_p99", "  lag p99", &each(&paced, |r| r.lag_ms), "ms", goal);
    report.row("frames_blocked_p99", "  waiting for in_flight p99", &each(&paced, |r| r.blocked_ms), "ms", None);
    report.row("frames_rate", "  payload", &each(&paced, |r| r.rate), "Gbit/s", None);
    let most = each(&full, |r| r.frames).times(1.0 / f64::from(FRAMES));
    report.row("frames_most", "as many as one core gives", &most, "cameras at 30/s", None);
    report.row("frames_most_rate", "  payload", &each(&full, |r| r.rate), "Gbit/s", None);
    report.row("frames_most_core", "  payload", &each(&full, |r| r.per_core), "Gbit/CPU s", None);
    if others.is_empty() {
        report.note("missing: iperf3: apt-get install iperf3");
    } else {
        let theirs = Figures::of(others);
        report.row("frames_iperf3", "iperf3, TCP", &theirs, "Gbit/CPU s", None);
        let ratio = each(&full, |r| r.per_core).over(&theirs);
        report.row("frames_over_iperf3", "rehearsal / iperf3", &ratio, "", Some(Goal::AtLeast(GOAL_OVER_IPERF)));
    }
    Ok(())
}

fn ours(lab: &mut Lab, options: &Options, cameras: u32, pace: &str) -> Result<Run> {
    let listen = free_address()?;
    let clip = lab.root.join("configs/media/reference.mp4");
    let text = experiment(options.seconds, &listen.to_string(), &clip.to_string_lossy(), (cameras, pace));
    let file = subject::experiment(lab, "wire-frames", &text)?;
    let mut command = subject::command(lab, "wire-frames-receiver", "emulate", &file, Some(RECEIVER_CORE))?;
    let receiver = lab.start("wire-frames-receiver", command.args(["--only", "receiver", "--duration", "24h"]))?;
    receiver.listening(listen)?;
    let mut command = subject::command(lab, "wire-frames-sender", "emulate", &file, Some(SENDER_CORE))?;
    command.args(["--without", "receiver"]);
    let within = Duration::from_secs(options.seconds) + EXTRA + PREPARES;
    let run = subject::run(lab, "wire-frames-sender", &mut command, within)?;
    drop(receiver);
    let seconds = run.number("/duration_seconds");
    let bits = run.number("/total/totals/bytes_sent") * 8.0 / 1e9;
    let ms = |metric: &str| run.number(&format!("/total/metrics/{metric}/p99_ns")) / 1e6;
    Ok(Run {
        rate: bits / seconds,
        per_core: bits / run.cpu_seconds,
        frames: run.number("/total/totals/success") / options.seconds as f64,
        lag_ms: ms("lag"),
        blocked_ms: ms("blocked"),
    })
}

/// Gbit in a CPU second.
fn iperf3(lab: &mut Lab, options: &Options) -> Result<f64> {
    let address = free_address()?;
    let port = address.port().to_string();
    let mut command = lab.command("iperf3", Some(RECEIVER_CORE));
    let server = lab.start("wire-frames-iperf3-server", command.args(["-s", "-B", "127.0.0.1", "-p", &port]))?;
    server.listening(address)?;
    let mut command = lab.command("iperf3", Some(SENDER_CORE));
    command.args(["-c", "127.0.0.1", "-p", &port, "-J", "-l", "150000", "-t"]);
    command.arg(options.seconds.to_string());
    let within = Duration::from_secs(options.seconds) + EXTRA;
    let done = lab.start("wire-frames-iperf3", &mut command)?.finish(within, &[0])?;
    let said: Value = serde_json::from_str(&done.stdout).context("what iperf3 prints")?;
    let bytes = said.pointer("/end/sum_sent/bytes").and_then(Value::as_f64).context("what iperf3 prints")?;
    Ok(bytes * 8.0 / 1e9 / done.cpu_seconds)
}

fn experiment(seconds: u64, listen: &str, clip: &str, (cameras, pace): (u32, &str)) -> String {
    format!(
        r#"# Cameras of one process, with frames of 150 kB in the mean.
[experiment]
name = "bench-wire-frames"
duration = "{seconds}s"

[nodes.field.actors.camera]
kind = "camera"
count = {cameras}
to = "receiver/main"
{pace}
media = "{clip}"
frame = "100kB..200kB"
encode = "prepared"

[nodes.receiver.actors.main]
kind = "receiver"
listen = "{listen}"
workers = 1000

[links.default]
carrier = "http1"
connection = "keep-alive"
"#
    )
}
