//! What a caller tells about a run: [`BundleMeta`] before it starts, [`RunFacts`] when it has ended.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rehearsal_core::kind::Role;
use rehearsal_core::life::{LossWindow, OnLoss};
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::plan::{Impose, LatencyInterval};
use rehearsal_core::run::{ConnectionEnd, LinkEnd};
use rehearsal_core::steer::Steer;
use rehearsal_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::books::Trim;
use crate::summary::{HostClock, NodeStart};
use crate::threshold::{Aborted, Threshold};
use crate::verdict::Limits;

/// Which engine ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Virtual time.
    #[default]
    Simulate,
    /// Real hosts and real traffic.
    Emulate,
}

/// A target outside of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetAddresses {
    /// Scheme, host and port.
    pub target: String,
    /// Every address that its name led to, with the port.
    pub addresses: Vec<String>,
    /// The one that requests went to.
    pub used: String,
}

/// What is known before a run starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BundleMeta {
    /// Which engine will run.
    pub engine: Engine,
    /// The experiment's name.
    pub experiment: String,
    /// The resolved experiment, as TOML; becomes `experiment.toml`.
    pub resolved: String,
    /// The experiment's seed.
    pub seed: u64,
    /// The repetition, from 0; files number it from 1.
    pub repetition: u32,
    /// Version of the program.
    pub tool_version: String,
    /// The experiment's machines.
    pub hosts: Vec<HostFacts>,
    /// Left out of the summary at the beginning; rounded up to whole seconds.
    pub warmup: Span,
    /// Left out of the summary at the end; rounded up to whole seconds.
    pub cooldown: Span,
    /// How long traffic shall run; `None` for a count-driven run.
    pub planned: Option<Span>,
    /// The machine the program runs on. Left out of a simulated bundle, which is the same everywhere.
    pub machine: Option<String>,
    /// When the run was created, ns since the epoch. Left out of a simulated bundle.
    pub created_unix_ns: Option<u64>,
    /// Where targets outside are, as it was looked up before the start.
    #[serde(default)]
    pub targets: Vec<TargetAddresses>,
    /// Reasons not to start that somebody overrode.
    #[serde(default)]
    pub forced: Vec<String>,
    /// Whether to write `series.csv` too.
    pub csv: bool,
    /// Seconds that share an interval of `latency.hlog`.
    #[serde(default)]
    pub latency_interval: LatencyInterval,
    /// What the user wants to hold.
    pub thresholds: Vec<Threshold>,
    /// What the verdict is measured by.
    pub limits: Limits,
    /// What the user says of the run, by name, to find it again.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Files that the experiment needs to run again, by the path that it calls them: copied from where they lie.
    #[serde(default)]
    pub attached: BTreeMap<String, PathBuf>,
}

impl BundleMeta {
    /// What the summary leaves out.
    pub(crate) fn trim(&self) -> Trim {
        Trim::new(self.warmup, self.cooldown, self.planned)
    }

    /// The repetition as files number it, from 1.
    pub(crate) const fn repetition_number(&self) -> u32 {
        self.repetition.saturating_add(1)
    }
}

impl Default for BundleMeta {
    fn default() -> Self {
        BundleMeta {
            engine: Engine::Simulate,
            experiment: String::new(),
            resolved: String::new(),
            seed: 0,
            repetition: 0,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            hosts: Vec::new(),
            warmup: Span::ZERO,
            cooldown: Span::ZERO,
            planned: None,
            machine: None,
            created_unix_ns: None,
            targets: Vec::new(),
            forced: Vec::new(),
            csv: false,
            latency_interval: LatencyInterval::Auto,
            thresholds: Vec::new(),
            limits: Limits::default(),
            tags: BTreeMap::new(),
            attached: BTreeMap::new(),
        }
    }
}

/// A machine of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name in the experiment.
    pub name: String,
    /// Its cores.
    pub cores: u32,
    /// Its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Node instances that run on it.
    pub nodes: Vec<String>,
}

/// What is known when a run has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFacts {
    /// When traffic began.
    pub started: Time,
    /// When traffic ended: no exchange came due after it.
    pub stopped: Time,
    /// When the last exchange was settled; at least `stopped`.
    pub ended: Time,
    /// Every group of the experiment, in its order. Groups that only reports know are added.
    pub groups: Vec<GroupFacts>,
    /// Events that actors handled.
    pub events: u64,
    /// Equal for equal simulated runs.
    pub fingerprint: Option<String>,
    /// Equal for equal schedules, whatever engine and however many hosts.
    pub schedule_digest: Option<String>,
    /// Largest difference between the nodes' starts, ns.
    pub start_skew_ns: Option<u64>,
    /// When each node began, where nodes run in processes of their own.
    pub starts: Vec<NodeStart>,
    /// The clocks of hosts, where nodes ran on several.
    pub clocks: Vec<HostClock>,
    /// Actors that panicked, and whatever else broke.
    pub faults: Vec<Fault>,
    /// Nodes that fell silent.
    pub lost_nodes: Vec<String>,
    /// What follows when a node is lost.
    pub on_loss: OnLoss,
    /// Times in which nobody knew of a node.
    pub losses: Vec<LossWindow>,
    /// Which process of a node told its final counters, from 0; only those of which there was more than one.
    pub incarnations: BTreeMap<String, u32>,
    /// What was done to the load on the way, in the order of time.
    pub steers: Vec<Steer>,
    /// Whether somebody stopped the run before its end.
    pub interrupted: bool,
    /// The threshold that ended the run before its end, if one did.
    #[serde(default)]
    pub aborted: Option<Aborted>,
    /// How far the hosts' clocks are known.
    pub clock: Clock,
    /// Whether vCPU and memory limits were enforced; `None` when there were none.
    pub limits_enforced: Option<bool>,
    /// Why they were not.
    pub limits_why: Option<String>,
    /// Whether a simulation had measured costs; `None` for an emulation.
    pub calibrated: Option<bool>,
    /// Which calibration that was, if any.
    pub calibration: Option<String>,
    /// What a simulation did outside of what was calibrated.
    pub outside_calibration: Vec<String>,
    /// Hosts with more enforced vCPU than cores.
    pub overcommitted: Vec<Overcommit>,
    /// Where the nodes ran, such as `embedded`.
    pub placement: String,
    /// Who made each link of the experiment file what it says, by its name there.
    pub impose: BTreeMap<String, Impose>,
    /// What links did that were simulated or imposed.
    pub links: Vec<LinkEnd>,
    /// Connections that senders opened.
    pub connections: Vec<ConnectionEnd>,
    /// Whatever else a reader should know.
    pub notes: Vec<String>,
    /// Whether DEGRADED counts like INVALID in the exit code.
    pub strict: bool,
}

/// What a group was meant to do, and what its engine says it did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupFacts {
    /// The node instance, `camera-1`.
    pub node: String,
    /// The node's name in the file, `camera`.
    pub template: String,
    /// The actor's name in the file.
    pub actor: String,
    /// Its kind.
    pub kind: String,
    /// What the kind does.
    pub role: Role,
    /// Instances in this node instance.
    pub instances: u32,
    /// What it was to send; `None` if it does not send.
    pub target: Option<Target>,
    /// The engine's final counters; `None` if the node is lost. They outrank the reports.
    pub tally: Option<Tally>,
    /// The engine's final own counters.
    pub counts: Vec<(String, u64)>,
}

/// What a group was to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Streams of all its instances.
    pub streams: u64,
    /// Mean gap of each stream, ns; `None` for a closed loop.
    pub gap_ns: Option<u64>,
    /// Exchanges per second that a model of users offers in the long run, of all instances. Nothing is held against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_second: Option<f64>,
    /// Exchanges under way per stream.
    pub in_flight: u32,
    /// Exchanges that each stream generates, if that is fixed.
    pub requests: Option<u64>,
    /// Whether gaps are random or come from a trace, so that a second's count says little.
    pub stochastic: bool,
    /// Of random gaps: variance of counts by their mean over a long time, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispersion: Option<f64>,
}

impl Target {
    /// Exchanges per second of all streams; `None` for a closed loop.
    pub fn per_second(&self) -> Option<f64> {
        self.gap_ns.map(|gap| self.streams as f64 * rate_of(gap.max(1)))
    }
}

/// The roundest rate per second whose gap, rounded down to the nanosecond, is `gap_ns`: 33 333 333 ns are 30 per second.
fn rate_of(gap_ns: u64) -> f64 {
    let raw = 1e9 / gap_ns as f64;
    let rounded = |digits: i32| {
        let scale = 10_f64.powi(digits);
        (raw * scale).round() / scale
    };
    // above the error of the division, far below a nanosecond
    let slip = 1e-15 * gap_ns as f64 + 1e-9;
    let suits = |rate: &f64| *rate > 0.0 && (-slip..1.0).contains(&(1e9 / rate - gap_ns as f64));
    (0..=9).map(rounded).find(suits).unwrap_or(raw)
}

/// Something that broke.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fault {
    /// The node instance, or empty.
    pub node: String,
    /// The actor, or empty.
    pub actor: String,
    /// What happened.
    pub text: String,
}

/// How far the clocks of the hosts agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Clock {
    /// Virtual time, or one machine: there is nothing to disagree.
    #[default]
    One,
    /// Several hosts whose offsets were measured.
    Measured {
        /// Largest uncertainty of an offset, ns.
        uncertainty_ns: u64,
    },
    /// Several hosts whose offsets are unknown.
    Unknown,
}

/// A host with more enforced vCPU than cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overcommit {
    /// The host.
    pub host: String,
    /// vCPU of all its nodes.
    pub vcpu: f64,
    /// Its cores.
    pub cores: u32,
}

/// A role's word in files.
pub(crate) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Sender => "sender",
        Role::Receiver => "receiver",
        Role::Service => "service",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_as_it_was_asked_for() {
        for rate in [0.1, 0.25, 1.0, 3.0, 7.5, 25.0, 29.97, 30.0, 60.0, 120.0, 700.0, 12_345.0, 1e6] {
            assert_eq!(rate_of((1e9_f64 / rate) as u64), rate);
        }
        assert!((rate_of(60_000_000_000) * 60.0 - 1.0).abs() < 1e-9, "one a minute");
        let target = Target { streams: 4, gap_ns: Some(33_333_333), ..Target::default() };
        assert_eq!(target.per_second(), Some(120.0));
    }
}
