//! Kinds with the names and keys of the real ones. None of them can be built.

use std::net::SocketAddr;
use std::path::PathBuf;

use rehearsal_core::Pool;
use rehearsal_core::dialogue::{Casting, Split};
use rehearsal_core::kind::{BuildError, Complaint, GroupContext, Kind, Meeting, Offer, Role, Wiring};
use rehearsal_core::recording::{Pace, Side, TemplateRequest};
use rehearsal_core::time::Span;
use rehearsal_core::units::{ByteRange, ByteSize};
use rehearsal_scenario::Registry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every kind of this file.
pub fn registry() -> Registry {
    Registry::new()
        .with::<Sensor>()
        .with::<Camera>()
        .with::<Client>()
        .with::<Flow>()
        .with::<Population>()
        .with::<Replayer>()
        .with::<Receiver>()
        .with::<Logger>()
        .with::<Controller>()
        .with::<Aggregator>()
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct SensorParams {
    #[serde(default = "kilobyte")]
    pub bytes: ByteSize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<rehearsal_core::distribution::Distribution<ByteSize>>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct CameraParams {
    pub media: PathBuf,
    pub frame: ByteRange,
    #[serde(default)]
    pub encode: Encode,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct FlowParams {
    pub bytes: ByteSize,
    #[serde(default)]
    pub gaps: Gaps,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Gaps {
    #[default]
    Even,
    Random,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct PopulationParams {
    pub users: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<rehearsal_models::diagram::Mode>,
    #[serde(default = "one_port")]
    pub ports: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagram: Option<rehearsal_models::diagram::Diagram>,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub targets: std::collections::BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<Change>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub at: Span,
    pub users: u32,
}

const fn one_port() -> u16 {
    1
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Encode {
    #[default]
    Prepared,
    Live,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct ReceiverParams {
    #[serde(default = "sixteen")]
    #[schemars(range(min = 1, max = 100_000))]
    pub workers: u32,
    #[serde(default = "sixty_four")]
    pub backlog: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ByteSize>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub token: bool,
    #[serde(default)]
    pub analyzer: Analyzer,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Workers>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct Workers {
    pub from: Vec<String>,
    pub workers: u32,
    #[serde(default = "sixty_four")]
    pub backlog: u32,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, Default)]
#[serde(deny_unknown_fields)]
pub struct Analyzer {
    #[serde(default)]
    pub pause: Span,
    #[serde(default)]
    pub spin: Span,
    #[serde(default)]
    pub decode: bool,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub struct NoKeys {}

const fn kilobyte() -> ByteSize {
    ByteSize(1000)
}
const fn sixteen() -> u32 {
    16
}
const fn sixty_four() -> u32 {
    64
}

macro_rules! kinds {
    ($($kind:ident, $name:literal, $role:ident, $params:ty;)*) => {
        $(
            pub struct $kind;
            impl Kind for $kind {
                const NAME: &'static str = $name;
                const SUMMARY: &'static str = concat!("a ", $name, " that does nothing");
                const ROLE: Role = Role::$role;
                type Params = $params;
                fn build(_: &$params, _: &GroupContext<'_>, _: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
                    Err(BuildError::group("this kind only has keys"))
                }
            }
        )*
    };
}

kinds! {
    Sensor, "sensor", Sender, SensorParams;
    Camera, "camera", Sender, CameraParams;
    Client, "client", Sender, NoKeys;
    Flow, "flow", Sender, FlowParams;
    Receiver, "receiver", Receiver, ReceiverParams;
    Logger, "logger", Service, NoKeys;
    Controller, "controller", Service, NoKeys;
    Aggregator, "aggregator", Service, NoKeys;
}

/// Users pace themselves: what they offer is told, and the keys of other senders need not be there.
pub struct Population;

impl Kind for Population {
    const NAME: &'static str = "population";
    const SUMMARY: &'static str = "users that do nothing";
    const ROLE: Role = Role::Sender;
    type Params = PopulationParams;

    fn build(_: &PopulationParams, _: &GroupContext<'_>, _: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        Err(BuildError::group("this kind only has keys"))
    }

    fn check(params: &PopulationParams) -> Vec<Complaint> {
        let flaws = params.diagram.as_ref().map(|diagram| diagram.flaws()).unwrap_or_default().into_iter();
        let path = |path: Vec<String>| std::iter::once("diagram".to_owned()).chain(path).collect();
        flaws.map(|flaw| Complaint { path: path(flaw.path), reason: flaw.reason }).collect()
    }

    fn offers(params: &PopulationParams) -> Option<Offer> {
        let per_second = Some(f64::from(params.users) * 0.5);
        Some(Offer { text: format!("{} users", params.users), per_second, bytes: Some(100.0), total: None })
    }
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct ReplayerParams {
    pub template: String,
    pub side: Side,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loops: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive: Option<InteractiveParams>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct InteractiveParams {
    pub conversations: u64,
    pub start_rate: f64,
}

/// A capture has times of its own.
pub struct Replayer;

impl Kind for Replayer {
    const NAME: &'static str = "replayer";
    const SUMMARY: &'static str = "a capture that is not read";
    const ROLE: Role = Role::Sender;
    type Params = ReplayerParams;

    fn build(_: &ReplayerParams, _: &GroupContext<'_>, _: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        Err(BuildError::group("this kind only has keys"))
    }

    fn offers(params: &ReplayerParams) -> Option<Offer> {
        let text = format!("the {:?} side of {}", params.side, params.template);
        Some(Offer { text, per_second: Some(50.0), bytes: Some(100.0), total: params.loops.map(|loops| 50 * loops) })
    }

    fn template(params: &ReplayerParams, frames: bool) -> Option<(TemplateRequest, Option<u64>)> {
        let (template, side, edit) = (params.template.clone(), params.side, Vec::new());
        let (pace, gap_max, loop_gap) = (Pace::Speed(1.0), None, None);
        Some((TemplateRequest { template, pace, gap_max, loop_gap, side, edit, frames }, params.loops))
    }

    fn meeting(params: &ReplayerParams) -> Option<Meeting> {
        let conversations = Some(params.interactive.as_ref()?.conversations);
        let (split, clients, servers) = (Split::Hosts, Vec::new(), Vec::new());
        let casting = Casting { split, conversations, instances: 1, clients, servers };
        Some(Meeting { side: params.side, casting, alike: vec![("template", params.template.clone())] })
    }
}
