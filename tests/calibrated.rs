//! Dry runs with a calibration: what they know more, what they say of it, and what is wrong with others.

use std::fs;

use serde_json::Value;

use crate::support::{Bundle, CONFIGS, Scenario, Scratch};

/// A sensor at a receiver, for three seconds.
fn trial(scratch: &Scratch) {
    let scenario = Scenario::sensor_for("3s", "rate = \"200/s\"\nin_flight = 8");
    let placed = "[nodes.receiver]\nhost = \"lab\"\nvcpu = 1\nmemory = \"64MiB\"\n\n[nodes.receiver.actors.main]";
    let text = scenario.toml().replace("[nodes.receiver.actors.main]", placed);
    scratch.write("trial.toml", format!("{text}\n[hosts.lab]\ncores = 2\n"));
}

/// What the verdict says under a code.
fn reasons(bundle: &Bundle, code: &str) -> Vec<String> {
    let all = bundle.verdict["reasons"].as_array().expect("reasons").clone();
    let of: Vec<&Value> = all.iter().filter(|reason| reason["code"] == code).collect();
    of.iter().map(|reason| reason["text"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_calibration_tells_cpu_and_memory_and_is_named() {
    let scratch = Scratch::new();
    trial(&scratch);
    let default = format!("{CONFIGS}/calibration/default.toml");
    let plain = scratch.simulate("trial.toml", "plain", &[]);
    let known = scratch.simulate("trial.toml", "known", &["--calibration", &default]);
    let receiver = |bundle: &Bundle| {
        let nodes = bundle.summary["nodes"].as_array().expect("nodes");
        nodes.iter().find(|node| node["node"] == "receiver").expect("a receiver").clone()
    };
    assert!(receiver(&plain)["cpu_percent_mean"].is_null() && receiver(&plain)["memory_percent_max"].is_null());
    assert!(receiver(&known)["cpu_percent_mean"].as_f64().is_some_and(|percent| percent > 0.0));
    assert!(receiver(&known)["memory_percent_max"].as_f64().is_some_and(|percent| percent > 1.0));
    assert_eq!(plain.schedule(), known.schedule(), "costs change no schedule");
    assert!(plain.summary["calibration"].is_null());
    assert_eq!(known.summary["calibration"], "`default`, which nobody measured");
    assert!(reasons(&plain, "uncalibrated")[0].starts_with("not calibrated"));
    assert!(reasons(&known, "uncalibrated")[0].starts_with("calibrated by `default`, which nobody measured"));
    assert_eq!(reasons(&known, "outside_calibration"), [""; 0]);
}

#[test]
fn one_of_your_own_is_taken_from_the_experiment_and_has_its_limits() {
    let scratch = Scratch::new();
    trial(&scratch);
    let own = "[host]\nid = \"lab\"\nmeasured = true\ndate = \"2026-12-01\"\n[valid]\npayload_max = \"100B\"\n\
               [cpu]\n[pacing]\n[memory]\n\
               [carriers.http1]\nsend = { fixed_ns = 1000 }\nreceive = { fixed_ns = 0 }\n[work]\n[messages]\ncontrol = \"100us\"\n";
    scratch.write("lab.toml", own);
    let file = fs::read_to_string(scratch.path("trial.toml")).expect("the trial");
    scratch.write("named.toml", file.replacen("duration", "calibration = \"lab.toml\"\nduration", 1));
    let bundle = scratch.bundle("simulate", "named.toml", "named", &[], &[0]);
    assert_eq!(bundle.summary["calibration"], "`lab`, measured 2026-12-01");
    assert_eq!(reasons(&bundle, "uncalibrated"), [""; 0]);
    let outside = reasons(&bundle, "outside_calibration");
    assert!(outside.len() == 1 && outside[0].contains("the largest it holds for is 100B"), "{outside:?}");
    assert_eq!(bundle.status(), "DEGRADED");
}

#[test]
fn a_calibration_that_is_wrong_stops_the_run_with_its_line() {
    let scratch = Scratch::new();
    trial(&scratch);
    scratch.write("wrong.toml", "[host]\nid = \"lab\"\n[cpu]\nperiod = \"0s\"\n");
    let done = scratch.run(&["simulate", "trial.toml", "--calibration", "wrong.toml", "--out", "none"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("wrong.toml:4:10: `cpu.period`: 0s is no period"), "{}", done.stderr);
    assert!(!scratch.path("none").exists());
}
