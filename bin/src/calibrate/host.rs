//! The host that is measured: its name, and how its cores hinder each other.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rehearsal_core::calibration::CalibratedHost;

use super::fit::median;
use super::gate::{Gate, Watch};
use crate::destination::stamp;
use crate::facts::unix_ns;

/// How long all threads compute at the same time.
const SPIN: Duration = Duration::from_millis(200);
/// Rounds of one number of threads, at most.
const ROUNDS: usize = 5;
/// Cores that are tried, at most: of a larger host the last figure holds for more.
const CORES_MAX: u32 = 16;

/// What this host is called, and what it is.
pub fn identity() -> CalibratedHost {
    let name = rustix::system::uname();
    let text = |part: &core::ffi::CStr| part.to_string_lossy().into_owned();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let stamp = stamp(unix_ns() / 1_000_000_000);
    CalibratedHost {
        id: text(name.nodename()),
        measured: true,
        machine: format!("{model}, {cores} cores"),
        kernel: text(name.release()),
        date: format!("{}-{}-{}", &stamp[..4], &stamp[4..6], &stamp[6..8]),
        contention: None,
    }
}

/// Speed of each core when 1, 2, 3, … of them compute, as a share of one alone; ends before the first number for which no
/// round passed the gate, unless `anyway`.
pub fn scaling(cores: u32, anyway: bool) -> Vec<f64> {
    let mut speeds: Vec<f64> = Vec::new();
    for threads in 1..=cores.min(CORES_MAX) {
        let mut found = Vec::new();
        for _ in 0..ROUNDS {
            let watch = Watch::begin();
            let speed = together(threads);
            if anyway || Gate::FIXED.passes(&watch.end(0.0)) {
                found.push(speed);
            }
        }
        let Some(speed) = median(&found) else { break };
        speeds.push(speed);
    }
    let alone = speeds.first().copied().unwrap_or(1.0);
    // noise can make two cores faster than one: that is no speed-up
    speeds.iter().map(|speed| ((speed / alone).clamp(0.01, 1.0) * 1000.0).round() / 1000.0).collect()
}

/// Steps per second of each of some threads that compute at the same time.
fn together(threads: u32) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let steps: u64 = thread::scope(|scope| {
        let spin = || {
            barrier.wait();
            let begun = Instant::now();
            let (mut steps, mut noise) = (0_u64, 1_u64);
            while begun.elapsed() < SPIN {
                for _ in 0..10_000 {
                    noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                }
                steps += u64::from(std::hint::black_box(noise) != 0);
            }
            steps
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(spin)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(0)).sum()
    });
    steps as f64 / f64::from(threads) / SPIN.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_name_and_a_date() {
        let host = identity();
        assert!(host.measured && !host.id.is_empty() && !host.kernel.is_empty());
        assert_eq!((host.date.len(), &host.date[..2]), (10, "20"));
    }

    #[test]
    fn speeds_are_shares_of_one_core_alone() {
        let speeds = scaling(2, true);
        assert_eq!((speeds.len(), speeds[0]), (2, 1.0));
        assert!(speeds[1] > 0.0 && speeds[1] <= 1.0);
        assert!(scaling(0, true).is_empty());
    }
}
