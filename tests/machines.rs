//! What machines do each second, and what measuring takes: in bundles of both placements, and in reports of them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Bundle, Scenario, Scratch, beside, family::server};

fn trial() -> String {
    Scenario::sensor_for("3s", "rate = \"200/s\"\nin_flight = 4").toml()
}

/// Seconds of each node and actor, without rows of groups.
fn told(bundle: &Bundle) -> BTreeMap<(String, String), Vec<String>> {
    let mut all = BTreeMap::<_, Vec<String>>::new();
    for mut row in bundle.rows() {
        let mut take = |key: &str| row.remove(key).unwrap_or_else(|| panic!("a column {key}"));
        let (node, kind) = (take("node"), take("kind"));
        if ["host", "process", "machine"].contains(&kind.as_str()) {
            all.entry((kind, node)).or_default().push(take("second"));
        }
    }
    all
}

/// The rows of one kind, without the last second, which is seldom a whole one.
fn whole(bundle: &Bundle, kind: &str) -> Vec<BTreeMap<String, String>> {
    bundle
        .rows()
        .into_iter()
        .filter(|row| row["kind"] == kind && row["second"].parse::<u32>().is_ok_and(|s| s < 3))
        .collect()
}

/// Columns that a machine knows wherever Linux runs.
const OF_MACHINES: [&str; 8] = [
    "cpu_host_percent",
    "memory_percent",
    "context_switches",
    "open_files",
    "open_sockets",
    "udp_in_errors",
    "tcp_retransmitted",
    "tcp_listen_overflows",
];
/// Columns that a process knows of itself alone.
const OF_PROCESSES: [&str; 5] = ["cpu_percent", "memory_bytes", "voluntary_switches", "open_files", "open_sockets"];

fn check_machine(bundle: &Bundle) {
    let rows = whole(bundle, "machine");
    assert_eq!(rows.len(), 3, "one a second");
    for row in rows {
        assert!(OF_MACHINES.iter().all(|column| !row[*column].is_empty()), "{row:?}");
        assert!(["cpu_percent", "throttled_ns", "generated"].iter().all(|column| row[*column].is_empty()), "{row:?}");
    }
    let measuring = &bundle.summary["measuring"];
    assert!(measuring["cpu_ns_per_second"].as_f64().is_some_and(|ns| ns > 0.0), "{measuring}");
    assert!(measuring["wall_ns_max"].as_u64() > Some(0) && measuring["samples"].as_u64() >= Some(3), "{measuring}");
}

#[test]
fn nodes_of_one_process_share_what_cannot_be_told_apart() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", trial());
    let bundle = scratch.emulate("trial.toml", "e", &["--csv"]);
    check_machine(&bundle);
    for row in whole(&bundle, "process") {
        assert!(OF_PROCESSES.iter().all(|column| !row[*column].is_empty()), "{row:?}");
    }
    for row in whole(&bundle, "host") {
        let known: Vec<_> =
            OF_PROCESSES.iter().chain(&OF_MACHINES).filter(|column| !row[**column].is_empty()).collect();
        assert!(known.is_empty(), "{}: {known:?}", row["node"]);
    }
    let scopes: Vec<&str> =
        bundle.summary["machines"].as_array().expect("machines").iter().filter_map(|m| m["scope"].as_str()).collect();
    assert_eq!(scopes, ["process", "machine"]);

    let text = scratch.run(&["report", "e"]).stdout;
    for part in ["machines", "stolen, %", "held back, %", "measuring took "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: Value = scratch.run(&["report", "e", "--format", "json"]).json();
    assert_eq!(json[0]["machines"][0]["scope"], "machine");
    assert!(json[0]["measuring"]["cpu_percent"].as_f64().is_some_and(|percent| percent > 0.0), "{json}");
    let page = scratch.path("page.html");
    scratch.run(&["report", "e", "--html", page.to_str().expect("a path")]);
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<h3>Machines</h3>") && page.contains("measuring took "), "the page has them");
}

#[test]
fn a_machine_is_told_once_however_many_nodes_it_has() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario { senders: 3, ..Scenario::sensor_for("3s", "rate = \"50/s\"") }.toml());
    let bundle = scratch.emulate("trial.toml", "p", &["--csv", "--placement", "processes"]);
    check_machine(&bundle);
    let told = told(&bundle);
    assert_eq!(told.keys().filter(|(kind, _)| kind == "machine").count(), 1, "{told:?}");
    assert!(told.keys().all(|(kind, _)| kind != "process"), "each node has a process of its own");
    let of_nodes = whole(&bundle, "host").into_iter().filter(|row| row["node"] != "control");
    for row in of_nodes {
        assert!(OF_PROCESSES.iter().all(|column| !row[*column].is_empty()), "{row:?}");
        assert!(row["udp_in_errors"].is_empty() && row["ephemeral_ports"].is_empty(), "shared: {row:?}");
    }
}

#[test]
fn a_dry_run_has_the_columns_and_knows_nothing() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", trial());
    let bundle = scratch.simulate("trial.toml", "s", &["--csv"]);
    let rows = bundle.rows();
    for column in OF_PROCESSES.iter().chain(&OF_MACHINES) {
        assert!(rows.iter().all(|row| row[*column].is_empty()), "{column}: unknown, not zero");
    }
    assert!(told(&bundle).keys().all(|(kind, _)| kind == "host"));
    assert_eq!((&bundle.summary["machines"], &bundle.summary["measuring"]), (&Value::Array(vec![]), &Value::Null));
}
