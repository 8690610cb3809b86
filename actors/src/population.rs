//! The population: many users of one state-diagram model as one actor, in the manner of GenSyn.
//!
//! `users` users walk through a [`Diagram`]; where it says so they communicate, by datagrams or by requests with answers, as
//! the carrier of the link to a module's target has it. A user who communicates is one stream: the user's number if users are
//! `individual`, else one that is its own for so long. A state's `step` is a request with values that earlier answers gave the
//! user; what they are is kept with the payloads' recipe ([`rehearsal_core::script`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use rehearsal_core::kind::{Complaint, Offer, Weight};
use rehearsal_core::{BuildError, GroupContext, Kind, Pool, Role, Span, Wiring};
use rehearsal_models::diagram::{Chain, Diagram, Mode, Traffic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod census;
mod content;
mod spec;
#[cfg(test)]
mod tests;
mod users;

use spec::Spec;
use users::Users;

/// Most users of one instance. Assumed: what a dry run holds in some 100 MB.
pub const USERS_MAX: u32 = 10_000_000;
/// Most source ports of one instance's datagrams. Assumed: a sixth of those that a host gives away.
const PORTS_MAX: u16 = 5000;
/// Most changes of the number of users.
const CHANGES_MAX: usize = 10_000;

/// Users of a state-diagram model.
pub struct Population;

/// The population's own keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PopulationParams {
    /// Users of one instance, at the start.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub users: u32,
    /// Most users that there may be at any time; without it, as many as `users` and `schedule` have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub users_max: Option<u32>,
    /// How users are kept.
    #[serde(default)]
    pub mode: Mode,
    /// A file with a diagram, relative to the experiment file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The diagram itself, instead of `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagram: Option<Diagram>,
    /// Targets of modules and of states with a `step`, by name: `node/actor`, where they are not `to`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, String>,
    /// Other numbers of users, from times after the start on, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<Change>,
    /// UDP source ports of an instance in an emulation; a user's stream has the one of its number modulo this.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 5000))]
    pub ports: u16,
}

/// Another number of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// So long after the start of traffic.
    pub at: Span,
    /// Users from then on.
    #[schemars(range(max = 10_000_000))]
    pub users: u32,
}

impl PopulationParams {
    /// Most users that there may be.
    pub fn most(&self) -> u32 {
        let scheduled = self.schedule.iter().map(|change| change.users).max().unwrap_or(0);
        self.users_max.unwrap_or(self.users.max(scheduled))
    }
}

impl Kind for Population {
    const NAME: &'static str = "population";
    const SUMMARY: &'static str = "many users of one state-diagram model";
    const ROLE: Role = Role::Sender;
    type Params = PopulationParams;

    fn build(
        params: &PopulationParams,
        cx: &GroupContext<'_>,
        wiring: &mut dyn Wiring,
    ) -> Result<Box<dyn Pool>, BuildError> {
        let diagram = params.diagram.as_ref().ok_or_else(|| BuildError::of("model", MISSING))?;
        let chain = Chain::new(diagram)?;
        let (spec, chain) = Spec::new(params, chain, cx, wiring)?;
        if let Some(bytes) = Self::offers(params).and_then(|offer| offer.bytes) {
            wiring.weight(Weight::of(bytes, spec.datagram_max(&chain)));
        }
        let mut members = Vec::with_capacity(cx.members.len());
        for member in cx.members.clone() {
            let people = (params.mode == Mode::Individual)
                .then(|| (0..params.most()).map(|user| wiring.rng(member, user, "user")).collect());
            let traffic = Traffic::new(Arc::clone(&chain), wiring.rng(member, 0, "users"), people);
            members.push(Users::new(&spec, member, traffic, wiring.rng(member, 0, "backoff")));
        }
        Ok(Box::new(members))
    }

    fn check(params: &PopulationParams) -> Vec<Complaint> {
        let mut all: Vec<Complaint> = params
            .diagram
            .as_ref()
            .map(Diagram::flaws)
            .unwrap_or_default()
            .into_iter()
            .map(|flaw| {
                let path = std::iter::once("diagram".to_owned()).chain(flaw.path).collect();
                Complaint { path, reason: flaw.reason }
            })
            .collect();
        let mut say = |path: &[&str], reason: String| {
            all.push(Complaint { path: path.iter().map(|key| (*key).to_owned()).collect(), reason });
        };
        match &params.diagram {
            None => say(&["model"], MISSING.to_owned()),
            Some(diagram) => {
                let step = |name: &String| diagram.states.get(name).is_some_and(|state| state.step.is_some());
                for name in params.targets.keys().filter(|name| !diagram.modules.contains_key(*name) && !step(name)) {
                    say(
                        &["targets", name],
                        format!("the diagram has no module `{name}`, and no state of that name with a `step`"),
                    );
                }
                if let Some((state, value)) = diagram.first_use().filter(|_| params.mode == Mode::Composed) {
                    let reason = format!(
                        "state `{state}` uses `{{{value}}}`, which belongs to the user that got it, and composed users are numbers: write `mode = \"individual\"`"
                    );
                    say(&["mode"], reason);
                }
            }
        }
        if params.schedule.windows(2).any(|pair| pair[1].at <= pair[0].at) {
            say(&["schedule"], "its changes are in the order of time".to_owned());
        }
        if params.schedule.len() > CHANGES_MAX {
            say(&["schedule"], format!("at most {CHANGES_MAX} changes are possible"));
        }
        let most = params.schedule.iter().map(|change| change.users).max().unwrap_or(0).max(params.users);
        if params.users_max.is_some_and(|max| max < most) {
            say(&["users_max"], format!("there are to be {most} users, which is more"));
        }
        if params.users == 0 || most > USERS_MAX {
            say(&["users"], format!("a population has 1 to {USERS_MAX} users"));
        }
        if !(1..=PORTS_MAX).contains(&params.ports) {
            say(&["ports"], format!("1 to {PORTS_MAX} ports are possible"));
        }
        all
    }

    fn offers(params: &PopulationParams) -> Option<Offer> {
        let text = format!("{} users", params.users);
        let whole = params.schedule.is_empty().then_some(params.diagram.as_ref()).flatten();
        let total = whole.and_then(|diagram| Some(Chain::new(diagram).ok()?.stationary()?.total()));
        let per_second = total.map(|total| total.packets * f64::from(params.users));
        let bytes = total.filter(|total| total.packets > 0.0).map(|total| total.bytes / total.packets);
        Some(Offer { text, per_second, bytes, total: None })
    }
}

const MISSING: &str =
    "a population needs a `model`, which is a file, or a `diagram`; `rehearsal model list` shows models";

const fn one() -> u16 {
    1
}

fn is_one(ports: &u16) -> bool {
    *ports == 1
}
