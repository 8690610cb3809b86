//! What a node uses of its machine, and what the machine does, each second: from the node's control group where it has
//! one, else what this process uses, from the kernel's own files (proc(5)).
//!
//! In embedded placement nodes share the process, so what one node uses is known only if it is the only measured one;
//! otherwise it is unknown, and said to be: the process has a sample of its own then. What belongs to a network namespace
//! is told of a node that has one for itself, and of the machine.

use rehearsal_core::messages::{ClockSource, HostSample, Scope};
use rehearsal_core::plan::Plan;
use rehearsal_host::busy::{Family, Thread};
use rehearsal_host::cgroup::Meter;
use rehearsal_host::counters::{Counters, Namespace};
use rehearsal_host::machine::{self, Memory, Ticks};
use rustix::time::{ClockId, clock_gettime};

use crate::options::EmuOptions;

mod own;

use own::Own;

/// Measures this process, and the machine if it is for this process to tell.
pub(crate) struct Sampler {
    /// The node that this process stands for, or that speaks for those around it.
    row: usize,
    /// It is the only measured one here.
    alone: bool,
    own: Own,
    ticks: Option<Ticks>,
    machine: Option<Machine>,
}

/// The machine that this process speaks for.
struct Machine {
    name: String,
    net: Net,
    switches: Option<u64>,
    run: Run,
}

/// All processes of the run on this machine.
struct Run {
    family: Family,
    wall_ns: u64,
}

/// The thread of a shard, measured by another.
pub(crate) struct Pulse {
    thread: Thread,
    wall_ns: u64,
    busy_ns: Option<u64>,
}

/// A network namespace at the last look.
struct Net {
    space: Namespace,
    last: Counters,
}

/// What all samples of a second share.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    clock: Option<(f64, ClockSource)>,
    busy_percent: Option<f64>,
    steal_percent: Option<f64>,
    /// Cores of the machine.
    cores: Option<f64>,
}

impl Sampler {
    /// What measures this process, if `is_here` the node that it stands for, or that speaks for it. Nobody measures where
    /// there are several nodes and nobody to tell the rest.
    pub(crate) fn of(plan: &Plan, options: &EmuOptions, is_here: impl Fn(usize) -> bool) -> Option<Self> {
        let mut measured = plan.nodes.iter().enumerate().filter(|(_, n)| n.local && n.measured);
        let (row, node) = measured.next()?;
        let alone = measured.next().is_none();
        if !is_here(row) || (!alone && options.machine.is_none()) {
            return None;
        }
        let (vcpu, memory) = if alone { (node.vcpu, node.memory.map(|m| m.0)) } else { (None, None) };
        let meter: Option<&Meter> = options.meter.as_ref();
        let net = options.own_network.then(|| Net::of(Namespace::own()));
        let space = if options.own_network { Namespace::machine() } else { Namespace::own() };
        let machine = options.machine.clone().map(|name| Machine {
            name,
            net: Net::of(space),
            switches: None,
            // whoever started this process leads the run, or is its agent
            run: Run::of(if options.remote.is_some() { Family::of_parent() } else { Family::own() }),
        });
        let mut sampler = Sampler { row, alone, own: Own::new(vcpu, memory, meter, net), ticks: None, machine };
        sampler.begin();
        Some(sampler)
    }

    /// The row of the node that it stands for, or that speaks for it.
    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// Begins to count now.
    pub(crate) fn begin(&mut self) {
        self.own.begin();
        self.ticks = Ticks::read();
        if let Some(machine) = &mut self.machine {
            machine.switches = self.ticks.and_then(|ticks| ticks.switches);
            machine.net.last = machine.net.space.counters();
            machine.run.begin();
        }
    }

    /// Measures the time since the last look. `sample` is the node's; gives those of the process and the machine, if they are
    /// told.
    pub(crate) fn fill(&mut self, sample: &mut HostSample) -> Vec<HostSample> {
        let (shared, mut around) = (self.look(), Vec::new());
        let memory = Memory::read();
        if self.alone {
            self.own.fill(sample, &shared, memory);
        }
        let Some(machine) = &mut self.machine else { return around };
        let of = |scope| HostSample {
            incarnation: sample.incarnation,
            ..HostSample::of(scope, &machine.name, sample.second)
        };
        let (mut process, mut all) = (of(Scope::Process), of(Scope::Machine));
        if !self.alone {
            self.own.fill(&mut process, &shared, memory);
            around.push(process);
        }
        machine.fill(&mut all, &shared, self.ticks, memory);
        around.push(all);
        around
    }

    fn look(&mut self) -> Shared {
        let now = Ticks::read();
        let shares = now.zip(self.ticks).and_then(|(now, last)| now.since(&last));
        if shares.is_some() || self.ticks.is_none() {
            self.ticks = now;
        }
        Shared {
            clock: machine::clock_ghz(),
            busy_percent: shares.map(|shares| shares.busy_percent),
            steal_percent: shares.map(|shares| shares.stolen_percent),
            cores: now.map(|ticks| f64::from(ticks.cores)).filter(|cores| *cores > 0.0),
        }
    }
}

impl Machine {
    fn fill(&mut self, sample: &mut HostSample, shared: &Shared, ticks: Option<Ticks>, memory: Option<Memory>) {
        let ghz = shared.clock.map(|(ghz, _)| ghz);
        (sample.cpu_ghz, sample.clock_source) = (ghz, shared.clock.map(|(_, source)| source));
        sample.cpu_host_percent = shared.busy_percent;
        sample.steal_percent = shared.steal_percent;
        sample.cpu_run_percent = self.run.cores().zip(shared.cores).map(|(used, all)| (used * 100.0 / all).min(100.0));
        let busy_cores = shared.busy_percent.zip(shared.cores).map(|(percent, cores)| percent * cores / 100.0);
        sample.cpu_used_ghz = busy_cores.zip(ghz).map(|(cores, ghz)| cores * ghz);
        sample.memory_bytes = memory.and_then(|memory| memory.used());
        sample.memory_percent = percent(sample.memory_bytes, memory.map(|memory| memory.total));
        let switches = ticks.and_then(|ticks| ticks.switches);
        sample.context_switches = switches.zip(self.switches).map(|(now, last)| now.saturating_sub(last));
        self.switches = switches;
        (sample.open_files, sample.open_files_limit) = machine::open_files().unzip();
        self.net.fill(sample);
    }
}

impl Run {
    fn of(family: Family) -> Run {
        Run { family, wall_ns: nanos(ClockId::Monotonic) }
    }

    fn begin(&mut self) {
        self.family.begin();
        self.wall_ns = nanos(ClockId::Monotonic);
    }

    /// Cores that all of them used on average since the last look; one that comes soon after another is none.
    fn cores(&mut self) -> Option<f64> {
        let wall = nanos(ClockId::Monotonic).saturating_sub(self.wall_ns);
        if wall < WALL_NS_MIN {
            return None;
        }
        self.wall_ns += wall;
        Some(self.family.since_last()? as f64 / wall as f64)
    }
}

impl Pulse {
    /// Of the present thread, from now on.
    pub(crate) fn of_this_thread() -> Pulse {
        let thread = Thread::current();
        Pulse { thread, wall_ns: nanos(ClockId::Monotonic), busy_ns: thread.busy_ns() }
    }

    /// Time in which it ran or waited for a core since the last look, per cent; a look that comes soon after another is none.
    pub(crate) fn busy_percent(&mut self) -> Option<f64> {
        self.until(nanos(ClockId::Monotonic), self.thread.busy_ns())
    }

    fn until(&mut self, wall_ns: u64, busy_ns: Option<u64>) -> Option<f64> {
        let wall = wall_ns.saturating_sub(self.wall_ns);
        if wall < WALL_NS_MIN {
            return None;
        }
        let busy = busy_ns.zip(self.busy_ns).map(|(now, last)| now.saturating_sub(last));
        (self.wall_ns, self.busy_ns) = (wall_ns, busy_ns);
        // a wait is counted when it is over: it may be that of the second before
        Some((busy? as f64 * 100.0 / wall as f64).min(100.0))
    }
}

impl Net {
    fn of(space: Namespace) -> Net {
        let last = space.counters();
        Net { space, last }
    }

    fn fill(&mut self, sample: &mut HostSample) {
        let now = self.space.counters();
        let since = now.since(&self.last);
        self.last = now;
        sample.udp_in_errors = since.udp_in_errors;
        sample.udp_receive_buffer_errors = since.udp_receive_buffer_errors;
        sample.udp_send_buffer_errors = since.udp_send_buffer_errors;
        sample.tcp_retransmitted = since.tcp_retransmitted;
        sample.tcp_listen_overflows = since.tcp_listen_overflows;
        sample.tcp_listen_drops = since.tcp_listen_drops;
        sample.tcp_receive_buffer_drops = since.tcp_receive_buffer_drops;
        let ports = self.space.ports();
        (sample.ephemeral_ports, sample.ephemeral_ports_limit) = (ports.used, ports.limit);
        sample.open_sockets = ports.sockets;
    }
}

/// What measuring costs, from its begin until now: this thread's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    wall_ns: u64,
    cpu_ns: u64,
}

impl Cost {
    /// Begins to count.
    pub(crate) fn now() -> Cost {
        Cost { wall_ns: nanos(ClockId::Monotonic), cpu_ns: nanos(ClockId::ThreadCPUTime) }
    }

    /// What it took since.
    pub(crate) fn since(self) -> Cost {
        let now = Cost::now();
        let (wall_ns, cpu_ns) = (now.wall_ns.saturating_sub(self.wall_ns), now.cpu_ns.saturating_sub(self.cpu_ns));
        Cost { wall_ns, cpu_ns }
    }

    /// States it.
    pub(crate) fn tell(self, sample: &mut HostSample) {
        (sample.measuring_ns, sample.measuring_cpu_ns) = (Some(self.wall_ns), Some(self.cpu_ns));
    }
}

/// CPU time of this process since the last look.
pub(crate) struct Usage {
    wall_ns: u64,
    cpu_ns: u64,
}

/// Shortest time over which a use of cores is told: half a second.
const WALL_NS_MIN: u64 = 500_000_000;

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

fn percent(part: Option<u64>, all: Option<u64>) -> Option<f64> {
    part.zip(all.filter(|all| *all > 0)).map(|(part, all)| part as f64 * 100.0 / all as f64)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nothing_is_unknown() {
        assert_eq!(
            [percent(Some(1), Some(4)), percent(None, Some(4)), percent(Some(1), Some(0))],
            [Some(25.0), None, None]
        );
    }

    #[test]
    fn a_machine_tells_what_it_knows() {
        let run = Run { family: Family::own(), wall_ns: 0 };
        let mut machine = Machine { name: "lab".into(), net: Net::of(Namespace::own()), switches: Some(10), run };
        let shared = Shared {
            clock: Some((2.0, ClockSource::Cpuinfo)),
            busy_percent: Some(25.0),
            steal_percent: Some(3.0),
            cores: Some(8.0),
        };
        let ticks = Ticks { switches: Some(25), ..Ticks::default() };
        let mut sample = HostSample::of(Scope::Machine, "lab", 3);
        machine.fill(&mut sample, &shared, Some(ticks), Some(Memory { total: 400, available: Some(100) }));
        assert_eq!((sample.cpu_percent, sample.cpu_host_percent, sample.cpu_used_ghz), (None, Some(25.0), Some(4.0)));
        assert_eq!((sample.memory_bytes, sample.memory_percent), (Some(300), Some(75.0)));
        assert_eq!((sample.context_switches, machine.switches), (Some(15), Some(25)));
        assert!(sample.open_files > Some(0) && sample.open_files < sample.open_files_limit);
        assert!(sample.udp_in_errors.is_some() && sample.tcp_retransmitted.is_some() && sample.open_sockets > Some(0));
        machine.fill(&mut sample, &Shared::default(), None, None);
        assert_eq!((sample.cpu_host_percent, sample.cpu_used_ghz, sample.memory_bytes), (None, None, None));
        assert_eq!((sample.context_switches, sample.clock_source), (None, None), "unknown, not zero");
    }

    #[test]
    fn a_look_soon_after_another_is_none_and_loses_nothing() {
        let mut usage = Usage { wall_ns: 0, cpu_ns: 0 };
        let mut look =
            |wall_ms: u64, cpu_ms: u64| usage.until(Usage { wall_ns: wall_ms * 1_000_000, cpu_ns: cpu_ms * 1_000_000 });
        assert_eq!(look(1_000, 250), Some(0.25));
        assert_eq!([look(1_000, 250), look(1_499, 300)], [None; 2]);
        assert_eq!(look(2_000, 750), Some(0.5), "from the last look that counted");
    }

    #[test]
    fn a_thread_is_busy_for_a_share_of_the_time_since_the_last_look() {
        let mut pulse = Pulse { thread: Thread::current(), wall_ns: 0, busy_ns: Some(100) };
        assert_eq!(pulse.until(1_000_000_000, Some(900_000_100)), Some(90.0));
        assert_eq!(pulse.until(1_200_000_000, Some(950_000_000)), None, "too soon");
        assert_eq!(pulse.until(2_000_000_000, Some(1_150_000_100)), Some(25.0));
        assert_eq!(pulse.until(3_000_000_000, Some(4_000_000_000)), Some(100.0));
        assert_eq!([pulse.until(4_000_000_000, None), pulse.until(5_000_000_000, Some(9))], [None; 2], "unknown");
    }

    #[test]
    fn work_costs() {
        let begun = Cost::now();
        while nanos(ClockId::ThreadCPUTime) < begun.cpu_ns + 2_000_000 {
            std::hint::spin_loop();
        }
        let mut sample = HostSample::default();
        begun.since().tell(&mut sample);
        assert!(sample.measuring_cpu_ns >= Some(2_000_000) && sample.measuring_ns >= Some(1_000_000), "{sample:?}");
    }
}
