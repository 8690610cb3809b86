//! Results that do not belong together: reported apart with the reason, or refused.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Scenario, Scratch, beside};

fn trial(scratch: &Scratch) {
    scratch.write("trial.toml", Scenario::sensor("rate = \"20/s\"\nrequests = 40").toml());
}

/// The notes of each entry of a report.
fn notes(report: &Value) -> Vec<Vec<&str>> {
    let entries = report.as_array().expect("entries").iter();
    entries.map(|e| e["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect()).collect()
}

#[test]
fn results_of_two_seeds_are_not_repetitions() {
    let scratch = Scratch::new();
    trial(&scratch);
    for seed in ["1", "2"] {
        let set = format!("experiment.seed={seed}");
        scratch.simulate("trial.toml", &format!("all/seed-{seed}"), &["--set", &set]);
    }
    let report = scratch.run(&["report", "all", "--format", "json"]).json();
    let told = "results of the same name differ in seed (1, 2); they are reported apart";
    assert_eq!(notes(&report), [[told], [told]]);
    let text = scratch.run(&["report", "all"]).stdout;
    assert_eq!(text.lines().filter(|line| line.contains("1 repetition") && line.starts_with("VALID  ")).count(), 2);
}

#[test]
fn results_of_other_settings_are_not_repetitions() {
    let scratch = Scratch::new();
    trial(&scratch);
    scratch.simulate("trial.toml", "all/a", &[]);
    // the same rate in another unit is the same; another rate is not
    scratch.simulate("trial.toml", "all/b", &["--set", "nodes.sender.actors.main.rate=30/s"]);
    let report = scratch.run(&["report", "all", "--format", "json"]).json();
    let told = "results of the same name have other settings; they are reported apart";
    assert_eq!(notes(&report), [[told], [told]]);
}

#[test]
fn a_dry_run_and_a_real_one_are_not_repetitions() {
    let _machine = beside();
    let scratch = Scratch::new();
    trial(&scratch);
    scratch.simulate("trial.toml", "all/dry", &[]);
    scratch.emulate("trial.toml", "all/real", &[]);
    let report = scratch.run(&["report", "all", "--format", "json"]).json();
    let engines: Vec<&str> = report.as_array().expect("entries").iter().filter_map(|e| e["engine"].as_str()).collect();
    assert_eq!(engines, ["emulated", "simulated"]);
    for entry in report.as_array().expect("entries") {
        assert_eq!(entry["bundles"].as_array().map(Vec::len), Some(1));
        assert!(entry["pooled"].is_null(), "one run is not merged with anything");
    }
}

/// The placement is edited by hand: the same experiment in one process and in several is not the same measurement.
#[test]
fn results_of_two_placements_are_not_repetitions() {
    let scratch = Scratch::new();
    trial(&scratch);
    for (name, seed) in [("a", "1"), ("b", "1")] {
        let set = format!("experiment.seed={seed}");
        scratch.simulate("trial.toml", &format!("all/{name}"), &["--set", &set]);
    }
    edit(&scratch.path("all/b/manifest.json"), "\"placement\": \"virtual\"", "\"placement\": \"processes\"");
    let report = scratch.run(&["report", "all", "--format", "json"]).json();
    let told = "results of the same name differ in placement (processes, virtual); they are reported apart";
    assert!(notes(&report).iter().all(|notes| notes.contains(&told)), "{:#?}", notes(&report));
}

/// Versions are edited by hand: there is no program yet that writes another.
#[test]
fn results_of_another_format_are_refused() {
    for (file, version, says) in [
        ("manifest.json", "9", "manifest.json has schema version 9"),
        ("manifest.json", "0", "manifest.json has schema version 0"),
        ("summary.json", "9", "summary.json has schema version 9"),
    ] {
        let scratch = Scratch::new();
        trial(&scratch);
        scratch.simulate("trial.toml", "all/a", &[]);
        scratch.simulate("trial.toml", "all/b", &["--set", "experiment.seed=2"]);
        edit(&scratch.path("all/b").join(file), "\"schema_version\": 1", &format!("\"schema_version\": {version}"));
        for args in [&["report", "all"][..], &["report", "all", "--format", "csv"]] {
            let done = scratch.run(args);
            assert_eq!(done.code, Some(2), "{args:?} {}", done.stdout);
            assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{args:?} {}", done.stderr);
        }
        // a list goes on with the others, and says what it leaves out
        let done = scratch.run(&["runs", "all"]);
        assert!(done.stderr.contains(says), "{}", done.stderr);
        assert!(!done.stdout.contains("all/b"), "{}", done.stdout);
    }
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("a file of the bundle");
    assert!(text.contains(from), "{from} in {text}");
    fs::write(file, text.replace(from, to)).expect("a file of the bundle");
}
