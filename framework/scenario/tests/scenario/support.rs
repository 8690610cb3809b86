//! A small experiment to spoil, and ways to load it.

use std::path::Path;

use rehearsal_scenario::{Experiment, LoadOptions, ScenarioErrors, parse};

use super::kinds::registry;

/// A correct experiment: two sensors and a receiver.
pub const GOOD: &str = r#"# two sensors
[experiment]
name = "small"
duration = "10s"

[hosts.lab]
cores = 4

[nodes.sensor]
count = 2
host = "lab"
vcpu = 1

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "25/s"
requests = 100

[nodes.receiver.actors.main]
kind = "receiver"
workers = 8

[links."sensor->receiver"]
delay = "1ms"
"#;

pub fn load_with(text: &str, options: &LoadOptions) -> Result<Experiment, ScenarioErrors> {
    parse(Path::new("x.toml"), text.to_owned(), &registry(), options)
}

pub fn load(text: &str) -> Result<Experiment, ScenarioErrors> {
    load_with(text, &LoadOptions::default())
}

pub fn good(text: &str) -> Experiment {
    load(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The messages of an experiment that cannot be loaded.
pub fn bad(text: &str) -> String {
    load(text).expect_err("the experiment is wrong").to_string()
}

/// The messages after one replacement in [`GOOD`].
pub fn spoilt(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from} stands in the good experiment");
    bad(&GOOD.replacen(from, to, 1))
}

/// Checks that each part is told.
#[track_caller]
pub fn tells(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
}
