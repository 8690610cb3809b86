//! Nodes that somebody else's program runs.

use super::support::{GOOD, bad, good, tells};

/// The good experiment with a foreign sensor.
fn file() -> String {
    GOOD.replace("vcpu = 1\n", "vcpu = 1\nforeign = true\n")
}

#[test]
fn every_instance_of_a_foreign_node_is_and_no_other() {
    let experiment = good(&file());
    let foreign: Vec<bool> = experiment.plan(0).nodes.iter().map(|node| node.foreign).collect();
    assert_eq!(foreign, [true, true, false, false]);
    assert!(experiment.notes.iter().any(|n| n.starts_with("`sensor`: a program of yours")), "{:?}", experiment.notes);
    assert!(good(GOOD).plan(0).nodes.iter().all(|node| !node.foreign));
}

#[test]
fn the_resolved_file_says_so_too() {
    let resolved = good(&file()).resolved_toml();
    assert_eq!(resolved.matches("foreign = true").count(), 1, "{resolved}");
    assert!(good(&resolved).plan(0).nodes[1].foreign);
    assert!(!good(GOOD).resolved_toml().contains("foreign"));
}

#[test]
fn what_leads_an_experiment_cannot_be_foreign() {
    for kind in ["controller", "aggregator"] {
        let more = format!("{GOOD}[nodes.lead]\nforeign = true\n[nodes.lead.actors.main]\nkind = \"{kind}\"\n");
        let why = bad(&more);
        tells(&why, &[&format!("a foreign node has no {kind}"), "leave `foreign` out"]);
    }
    tells(&bad(&file().replace("foreign = true", "foreign = \"yes\"")), &["foreign"]);
}
