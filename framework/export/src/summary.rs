//! `summary.json`: what a run came to, per group, per template over all its nodes, and in total.
//!
//! Totals are of the whole run; `window`, rates and percentiles are of the measured seconds. Those are everything, drain
//! included, if neither warm-up nor cool-down leave anything out; otherwise the whole seconds between them, without the
//! drain. Datagrams are settled only at the end of a run, so the rates of who sends or receives any are of the whole run.
//! Percentiles over several groups come from merged histograms, never from averages.

use std::collections::BTreeMap;

use rehearsal_core::parts::tally::Tally;
use rehearsal_core::run::ConnectionEnd;
use serde::{Deserialize, Serialize};

pub use crate::books::{Measuring, NodeResources, Sums};
use crate::meta::{Engine, Target};
use crate::percentiles::Percentiles;
pub use crate::requests::Recorded;

mod build;
mod checks;
mod clocks;
mod draft;
mod links;
mod users;

pub(crate) use build::build;
pub(crate) use clocks::withhold;
pub use clocks::{HostClock, NodeStart};
pub use links::LinkSummary;
pub use users::Occupancy;

/// Raised when the meaning of a file in the bundle changes.
pub const SCHEMA_VERSION: u32 = 1;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Which engine ran.
    pub engine: Engine,
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's seed.
    pub seed: u64,
    /// The repetition, from 1, as in the name of its folder.
    pub repetition: u32,
    /// From the start of traffic to its end, seconds.
    pub duration_seconds: f64,
    /// From the end of traffic to the last outcome, seconds.
    pub drain_seconds: f64,
    /// The measured seconds.
    pub window: Measured,
    /// Largest difference between the nodes' starts, ns.
    pub start_skew_ns: Option<u64>,
    /// When each node began, by the leader's clock; empty where all nodes share a process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<NodeStart>,
    /// The clocks of hosts, where nodes ran on several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<HostClock>,
    /// Equal for equal schedules.
    pub schedule_digest: Option<String>,
    /// Equal for equal simulated runs.
    pub fingerprint: Option<String>,
    /// Which calibration a dry run had, and whether somebody measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<String>,
    /// Events that actors handled.
    pub events: u64,
    /// All groups together.
    pub total: Measures,
    /// Each actor of the experiment file over all instances of its node.
    pub templates: Vec<TemplateSummary>,
    /// Each actor of each node instance.
    pub groups: Vec<GroupSummary>,
    /// The resources of each node instance.
    pub nodes: Vec<NodeResources>,
    /// Those of each machine, and of each process that several nodes share.
    #[serde(default)]
    pub machines: Vec<NodeResources>,
    /// What measuring took; null where nobody measured.
    #[serde(default)]
    pub measuring: Option<Measuring>,
    /// Links that were simulated or imposed, by their ends' names in the file.
    #[serde(default)]
    pub links: Vec<LinkSummary>,
    /// Connections that senders opened over HTTP and `tcp`, by the ends of their links; of each version of TLS, suite and
    /// protocol that the ends agreed on a row of its own. A simulation does not choose a suite.
    #[serde(default)]
    pub connections: Vec<ConnectionEnd>,
    /// How complete the telemetry is.
    pub telemetry: Telemetry,
    /// Attempts that were kept one by one, if the experiment asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Recorded>,
    /// What must hold of the counters.
    pub checks: Vec<Check>,
}

/// The measured seconds of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Whether warm-up or cool-down leave something out.
    pub trimmed: bool,
    /// The first second that is in.
    pub from_second: u32,
    /// The second after the last that is in; if nothing is left out, that is after the drain.
    pub to_second: u32,
    /// What rates are divided by, seconds: the seconds that are in, or the duration of traffic if nothing is left out.
    pub seconds: f64,
}

/// One actor of one node instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// The node instance.
    pub node: String,
    /// The node's name in the file.
    pub template: String,
    /// The actor's name in the file.
    pub actor: String,
    /// Its kind.
    pub kind: String,
    /// `sender`, `receiver` or `service`.
    pub role: String,
    /// What it was to send, and whether it did.
    pub target: Option<Achieved>,
    /// What it did.
    #[serde(flatten)]
    pub measures: Measures,
}

/// One actor of the experiment file over all instances of its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TemplateSummary {
    /// The node's name in the file.
    pub template: String,
    /// The actor's name in the file.
    pub actor: String,
    /// Its kind.
    pub kind: String,
    /// `sender`, `receiver` or `service`.
    pub role: String,
    /// Node instances.
    pub nodes: u64,
    /// What it was to send, and whether it did.
    pub target: Option<Achieved>,
    /// What it did.
    #[serde(flatten)]
    pub measures: Measures,
}

/// What one or several groups did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Instances.
    pub instances: u64,
    /// Counters of the whole run.
    pub totals: Tally,
    /// Exchanges that were never settled.
    pub open: u64,
    /// Attempts that were never over.
    pub open_attempts: u64,
    /// Counters of the measured seconds: what came due in them, and what ended in them. What is stopped by us belongs
    /// to the drain.
    pub window: Tally,
    /// Rates over `judged_seconds`.
    pub per_second: Rates,
    /// What rates are divided by, seconds: the measured seconds, or all of traffic where datagrams are among the counts.
    pub judged_seconds: f64,
    /// Times of the measured seconds, by metric.
    pub metrics: BTreeMap<String, Percentiles>,
    /// Own counters of the whole run, by name.
    pub counts: BTreeMap<String, u64>,
}

/// Rates, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Exchanges that came due.
    pub generated: f64,
    /// Attempts that left.
    pub sent: f64,
    /// Exchanges that succeeded.
    pub success: f64,
    /// Requests and datagrams that came in.
    pub received: f64,
    /// Requests that were answered with success.
    pub served: f64,
    /// Payload bytes sent.
    pub bytes_sent: f64,
    /// Payload bytes that came in.
    pub bytes_received: f64,
}

/// A target and how far it was reached, counted over the whole seconds of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Achieved {
    /// What was wanted.
    #[serde(flatten)]
    pub target: Target,
    /// Exchanges per second that were wanted, all streams; `None` for a closed loop.
    pub per_second: Option<f64>,
    /// Whole seconds of sending that were counted.
    pub seconds: u32,
    /// Exchanges that should have left in them.
    pub expected: Option<f64>,
    /// Exchanges that did.
    pub left: Option<f64>,
}

impl Achieved {
    /// Exchanges per second that left.
    pub fn achieved_per_second(&self) -> Option<f64> {
        self.left.filter(|_| self.seconds > 0).map(|left| left / f64::from(self.seconds))
    }
}

/// How complete the telemetry of a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Reports that were stored.
    pub reports: u64,
    /// Reports that came more than once.
    pub duplicates: u64,
    /// Seconds of a node between two reports that have none.
    pub missing_seconds: u64,
    /// Reports that a logger had to drop.
    pub dropped: u64,
}

/// Something that must hold of a run's counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What must hold.
    pub name: String,
    /// Whether it does; `None` when it cannot be told because telemetry is missing.
    pub holds: Option<bool>,
    /// Where it does not.
    pub text: String,
}

impl Measures {
    /// The counters that thresholds and reports use: those of the measured seconds. Datagrams are settled only at the
    /// end of a run, so counters that hold any are those of the whole run.
    pub fn judged(&self) -> &Tally {
        if self.has_datagrams() { &self.totals } else { &self.window }
    }

    /// Whether datagrams are among the counts.
    pub fn has_datagrams(&self) -> bool {
        self.totals.datagrams_sent > 0 || self.totals.datagrams_received > 0
    }
}

impl Summary {
    /// What a threshold's scope names: a template, `template/actor` or `node/actor`; the whole run without scope.
    pub fn scope(&self, scope: Option<&str>) -> Option<&Measures> {
        let Some(scope) = scope else { return Some(&self.total) };
        let named = |outer: &str, actor: &str| scope.split_once('/').map_or(scope == outer, |s| s == (outer, actor));
        let template = self.templates.iter().find(|t| named(&t.template, &t.actor)).map(|t| &t.measures);
        template.or_else(|| self.groups.iter().find(|g| named(&g.node, &g.actor)).map(|g| &g.measures))
    }
}
