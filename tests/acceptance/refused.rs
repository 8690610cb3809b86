//! What is refused before anything starts: mistakes, targets that nobody allowed, more devices than descriptors.

use super::void::{NOBODY, Void};
use crate::errors::{GOOD, must_fail};
use crate::support::{PROGRAM, Running, Scenario, Scratch};

#[test]
fn a8_mistakes_are_refused_with_their_place_and_a_suggestion() {
    let scratch = Scratch::new();
    let cases: [(&str, &str, &[&str]); 3] = [
        ("in_flight", "in_fligth", &["trial.toml:17:1", "unknown key `in_fligth`", "did you mean `in_flight`?"]),
        ("\"20/s\"", "20", &["trial.toml:16:8", "`rate`: `20` has no unit", "`20/s`"]),
        ("response.p99", "response.p101", &["trial.toml:31:1", "p101", "`p99`"]),
    ];
    for (good, bad, says) in cases {
        assert_eq!(GOOD.matches(good).count(), 1, "{good}");
        scratch.write("trial.toml", GOOD.replace(good, bad));
        for verb in ["check", "simulate", "emulate"] {
            must_fail(&scratch.run(&[verb, "trial.toml"]), 2, says);
        }
    }
    assert_eq!(scratch.listing(), ["trial.toml"]);
}

/// In a network of its own every packet is counted: none is sent to a target that nobody allowed, over any carrier, and
/// some are as soon as somebody does.
#[test]
fn a11_a_target_that_nobody_allowed_sees_no_packet() {
    let Some(void) = Void::new() else { return };
    for carrier in ["http1", "udp"] {
        let scratch = Scratch::new();
        let receiver = format!("listen = \"{NOBODY}:7000\"");
        let link = format!("carrier = \"{carrier}\"");
        let lines = "rate = \"20/s\"\ntimeout = \"200ms\"";
        scratch.write("trial.toml", Scenario { receiver, link, ..Scenario::sensor_for("1s", lines) }.toml());
        let before = void.sent(&scratch);
        let args = ["emulate", "trial.toml", "--without", "receiver", "--quiet"];
        for more in [&[][..], &["--allow", "192.0.2.2/32,198.51.100.0/24"]] {
            let done = void.start(&scratch, &[&args[..], more].concat()).wait();
            must_fail(&done, 3, &["`sender/main` would send to 192.0.2.1:7000, which is not allowed", "--allow"]);
        }
        assert_eq!(void.sent(&scratch), before, "{carrier}: a packet left");
        assert_eq!(scratch.listing(), ["trial.toml"]);
        let allowed = [&args[..], &["--out", "b", "--allow", "192.0.2.1/32"]].concat();
        void.start(&scratch, &allowed).wait();
        assert!(void.sent(&scratch) > before, "{carrier}: packets that leave are seen");
    }
}

#[test]
fn a12_more_devices_than_descriptors_are_refused_before_the_start() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor_for("1s", "rate = \"1/s\"\ncount = 1000").toml());
    let limited = format!("ulimit -n 256; exec {PROGRAM} emulate trial.toml");
    let done = Running::spawn(scratch.command("sh", &["-c", &limited])).wait();
    must_fail(&done, 3, &["file descriptors are needed, 256 are allowed", "ulimit -n"]);
    assert_eq!(scratch.listing(), ["trial.toml"]);
    // a soft limit alone is raised
    let limited = format!("ulimit -S -n 256; exec {PROGRAM} emulate trial.toml --out b --quiet");
    let done = Running::spawn(scratch.command("sh", &["-c", &limited])).wait();
    assert!(scratch.path("b/verdict.json").exists(), "{}", done.stderr);
}
