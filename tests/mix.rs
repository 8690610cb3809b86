//! Scenarios of applications: a load, a ratio and a matrix become users; what they send is that share of the links, in both
//! engines, and classes of traffic keep what is urgent quick.

use std::fs;

use crate::errors::must_fail;
use crate::support::{Bundle, CONFIGS, Scratch, beside};

/// Users who load 20 kB once a second and users who talk all the time, over links of 8 Mbit/s.
fn write(scratch: &Scratch, mix: &str) {
    scratch.write(
        "file.toml",
        "[start]\nrest = 1\n[states.rest]\nstay = { dist = \"exponential\", mean = \"1s\" }\nto = { load = 1 }\n\
         [states.load]\nmodule = \"file\"\nto = { rest = 1 }\n[modules.file]\nkind = \"file\"\nbytes = \"20kB\"\n",
    );
    scratch.write(
        "talk.toml",
        "[states.talk]\nmodule = \"voice\"\nto = { talk = 1 }\n[modules.voice]\nkind = \"cbr\"\nevery = \"20ms\"\n\
         bytes = \"100B\"\nlasts = { dist = \"constant\", value = \"1h\" }\n",
    );
    scratch.write(
        "trial.toml",
        format!(
            "[experiment]\nname = \"mix\"\nduration = \"6s\"\n\n[links.default]\ndelay = \"2ms\"\n\n[mix]\nrate = \"8Mbit/s\"\n{mix}\n\
             [mix.apps.web]\nmodel = \"file.toml\"\n\n[mix.apps.voice]\nmodel = \"talk.toml\"\ndscp = \"EF\"\n"
        ),
    );
}

/// Bit/s that came out of the links from these nodes to those.
fn bits(bundle: &Bundle, from: &str, to: &str) -> f64 {
    let links = bundle.summary["links"].as_array().expect("links").iter();
    let of = links.filter(|l| {
        l["from"].as_str().is_some_and(|name| name.starts_with(from))
            && l["to"].as_str().is_some_and(|name| name.starts_with(to))
    });
    of.map(|l| l["bits_per_second"].as_f64().expect("a rate")).sum()
}

fn near(found: f64, wanted: f64, within: f64, what: &str) {
    assert!((found / wanted - 1.0).abs() < within, "{what}: {found} and not {wanted}");
}

#[test]
fn a_bottleneck_is_loaded_as_wanted_in_both_engines() {
    let _busy = beside();
    let scratch = Scratch::new();
    write(&scratch, "load = \"60%\"\ntcp = \"75%\"\nmatrix = \"bottleneck\"\nsites = 2\n");
    for bundle in scratch.both("trial.toml", "bottleneck", &[]) {
        // 4.8 Mbit/s, of them 3.6 over TCP: some 110 loads, which scatter by a tenth
        near(bits(&bundle, "tcp-centre", "tcp-"), 3.6e6, 0.35, "TCP");
        near(bits(&bundle, "udp-centre", "udp-"), 1.2e6, 0.05, "UDP");
        assert!(bits(&bundle, "tcp-1", "tcp-centre") < 0.3e6, "requests alone go back");
        assert_eq!(bundle.total("lost"), 0);
    }
}

#[test]
fn a_balance_loads_every_pair_alike() {
    let scratch = Scratch::new();
    write(&scratch, "load = \"50%\"\ntcp = \"50%\"\nmatrix = \"balanced\"\nsites = 3\n");
    let bundle = scratch.simulate("trial.toml", "balanced", &[]);
    let mut all = 0.0;
    for (from, to) in [("1", "2"), ("2", "1"), ("1", "3"), ("3", "1"), ("2", "3"), ("3", "2")] {
        let [tcp, udp] = ["tcp", "udp"].map(|t| bits(&bundle, &format!("{t}-{from}"), &format!("{t}-{to}")));
        near(udp, 2e6, 0.05, "UDP");
        // some 70 loads each
        near(tcp, 2e6, 0.5, "TCP");
        all += tcp;
    }
    near(all, 12e6, 0.2, "TCP of all");
}

#[test]
fn classes_keep_speech_quick_where_best_effort_does_not() {
    let scratch = Scratch::new();
    write(
        &scratch,
        "load = \"95%\"\ntcp = \"80%\"\nmatrix = \"bottleneck\"\nsites = 1\nclasses = [{ dscp = [\"EF\"] }, {}]\n",
    );
    let wait = |scheduler: &str| {
        let set = format!("mix.scheduler={scheduler}");
        let bundle = scratch.simulate("trial.toml", scheduler, &["--set", &set]);
        let links = bundle.summary["links"].as_array().expect("links").clone();
        let link = links.iter().find(|l| l["from"] == "udp-centre").expect("the link of speech");
        link["delay"]["p99_ns"].as_f64().expect("a delay")
    };
    let (effort, first) = (wait("fifo"), wait("priority"));
    // the packet on the wire, a full frame, takes 1.5 ms
    assert!(first < 6e6 && effort > 3.0 * first, "{effort} and {first} ns");
}

#[test]
fn loads_and_ratios_are_swept() {
    let scratch = Scratch::new();
    write(&scratch, "load = \"50%\"\ntcp = \"50%\"\nmatrix = \"bottleneck\"\nsites = 1\n");
    scratch.write(
        "sweep.toml",
        "[sweep]\nexperiment = \"trial.toml\"\nrepetitions = 1\n[sweep.set]\n\"experiment.duration\" = \"2s\"\n\
         [grid]\n\"mix.load\" = [\"30%\", \"60%\"]\n\"mix.tcp\" = [\"50%\", \"100%\"]\n",
    );
    let done = scratch.run(&["sweep", "sweep.toml", "--out", "s"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let points = fs::read_to_string(scratch.path("s/points.jsonl")).expect("points");
    assert_eq!(points.lines().count(), 4, "{points}");
}

#[test]
fn mistakes_in_a_mix_are_told_with_their_place() {
    let scratch = Scratch::new();
    let good = "load = \"50%\"\ntcp = \"50%\"\n";
    for (mix, told) in [
        ("load = \"50%\"\n", "say how much of the bytes is over TCP"),
        ("load = \"50%\"\ntcp = \"50%\"\nsites = 1\n", "there are 2 to 12 sites"),
        ("load = \"0%\"\ntcp = \"50%\"\n", "the load must be above 0%"),
        ("load = \"0.01%\"\ntcp = \"50%\"\n", "one user between two sites is more than its part"),
        ("load = \"50%\"\ntcp = \"50%\"\nmatrx = \"balanced\"\n", "matrx"),
    ] {
        write(&scratch, mix);
        must_fail(&scratch.run(&["check", "trial.toml"]), 2, &["trial.toml:", told]);
    }
    write(&scratch, good);
    let missing = scratch.run(&["check", "trial.toml", "--set", "mix.apps.web.model=none.toml"]);
    must_fail(&missing, 2, &["none.toml"]);
    let done = scratch.run(&["check", "trial.toml", "--set", "nodes.tcp-1.actors.web-2.timeout=3s"]);
    assert_eq!(done.code, Some(0), "what a mix makes can be changed: {}", done.stderr);
    let file = format!("{CONFIGS}/gensyn-scenario.toml");
    assert_eq!(scratch.run(&["check", &file]).code, Some(0));
}
