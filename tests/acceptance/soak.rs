//! A long run: a day of virtual time, in which every second is reported and stored, and the memory that takes.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Bundle, Scenario, Scratch, beside};

/// A day.
const SECONDS: u64 = 24 * 3600;
/// What a run may grow by after its first quarter, kB: 260 bytes for each second of the rest, far less than what a second
/// leaves in the bundle. Assumed: what the allocator keeps, and the tables' footers, which have an entry per row group.
const GROWTH_KB: u64 = 16 * 1024;

/// No run of a day takes this long, whatever else the machine does.
const HANGS: Duration = Duration::from_secs(300);

/// Resident memory of a process that runs, kB (proc(5)).
fn resident_kb(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[test]
fn a3_a_day_of_virtual_time_needs_no_more_memory_at_its_end() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor_for("24h", "rate = \"5/s\"\nin_flight = 8").toml());
    let mut running = scratch.start(&["simulate", "trial.toml", "--out", "b", "--quiet"]);
    // how far the run is shows in what it has written
    let written = || fs::metadata(scratch.path("b.partial/latency.hlog")).map_or(0, |file| file.len());
    let mut looks = Vec::new();
    let begun = Instant::now();
    while running.runs() {
        assert!(begun.elapsed() < HANGS, "it hangs");
        looks.extend(resident_kb(running.id()).map(|kb| (written(), kb)));
        thread::sleep(Duration::from_millis(10));
    }
    let done = running.wait();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    let due = 5 * SECONDS;
    assert!((due..=due + 1).contains(&bundle.total("generated")), "{}", bundle.total("generated"));
    assert_eq!(bundle.total("success"), bundle.total("generated"));
    assert_eq!(bundle.summary["telemetry"]["missing_seconds"], 0);
    let whole = looks.iter().map(|(bytes, _)| *bytes).max().expect("it was looked at");
    let early = looks.iter().filter(|(bytes, _)| *bytes > whole / 8 && *bytes <= whole / 4).map(|(_, kb)| *kb).max();
    let late = looks.iter().filter(|(bytes, _)| *bytes > whole / 4).map(|(_, kb)| *kb).max();
    let (early, late) = early.zip(late).expect("it was looked at in every quarter");
    println!("{} looks; {early} kB in the first quarter, {late} kB after it", looks.len());
    assert!(late <= early + GROWTH_KB, "it grew from {early} kB to {late} kB");
}
