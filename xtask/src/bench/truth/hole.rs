//! A target that takes connections and never answers: how long a run of 3 s and 2 s of grace takes.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::Result;

use super::super::figures::Figures;
use super::super::lab::Lab;
use super::super::report::{Goal, Report};
use super::super::subject;

/// Seconds of traffic.
const SECONDS: f64 = 3.0;
/// Seconds of grace.
const GRACE: f64 = 2.0;
/// Seconds for everything else: to start, and to write the bundle. Assumed.
const AROUND: f64 = 1.0;
/// How far traffic may miss its end, seconds. Assumed: a timer's slack, a hundred times over.
const MISS: f64 = 0.01;
/// A run takes no longer, or it hangs.
const RUN_MAX: Duration = Duration::from_secs(60);

/// Measures with a time limit below the grace and with one beyond the run.
pub fn measure(lab: &mut Lab, report: &mut Report) -> Result<()> {
    let silent = TcpListener::bind(("127.0.0.1", 0))?;
    let address = silent.local_addr()?.to_string();
    let (mut traffic, mut whole) = (Vec::new(), Vec::new());
    for timeout in ["600ms", "1min"] {
        eprintln!("a target that never answers, time limit {timeout}: {SECONDS} s");
        let file = subject::experiment(lab, "truth-hole", &experiment(&address, timeout))?;
        let mut command = subject::command(lab, "truth-hole", "emulate", &file, None)?;
        let outcome = subject::run(lab, "truth-hole", command.args(["--without", "receiver"]), RUN_MAX)?;
        traffic.push((outcome.number("/duration_seconds") - SECONDS).abs());
        whole.push(outcome.wall_seconds - SECONDS);
    }
    let goal = Some(Goal::AtMost(MISS));
    report.row("a10_missed_s", "a10 no answers: traffic's end missed by", &Figures::of(traffic), "s", goal);
    let goal = Some(Goal::AtMost(GRACE + AROUND));
    report.row("a10_longer_s", "a10 no answers: run − traffic (grace 2 s)", &Figures::of(whole), "s", goal);
    Ok(())
}

fn experiment(address: &str, timeout: &str) -> String {
    format!(
        r#"# A target that never answers.
[experiment]
name = "bench-truth-hole"
duration = "{SECONDS}s"
grace = "{GRACE}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "20/s"
in_flight = 100
retries = 0
timeout = "{timeout}"

[nodes.receiver.actors.main]
kind = "receiver"
listen = "{address}"
"#
    )
}
