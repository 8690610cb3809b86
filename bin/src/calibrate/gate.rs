//! The gate: what else a host did while something was measured on it, and how much of that is too much. The limits are
//! fixed beforehand, so that no result can choose its tries.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// `USER_HZ`, the unit of CPU time in `/proc` (time(7)): 100 on every architecture that Linux has a Rust target for.
const TICKS_PER_SECOND: f64 = 100.0;
/// CPU time of the computation before and after a try: ten periods of a scheduler that gives each thread 3 ms. Assumed.
const PROBE_NS: u64 = 30_000_000;
/// How long a try waits for others to be done. Assumed: a compiler that runs for longer runs for minutes.
const CALM_MAX: Duration = Duration::from_secs(4);
/// Over which time a host is called calm: twenty-five ticks.
const CALM_LOOK: Duration = Duration::from_millis(250);

/// Limits of a try that is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// Time that the hypervisor gave to others, % of all.
    pub steal_percent_max: f64,
    /// Cores that other programs used on average.
    pub other_cores_max: f64,
    /// A computation's time by the clock over its CPU time.
    pub wall_per_cpu_max: f64,
}

impl Gate {
    /// The one gate there is. Assumed: 1 % and 0.15 cores move no figure by more than its bound; 1.05 is the ratio above
    /// which percentiles of a prototype went wrong by 20 % and more while rates still held.
    pub const FIXED: Gate = Gate { steal_percent_max: 1.0, other_cores_max: 0.15, wall_per_cpu_max: 1.05 };

    /// What is too much, in words; empty if the try passes.
    pub fn objections(&self, c: &Contention) -> Vec<String> {
        let limits = [
            (c.steal_percent, self.steal_percent_max, "% stolen"),
            (c.other_cores, self.other_cores_max, "cores used by others"),
            (c.wall_per_cpu, self.wall_per_cpu_max, "times its CPU time for a computation"),
        ];
        let too_much = limits.into_iter().filter(|(value, max, _)| value > max);
        too_much.map(|(value, max, what)| format!("{value:.3} {what}, at most {max}")).collect()
    }

    /// Whether a try may be used.
    pub fn passes(&self, contention: &Contention) -> bool {
        self.objections(contention).is_empty()
    }
}

/// What else a host did during a try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Contention {
    /// Time that the hypervisor gave to others, % of all.
    pub steal_percent: f64,
    /// Cores that other programs used on average.
    pub other_cores: f64,
    /// A computation's time by the clock over its CPU time, the worse one of before and after.
    pub wall_per_cpu: f64,
}

/// A try that goes on.
pub struct Watch {
    begun: Instant,
    ticks: Ticks,
    own: f64,
    before: f64,
}

impl Watch {
    /// Begins to look.
    pub fn begin() -> Self {
        let before = probe();
        Watch { begun: Instant::now(), ticks: Ticks::now(), own: own_seconds(), before }
    }

    /// What else happened since; what is measured must have ended and been waited for. `servers` seconds of CPU time were
    /// used by a server that belongs to the try and still runs.
    pub fn end(self, servers: f64) -> Contention {
        let wall = self.begun.elapsed().as_secs_f64();
        let (ticks, own) = (Ticks::now(), own_seconds() - self.own + servers);
        let after = probe();
        let all = ticks.all - self.ticks.all;
        let busy = (ticks.busy - self.ticks.busy) / TICKS_PER_SECOND;
        Contention {
            steal_percent: if all > 0.0 { (ticks.stolen - self.ticks.stolen) * 100.0 / all } else { 0.0 },
            other_cores: ((busy - own) / wall).max(0.0),
            wall_per_cpu: self.before.max(after),
        }
    }
}

/// Waits until others leave the host alone, at most [`CALM_MAX`]: a try that begins in company fails its gate.
pub fn calm() {
    let end = Instant::now() + CALM_MAX;
    loop {
        let (begun, ticks, own) = (Instant::now(), Ticks::now(), own_seconds());
        sleep(CALM_LOOK);
        let busy = (Ticks::now().busy - ticks.busy) / TICKS_PER_SECOND - (own_seconds() - own);
        let cores = busy / begun.elapsed().as_secs_f64();
        if cores <= Gate::FIXED.other_cores_max || Instant::now() >= end {
            return;
        }
    }
}

/// Time by the clock over CPU time of a computation on this thread.
fn probe() -> f64 {
    let (begun, cpu) = (Instant::now(), thread_ns());
    let mut noise = 1_u64;
    loop {
        for _ in 0..10_000 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        let used = thread_ns() - cpu;
        if std::hint::black_box(noise) == 0 || used >= PROBE_NS {
            return begun.elapsed().as_nanos() as f64 / used as f64;
        }
    }
}

fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Ticks of all cores since the host was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    all: f64,
    busy: f64,
    stolen: f64,
}

impl Ticks {
    fn now() -> Self {
        Ticks::read(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)).
    fn read(text: &str) -> Option<Self> {
        let fields: Vec<f64> = text
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let [user, nice, system, idle, wait, irq, soft, stolen] = *fields.get(..8)? else { return None };
        let busy = user + nice + system + irq + soft;
        Some(Ticks { all: busy + idle + wait + stolen, busy, stolen })
    }
}

/// CPU time of this process and of all its children that were waited for, seconds.
fn own_seconds() -> f64 {
    seconds("/proc/self/stat", 4)
}

/// CPU time of another process, seconds; 0 if it is no more.
pub fn process_seconds(id: u32) -> f64 {
    seconds(&format!("/proc/{id}/stat"), 2)
}

/// The first `fields` of user, system, and the same of children, in proc(5) from field 14 on.
fn seconds(path: &str, fields: usize) -> f64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    // the name in parentheses may hold anything
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = rest.split_whitespace().skip(11).take(fields).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_judged_alone() {
        let quiet = Contention { steal_percent: 1.0, other_cores: 0.15, wall_per_cpu: 1.05 };
        assert!(Gate::FIXED.passes(&quiet), "limits themselves are inside");
        let spoilt = [
            (Contention { steal_percent: 1.1, ..quiet }, "1.100 % stolen, at most 1"),
            (Contention { other_cores: 0.2, ..quiet }, "0.200 cores used by others, at most 0.15"),
            (Contention { wall_per_cpu: 2.0, ..quiet }, "2.000 times its CPU time for a computation, at most 1.05"),
        ];
        for (contention, why) in spoilt {
            assert_eq!(Gate::FIXED.objections(&contention), [why]);
        }
    }

    #[test]
    fn ticks_are_read_as_the_kernel_writes_them() {
        let ticks = Ticks::read("cpu  10 1 5 80 2 1 1 4 0 0\ncpu0 1 2 3").expect("eight fields");
        assert_eq!(ticks, Ticks { all: 104.0, busy: 18.0, stolen: 4.0 });
        assert_eq!(Ticks::read("cpu  10 1 5"), None);
        assert_eq!(Ticks::read(""), None);
    }

    #[test]
    fn own_work_is_not_the_work_of_others() {
        let before = own_seconds();
        while own_seconds() < before + 0.05 {
            std::hint::black_box(probe());
        }
        assert!(process_seconds(std::process::id()) >= 0.05);
        assert_eq!(process_seconds(u32::MAX), 0.0);
    }
}
