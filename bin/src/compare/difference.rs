//! Whether two bundles are of one experiment: the files that they were run from, key by key.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;
use rehearsal_export::Bundle;
use rehearsal_scenario::printable;
use toml::Value;

use crate::exit::UsageError;

/// Differences that are named; more are counted.
const NAMED_MAX: usize = 6;
/// What may differ: how often it is run, with which costs, and what it is called for people.
const FREE: [&str; 3] = ["experiment.repetitions", "experiment.calibration", "experiment.description"];

/// Refuses what is not the same experiment.
///
/// # Errors
/// Names what differs.
pub fn check(simulated: &Bundle, emulated: &Bundle) -> Result<()> {
    let mut keys = keys(simulated, emulated)?;
    if keys.is_empty() {
        return Ok(());
    }
    let more = keys.len().saturating_sub(NAMED_MAX);
    keys.truncate(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    Err(UsageError(format!(
        "these are different experiments, {} (dry run) and {} (real run): {}{more}",
        simulated.path.display(),
        emulated.path.display(),
        keys.join("; ")
    ))
    .into())
}

/// The keys that differ, each with both values.
///
/// # Errors
/// When one of the files cannot be read.
pub fn keys(one: &Bundle, other: &Bundle) -> Result<Vec<String>> {
    let (one, other) = (leaves(one)?, leaves(other)?);
    let all: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let text = |value: Option<&String>| value.map_or_else(|| "absent".to_owned(), |value| printable(value));
    let differing = all.into_iter().filter(|key| one.get(*key) != other.get(*key));
    Ok(differing
        .map(|key| format!("`{}` is {} and {}", printable(key), text(one.get(key)), text(other.get(key))))
        .collect())
}

/// Every value of the resolved file by its dotted key.
fn leaves(bundle: &Bundle) -> Result<BTreeMap<String, String>, UsageError> {
    let path = bundle.path.join("experiment.toml");
    let wrong = |why: String| UsageError(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|why| wrong(why.to_string()))?;
    let table: toml::Table = toml::from_str(&text).map_err(|why| wrong(why.message().to_owned()))?;
    let mut found = BTreeMap::new();
    flatten("", &Value::Table(table), &mut found);
    found.retain(|key, _| !FREE.contains(&key.as_str()));
    Ok(found)
}

fn flatten(key: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    let Value::Table(table) = value else {
        found.insert(key.to_owned(), value.to_string());
        return;
    };
    for (name, value) in table {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        flatten(&key, value, found);
    }
}
