//! Rates that divide no second evenly, of fifty clients: 70, 78 and 80 requests a second each.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::figures::Figures;
use super::super::lab::Lab;
use super::super::pacing::sent_each_second;
use super::super::report::{Goal, Report};
use super::super::subject;

/// Clients.
const CLIENTS: u64 = 50;
/// Requests a second of each. Source: the report of h2load's users on rates that were missed and exceeded.
const RATES: [u64; 3] = [70, 78, 80];
/// Share of the target that is to leave within the duration.
const GOAL_ACHIEVED: f64 = 0.995;
/// What a run may take longer than its traffic.
const RUN_EXTRA: Duration = Duration::from_secs(30);

/// Measures each rate once.
pub fn measure(lab: &mut Lab, report: &mut Report, seconds: u64) -> Result<()> {
    let mut above = 0;
    for rate in RATES {
        eprintln!("{rate}/s of {CLIENTS} clients: {seconds} s");
        let file = subject::experiment(lab, "truth-rates", &experiment(rate, seconds))?;
        let mut command = subject::command(lab, "truth-rates", "emulate", &file, None)?;
        let within = Duration::from_secs(seconds) + RUN_EXTRA;
        let outcome = subject::run(lab, "truth-rates", command.arg("--csv"), within)?;
        let csv = fs::read_to_string(outcome.bundle.join("series.csv")).context("the series of our run")?;
        let sent = sent_each_second(&csv).context("the series has no column `sent`")?;
        let in_time: u64 = sent.iter().take(seconds as usize).sum();
        let achieved = Figures::of([in_time as f64 / (rate * CLIENTS * seconds) as f64]);
        let label = format!("a2 {rate}/s × {CLIENTS}: sent in time / target");
        report.row(&format!("a2_achieved_{rate}"), &label, &achieved, "", Some(Goal::AtLeast(GOAL_ACHIEVED)));
        // each client may send one more than its rate
        let allowed = (rate + 1) * CLIENTS;
        above += sent.iter().filter(|sent| **sent > allowed).count();
        report.note(format!("a2 {rate}/s of {CLIENTS} clients: {}", outcome.judged()));
    }
    let above = Figures::of([above as f64]);
    report.row("a2_above", "a2 seconds above R+1, at all rates", &above, "s", Some(Goal::AtMost(0.0)));
    Ok(())
}

fn experiment(rate: u64, seconds: u64) -> String {
    format!(
        r#"# Fifty clients that each keep a rate which divides no second evenly.
[experiment]
name = "bench-truth-rates"
duration = "{seconds}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "{rate}/s"
streams = {CLIENTS}
in_flight = 16
bytes = "200B"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 64
"#
    )
}
