//! Ways in which a number can lie, one test each: the lie is made to happen, and is then refused or told. It happens for
//! real wherever this machine can be brought to it; where a bundle is written or edited by hand instead, the test says so.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rehearsal_core::messages::{HostSample, LifeEvent};
use rehearsal_export::Clock;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::support::{Bundle, Running, Scenario, Scratch, beside, family};

mod apart;
mod hand;
mod limits;

use hand::Hand;

/// The reasons of a verdict with this code.
fn reasons<'a>(bundle: &'a Bundle, code: &str) -> Vec<&'a Value> {
    bundle.verdict["reasons"].as_array().expect("reasons").iter().filter(|r| r["code"] == code).collect()
}

/// The one reason with this code.
fn reason<'a>(bundle: &'a Bundle, code: &str) -> &'a Value {
    let [only] = reasons(bundle, code)[..] else { panic!("one `{code}` in {:#}", bundle.verdict) };
    only
}

/// A real run whose verdict may be anything.
fn emulate(scratch: &Scratch, name: &str, more: &[&str]) -> Bundle {
    scratch.bundle("emulate", "trial.toml", name, more, &[0, 10, 20])
}

/// Whether a network of its own can be had for one process.
fn unshared() -> bool {
    let tried = Command::new("unshare").args(["-n", "true"]).status();
    let able = tried.is_ok_and(|status| status.success());
    if !able {
        eprintln!("skipped: `unshare -n` needs root and util-linux");
    }
    able
}

/// The program in a network namespace of its own, after `setup` there.
fn in_network(scratch: &Scratch, setup: &str, args: &[&str]) -> Running {
    let script = format!("set -e; ip link set lo up; {setup}; exec \"$0\" \"$@\"");
    let mut all = vec!["-n", "sh", "-c", &script, crate::support::PROGRAM];
    all.extend(args);
    Running::spawn(scratch.command("unshare", &all))
}

/// A p99 of fifty values is their largest under another name.
#[test]
fn a_percentile_of_too_few_values_is_not_told() {
    let scratch = Scratch::new();
    let link = "delay = \"5ms\"".to_owned();
    scratch.write("trial.toml", Scenario { link, ..Scenario::sensor("rate = \"10/s\"\nrequests = 50") }.toml());
    let bundle = scratch.simulate("trial.toml", "few", &[]);
    let response = &bundle.summary["total"]["metrics"]["response"];
    assert_eq!(response["count"], 50);
    assert!(response["p99_ns"].is_null() && response["p999_ns"].is_null(), "{response:#}");
    assert!(response["p50_ns"].is_u64() && response["p90_ns"].is_u64() && response["max_ns"].is_u64(), "{response:#}");
    let reason = reason(&bundle, "few_samples");
    assert_eq!((&reason["severity"], reason["value"].as_f64()), (&Value::from("note"), Some(50.0)));
    assert!(reason["text"].as_str().expect("a text").ends_with("no p99 is told of fewer than 100"), "{reason:#}");
    // a limit on what is not told cannot be kept, unless even the largest value keeps it
    for (limit, code, result) in [("<1ns", 10, "unknown"), ("<1h", 0, "pass"), (">1ns", 10, "unknown")] {
        let name = format!("limit{code}{}", &limit[..1].replace('<', "b").replace('>', "a"));
        let set = format!("thresholds.\"response.p99\"={limit}");
        let done = scratch.run(&["simulate", "trial.toml", "--quiet", "--out", &name, "--set", &set]);
        assert_eq!(done.code, Some(code), "{limit}: {}", done.stdout);
        assert_eq!(Bundle::read(&scratch.path(&name)).verdict["thresholds"][0]["result"], result, "{limit}");
    }
    // ten times as many tell it
    let more = scratch.simulate("trial.toml", "many", &["--set", "nodes.sender.actors.main.requests=500"]);
    assert!(more.summary["total"]["metrics"]["response"]["p99_ns"].is_u64());
    assert!(more.summary["total"]["metrics"]["response"]["p999_ns"].is_null());
}

/// In a run of two seconds nothing happens that happens once in ten.
#[test]
fn too_short_a_run_is_told() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor_for("2s", "rate = \"20/s\"").toml());
    let bundle = scratch.simulate("trial.toml", "short", &[]);
    let own = reason(&bundle, "short_run");
    assert_eq!(
        (&own["severity"], own["value"].as_f64(), own["limit"].as_f64()),
        (&Value::from("note"), Some(2.0), Some(10.0))
    );
    let longer = scratch.simulate("trial.toml", "long", &["--set", "experiment.duration=12s"]);
    assert_eq!(reasons(&longer, "short_run"), Vec::<&Value>::new());
    // what is measured counts, not what is sent
    let more = ["--set", "experiment.duration=12s", "--set", "experiment.warmup=8s"];
    assert_eq!(reason(&scratch.simulate("trial.toml", "trimmed", &more), "short_run")["value"].as_f64(), Some(4.0));
}

/// The load is five times as heavy at first, and a receiver with one place to work in does not keep up: what is measured
/// then is the way into the steady state.
#[test]
fn a_warm_up_that_is_measured_is_told() {
    let scratch = Scratch::new();
    let steps = "duration = \"30s\"\n\n[[experiment.control]]\nat = \"2s\"\ndo = \"rate\"\nfactor = 0.2";
    let scenario = Scenario {
        experiment: steps.to_owned(),
        receiver: "analyzer = { pause = \"25ms\" }\nworkers = 1".to_owned(),
        ..Scenario::sensor("rate = \"50/s\"\nin_flight = 8")
    };
    scratch.write("trial.toml", scenario.toml());
    let bundle = scratch.bundle("simulate", "trial.toml", "cold", &[], &[0, 20]);
    let own = reason(&bundle, "warmup_included");
    assert_eq!(own["severity"], "degraded", "{own:#}");
    assert!(
        own["value"].as_f64() > own["limit"].as_f64() && own["text"].as_str().expect("a text").contains("`warmup`")
    );
    let warm = scratch.bundle("simulate", "trial.toml", "warm", &["--set", "experiment.warmup=5s"], &[0, 20]);
    assert_eq!(reasons(&warm, "warmup_included"), Vec::<&Value>::new(), "{:#}", warm.verdict);
    assert!(warm.ns("response", "p99") < bundle.ns("response", "p99"));
}

/// Other programs keep the machine busy while a run goes on.
#[test]
fn a_machine_that_others_use_is_told() {
    let _machine = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor_for("3s", "rate = \"20/s\"").toml());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut others: Vec<_> =
        (0..cores).map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell")).collect();
    let bundle = emulate(&scratch, "busy", &[]);
    others.iter_mut().for_each(|other| _ = (other.kill(), other.wait()));
    let own = reason(&bundle, "contended");
    assert!(own["value"].as_f64() > Some(10.0), "{own:#}");
    assert!(own["text"].as_str().expect("a text").starts_with("others used "), "{own:#}");
}

/// The server that carries the traffic, and who leads the run, are no nodes; but they are no others either.
#[test]
fn what_leads_and_serves_a_run_is_not_taken_for_others() {
    if !family::server() {
        return;
    }
    let _machine = beside();
    let scratch = Scratch::new();
    let scenario = Scenario {
        link: "carrier = \"nats\"".to_owned(),
        ..Scenario::sensor_for("3s", "rate = \"1000/s\"\nin_flight = 64")
    };
    scratch.write("trial.toml", scenario.toml() + "\n[verdict]\ncontended = { note = \"0%\" }\n");
    let bundle = emulate(&scratch, "b", &["--placement", "processes"]);
    let percent =
        |resources: &Value, key: &str| resources[key].as_f64().unwrap_or_else(|| panic!("{key}: {resources:#}"));
    let nodes = bundle.summary["nodes"].as_array().expect("nodes").iter();
    let nodes: f64 = nodes.filter_map(|node| node["cpu_host_percent_mean"].as_f64()).sum();
    let machines = bundle.summary["machines"].as_array().expect("machines");
    let [machine] = &machines[..] else { panic!("one machine: {machines:#?}") };
    let (all, run) = (percent(machine, "cpu_host_percent_mean"), percent(machine, "cpu_run_percent_mean"));
    println!("nodes {nodes:.1} %, the run {run:.1} %, the machine {all:.1} %");
    // a message of a node costs the server about as much as the node
    assert!(nodes > 0.0 && run > nodes * 1.1, "nodes {nodes} %, the run {run} %");
    let others = reasons(&bundle, "contended").first().map_or(0.0, |reason| percent(reason, "value"));
    assert!(others <= (all - run).max(0.0) + 1e-6, "{others} % are others of {all} % and {run} %");
}

/// The wall clock of the program is set forward by five seconds half way, by a library between it and the kernel. Nothing
/// of a run is timed by it, so no number changes; but it is told, with its time.
#[test]
fn a_wall_clock_that_is_set_changes_nothing_and_is_told() {
    let _machine = beside();
    let library = ["/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1"];
    let Some(library) = library.iter().find(|path| Path::new(path).exists()) else {
        return eprintln!("skipped: libfaketime is not installed");
    };
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor("rate = \"25/s\"\nrequests = 100").toml());
    let expected = scratch.simulate("trial.toml", "dry", &[]);
    let clock = scratch.write("clock", "+0\n");
    let run = |name: &str, set: bool| {
        let limit = "verdict.clock_stepped.degraded=4s";
        let args = ["emulate", "trial.toml", "--quiet", "--out", name, "--set", limit];
        let mut command = scratch.command(crate::support::PROGRAM, &args);
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &clock);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let running = Running::spawn(command);
        thread::sleep(Duration::from_millis(2500));
        if set {
            fs::write(&clock, "+5\n").expect("the file of the clock");
        }
        let done = running.wait();
        assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
        Bundle::read(&scratch.path(name))
    };
    let quiet = run("quiet", false);
    assert_eq!(reasons(&quiet, "clock_stepped"), Vec::<&Value>::new(), "{:#}", quiet.verdict);
    let stepped = run("stepped", true);
    let own = reason(&stepped, "clock_stepped");
    assert_eq!((&own["severity"], own["limit"].as_f64()), (&Value::from("degraded"), Some(4e9)), "its limit was set");
    assert!(own["text"].as_str().expect("a text").contains("was set by +5.0"), "{own:#}");
    for bundle in [&quiet, &stepped] {
        assert_eq!(bundle.total("success"), 100);
        assert_eq!(bundle.schedule(), expected.schedule());
        assert!(bundle.ns("response", "max") < 5_000_000_000, "no time holds the step");
        assert!(bundle.summary["duration_seconds"].as_f64() < Some(8.0), "nor does the duration");
    }
}

/// While a run goes on, the process may open no more file descriptors.
#[test]
fn a_process_without_descriptors_is_told_from_a_network_that_loses() {
    let _machine = beside();
    let scratch = Scratch::new();
    let scenario = Scenario {
        link: "connection = \"per-request\"".to_owned(),
        ..Scenario::sensor_for("4s", "rate = \"50/s\"\nretries = 0\ntimeout = \"500ms\"")
    };
    scratch.write("trial.toml", scenario.toml());
    let running = scratch.start(&["emulate", "trial.toml", "--quiet", "--out", "b"]);
    thread::sleep(Duration::from_millis(2000));
    let few = Rlimit { current: Some(8), maximum: Some(8) };
    let pid = Pid::from_raw(running.id().cast_signed()).expect("an id");
    prlimit(Some(pid), Resource::Nofile, few).expect("the limit of a child may be lowered");
    thread::sleep(Duration::from_millis(1200));
    // the bundle has files of its own to open
    let maximum = Rlimit { current: Some(1024), maximum: Some(1024) };
    let raised = prlimit(Some(pid), Resource::Nofile, maximum);
    let done = running.wait();
    if raised.is_err() {
        return eprintln!("skipped: only root can raise a limit again");
    }
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    let own = reasons(&bundle, "descriptors_exhausted");
    assert!(
        own.iter().any(|r| r["text"].as_str().is_some_and(|t| t.contains("no file descriptor was left"))),
        "{own:#?}"
    );
    assert!(bundle.total("lost") > 0 && bundle.total("success") > 0);
    assert_ne!(bundle.status(), "VALID");
}

/// The ephemeral range of the network has two ports, and each request wants one.
#[test]
fn a_host_without_ports_is_told_from_a_network_that_loses() {
    let _machine = beside();
    if !unshared() {
        return;
    }
    let scratch = Scratch::new();
    let scenario = Scenario {
        link: "connection = \"per-request\"".to_owned(),
        receiver: "listen = \"127.0.0.1:7001\"\nanalyzer = { pause = \"300ms\" }".to_owned(),
        ..Scenario::sensor_for("2s", "rate = \"40/s\"\nin_flight = 16\nretries = 0\ntimeout = \"1s\"")
    };
    scratch.write("trial.toml", scenario.toml());
    let narrow = "echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range";
    let done = in_network(&scratch, narrow, &["emulate", "trial.toml", "--force", "--quiet", "--out", "b"]).wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    let own = reasons(&bundle, "ports_exhausted");
    assert!(
        own.iter().any(|r| r["text"].as_str().is_some_and(|t| t.contains("no ephemeral port was left"))),
        "{own:#?}"
    );
    assert!(bundle.total("lost") > 0, "{:#}", bundle.summary["total"]["totals"]);
    assert_ne!(bundle.status(), "VALID");
}

/// A receiver that stands still for a while does not empty its socket, and the kernel drops what comes: a loss of the
/// machine that looks like one of the network.
#[test]
fn a_full_buffer_of_the_kernel_is_told_from_a_network_that_loses() {
    let _machine = beside();
    if !family::server() || !unshared() {
        return;
    }
    let scratch = Scratch::new();
    let scenario = Scenario {
        link: "carrier = \"udp\"".to_owned(),
        // more in a second and a half than the 128 MiB that Linux makes of the buffer a receiver asks for
        ..Scenario::sensor_for("5s", "rate = \"20000/s\"\nbytes = \"8000B\"")
    };
    scratch.write("trial.toml", scenario.toml());
    let args = ["emulate", "trial.toml", "--placement", "processes", "--quiet", "--out", "b"];
    let running = in_network(&scratch, "true", &args);
    crate::support::until("both nodes run", || family::nodes(running.id()).len() == 2);
    thread::sleep(Duration::from_millis(2500));
    let receiver = family::nodes(running.id())[1];
    family::signal(receiver, rustix::process::Signal::STOP);
    thread::sleep(Duration::from_millis(1500));
    family::signal(receiver, rustix::process::Signal::CONT);
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    let own = reasons(&bundle, "buffers_exhausted");
    assert!(own.iter().any(|r| r["severity"] == "degraded"), "{own:#?}\n{}", done.stderr);
    let text = own[0]["text"].as_str().expect("a text");
    assert!(text.starts_with("a UDP receive buffer of") && text.ends_with("that loss is not the network's"), "{text}");
    assert!(bundle.total("lost") > 0, "{:#}", bundle.summary["total"]["totals"]);
}

/// Written by hand: a node that came near what it may have. This machine is brought to the end of each above; a node that
/// had one descriptor left failed at nothing yet.
#[test]
fn a_node_near_its_end_is_told_before_it_fails() {
    let scratch = Scratch::new();
    let host = HostSample {
        node: "sender".to_owned(),
        open_files: Some(1023),
        open_files_limit: Some(1024),
        ephemeral_ports: Some(28_000),
        ephemeral_ports_limit: Some(28_232),
        ..HostSample::default()
    };
    let hand = Hand { host: Some(host), ..Hand::of(&[(1_000_000, 2000)], 0) };
    hand.write(&scratch.path("near"));
    let bundle = Bundle::read(&scratch.path("near"));
    for code in ["descriptors_exhausted", "ports_exhausted"] {
        let own = reason(&bundle, code);
        assert_eq!((&own["severity"], own["limit"].as_f64()), (&Value::from("degraded"), Some(95.0)), "{own:#}");
    }
    assert_eq!(bundle.status(), "DEGRADED");
}

/// Written by hand: of two repetitions, one has a thousand times of 1 ms and the other a hundred of 100 ms. The average of
/// their medians is 50.5 ms; not one request took that.
#[test]
fn percentiles_of_repetitions_are_merged_and_not_averaged() {
    let scratch = Scratch::new();
    for (repetition, response) in [(0, (1_000_000, 1000)), (1, (100_000_000, 100))] {
        let hand = Hand::of(&[response], repetition);
        hand.write(&scratch.path(&format!("run/rep-0{}", repetition + 1)));
    }
    let report = scratch.run(&["report", "run", "--format", "json"]).json();
    let pooled = &report[0]["pooled"];
    assert_eq!((pooled["count"].as_u64(), pooled["repetitions"].as_u64()), (Some(1100), Some(2)), "{pooled:#}");
    let ms = |name: &str| (pooled[name].as_f64().expect(name) / 1e6).round();
    assert_eq!((ms("p50_ns"), ms("p90_ns"), ms("p99_ns")), (1.0, 1.0, 100.0), "{pooled:#}");
    let text = scratch.run(&["report", "run"]).stdout;
    let line = text.lines().find(|line| line.starts_with("all 2 repetitions together, 1100 values in one histogram"));
    assert!(line.is_some_and(|line| line.contains("p50 1.00") && line.contains("p99 100.")), "{text}");
}

/// Written by hand, for want of a second host: its clock was measured, and then set. One-way delays between both are of no
/// clock any more; they are taken out, and everything else stays.
#[test]
fn one_way_delays_across_a_clock_that_was_set_are_refused() {
    let scratch = Scratch::new();
    let one_way = |folder: &str, kind: &str| {
        let event = LifeEvent { kind: kind.to_owned(), node: "sender".to_owned(), ..LifeEvent::default() };
        let clock = Clock::Measured { uncertainty_ns: 10_000 };
        let hand = Hand { events: vec![event], clock, one_way: true, ..Hand::of(&[(1_000_000, 2000)], 0) };
        hand.write(&scratch.path(folder));
        let bundle = Bundle::read(&scratch.path(folder));
        assert_eq!(bundle.ns("response", "p50") / 10_000, 100, "no other time changes");
        bundle
    };
    let told = one_way("steady", "started");
    assert!(told.summary["total"]["metrics"]["one-way"].is_object());
    let refused = one_way("stepped", "clock-stepped");
    assert!(refused.summary["total"]["metrics"].get("one-way").is_none(), "{:#}", refused.summary["total"]["metrics"]);
    assert_eq!(refused.doubts(), ["clock_unknown"]);
    assert_eq!(reason(&refused, "clock_stepped")["severity"], "note");
    let left_out = |r: &&Value| r["text"].as_str().is_some_and(|text| text.starts_with("one-way delays are left out"));
    assert_eq!(reasons(&refused, "remark").into_iter().filter(left_out).count(), 1);
}
