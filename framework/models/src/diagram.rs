//! User models as state diagrams: what a user does, for how long, and what follows.
//!
//! A state is either *stochastic* (a user stays for a drawn time) or a *communication* state (a flow goes on for the user by
//! one of the diagram's [`Module`]s, or the user makes one request, a *step*; its end is what moves the user on). Source: the state-space of GenSyn (Heegaard,
//! "GenSyn – a Java based generator of synthetic Internet traffic", Telektronikk 2/3.2001), in which many users are one
//! process with so many users in each state.
//!
//! | room | what happens there |
//! |---|---|
//! | [`module`] | how a flow's packets, pages or files are described |
//! | [`check`] | what cannot be, with the state that is at fault |
//! | [`chain`] | the diagram made ready: phases, rates, samplers |
//! | [`stationary`] | where users are in the long run, and what they send |
//! | [`crowd`] | users on their way through the states |
//! | [`emitter`] | the packets of one flow |
//! | [`traffic`] | users and their flows together: what is to be sent, and when |
//! | [`load`] | what users are to a link, in bytes on the wire |
//! | [`figures`] | what a long run comes to, held against published figures |
//! | [`draw`] | a diagram as DOT and SVG |

use std::collections::BTreeMap;

use rehearsal_core::distribution::Distribution;
use rehearsal_core::script::StepSpec;
use rehearsal_core::units::{Fraction, Rate};
use rehearsal_core::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod chain;
pub mod check;
pub mod crowd;
pub mod draw;
pub mod emitter;
pub mod figures;
mod gbar;
pub mod load;
pub mod module;
pub mod stationary;
pub mod traffic;

pub use chain::Chain;
pub use check::Flaw;
pub use crowd::{Begin, Crowd, Mode};
pub use module::Module;
pub use stationary::Stationary;
pub use traffic::{Traffic, Wish};

/// Most states of a diagram. Assumed: a drawing of more cannot be read.
pub const STATES_MAX: usize = 64;
/// Most modules of a diagram.
pub const MODULES_MAX: usize = 32;

/// A user model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Diagram {
    /// What it models, and where its figures are from.
    #[serde(default, skip_serializing_if = "About::is_empty")]
    pub about: About,
    /// Shares of users by the state that they begin in. Without it they begin as they are in the long run, save that nobody
    /// waits for an answer yet; a stay begins anew, which is exact for memoryless stays.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub start: BTreeMap<String, f64>,
    /// The states, by name.
    pub states: BTreeMap<String, State>,
    /// What goes on in communication states, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modules: BTreeMap<String, Module>,
}

/// What a model models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct About {
    /// In a few words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Where the figures are from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Which way its traffic goes, as seen from a device: `uplink`, `downlink` or `both`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub direction: String,
    /// The 5G QoS identifier that suits it. Source: TS 23.501 table 5.7.4-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 254))]
    pub five_qi: Option<u16>,
    /// The delay that it bears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_budget: Option<Span>,
    /// The share of packets that may be lost or late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_budget: Option<Fraction>,
    /// What the source leaves open, and what was taken for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Published figures that the model is held against.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// A figure of a model's source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Which one.
    pub figure: Figure,
    /// Its value, in the figure's unit.
    pub value: f64,
    /// How far a long run may be from it, as a share of it.
    pub within: Fraction,
    /// What it is, and where it stands.
    pub what: String,
}

/// Figures of a model's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Packets or requests per second and user, in the long run.
    UserRate,
    /// Payload of a user in the long run, bit/s.
    UserBits,
    /// Packets or requests per second of a flow while it goes on.
    FlowRate,
    /// Payload of a flow while it goes on, bit/s.
    FlowBits,
    /// Payload of a packet, or of what one request asks for or brings, bytes.
    Bytes,
    /// Packets or requests of a flow.
    FlowPackets,
    /// Payload of a flow, bytes.
    FlowBytes,
    /// Flows that a user begins in an hour.
    FlowsPerHour,
    /// Share of users in communication states, in erlang.
    Erlang,
}

/// A state. Exactly one of `stay`, `rates`, `hyper`, `hypo`, `coxian`, `module`, `step` and `last` tells what it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct State {
    /// How long a user stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stay: Option<Distribution<Span>>,
    /// Transitions per time to other states: the stay is exponential with their sum.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<String, Rate>,
    /// A hyper-exponential stay: one of these means, by their shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hyper: Vec<Branch>,
    /// A hypo-exponential stay: these means, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hypo: Vec<Span>,
    /// A Coxian stay: phases one after the other, each of which may be the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coxian: Vec<Phase>,
    /// The module that goes on for the user: this is a communication state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// A request that the user makes, with values from earlier answers: this is a communication state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Box<StepSpec>>,
    /// Users stay here until the end.
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    /// Where users go, with probabilities that add up to 1; from a communication state, when the flow has come to its end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub to: BTreeMap<String, f64>,
    /// Where users go when a flow has failed; without it, as `to`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, f64>,
    /// The longest time in a communication state; then the user gives up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impatience: Option<Distribution<Span>>,
    /// Where users go who have given up; without it, as `to`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub impatient: BTreeMap<String, f64>,
    /// Conditions of transitions, by their target. A user who may not go stays for another stay: of an exponential one that is
    /// the same as a rate of zero.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, Condition>,
    /// How long a communication state lasts that the network decides, for figures that are told ahead; without it, no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<Span>,
}

/// A branch of a hyper-exponential stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Its share of stays.
    pub share: f64,
    /// Its mean.
    pub mean: Span,
}

/// A phase of a Coxian stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its mean.
    pub mean: Span,
    /// The probability that another phase follows; of the last one, 0.
    #[serde(default)]
    pub on: f64,
}

/// When a transition is possible: as long as so many users are in a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Whose users are counted.
    pub state: String,
    /// At least so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u32>,
    /// Fewer than so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<u32>,
}

/// How a user's time in a communication state ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All was sent or received.
    Done,
    /// Something was lost or refused for good.
    Failed,
    /// The user gave up.
    Impatient,
}

impl Diagram {
    /// The steps with the names of their states, in the order of those.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &StepSpec)> {
        self.states.iter().filter_map(|(name, state)| Some((name.as_str(), state.step.as_deref()?)))
    }
}

impl State {
    /// Whether it is a communication state.
    pub fn talks(&self) -> bool {
        self.module.is_some() || self.step.is_some()
    }
}

impl About {
    fn is_empty(&self) -> bool {
        *self == About::default()
    }
}

/// A drawn stay from `now` on, at least 1 ns.
fn after(now: Time, nanos: u64) -> Time {
    now.saturating_add(Span::from_nanos(nanos.max(1)))
}

#[cfg(test)]
mod tests;
