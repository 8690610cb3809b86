//! Agents that calibrate their hosts for a leader, and those that must not.

use super::Fleet;
use crate::support::{Scenario, alone};

#[test]
fn each_agent_calibrates_its_host_and_sends_the_file() {
    let _alone = alone();
    let Some(fleet) = Fleet::new(&[&[], &["--rate-max", "1000/s"]]) else { return };
    let args = ["calibrate", "--nats", &fleet.url, "--quick", "--anyway", "--carrier", "udp", "--out", "lab.toml"];
    let done = fleet.scratch.run(&args);
    // the second one's operator bounds the load
    assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("a2: ") && done.stderr.contains("--rate-max"), "{}", done.stderr);
    assert!(done.stdout.contains("written: lab-a1.toml"), "{}", done.stdout);
    assert!(done.stderr.contains("a1: udp, 200 B, "), "its tries are told while they are made: {}", done.stderr);
    assert!(!fleet.scratch.path("lab-a2.toml").exists() && !fleet.scratch.path("lab.toml").exists());
    let file = std::fs::read_to_string(fleet.scratch.path("lab-a1.toml")).expect("the agent's file");
    assert!(file.contains("[carriers.udp.send]"), "{file}");
    let lines = "rate = \"50/s\"\nrequests = 50\nbytes = \"1kB\"";
    let udp = Scenario { link: "carrier = \"udp\"".to_owned(), ..Scenario::sensor(lines) };
    fleet.scratch.write("trial.toml", udp.toml());
    let bundle = fleet.scratch.bundle("simulate", "trial.toml", "dry", &["--calibration", "lab-a1.toml"], &[0]);
    assert!(bundle.summary["calibration"].as_str().is_some_and(|title| title.contains("measured")));
    assert!(fleet.is_free());
}

#[test]
fn a_host_that_is_calibrated_does_nothing_else() {
    let _alone = alone();
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    let lines = "rate = \"20/s\"\nbytes = \"1kB\"";
    fleet.scratch.write("trial.toml", Scenario::sensor_for("6s", lines).toml());
    let calibrate = ["calibrate", "--nats", &fleet.url, "--quick", "--anyway", "--carrier", "udp", "--quiet"];
    let calibrating = fleet.scratch.start(&[&calibrate[..], &["--out", "one.toml"]].concat());
    std::thread::sleep(std::time::Duration::from_secs(3));
    for out in ["two.toml", "three.toml"] {
        let second = fleet.scratch.run(&[&calibrate[..], &["--out", out]].concat());
        assert_eq!(second.code, Some(3), "{}", second.stderr);
        assert!(second.stderr.contains("calibrates it already"), "{}", second.stderr);
    }
    let refused = fleet.run("run", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("is being calibrated"), "{}", refused.stderr);
    let done = calibrating.wait();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    // and the other way round
    let run = fleet.start("run");
    crate::support::until("the run holds something", || !fleet.is_free());
    let refused = fleet.scratch.run(&[&calibrate[..], &["--out", "four.toml"]].concat());
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("does nothing else; run "), "{}", refused.stderr);
    assert!(matches!(run.wait().code, Some(0 | 20)));
}
