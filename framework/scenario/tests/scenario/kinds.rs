//! Kinds with the names and keys of the real ones. None of them can be built.

use std::net::SocketAddr;
use std::path::PathBuf;

use rehearsal_core::Pool;
use rehearsal_core::kind::{BuildError, GroupContext, Kind, Role, Wiring};
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
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct CameraParams {
    pub media: PathBuf,
    pub frame: ByteRange,
    #[serde(default)]
    pub encode: Encode,
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
    #[serde(default)]
    pub analyzer: Analyzer,
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
    Receiver, "receiver", Receiver, ReceiverParams;
    Logger, "logger", Service, NoKeys;
    Controller, "controller", Service, NoKeys;
    Aggregator, "aggregator", Service, NoKeys;
}
