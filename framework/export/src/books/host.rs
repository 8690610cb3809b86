//! The resources of one node, process or machine over the measured seconds.

use rehearsal_core::messages::{ClockSource, HostSample, Scope};
use serde::{Deserialize, Serialize};

/// Sums and extremes of host samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HostBook {
    seconds: u64,
    cpu_percent: Mean,
    cpu_host_percent: Mean,
    cpu_run_percent: Mean,
    thread_busy_percent: Mean,
    cpu_ghz: Mean,
    cpu_used_ghz: Mean,
    clock_source: Option<ClockSource>,
    memory_bytes_max: Option<u64>,
    memory_percent: Mean,
    steal_percent: Mean,
    throttled_ns: Option<u64>,
    most: Most,
    sums: Sums,
}

/// The largest values of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Most {
    open_files: Option<u64>,
    open_files_limit: Option<u64>,
    open_sockets: Option<u64>,
    ephemeral_ports: Option<u64>,
    ephemeral_ports_limit: Option<u64>,
}

/// Counters, summed up over seconds; `None` if no second knew them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Context switches of a machine.
    pub context_switches: Option<u64>,
    /// Context switches because a thread waited.
    pub voluntary_switches: Option<u64>,
    /// Context switches because a thread had run for long enough, or another was more urgent.
    pub involuntary_switches: Option<u64>,
    /// Datagrams that came in and were not delivered.
    pub udp_in_errors: Option<u64>,
    /// Those among them for which a receive buffer had no room.
    pub udp_receive_buffer_errors: Option<u64>,
    /// Datagrams for which a send buffer had no room.
    pub udp_send_buffer_errors: Option<u64>,
    /// TCP segments sent again.
    pub tcp_retransmitted: Option<u64>,
    /// Connections for which a queue of `listen` had no room.
    pub tcp_listen_overflows: Option<u64>,
    /// Connections dropped by a listening socket.
    pub tcp_listen_drops: Option<u64>,
    /// Segments for which a receive buffer had no room.
    pub tcp_receive_buffer_drops: Option<u64>,
}

/// Mean and largest of the values that are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    count: u64,
    sum: f64,
    max: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.max = if self.count == 0 { value } else { self.max.max(value) };
            self.count += 1;
            self.sum += value;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

/// The resources of one node over the measured seconds, or of a process or machine; unknown ones are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeResources {
    /// The node instance, or the machine's name.
    pub node: String,
    /// What this is of.
    pub scope: Scope,
    /// Seconds with a sample.
    pub seconds: u64,
    /// Mean CPU use, per cent of its allocation.
    pub cpu_percent_mean: Option<f64>,
    /// Highest CPU use of a second, per cent of its allocation.
    pub cpu_percent_max: Option<f64>,
    /// Mean CPU use, per cent of all cores of the machine.
    pub cpu_host_percent_mean: Option<f64>,
    /// Highest CPU use of a second, per cent of all cores of the machine.
    pub cpu_host_percent_max: Option<f64>,
    /// Mean CPU use of the whole run, per cent of all cores; told of machines.
    pub cpu_run_percent_mean: Option<f64>,
    /// Mean time in which the node's thread ran or waited for a core, per cent.
    pub thread_busy_percent_mean: Option<f64>,
    /// Mean clock, GHz.
    pub cpu_ghz_mean: Option<f64>,
    /// Mean of cores in use times their clock, GHz.
    pub cpu_used_ghz_mean: Option<f64>,
    /// Where the clock is from; told of machines.
    pub clock_source: Option<ClockSource>,
    /// Highest resident memory, bytes.
    pub memory_bytes_max: Option<u64>,
    /// Highest resident memory, per cent of its limit.
    pub memory_percent_max: Option<f64>,
    /// Mean share that the hypervisor took, per cent.
    pub steal_percent_mean: Option<f64>,
    /// Share of the time that its CPU quota held it back, per cent.
    pub throttled_percent: Option<f64>,
    /// Most open files of a second.
    pub open_files_max: Option<u64>,
    /// How many there may be.
    pub open_files_limit: Option<u64>,
    /// Most open sockets of a second.
    pub open_sockets_max: Option<u64>,
    /// Most ephemeral ports in use in a second.
    pub ephemeral_ports_max: Option<u64>,
    /// How many there are.
    pub ephemeral_ports_limit: Option<u64>,
    /// Counters, of all measured seconds.
    #[serde(flatten)]
    pub sums: Sums,
}

impl HostBook {
    /// Adds a second.
    pub fn add(&mut self, sample: &HostSample) {
        self.seconds += 1;
        self.cpu_percent.add(sample.cpu_percent);
        self.cpu_host_percent.add(sample.cpu_host_percent);
        self.cpu_run_percent.add(sample.cpu_run_percent);
        self.thread_busy_percent.add(sample.thread_busy_percent);
        self.cpu_ghz.add(sample.cpu_ghz);
        self.cpu_used_ghz.add(sample.cpu_used_ghz);
        self.clock_source = sample.clock_source.or(self.clock_source);
        self.memory_percent.add(sample.memory_percent);
        self.steal_percent.add(sample.steal_percent);
        self.memory_bytes_max = self.memory_bytes_max.max(sample.memory_bytes);
        plus(&mut self.throttled_ns, sample.throttled_ns);
        self.most.add(sample);
        self.sums.add(sample);
    }

    /// What it came to; `None` without samples.
    pub fn resources(&self, node: &str) -> Option<NodeResources> {
        (self.seconds > 0).then(|| NodeResources {
            node: node.to_owned(),
            scope: Scope::Node,
            seconds: self.seconds,
            cpu_percent_mean: self.cpu_percent.mean(),
            cpu_percent_max: self.cpu_percent.max(),
            cpu_host_percent_mean: self.cpu_host_percent.mean(),
            cpu_host_percent_max: self.cpu_host_percent.max(),
            cpu_run_percent_mean: self.cpu_run_percent.mean(),
            thread_busy_percent_mean: self.thread_busy_percent.mean(),
            cpu_ghz_mean: self.cpu_ghz.mean(),
            cpu_used_ghz_mean: self.cpu_used_ghz.mean(),
            clock_source: self.clock_source,
            memory_bytes_max: self.memory_bytes_max,
            memory_percent_max: self.memory_percent.max(),
            steal_percent_mean: self.steal_percent.mean(),
            throttled_percent: self.throttled_ns.map(|ns| ns as f64 / (self.seconds as f64 * 1e9) * 100.0),
            open_files_max: self.most.open_files,
            open_files_limit: self.most.open_files_limit,
            open_sockets_max: self.most.open_sockets,
            ephemeral_ports_max: self.most.ephemeral_ports,
            ephemeral_ports_limit: self.most.ephemeral_ports_limit,
            sums: self.sums,
        })
    }
}

impl Most {
    fn add(&mut self, sample: &HostSample) {
        self.open_files = self.open_files.max(sample.open_files);
        self.open_files_limit = self.open_files_limit.max(sample.open_files_limit);
        self.open_sockets = self.open_sockets.max(sample.open_sockets);
        self.ephemeral_ports = self.ephemeral_ports.max(sample.ephemeral_ports);
        self.ephemeral_ports_limit = self.ephemeral_ports_limit.max(sample.ephemeral_ports_limit);
    }
}

impl Sums {
    fn add(&mut self, sample: &HostSample) {
        for (sum, more) in [
            (&mut self.context_switches, sample.context_switches),
            (&mut self.voluntary_switches, sample.voluntary_switches),
            (&mut self.involuntary_switches, sample.involuntary_switches),
            (&mut self.udp_in_errors, sample.udp_in_errors),
            (&mut self.udp_receive_buffer_errors, sample.udp_receive_buffer_errors),
            (&mut self.udp_send_buffer_errors, sample.udp_send_buffer_errors),
            (&mut self.tcp_retransmitted, sample.tcp_retransmitted),
            (&mut self.tcp_listen_overflows, sample.tcp_listen_overflows),
            (&mut self.tcp_listen_drops, sample.tcp_listen_drops),
            (&mut self.tcp_receive_buffer_drops, sample.tcp_receive_buffer_drops),
        ] {
            plus(sum, more);
        }
    }

    /// What the kernel counted as errors, in words; those that are unknown or zero are left out.
    pub fn errors(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("UDP input errors", self.udp_in_errors),
            ("UDP receive buffer full", self.udp_receive_buffer_errors),
            ("UDP send buffer full", self.udp_send_buffer_errors),
            ("TCP segments sent again", self.tcp_retransmitted),
            ("TCP listen queue full", self.tcp_listen_overflows),
            ("TCP connections dropped by a listener", self.tcp_listen_drops),
            ("TCP receive buffer full", self.tcp_receive_buffer_drops),
        ];
        all.into_iter().filter_map(|(name, count)| Some((name, count.filter(|count| *count > 0)?))).collect()
    }
}

/// What is unknown adds nothing, and stays unknown as long as nothing is known.
fn plus(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_stay_unknown() {
        let mut book = HostBook::default();
        assert_eq!(book.resources("a"), None);
        let sample = |cpu| HostSample { cpu_percent: cpu, memory_bytes: Some(7), ..HostSample::default() };
        book.add(&sample(Some(20.0)));
        book.add(&sample(None));
        book.add(&sample(Some(40.0)));
        let resources = book.resources("a").unwrap();
        assert_eq!((resources.cpu_percent_mean, resources.cpu_percent_max), (Some(30.0), Some(40.0)));
        assert_eq!((resources.memory_bytes_max, resources.throttled_percent), (Some(7), None));
        assert_eq!((resources.open_files_max, resources.sums), (None, Sums::default()));
    }

    #[test]
    fn counters_add_up_and_the_largest_counts() {
        let sample = |errors, files| HostSample {
            udp_in_errors: errors,
            tcp_retransmitted: Some(0),
            open_files: Some(files),
            ..HostSample::default()
        };
        let mut book = HostBook::default();
        [(Some(3), 8), (None, 9), (Some(4), 2)].into_iter().for_each(|(e, f)| book.add(&sample(e, f)));
        let resources = book.resources("a").unwrap();
        assert_eq!((resources.sums.udp_in_errors, resources.open_files_max), (Some(7), Some(9)));
        assert_eq!((resources.sums.tcp_retransmitted, resources.sums.tcp_listen_drops), (Some(0), None));
        assert_eq!(resources.sums.errors(), [("UDP input errors", 7)], "zero is no error");
    }
}
