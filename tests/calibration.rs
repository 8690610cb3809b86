//! `rehearsal compare` and `rehearsal calibrate`: what is put beside each other, what is refused, and what a file that was
//! measured here is good for. Nothing here depends on how fast or how busy the machine is.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CONFIGS, Done, Scenario, Scratch, alone, beside, free_port, until};

/// Bounds that no machine misses.
const WIDE: [&str; 8] =
    ["--rate-percent", "1e6", "--cpu-points", "1e6", "--p50-percent", "1e9", "--p99-percent", "1e9"];

fn scenario(seed: u32) -> Scenario {
    let experiment = format!("duration = \"3s\"\nwarmup = \"1s\"\nseed = {seed}");
    Scenario {
        experiment,
        receiver: "analyzer = { pause = \"5ms\" }".to_owned(),
        ..Scenario::sensor("rate = \"50/s\"\nin_flight = 20")
    }
}

fn compared(scratch: &Scratch, args: &[&str]) -> Done {
    scratch.run(&[&["compare"], args].concat())
}

fn row<'a>(json: &'a Value, node: &str, figure: &str) -> &'a Value {
    let rows = json["rows"].as_array().expect("rows");
    rows.iter()
        .find(|row| row["node"] == node && row["figure"] == figure)
        .unwrap_or_else(|| panic!("{node} {figure}: {json:#}"))
}

#[test]
fn a_dry_run_is_held_against_the_real_one() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario(1).toml());
    scratch.both("trial.toml", "t", &[]);
    let wide = [&["t-simulate", "t-emulate", "--format", "json"][..], &WIDE].concat();
    let done = compared(&scratch, &wide);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let json = done.json();
    assert_eq!((&json["inside"], &json["outside"]), (&Value::Bool(true), &Value::from(0)));
    assert_eq!((&json["simulated"]["engine"], &json["emulated"]["engine"]), (&"simulated".into(), &"emulated".into()));
    // paced at 50/s: the dry run keeps its own pace to the second
    assert_eq!(row(&json, "receiver", "rate")["simulated"], 50.0);
    assert_eq!(row(&json, "sender", "lost")["emulated"], 0.0);
    assert!(row(&json, "sender", "response p50")["emulated"].as_f64() >= Some(5e6), "5 ms of analysis are in it");
    assert_eq!(row(&json, "sender", "cpu")["inside"], Value::Null, "nobody knows the CPU load of a dry run");
    let notes = json["notes"].to_string();
    assert!(notes.contains("the dry run was not calibrated"), "{notes}");
    // two nodes, two measured seconds each
    let seconds = json["seconds"].as_array().expect("seconds");
    assert_eq!(seconds.iter().map(|s| s["second"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2), Some(1), Some(2)]);
    // the same without any room: times of a real machine are never those of a free one to the nanosecond
    let done = compared(&scratch, &["t-simulate", "t-emulate", "--p50-percent", "0", "--format", "csv"]);
    assert_eq!(done.code, Some(10), "{}", done.stderr);
    let lines = done.stdout.lines().count();
    assert_eq!(lines, 1 + json["rows"].as_array().map_or(0, Vec::len) + 2 * seconds.len());
    assert!(
        done.stdout.lines().any(|line| line.contains(",response p50,") && line.ends_with(",0,false")),
        "{}",
        done.stdout
    );
    let text = compared(&scratch, &["t-simulate", "t-emulate", "--p50-percent", "0", "--seconds"]).stdout;
    assert!(text.starts_with("OUTSIDE ") && text.contains("CPU simulated, %"), "{text}");
}

#[test]
fn different_experiments_are_refused_by_what_differs() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario(1).toml());
    let emulated = scratch.emulate("trial.toml", "real", &[]);
    assert!(emulated.total("generated") > 0);
    let other = ["--set", "nodes.sender.actors.main.rate=60/s", "--seed", "2"];
    scratch.simulate("trial.toml", "other", &other);
    let done = compared(&scratch, &["other", "real"]);
    assert_eq!(done.code, Some(2), "{}", done.stdout);
    for part in ["different experiments", "`experiment.seed` is 2 and 1", "`nodes.sender.actors.main.rate`"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    assert!(!done.stderr.contains("`experiment.name`"), "what is the same is not told: {}", done.stderr);
    // the order tells which is which
    scratch.simulate("trial.toml", "same", &[]);
    let done = compared(&scratch, &["real", "same"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("write the dry run first"), "{}", done.stderr);
    // how often it is repeated is free
    scratch.run(&["simulate", "trial.toml", "--out", "three", "--repetitions", "3", "--quiet"]);
    let done = compared(&scratch, &[&["three", "real", "--format", "json"][..], &WIDE].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.json()["simulated"]["bundles"].as_array().map(Vec::len), Some(3));
    for (flags, part) in [(["--rate-percent=-1"], "write 0 or more"), (["--cpu-points=NaN"], "is no bound")] {
        let done = compared(&scratch, &[&["same", "real"][..], &flags].concat());
        assert_eq!(done.code, Some(2));
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
    assert_eq!(compared(&scratch, &["nowhere", "real"]).code, Some(2));
}

#[test]
fn a_real_run_in_parts_is_one_side_and_tells_the_cpu_of_both_ends() {
    let _busy = beside();
    let scratch = Scratch::new();
    let port = free_port();
    let mut parts = scenario(1);
    parts.receiver += &format!("\nlisten = \"127.0.0.1:{port}\"");
    let limits = "[nodes.sender]\ncount = 1\nvcpu = 1\nhost = \"here\"\n";
    let file = parts.toml().replace("[nodes.sender]\ncount = 1\n", limits);
    let file =
        file.replace("[nodes.receiver.actors", "[nodes.receiver]\nvcpu = 1\nhost = \"here\"\n\n[nodes.receiver.actors");
    scratch.write("trial.toml", format!("{file}\n[hosts.here]\ncores = 2\n"));
    let shipped = format!("{CONFIGS}/calibration/default.toml");
    scratch.simulate("trial.toml", "dry", &["--calibration", &shipped]);
    let receiver = scratch.start(&["emulate", "trial.toml", "--only", "receiver", "--out", "receiver", "--quiet"]);
    until("the receiver listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let sender = scratch.run(&["emulate", "trial.toml", "--without", "receiver", "--out", "sender", "--quiet"]);
    assert!(matches!(sender.code, Some(0 | 20)), "{}", sender.stderr);
    receiver.signal(Signal::INT);
    assert!(matches!(receiver.wait().code, Some(0 | 20)));
    let done = compared(&scratch, &[&["dry", "sender", "receiver", "--format", "json"][..], &WIDE].concat());
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let json = done.json();
    for node in ["sender", "receiver"] {
        assert_eq!(row(&json, node, "cpu")["inside"], Value::Bool(true), "both know the CPU load of {node}");
    }
    // the receiver was there before its sender, and after it: of it those seconds count in which the sender was measured
    let rate = row(&json, "receiver", "rate")["emulated"].as_f64().expect("a rate");
    assert!((45.0..=55.0).contains(&rate), "{rate}/s of 50/s");
    let notes = json["notes"].to_string();
    assert!(notes.contains("which nobody measured"), "the shipped calibration is named as such: {notes}");
}

#[test]
fn what_is_measured_here_is_a_calibration_that_dry_runs_take() {
    let _alone = alone();
    let scratch = Scratch::new();
    let args = ["calibrate", "--quick", "--anyway", "--carrier", "udp", "--quiet", "--out", "here.toml"];
    let done = scratch.run(&args);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let text = std::fs::read_to_string(scratch.path("here.toml")).expect("the file");
    let file: toml::Table = toml::from_str(&text).expect("TOML");
    let costs = &file["carriers"]["udp"];
    for way in ["send", "receive"] {
        let number = |key: &str| costs[way][key].as_float().expect(key);
        assert!(number("fixed_ns") + 1000.0 * number("ns_per_byte") > 0.0, "{way} is not free");
    }
    let host = &file["host"];
    assert_eq!(host["measured"].as_bool(), Some(true));
    assert!(
        ["id", "kernel", "date", "machine"].iter().all(|key| host[key].as_str().is_some_and(|text| !text.is_empty()))
    );
    let contention = &host["contention"];
    let tries = text.lines().filter(|line| line.starts_with("# udp, ") && line.contains("/s, ")).count();
    assert_eq!(contention["tries"].as_integer(), Some(tries as i64), "every try is told");
    assert_eq!(text.contains("NOT HELD"), contention["gated"].as_bool() == Some(false));
    assert_eq!(file["valid"]["payload_min"].as_str(), Some("200B"));
    // an existing file stays
    let again = scratch.run(&args);
    assert_eq!(again.code, Some(3));
    assert!(again.stderr.contains("never overwritten"), "{}", again.stderr);
    // a dry run takes it, names it, and knows where it ends
    let udp = Scenario {
        link: "carrier = \"udp\"".to_owned(),
        ..Scenario::sensor("rate = \"50/s\"\nrequests = 50\nbytes = \"1kB\"")
    };
    scratch.write("trial.toml", udp.toml());
    let bundle = scratch.bundle("simulate", "trial.toml", "dry", &["--calibration", "here.toml"], &[0]);
    let told = bundle.verdict["reasons"].to_string();
    assert!(told.contains("calibrated by") && !told.contains("uncalibrated"), "{told}");
    scratch.write("large.toml", udp.toml().replace("1kB", "40kB"));
    let bundle = scratch.bundle("simulate", "large.toml", "beyond", &["--calibration", "here.toml"], &[0]);
    assert_eq!(bundle.doubts(), ["outside_calibration"]);
}

#[test]
fn a_check_tells_every_try_and_shows_only_what_passed_the_gate() {
    let _busy = beside();
    let scratch = Scratch::new();
    let shipped = format!("{CONFIGS}/calibration/default.toml");
    let check = |more: &[&str]| {
        let args = ["calibrate", "--check", &shipped, "--quick", "--quiet", "--format", "json"];
        scratch.run(&[&args[..], more].concat())
    };
    let done = check(&["--point", "delay 20 ms, kept", "--tries", "1"]);
    let json = done.json();
    let [point] = json["points"].as_array().map(Vec::as_slice).expect("points") else { panic!("{json:#}") };
    let [tried] = point["tries"].as_array().map(Vec::as_slice).expect("tries") else { panic!("{json:#}") };
    let passed = tried["objections"].as_array().is_some_and(Vec::is_empty);
    assert_eq!(point["passed"], u32::from(passed));
    match passed {
        true => assert_eq!(point["errors"], tried["errors"]),
        false => assert_eq!((&point["verdict"], &point["errors"]["rate_percent"]), (&"not shown".into(), &Value::Null)),
    }
    assert!(
        tried["errors"]["rate_percent"].is_number() && tried["errors"]["receiver_cpu_points"].is_number(),
        "{json:#}"
    );
    assert_eq!(done.code, Some(if point["verdict"] == "inside" { 0 } else { 10 }), "{}", done.stderr);
    // no time for any try: nothing is shown, and that is no success
    let done = check(&["--point", "loss", "--within", "0s"]);
    assert_eq!(done.code, Some(10), "{}", done.stderr);
    assert!(
        done.json()["points"].as_array().is_some_and(|p| p.len() == 2 && p.iter().all(|p| p["verdict"] == "not shown"))
    );
    let done = check(&["--point", "nonsense"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("no point of that name"), "{}", done.stderr);
    assert_eq!(scratch.run(&["calibrate", "--check", "missing.toml"]).code, Some(2));
    let none = check(&["--tries", "0"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("--tries") && none.stderr.contains("1..=1000"), "{}", none.stderr);
}
