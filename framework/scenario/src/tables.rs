//! The tables of an experiment file as they are written, apart from those that core defines.

use rehearsal_core::time::Span;
use rehearsal_core::units::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
/// Assumed: time for every engine to arm its timers after the start is announced.
const fn half_second() -> Span {
    Span::from_millis(500)
}
/// Assumed: half the default timeout of an attempt, so that a stuck peer delays the end of a run by seconds only.
const fn five_seconds() -> Span {
    Span::from_secs(5)
}
