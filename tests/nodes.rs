//! Nodes as processes of their own over a real NATS server: one bundle, the same schedule, and no hang when one dies.
//! Without a server on this machine these tests say so and pass; `tests/ci.sh` brings one.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::family::{Fixed, children, nodes, server, signal};
use crate::support::{Bundle, Running, Scenario, Scratch, beside, free_port, until};

fn start(scratch: &Scratch, more: &[&str]) -> Running {
    let args = ["emulate", "trial.toml", "--placement", "processes", "--out", "b", "--quiet"];
    scratch.start(&[&args[..], more].concat())
}

#[test]
fn a_process_for_each_node_leaves_one_bundle_with_the_simulators_schedule() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let lines = "rate = \"50/s\"\nrequests = 100\nin_flight = 50\nbytes = \"700B\"";
    scratch.write("trial.toml", Scenario { senders: 3, ..Scenario::sensor(lines) }.toml());
    let simulated = scratch.simulate("trial.toml", "s", &[]);
    let bundle = scratch.emulate("trial.toml", "b", &["--placement", "processes", "--csv"]);
    assert_eq!(bundle.manifest["placement"], "processes");
    assert_eq!((bundle.total("generated"), bundle.total("success")), (300, 300));
    assert_eq!((bundle.total_of("receiver", "served"), bundle.total("lost")), (300, 0));
    assert_eq!(bundle.total("bytes_sent"), simulated.total("bytes_sent"));
    assert_eq!(bundle.schedule(), simulated.schedule());
    let rows = bundle.rows();
    for node in ["sender-1", "sender-2", "sender-3", "receiver"] {
        let known = rows.iter().filter(|r| r.values().any(|v| v == node)).count();
        assert!(known > 0, "{node} is in the series");
    }
}

#[test]
fn datagrams_between_processes_are_settled_by_the_receivers_count() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let scenario =
        Scenario { link: "carrier = \"udp\"".to_owned(), ..Scenario::sensor("rate = \"100/s\"\nrequests = 150") };
    scratch.write("trial.toml", scenario.toml());
    let bundle = scratch.emulate("trial.toml", "b", &["--placement", "processes"]);
    assert_eq!((bundle.total("generated"), bundle.total("aborted")), (150, 0));
    assert_eq!(bundle.total("success"), bundle.total_of("receiver", "datagrams_received"));
    assert_eq!(bundle.total("success") + bundle.total("lost"), 150);
}

#[test]
fn a_node_that_is_killed_is_named_and_nothing_is_left_behind() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let lines = "rate = \"50/s\"\nin_flight = 50\ntimeout = \"500ms\"";
    scratch.write("trial.toml", Scenario { senders: 2, ..Scenario::sensor_for("30s", lines) }.toml());
    let running = start(&scratch, &[]);
    until("every node has a process", || nodes(running.id()).len() == 3);
    // it does not matter how far the run is by then
    thread::sleep(Duration::from_millis(2500));
    let family = children(running.id());
    let nodes = nodes(running.id());
    assert_eq!((nodes.len(), family.len()), (3, 5), "three nodes, one that stores and a server: {family:?}");
    signal(nodes[0], Signal::KILL);
    let done = running.wait();
    assert_eq!(done.code, Some(20), "{}\n{}", done.stdout, done.stderr);
    let bundle = crate::support::Bundle::read(&scratch.path("b"));
    assert_eq!(bundle.status(), "INVALID");
    assert!(bundle.doubts().contains(&"node_lost"), "{:#}", bundle.verdict);
    for (id, line) in family {
        let gone = || !fs::exists(format!("/proc/{id}")).unwrap_or(true);
        until(&format!("{line} has ended"), gone);
    }
}

#[test]
fn a_server_that_is_only_just_starting_is_waited_for() {
    if !server() {
        return;
    }
    let _busy = beside();
    let (scratch, port) = (Scratch::new(), free_port());
    scratch.write("trial.toml", Scenario::sensor("rate = \"50/s\"\nrequests = 20").toml());
    let run = start(&scratch, &["--nats", &format!("nats://127.0.0.1:{port}")]);
    // long enough for its first try to find nobody
    thread::sleep(Duration::from_millis(700));
    let _server = Fixed::start(&scratch, port, &["-js"]);
    let done = run.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{:?} {}", done.code, done.stderr);
    // on a machine that is busy with other tests its times may be doubted, but nothing else
    Bundle::read(&scratch.path("b")).doubted(&[]);
}

#[test]
fn what_cannot_be_placed_is_refused_with_the_remedy() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor("requests = 1").toml());
    let mut command =
        scratch.command(crate::support::PROGRAM, &["emulate", "trial.toml", "--placement", "processes", "--out", "b"]);
    command.env("NATS_SERVER", "/nonexistent/nats-server");
    let done = Running::spawn(command).wait();
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("/nonexistent/nats-server cannot be started"), "{}", done.stderr);
    let done = scratch.run(&["emulate", "trial.toml", "--nats", "nats://127.0.0.1:1", "--out", "b"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let away = ["emulate", "trial.toml", "--placement", "processes", "--nats", "nats://127.0.0.1:1", "--out", "b"];
    let done = scratch.run(&away);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("no NATS server answers"), "{}", done.stderr);
    assert!(!scratch.path("b").exists() && !scratch.path("b.partial").exists(), "nothing is half-written");
}
