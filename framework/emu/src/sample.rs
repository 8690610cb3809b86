//! What this process uses of its host, from the kernel's own files (proc(5)).
//!
//! In embedded placement nodes share the process, so what one node uses is known only if it is the only measured one;
//! otherwise it is unknown, and said to be.

use std::fs;

use rehearsal_core::messages::HostSample;
use rehearsal_core::plan::{NodePlan, Plan};
use rustix::time::{ClockId, clock_gettime};

/// Measures the process for the node that it stands for.
pub(crate) struct Sampler {
    /// Cores that are 100 %.
    cores: f64,
    /// Bytes that are 100 %.
    memory: Option<u64>,
    usage: Usage,
    host: HostTicks,
}

/// Shortest time over which a use of cores is told: half a second.
const WALL_NS_MIN: u64 = 500_000_000;

/// CPU time since the last look.
pub(crate) struct Usage {
    wall_ns: u64,
    cpu_ns: u64,
}

/// Ticks of all cores of the host since it was started: all, and those that its hypervisor gave to others.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct HostTicks {
    all: u64,
    stolen: u64,
}

impl Sampler {
    /// The row of the node that this process stands for, if it is the only measured one here, and its sampler.
    pub(crate) fn of(plan: &Plan) -> Option<(usize, Sampler)> {
        let mut measured = plan.nodes.iter().enumerate().filter(|(_, n)| n.local && n.measured);
        let (row, node) = measured.next()?;
        measured.next().is_none().then(|| (row, Sampler::new(node)))
    }

    fn new(node: &NodePlan) -> Self {
        let host = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        let memory = node.memory.map(|m| m.0).or_else(|| host_memory(&read("/proc/meminfo")?));
        let ticks = read("/proc/stat").and_then(|text| host_ticks(&text)).unwrap_or_default();
        Sampler { cores: node.vcpu.unwrap_or(host), memory, usage: Usage::now(), host: ticks }
    }

    /// Measures the time since the last look.
    pub(crate) fn fill(&mut self, sample: &mut HostSample) {
        sample.cpu_percent = self.usage.since_last().map(|cores| cores * 100.0 / self.cores);
        sample.cpu_ghz = clock_ghz();
        sample.memory_bytes = read("/proc/self/statm").and_then(|text| resident(&text));
        sample.memory_percent =
            sample.memory_bytes.zip(self.memory).map(|(used, all)| used as f64 * 100.0 / all as f64);
        let ticks = read("/proc/stat").and_then(|text| host_ticks(&text));
        sample.steal_percent = ticks.and_then(|ticks| {
            let (all, stolen) =
                (ticks.all - self.host.all.min(ticks.all), ticks.stolen.saturating_sub(self.host.stolen));
            self.host = ticks;
            (all > 0).then(|| stolen as f64 * 100.0 / all as f64)
        });
    }

    /// Begins to count now.
    pub(crate) fn begin(&mut self) {
        self.usage = Usage::now();
        self.host = read("/proc/stat").and_then(|text| host_ticks(&text)).unwrap_or_default();
    }
}

impl Usage {
    /// Begins to count now.
    pub(crate) fn now() -> Self {
        Usage { wall_ns: nanos(ClockId::Monotonic), cpu_ns: nanos(ClockId::ProcessCPUTime) }
    }

    /// Cores that the process used on average since the last look. A look that comes soon after another, as when the
    /// process was held up and catches up, is none: a few microseconds tell nothing of a second.
    pub(crate) fn since_last(&mut self) -> Option<f64> {
        self.until(Usage::now())
    }

    fn until(&mut self, now: Usage) -> Option<f64> {
        let (wall, cpu) = (now.wall_ns.saturating_sub(self.wall_ns), now.cpu_ns.saturating_sub(self.cpu_ns));
        if wall < WALL_NS_MIN {
            return None;
        }
        *self = now;
        Some(cpu as f64 / wall as f64)
    }
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Mean clock of the cores: from cpufreq where the kernel has it, else what it says of each processor.
fn clock_ghz() -> Option<f64> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let path = |core: usize| format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
    let khz: Vec<f64> = (0..cores).map_while(|core| read(&path(core))?.trim().parse().ok()).collect();
    match khz.is_empty() {
        true => cpuinfo_ghz(&read("/proc/cpuinfo")?),
        false => Some(khz.iter().sum::<f64>() / khz.len() as f64 / 1e6),
    }
}

fn cpuinfo_ghz(text: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| line.starts_with("cpu MHz"));
    let mhz: Vec<f64> = lines.filter_map(|line| line.split_once(':')?.1.trim().parse().ok()).collect();
    (!mhz.is_empty()).then(|| mhz.iter().sum::<f64>() / mhz.len() as f64 / 1e3)
}

/// Resident bytes out of `/proc/self/statm`: its second number, in pages.
fn resident(text: &str) -> Option<u64> {
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn host_memory(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guests are counted as user.
fn host_ticks(text: &str) -> Option<HostTicks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
    (ticks.len() == 8).then(|| HostTicks { all: ticks.iter().sum(), stolen: ticks[7] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        let stat = "cpu  168453 27028 24867 234940 1201 5 387 79 900 0\ncpu0 1 2 3\n";
        assert_eq!(host_ticks(stat), Some(HostTicks { all: 456_960, stolen: 79 }));
        assert_eq!(host_ticks("cpu  1 2 3\n"), None);
        assert_eq!(host_memory("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16_777_216));
        assert_eq!(resident("7650 384 300 1 0 100 0"), Some(384 * rustix::param::page_size() as u64));
        let ghz = cpuinfo_ghz("processor : 0\ncpu MHz\t\t: 2000.000\nprocessor : 1\ncpu MHz\t\t: 3000.0\n");
        assert!((ghz.expect("two cores") - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_busy_process_uses_a_core() {
        let before = Usage::now();
        let end = before.cpu_ns + 20_000_000;
        while nanos(ClockId::ProcessCPUTime) < end {
            std::hint::spin_loop();
        }
        assert!(Usage::now().cpu_ns >= end);
    }

    #[test]
    fn a_look_soon_after_another_is_none_and_loses_nothing() {
        let mut usage = Usage { wall_ns: 0, cpu_ns: 0 };
        let mut look =
            |wall_ms: u64, cpu_ms: u64| usage.until(Usage { wall_ns: wall_ms * 1_000_000, cpu_ns: cpu_ms * 1_000_000 });
        assert_eq!(look(1_000, 250), Some(0.25));
        assert_eq!(look(5_000, 450), Some(0.05), "held up for three seconds: the time that really passed");
        assert_eq!([look(5_000, 450), look(5_001, 451), look(5_499, 700)], [None; 3]);
        assert_eq!(look(6_000, 950), Some(0.5), "from the last look that counted");
    }
}
