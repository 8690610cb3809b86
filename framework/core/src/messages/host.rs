//! What a node uses of its machine in one second, and what the machine itself does.

use serde::{Deserialize, Serialize};

/// What a [`HostSample`] is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// A node.
    #[default]
    Node,
    /// A process that runs several nodes, which cannot be told apart.
    Process,
    /// A machine, with all that runs on it.
    Machine,
}

impl Scope {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Node => "host",
            Scope::Process => "process",
            Scope::Machine => "machine",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_node(&self) -> bool {
        *self == Scope::Node
    }
}

/// Where the kernel tells the clock of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockSource {
    /// `scaling_cur_freq` of each core.
    Cpufreq,
    /// `cpu MHz` of `/proc/cpuinfo`.
    Cpuinfo,
}

/// Resources in one second of the run, on `tel.<node>.host`. What is unknown is `None`, and so is what belongs to a node
/// but cannot be told apart from others of its process.
///
/// Counters are of this second alone: what came since the look before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    /// The node instance; of another scope, the machine's name.
    pub node: String,
    /// Second of the run, from 0.
    pub second: u32,
    /// Which process of this node it is of, from 0: the counters of a later one begin anew.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub incarnation: u32,
    /// What this is of.
    #[serde(default, skip_serializing_if = "Scope::is_node")]
    pub scope: Scope,
    /// CPU time used, in per cent of the cores the node is allowed (100 = all of them).
    pub cpu_percent: Option<f64>,
    /// Mean clock of the machine's cores in GHz.
    pub cpu_ghz: Option<f64>,
    /// Resident memory, bytes; of a machine, what is not available.
    pub memory_bytes: Option<u64>,
    /// Memory in per cent of the node's limit, or of the machine's memory.
    pub memory_percent: Option<f64>,
    /// Share of the second that the hypervisor took from the machine's cores, per cent.
    pub steal_percent: Option<f64>,
    /// Time in this second that the node was held back by its CPU quota, ns.
    pub throttled_ns: Option<u64>,
    /// CPU time used, in per cent of all cores of the machine; of a machine, by everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_host_percent: Option<f64>,
    /// Of the thread that runs the node's actors: time in which it ran or waited for a core, in per cent of the second. At
    /// 100 it had no time left. Unknown with busy waiting, which leaves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_busy_percent: Option<f64>,
    /// Of a machine: CPU time that the run used, its leader or agent and what that started included, in per cent of all
    /// cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_run_percent: Option<f64>,
    /// Cores in use times their clock, GHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_used_ghz: Option<f64>,
    /// Context switches of a machine, which does not tell the two kinds apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<u64>,
    /// Context switches because a thread waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Context switches because a thread had run for long enough, or another was more urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Open file descriptors; of a machine, open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// How many there may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files_limit: Option<u64>,
    /// Open sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_sockets: Option<u64>,
    /// Local TCP ports in use out of the ephemeral range of the network namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_ports: Option<u64>,
    /// How many that range has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_ports_limit: Option<u64>,
    /// Datagrams that came in and were not delivered (`InErrors`), IPv4 and IPv6, in the network namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_in_errors: Option<u64>,
    /// Those among them for which a receive buffer had no room (`RcvbufErrors`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_receive_buffer_errors: Option<u64>,
    /// Datagrams for which a send buffer had no room (`SndbufErrors`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_send_buffer_errors: Option<u64>,
    /// TCP segments sent again (`RetransSegs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_retransmitted: Option<u64>,
    /// Connections for which a queue of `listen` had no room (`ListenOverflows`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_listen_overflows: Option<u64>,
    /// Connections dropped by a listening socket, for whatever reason (`ListenDrops`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_listen_drops: Option<u64>,
    /// Segments for which a receive buffer had no room (`RcvPruned` and `TCPRcvQDrop`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_receive_buffer_drops: Option<u64>,
    /// Where `cpu_ghz` is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<ClockSource>,
    /// What it took to complete this second, histograms included, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_ns: Option<u64>,
    /// CPU time of that, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_cpu_ns: Option<u64>,
}

impl HostSample {
    /// An empty one.
    pub fn of(scope: Scope, node: impl Into<String>, second: u32) -> Self {
        HostSample { node: node.into(), second, scope, ..HostSample::default() }
    }
}
