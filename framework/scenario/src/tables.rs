//! The tables of an experiment file as they are written, apart from those that core defines.

use rehearsal_core::life::OnLoss;
use std::collections::BTreeMap;

use rehearsal_core::plan::LatencyInterval;
use rehearsal_core::time::Span;
use rehearsal_core::units::{ByteSize, Fraction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::ControlTable;

/// `[experiment]`: what is run, how often, and until when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentTable {
    /// Names the run in subjects and result folders: lower-case letters, digits and `-`, at most 32.
    pub name: String,
    /// What it is for, in a line or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How often it is run, each time with draws of its own.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub repetitions: u32,
    /// Every random draw follows from it, the repetition and names. At most 2^53 - 1, which JSON keeps exactly.
    #[serde(default = "one_seed")]
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub seed: u64,
    /// Ends when every sender has had all its requests answered or given up. Not beside `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopRule>,
    /// Ends so long after the start of traffic. Not beside `stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Left out of the summary at the beginning.
    #[serde(default)]
    pub warmup: Span,
    /// Left out of the summary at the end.
    #[serde(default)]
    pub cooldown: Span,
    /// From "all ready" to the first traffic.
    #[serde(default = "half_second")]
    pub lead: Span,
    /// From the stop to the end, for what is still under way.
    #[serde(default = "five_seconds")]
    pub grace: Span,
    /// What follows when a node in another process is lost: it ended, or was silent for 5 s.
    #[serde(default)]
    pub on_loss: OnLoss,
    /// What the experiment does to its load on the way; `rehearsal control` does the same by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<ControlTable>,
    /// Share of all exchanges whose attempts are kept one by one in `requests.parquet`, such as `10%`: the same ones in
    /// both engines, at most 4,096 rows per actor group and second.
    #[serde(default = "none")]
    pub record_requests: Fraction,
    /// A calibration for dry runs, relative to this file: what things cost on a host. `simulate --calibration` outranks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<String>,
    /// Seconds that share an interval of `latency.hlog`: `auto` puts together up to ten of more than 500 values, `1s` keeps
    /// each by itself, in several times the room.
    #[serde(default)]
    pub latency_interval: LatencyInterval,
}

/// What ends a run that has no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopRule {
    /// Every sender has finished its `requests`.
    AllRequestsDone,
}

/// `[hosts.X]`: a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// Its cores.
    #[schemars(range(min = 1, max = 4096))]
    pub cores: u32,
    /// Its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Labels that an agent must have to stand for it, `{ rack = "a" }`; without any, every agent can.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The name of the one agent that stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// `[provision]`: commands that make the hosts of an experiment, and take them away again, for `--placement agents`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvisionTable {
    /// Run before hosts are looked for: a program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub create: Vec<String>,
    /// Run when the run is over, however it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destroy: Vec<String>,
    /// How long each may take.
    #[serde(default = "two_minutes")]
    pub timeout: Span,
}

/// `[nodes.X]` without its actors: what shares one resource limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeTable {
    /// Instances, named `X-1`, `X-2`, … if there are several.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub count: u32,
    /// The host that each instance runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Cores that one instance may use; without it, all of the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 4096.0), extend("exclusiveMinimum" = 0))]
    pub vcpu: Option<f64>,
    /// Memory that one instance may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Whether a program of your own runs it, in any language, and joins over NATS. A dry run simulates what the actors
    /// say here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// The keys that every actor has: `[nodes.X.actors.Y]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActorTable {
    /// What it is.
    pub kind: String,
    /// Instances in each instance of the node.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub count: u32,
}

const fn one() -> u32 {
    1
}
const fn one_seed() -> u64 {
    1
}
/// Assumed: a cloud starts a host within it.
const fn two_minutes() -> Span {
    Span::from_secs(120)
}
/// Assumed: time for every engine to arm its timers after the start is announced.
const fn half_second() -> Span {
    Span::from_millis(500)
}
/// Assumed: half the default timeout of an attempt, so that a stuck peer delays the end of a run by seconds only.
const fn none() -> Fraction {
    Fraction(0.0)
}

const fn five_seconds() -> Span {
    Span::from_secs(5)
}
