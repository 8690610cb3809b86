//! Generators on several hosts: one is killed, the date of one is set, and all of them together keep one schedule. Without a
//! NATS server these tests say so and pass.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use crate::agents::Fleet;
use crate::agents::faults::{DUE, SECONDS, apart, begin, whole};
use crate::agents::hosts::Lab;
use crate::support::family::nodes;
use crate::support::{Bundle, Scenario, beside, until};
use crate::telemetry::events;

/// Who is left goes on to the end, and when the others fell silent is told. Where the experiment wants the run to end with a
/// loss, it is INVALID: that is tested beside other deaths of agents.
#[test]
fn a4_an_agent_that_is_killed_is_named_with_its_window_and_the_run_goes_on() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[], &[]]) else { return };
    apart(&fleet);
    let toml = fs::read_to_string(fleet.scratch.path("trial.toml")).expect("it was written");
    let toml = toml.replace("[experiment]\n", "[experiment]\non_loss = \"continue\"\n");
    let stay = "[nodes.stay]\nhost = \"near\"\n[nodes.stay.actors.main]\nkind = \"sensor\"\nto = \"receiver/main\"\n\
                rate = \"50/s\"\nin_flight = 100\n";
    fleet.scratch.write("trial.toml", toml + stay);
    let running = begin(&fleet, 3);
    thread::sleep(Duration::from_secs(3));
    fleet.agents[1].signal(Signal::KILL);
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&fleet.scratch.path("b"));
    let reasons = bundle.verdict["reasons"].as_array().expect("reasons");
    let lost: Vec<_> = reasons.iter().filter(|reason| reason["code"] == "node_lost").collect();
    assert_eq!(lost.len(), 1, "the window is named once: {:#}", bundle.verdict);
    assert_eq!((&lost[0]["severity"], &lost[0]["node"]), (&"degraded".into(), &"sender".into()), "{:#}", lost[0]);
    let text = lost[0]["text"].as_str().expect("a text");
    let (from, to) = text.split_once("lost from ").and_then(|(_, rest)| rest.split_once(" s to ")).expect(text);
    assert!(to.starts_with("the end"), "{text}");
    let from: f64 = from.parse().expect("seconds");
    let [stayed, gone] = ["stay", "sender"].map(|template| bundle.total_of(template, "success"));
    println!("{text}; it had {gone} successes");
    assert!((DUE - 2..=DUE + 2).contains(&stayed), "{stayed} of {DUE}");
    assert!(gone > 0 && gone < DUE, "it was there until it was killed: {gone}");
    // what is known of it reaches up to the window; what it sent after that, its receiver alone knows
    let [known, sent] = [gone, bundle.total_of("receiver", "served") - stayed].map(|count| count as f64 / 50.0);
    println!("it sent for {sent} s");
    assert!((known - from).abs() <= 0.5, "{known} s of traffic are known, lost from {from} s");
    assert!(sent >= known && sent <= from + 2.1, "it sent for {sent} s and reported each second, lost from {from} s");
    until("who is left is free", || fleet.is_free());
}

/// The library that lets a program see another date, where it is installed.
fn library() -> Option<String> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: no libfaketime was found; on Debian it is in the package `faketime`");
    }
    found.map(|path| path.display().to_string())
}

/// Sets the date of all who read `file`, at once.
fn set_date(file: &Path, ahead: &str) {
    let draft = file.with_extension("draft");
    fs::write(&draft, ahead).and_then(|()| fs::rename(&draft, file)).expect("a file in the temporary folder");
}

/// Seconds that programs started by way of `through` are ahead of this one.
fn ahead(through: &[&str]) -> i64 {
    let done = Command::new(through[0]).args(&through[1..]).args(["date", "+%s"]).output().expect("date(1)");
    let told: i64 = String::from_utf8_lossy(&done.stdout).trim().parse().expect("seconds");
    told - SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs().cast_signed()
}

/// Steps of CLOCK_REALTIME leave CLOCK_MONOTONIC alone, and that is what everything here is timed by: nothing is late,
/// nobody is taken for lost, every second has its load, and no time in the bundle is longer than the run.
#[test]
fn a5_a_host_whose_date_is_set_twice_in_a_run_bends_no_number() {
    let _busy = beside();
    let Some(library) = library() else { return };
    let Some(mut fleet) = Fleet::new(&[&[]]) else { return };
    let date = fleet.scratch.write("date", "+0s");
    let (preload, file) = (format!("LD_PRELOAD={library}"), format!("FAKETIME_TIMESTAMP_FILE={}", date.display()));
    let through = ["env", &preload, &file, "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_CACHE_DURATION=1"];
    fleet.agent("a2", &[], &through);
    fleet.complete();
    apart(&fleet);
    let simulated = fleet.scratch.simulate("trial.toml", "s", &[]);
    let running = begin(&fleet, 2);
    for id in nodes(fleet.agents[1].id()) {
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).expect("the node runs");
        assert!(maps.contains("libfaketime"), "the node sees the host's date");
    }
    assert!(ahead(&through).abs() <= 1);
    for (step, seconds) in [("+5s", 5), ("-180s", -180)] {
        thread::sleep(Duration::from_millis(2500));
        set_date(&date, step);
        assert!((ahead(&through) - seconds).abs() <= 1, "{}", ahead(&through));
    }
    let bundle = whole(&fleet, &running.wait());
    assert_eq!(bundle.schedule(), simulated.schedule());
    let rows = bundle.rows();
    let sent = rows.iter().filter(|row| row["node"] == "sender" && row["actor"] == "main");
    let sent: Vec<u64> = sent.map(|row| row["sent"].parse().expect("a count")).take(SECONDS as usize).collect();
    // a busy machine moves some into the next second; a step would move all of several seconds
    assert!(sent.iter().all(|sent| (35..=65).contains(sent)), "{sent:?}");
    for metric in ["response", "service", "lag", "blocked"] {
        let most = bundle.summary["total"]["metrics"][metric]["max_ns"].as_u64().unwrap_or(0);
        assert!(most < 4_000_000_000, "{metric}: {most} ns");
    }
    // one machine has one CLOCK_MONOTONIC, whatever its date
    for clock in bundle.manifest["clocks"].as_array().expect("clocks") {
        assert_eq!((&clock["offset_ns"], &clock["uncertainty_ns"]), (&0.into(), &0.into()), "{clock}");
    }
    let stepped = |reason: &&Value| reason["code"] == "clock_stepped" && reason["node"] == "sender";
    let stepped = bundle.verdict["reasons"].as_array().and_then(|reasons| reasons.iter().find(stepped));
    assert_eq!(stepped.expect("the steps are told")["severity"], "note", "{:#}", bundle.verdict);
    let told = events(&bundle);
    assert_eq!(told.iter().filter(|(kind, node)| kind == "clock-stepped" && node == "sender").count(), 2, "{told:?}");
    assert!(!told.iter().any(|(kind, _)| ["node-lost", "gap", "unreported"].contains(&kind.as_str())), "{told:?}");
}

/// Four agents, each in a network of its own where this machine can have any, one of them, and the simulator.
#[test]
fn a9_one_agent_four_agents_and_the_simulator_have_one_schedule() {
    let _busy = beside();
    let lab = Lab::new(4);
    let together = || Fleet::new(&[&[][..]; 4]);
    let Some(fleet) = lab.as_ref().map_or_else(together, |lab| Some(lab.fleet())) else { return };
    let lines = "rate = \"40/s\"\nrequests = 80\nin_flight = 50\nstreams = 2\nbytes = \"900B\"";
    let toml = Scenario { senders: 3, ..Scenario::sensor(lines) }.toml();
    fleet.scratch.write("trial.toml", &toml);
    let simulated = fleet.scratch.simulate("trial.toml", "s", &[]);
    let four = fleet.emulate("four", &[]);
    let hosts = |bundle: &Bundle| bundle.manifest["clocks"].as_array().map(Vec::len);
    assert_eq!(hosts(&four), Some(4), "every host runs a node: {}", four.manifest["clocks"]);
    // all nodes on the first host
    let one = toml.replace("[nodes.sender]\n", "[nodes.sender]\nhost = \"all\"\n");
    let one = one.replace("[nodes.receiver.actors", "[nodes.receiver]\nhost = \"all\"\n[nodes.receiver.actors");
    fleet.scratch.write("trial.toml", format!("[hosts.all]\ncores = 2\nagent = \"a1\"\n{one}"));
    let one = fleet.emulate("one", &[]);
    assert_eq!(hosts(&one), Some(1));
    for bundle in [&one, &four] {
        assert_eq!((bundle.total("generated"), bundle.total("success"), bundle.total("lost")), (480, 480, 0));
        assert_eq!(bundle.schedule(), simulated.schedule());
        assert_eq!(bundle.total("bytes_sent"), simulated.total("bytes_sent"));
    }
    let other = fleet.scratch.simulate("trial.toml", "other", &["--seed", "2"]);
    assert_ne!(other.schedule(), simulated.schedule(), "the digest tells schedules apart");
    assert!(fleet.is_free());
}
