//! The kinds of actor that experiments may name: one line each.

use rehearsal_actors::{Aggregator, Camera, Controller, Logger, Receiver, Sensor};
use rehearsal_scenario::Registry;

/// All kinds of this build.
pub fn registry() -> Registry {
    Registry::new()
        .with::<Sensor>()
        .with::<Camera>()
        .with::<Receiver>()
        .with::<Logger>()
        .with::<Aggregator>()
        .with::<Controller>()
}
