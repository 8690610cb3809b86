//! What a group used: CPU time, time held back, memory, and processes that the kernel killed for want of it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Limits;
use super::files::{number, value};
use super::place::Version;
use super::tree::{Tree, Way};

/// Reads a group. It may be sent to another process of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    pub(super) version: Version,
    pub(super) cpu: PathBuf,
    /// Version 1 may count CPU time elsewhere than it limits it.
    pub(super) account: Option<PathBuf>,
    pub(super) memory: PathBuf,
    pub(super) limits: Limits,
}

/// What a group used since it was made. What the kernel does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, ns.
    pub cpu_ns: Option<u64>,
    /// Time for which it was held back by its quota, ns. The kernel adds up all cores on which it was.
    pub throttled_ns: Option<u64>,
    /// Periods of its quota in which it wanted to run.
    pub periods: Option<u64>,
    /// Periods in which its quota was used up.
    pub periods_throttled: Option<u64>,
    /// Memory now, bytes, without page cache that the kernel would take back first.
    pub memory_bytes: Option<u64>,
    /// The most memory at any time, bytes, with all page cache.
    pub memory_peak_bytes: Option<u64>,
    /// Processes that the kernel killed because the group reached its memory limit.
    pub oom_kills: Option<u64>,
}

impl Meter {
    /// What the group may use.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What it used so far.
    pub fn usage(&self) -> Usage {
        let cpu = |key| value(&self.cpu.join("cpu.stat"), key);
        let memory = |file: &str| number(&self.memory.join(file));
        let tells = |file: &str, key| value(&self.memory.join(file), key);
        let cached =
            tells("memory.stat", if self.version == Version::V1 { "total_inactive_file" } else { "inactive_file" });
        let less_cache = |all: u64| all.saturating_sub(cached.unwrap_or(0));
        let (periods, periods_throttled) = (cpu("nr_periods"), cpu("nr_throttled"));
        match self.version {
            Version::V1 => Usage {
                cpu_ns: self.account.as_ref().and_then(|folder| number(&folder.join("cpuacct.usage"))),
                throttled_ns: cpu("throttled_time"),
                periods,
                periods_throttled,
                memory_bytes: memory("memory.usage_in_bytes").map(less_cache),
                memory_peak_bytes: memory("memory.max_usage_in_bytes"),
                oom_kills: tells("memory.oom_control", "oom_kill"),
            },
            Version::V2 => Usage {
                cpu_ns: cpu("usage_usec").map(nanos),
                throttled_ns: cpu("throttled_usec").map(nanos),
                periods,
                periods_throttled,
                memory_bytes: memory("memory.current").map(less_cache),
                memory_peak_bytes: memory("memory.peak"),
                oom_kills: tells("memory.events", "oom_kill"),
            },
        }
    }
}

/// How long the quotas of the groups that this process stands in held their members back, all levels that it can see.
#[derive(Clone, Debug)]
pub struct Quotas(Vec<(PathBuf, Version)>);

impl Quotas {
    /// Those of this process.
    pub fn own() -> Quotas {
        let tree = Tree::read();
        let of = |way: Option<Way>, version| way.unwrap_or_default().into_iter().map(move |folder| (folder, version));
        Quotas(of(tree.first("cpu"), Version::V1).chain(of(tree.second(), Version::V2)).collect())
    }

    /// Time since the groups were made, ns, of all levels and cores; `None` where no group tells.
    pub fn throttled_ns(&self) -> Option<u64> {
        let throttled = self.0.iter().filter_map(|(folder, version)| match version {
            Version::V1 => value(&folder.join("cpu.stat"), "throttled_time"),
            Version::V2 => value(&folder.join("cpu.stat"), "throttled_usec").map(nanos),
        });
        throttled.reduce(u64::saturating_add)
    }
}

fn nanos(us: u64) -> u64 {
    us.saturating_mul(1000)
}
