//! Arrivals and sizes by distribution: both engines draw alike, times count from what was drawn, and the verdict knows what
//! should have been sent.

use std::fmt::Write as _;

use crate::errors::must_fail;
use crate::support::{Scenario, Scratch, beside};

/// One sender of each process, over two seconds.
const ALL: [(&str, &str); 7] = [
    ("poisson", "arrivals = { process = \"poisson\", rate = \"50/s\" }"),
    (
        "lognormal",
        "arrivals = { process = \"renewal\", gaps = { dist = \"lognormal\", mean = \"20ms\", cv = 2 } }\n\
         sizes = { dist = \"weibull\", shape = 0.7, mean = \"1kB\", min = \"200B\", max = \"20kB\", truncate = \"reject\" }",
    ),
    (
        "cauchy",
        "arrivals = { process = \"renewal\", gaps = { dist = \"cauchy\", median = \"20ms\", scale = \"5ms\", max = \"1s\", \
         truncate = \"clamp\" } }",
    ),
    (
        "talk",
        "streams = 3\narrivals = { process = \"on-off\", gaps = { dist = \"constant\", value = \"10ms\" }, \
         on = { dist = \"exponential\", mean = \"100ms\" }, off = { dist = \"pareto\", mean = \"200ms\", shape = 1.5 } }",
    ),
    (
        "mmpp",
        "[nodes.mmpp.actors.main.arrivals]\nprocess = \"mmpp\"\nstates.a = { rate = \"10/s\", to = { b = \"4/s\" } }\n\
         states.b = { rate = \"200/s\", to = { a = \"10/s\" } }",
    ),
    (
        "ramp",
        "arrivals = { process = \"stages\", rate = \"10/s\", stages = [{ duration = \"1s\", target = \"100/s\" }, \
         { duration = \"1s\" }] }",
    ),
    ("trace", "arrivals = { process = \"trace\", rows = \"gaps\", file = \"gaps.txt\", repeat = true }"),
];

fn everything() -> String {
    let mut text = "[experiment]\nname = \"all\"\nduration = \"2s\"\n".to_owned();
    for (node, lines) in ALL {
        let head = format!("[nodes.{node}.actors.main]\nkind = \"sensor\"\nto = \"receiver/main\"\nin_flight = 50");
        let _ = writeln!(text, "{head}\n{lines}");
    }
    text + "[nodes.receiver.actors.main]\nkind = \"receiver\"\n"
}

#[test]
fn both_engines_draw_the_same_arrivals_and_sizes() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("gaps.txt", "# measured\n5ms\n0s\n35.5ms\n");
    scratch.write("trial.toml", everything());
    let [simulated, emulated] = scratch.both("trial.toml", "b", &[]);
    assert_eq!(simulated.schedule(), emulated.schedule());
    for (node, _) in ALL {
        let generated = |bundle: &crate::support::Bundle| bundle.total_of(node, "generated");
        assert!(generated(&simulated) > 10, "{node}: {}", generated(&simulated));
        assert_eq!(generated(&simulated), generated(&emulated), "{node}");
    }
    assert_eq!(simulated.total("bytes_sent"), emulated.total("bytes_sent"));
    assert_eq!(
        simulated.total_of("trace", "generated"),
        149,
        "49 rounds of three in 40.5 ms each, and two of the next"
    );
    // the resolved experiment has the trace in itself
    let resolved = std::fs::read_to_string(simulated.folder.join("experiment.toml")).expect("it is in the bundle");
    assert!(resolved.contains("35500us") && !resolved.contains("gaps.txt"), "{resolved}");
    let other = scratch.simulate("trial.toml", "other", &["--set", "experiment.seed=2"]);
    assert_ne!(simulated.schedule(), other.schedule(), "another seed draws other arrivals");
}

/// Three at one instant, one at a time, 10 ms each: the third has waited for two. In virtual time this is always so.
#[test]
fn a_response_counts_from_the_drawn_time() {
    let scratch = Scratch::new();
    let scenario = Scenario {
        experiment: "duration = \"1s\"".to_owned(),
        receiver: "analyzer = { pause = \"10ms\" }".to_owned(),
        ..Scenario::sensor(
            "arrivals = { process = \"trace\", rows = \"times\", trace = [\"100ms\", \"100ms\", \"100ms\"] }",
        )
    };
    scratch.write("trial.toml", scenario.toml());
    let bundle = scratch.simulate("trial.toml", "b", &[]);
    assert_eq!(bundle.total("generated"), 3);
    // to the millisecond: a histogram keeps three digits
    let ms = |metric| bundle.ns(metric, "max") / 1_000_000;
    assert_eq!((ms("response"), ms("service")), (30, 10));
}

/// Gaps of CV 5 scatter by far more than a share of the rate, and by more than those of a Poisson process; a receiver that
/// holds them up is named all the same.
#[test]
fn a_rate_is_judged_with_the_scatter_of_its_arrivals() {
    let scratch = Scratch::new();
    let gaps = "arrivals = { process = \"renewal\", gaps = { dist = \"gamma\", mean = \"20ms\", cv = 5 } }";
    let free = Scenario::sensor_for("10s", &format!("{gaps}\nin_flight = 1000"));
    scratch.write("free.toml", Scenario { receiver: "workers = 1000".to_owned(), ..free }.toml());
    let mut counts = Vec::new();
    for seed in 1..=10 {
        let set = format!("experiment.seed={seed}");
        let bundle = scratch.simulate("free.toml", &format!("free{seed}"), &["--set", &set]);
        counts.push(bundle.total("generated"));
    }
    // of 500 in the mean; four deviations of a Poisson process are 89
    assert!(counts.iter().any(|count| *count < 400), "{counts:?}");
    let held = Scenario::sensor_for("10s", &format!("{gaps}\non_late = \"skip\""));
    let receiver = "analyzer = { pause = \"50ms\" }".to_owned();
    scratch.write("held.toml", Scenario { receiver, ..held }.toml());
    // a slack of four deviations is more than the load here, so only what was given up tells
    let held = scratch.bundle("simulate", "held.toml", "held", &[], &[20]);
    assert!(held.doubts().contains(&"skipped"), "{:?}", held.doubts());
    // over a longer time it is not
    let long = ["--set", "experiment.duration=600s"];
    let held = scratch.bundle("simulate", "held.toml", "long", &long, &[20]);
    assert!(held.doubts().contains(&"target_saturated"), "{:?}", held.doubts());
}

#[test]
fn arrivals_that_cannot_be_are_told_with_their_place() {
    let scratch = Scratch::new();
    let refuse = |lines: &str, told: &[&str]| {
        scratch.write("trial.toml", Scenario::sensor_for("1s", lines).toml());
        must_fail(&scratch.run(&["check", "trial.toml"]), 2, told);
    };
    scratch.write("gaps.txt", "10ms\n\n12\n");
    let trace = "arrivals = { process = \"trace\", rows = \"gaps\", file = \"gaps.txt\" }";
    refuse(trace, &["trial.toml:", "gaps.txt:3: ", "no unit"]);
    refuse(
        "rate = \"1/s\"\narrivals = { process = \"poisson\", rate = \"1/s\" }",
        &["trial.toml:", "exclude each other"],
    );
    refuse("arrivals = { process = \"poison\", rate = \"1/s\" }", &["trial.toml:", "did you mean `poisson`?"]);
    let gaps = |gaps: &str| format!("arrivals = {{ process = \"renewal\", gaps = {gaps} }}");
    refuse(&gaps("{ dist = \"pareto\", shape = 1, scale = \"1ms\" }"), &["trial.toml:", "give a `max`"]);
    refuse(&gaps("{ dist = \"gamma\", mean = \"1ms\" }"), &["trial.toml:", "`mean` and `cv`, or `scale` and `shape`"]);
    refuse(&gaps("{ dist = \"gamma\", mean = \"1ms\", vc = 1 }"), &["trial.toml:", "unknown key `vc`", "`cv`"]);
}
