//! What this process uses, or the control group of the one node that it stands for.

use rehearsal_core::messages::HostSample;
use rehearsal_host::cgroup::{self, Meter, Quotas};
use rehearsal_host::machine::Memory;
use rehearsal_host::process::{Descriptors, Switches, resident_bytes};
use rustix::time::ClockId;

use super::{Net, Shared, WALL_NS_MIN, nanos, percent};

/// This process at the last look.
pub(super) struct Own {
    /// Cores that are 100 %.
    cores: f64,
    /// Bytes that are 100 %; `None`: the machine's memory.
    memory: Option<u64>,
    source: Source,
    switches: Switches,
    /// A network namespace that nobody else uses.
    net: Option<Net>,
}

/// Where a node's use is read.
enum Source {
    Process(Look, Quotas),
    Group(Box<Meter>, Look),
}

/// CPU time at a look.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    wall_ns: u64,
    /// Of a group.
    used: cgroup::Usage,
}

/// What was used since the last look.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Used {
    cores: Option<f64>,
    throttled_ns: Option<u64>,
    memory_bytes: Option<u64>,
}

impl Own {
    /// Measures this process, or the group that `meter` reads. It is allowed `vcpu` cores and `memory` bytes.
    pub fn new(vcpu: Option<f64>, memory: Option<u64>, meter: Option<&Meter>, net: Option<Net>) -> Self {
        let cores = vcpu.unwrap_or_else(|| std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64));
        Own { cores, memory, source: Source::new(meter), switches: Switches::default(), net }
    }

    /// Begins to count now.
    pub fn begin(&mut self) {
        self.source.begin();
        self.switches = Switches::now();
        if let Some(net) = &mut self.net {
            net.last = net.space.counters();
        }
    }

    /// Measures the time since the last look.
    pub fn fill(&mut self, sample: &mut HostSample, shared: &Shared, memory: Option<Memory>) {
        let used = self.source.since_last();
        let ghz = shared.clock.map(|(ghz, _)| ghz);
        sample.cpu_percent = used.cores.map(|cores| cores * 100.0 / self.cores);
        sample.cpu_host_percent = used.cores.zip(shared.cores).map(|(used, all)| used * 100.0 / all);
        (sample.cpu_ghz, sample.cpu_used_ghz) = (ghz, used.cores.zip(ghz).map(|(cores, ghz)| cores * ghz));
        (sample.steal_percent, sample.throttled_ns) = (shared.steal_percent, used.throttled_ns);
        sample.memory_bytes = used.memory_bytes;
        sample.memory_percent = percent(used.memory_bytes, self.memory.or(memory.map(|memory| memory.total)));
        let switched = self.switches.since_last();
        sample.voluntary_switches = switched.map(|switched| switched.voluntary);
        sample.involuntary_switches = switched.map(|switched| switched.involuntary);
        if let Some(net) = &mut self.net {
            net.fill(sample);
        }
        let descriptors = Descriptors::read();
        (sample.open_files, sample.open_files_limit) = (descriptors.open, descriptors.limit);
        // a namespace counts closed sockets that still hold back their port
        sample.open_sockets = descriptors.sockets.or(sample.open_sockets);
    }
}

impl Source {
    fn new(meter: Option<&Meter>) -> Self {
        let mut source = match meter {
            None => Source::Process(Look::default(), Quotas::own()),
            Some(meter) => Source::Group(Box::new(meter.clone()), Look::default()),
        };
        source.begin();
        source
    }

    fn begin(&mut self) {
        let now = self.now();
        match self {
            Source::Process(last, _) | Source::Group(_, last) => *last = now,
        }
    }

    fn now(&self) -> Look {
        let wall_ns = nanos(ClockId::Monotonic);
        let used = match self {
            Source::Process(_, quotas) => cgroup::Usage {
                cpu_ns: Some(nanos(ClockId::ProcessCPUTime)),
                throttled_ns: quotas.throttled_ns(),
                memory_bytes: resident_bytes(),
                ..cgroup::Usage::default()
            },
            Source::Group(meter, _) => meter.usage(),
        };
        Look { wall_ns, used }
    }

    fn since_last(&mut self) -> Used {
        let now = self.now();
        match self {
            Source::Process(last, _) | Source::Group(_, last) => {
                let used = last.until(now);
                if used.cores.is_some() {
                    *last = now;
                }
                used
            }
        }
    }
}

impl Look {
    /// What was used between this look and `now`. A look that comes soon after another, as when the process was held up and
    /// catches up, is none: a few microseconds tell nothing of a second. The kernel adds up the cores on which a group was
    /// held back, but nobody is held back for longer than the time that passed.
    fn until(&self, now: Look) -> Used {
        let wall_ns = now.wall_ns.saturating_sub(self.wall_ns);
        let long_enough = wall_ns >= WALL_NS_MIN;
        let grown = |of: fn(&cgroup::Usage) -> Option<u64>| Some(of(&now.used)?.saturating_sub(of(&self.used)?));
        Used {
            cores: grown(|u| u.cpu_ns).filter(|_| long_enough).map(|ns| ns as f64 / wall_ns as f64),
            throttled_ns: grown(|u| u.throttled_ns).filter(|_| long_enough).map(|ns| ns.min(wall_ns)),
            memory_bytes: now.used.memory_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall_ns: u64, cpu: u64, throttled: u64) -> Look {
        let used = cgroup::Usage {
            cpu_ns: Some(cpu),
            throttled_ns: Some(throttled),
            memory_bytes: Some(9),
            ..cgroup::Usage::default()
        };
        Look { wall_ns, used }
    }

    #[test]
    fn a_group_is_held_back_for_no_longer_than_time_passes() {
        let used = |cores, throttled_ns| Used { cores, throttled_ns, memory_bytes: Some(9) };
        let second = at(5, 1, 2).until(at(1_000_000_005, 500_000_001, 300_000_002));
        assert_eq!(second, used(Some(0.5), Some(300_000_000)));
        assert_eq!(
            at(0, 0, 0).until(at(1_000_000_000, 0, 1_900_000_000)),
            used(Some(0.0), Some(1_000_000_000)),
            "two cores"
        );
        assert_eq!(at(0, 0, 0).until(at(10, 5, 5)), used(None, None), "too soon");
        assert_eq!(Look::default().until(at(1_000_000_000, 5, 5)), used(None, None), "unknown before");
    }

    #[test]
    fn a_look_soon_after_another_loses_nothing() {
        let mut last = at(0, 0, 0);
        let mut look = |wall_ms: u64, cpu_ms: u64| {
            let now = at(wall_ms * 1_000_000, cpu_ms * 1_000_000, 0);
            let cores = last.until(now).cores;
            last = if cores.is_some() { now } else { last };
            cores
        };
        assert_eq!(look(1_000, 250), Some(0.25));
        assert_eq!(look(5_000, 450), Some(0.05), "held up for three seconds: the time that really passed");
        assert_eq!([look(5_000, 450), look(5_001, 451), look(5_499, 700)], [None; 3]);
        assert_eq!(look(6_000, 950), Some(0.5), "from the last look that counted");
    }

    #[test]
    fn a_busy_process_uses_a_core() {
        let mut own = Own::new(Some(0.5), Some(1 << 40), None, None);
        own.begin();
        let (begun, until) = (nanos(ClockId::ProcessCPUTime), nanos(ClockId::Monotonic) + WALL_NS_MIN);
        while nanos(ClockId::Monotonic) < until || nanos(ClockId::ProcessCPUTime) < begun + 20_000_000 {
            std::hint::spin_loop();
        }
        let mut sample = HostSample::default();
        let shared = Shared { cores: Some(4.0), ..Shared::default() };
        own.fill(&mut sample, &shared, None);
        let (own_share, of_host) = (sample.cpu_percent.expect("known"), sample.cpu_host_percent.expect("known"));
        assert!(
            own_share > 0.0 && (own_share / of_host - 8.0).abs() < 1e-6,
            "{own_share} % of half a core, {of_host} % of 4"
        );
        assert!(sample.memory_percent.is_some_and(|percent| percent > 0.0 && percent < 1.0), "{sample:?}");
        assert!(sample.open_files > Some(2) && sample.involuntary_switches.is_some(), "{sample:?}");
        assert_eq!((sample.udp_in_errors, sample.ephemeral_ports), (None, None), "shared with the machine");
        assert_eq!((sample.cpu_ghz, sample.cpu_used_ghz), (None, None));
    }
}
