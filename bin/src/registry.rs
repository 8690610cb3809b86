//! The kinds of actor that experiments may name: one line each.

use rehearsal_actors::{Aggregator, Camera, Client, Controller, Flow, Logger, Population, Receiver, Replayer, Sensor};
use rehearsal_scenario::Registry;

/// All kinds of this build.
pub fn registry() -> Registry {
    Registry::new()
        .with::<Sensor>()
        .with::<Camera>()
        .with::<Population>()
        .with::<Client>()
        .with::<Flow>()
        .with::<Replayer>()
        .with::<Receiver>()
        .with::<Logger>()
        .with::<Aggregator>()
        .with::<Controller>()
}
