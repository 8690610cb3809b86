//! A receiver that is stopped for 1.4 s: response times hold the delay of all who waited, service times do not.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::super::figures::Figures;
use super::super::lab::Lab;
use super::super::process::free_address;
use super::super::report::{Goal, Report};
use super::super::subject;
use super::signal;

/// How long the receiver stands still. Source: the example of wrk2's own page.
const STALL: Duration = Duration::from_millis(1400);
/// When it does, after the sender was started.
const BEFORE: Duration = Duration::from_millis(2500);
/// Seconds of traffic.
const SECONDS: u64 = 6;
/// What a run may take longer than its traffic.
const RUN_EXTRA: Duration = Duration::from_secs(30);
/// The least that the response time's p99 is to show, ms: 70 of 300 requests fall due in the stall, so it is the wait of
/// the third to be late, 60 ms after the stall began.
const GOAL_RESPONSE_MS: f64 = 1300.0;
/// The most that the service time's p99 may show, ms. Assumed: seven times less than half a gap's queue, far from 1.4 s.
const GOAL_SERVICE_MS: f64 = 10.0;

/// Measures it once.
pub fn measure(lab: &mut Lab, report: &mut Report) -> Result<()> {
    eprintln!("a receiver that is stopped: {SECONDS} s");
    let address = free_address()?;
    let file = subject::experiment(lab, "truth-stall", &experiment(&address.to_string()))?;
    let mut command = subject::command(lab, "truth-stall-receiver", "emulate", &file, None)?;
    let receiver = lab.start("truth-stall-receiver", command.args(["--only", "receiver"]))?;
    receiver.listening(address)?;
    let mut command = subject::command(lab, "truth-stall", "emulate", &file, None)?;
    command.args(["--without", "receiver"]);
    let outcome = std::thread::scope(|scope| {
        let stopper = scope.spawn(|| {
            sleep(BEFORE);
            signal(&receiver, "STOP")?;
            sleep(STALL);
            signal(&receiver, "CONT")
        });
        let outcome = subject::run(lab, "truth-stall", &mut command, Duration::from_secs(SECONDS) + RUN_EXTRA);
        let stopped = stopper.join();
        stopped.unwrap_or_else(|_| Err(anyhow::anyhow!("the thread that stops the receiver ended early")))?;
        outcome
    })?;
    let ms = |metric: &str| Figures::of([outcome.number(&format!("/total/metrics/{metric}/p99_ns")) / 1e6]);
    let goal = Some(Goal::AtLeast(GOAL_RESPONSE_MS));
    report.row("a1_response_p99_ms", "a1 stop of 1.4 s: response p99", &ms("response"), "ms", goal);
    let goal = Some(Goal::AtMost(GOAL_SERVICE_MS));
    report.row("a1_service_p99_ms", "a1 stop of 1.4 s: service p99", &ms("service"), "ms", goal);
    Ok(())
}

fn experiment(address: &str) -> String {
    format!(
        r#"# One sensor, one request under way, a receiver that is stopped for a while.
[experiment]
name = "bench-truth-stall"
duration = "{SECONDS}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "50/s"
in_flight = 1
on_late = "queue"
timeout = "3s"

[nodes.receiver.actors.main]
kind = "receiver"
listen = "{address}"
"#
    )
}
