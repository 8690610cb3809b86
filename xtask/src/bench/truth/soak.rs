//! A day of virtual time: resident memory after its first quarter and in the rest.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::super::figures::Figures;
use super::super::lab::Lab;
use super::super::report::{Goal, Report};
use super::super::subject;

/// Hours of traffic.
const HOURS: u64 = 24;
/// Requests a second.
const RATE: u64 = 50;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(20);
/// A run takes no longer, or it hangs.
const RUN_MAX: Duration = Duration::from_secs(900);
/// The most that memory may be in the last three quarters, over what it was in the first.
const GOAL_GROWTH: f64 = 1.1;

/// Measures one run.
pub fn measure(lab: &mut Lab, report: &mut Report) -> Result<()> {
    eprintln!("{HOURS} h of virtual time");
    let file = subject::experiment(lab, "truth-soak", &experiment())?;
    let mut command = subject::command(lab, "truth-soak", "simulate", &file, None)?;
    let log = lab.folder.join("bundles/truth-soak.partial/latency.hlog");
    let begun = Instant::now();
    let running = lab.start("truth-soak", &mut command)?;
    // how far the run is shows in what it has written: each look is bytes of the log and kB of memory
    let mut looks = Vec::new();
    while !running.ended()? {
        ensure!(begun.elapsed() < RUN_MAX, "the run takes longer than {RUN_MAX:?}");
        let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap_or_default();
        let written = fs::metadata(&log).map(|file| file.len());
        looks.extend(written.ok().zip(resident_kb(&status)));
        sleep(LOOK);
    }
    running.finish(RUN_MAX, &[0])?;
    let whole = looks.iter().map(|(bytes, _)| *bytes).max().context("the run was too short to look at")?;
    let most = |from: u64, to: u64| {
        let part = looks.iter().filter(|(bytes, _)| (from..=to).contains(bytes));
        part.map(|(_, kb)| *kb as f64).max_by(f64::total_cmp).context("the run was too short to look at")
    };
    let (early, late) = (most(whole / 8, whole / 4)?, most(whole / 4, whole)?);
    let mb = |kb: f64| Figures::of([kb * 1024.0 / 1e6]);
    report.row("a3_early_mb", "a3 24 h virtual: memory in the first quarter", &mb(early), "MB", None);
    report.row("a3_late_mb", "a3 24 h virtual: memory after it", &mb(late), "MB", None);
    let goal = Some(Goal::AtMost(GOAL_GROWTH));
    report.row("a3_growth", "a3 24 h virtual: the one over the other", &Figures::of([late / early]), "", goal);
    report.note(format!(
        "a3: {HOURS} h at {RATE}/s took {:.0} s, {} looks",
        begun.elapsed().as_secs_f64(),
        looks.len()
    ));
    Ok(())
}

/// Resident memory in the words of proc_pid_status(5), kB.
fn resident_kb(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn experiment() -> String {
    format!(
        r#"# A day of a sensor.
[experiment]
name = "bench-truth-soak"
duration = "{HOURS}h"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "{RATE}/s"
in_flight = 16

[nodes.receiver.actors.main]
kind = "receiver"

[links.default]
delay = "2ms"
rate = "100Mbit/s"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_found() {
        assert_eq!(resident_kb("VmPeak:\t  9 kB\nVmRSS:\t  4216 kB\n"), Some(4216));
        assert_eq!(resident_kb("VmPeak:\t  9 kB\n"), None);
    }
}
