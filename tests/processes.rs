//! Senders and receivers as processes of their own, and what signals do to them.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Bundle, Running, Scenario, Scratch, beside, free_port, until};

/// Writes `scenario` with a receiver at a fixed address, and starts that receiver.
pub fn receiver(scratch: &Scratch, scenario: Scenario) -> Running {
    let port = free_port();
    let listen = format!("listen = \"127.0.0.1:{port}\"\n{}", scenario.receiver);
    scratch.write("trial.toml", Scenario { receiver: listen, ..scenario }.toml());
    let running = scratch.start(&["emulate", "trial.toml", "--only", "receiver", "--out", "receiver", "--quiet"]);
    until("the receiver listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    running
}

/// Starts everything but the receiver.
pub fn sender(scratch: &Scratch) -> Running {
    scratch.start(&["emulate", "trial.toml", "--without", "receiver", "--out", "sender", "--quiet"])
}

#[test]
fn a_sender_and_a_receiver_can_be_processes_of_their_own() {
    let _busy = beside();
    let scratch = Scratch::new();
    let mut receiver =
        receiver(&scratch, Scenario { senders: 2, ..Scenario::sensor_for("3s", "rate = \"50/s\"\nrequests = 100") });
    let done = sender(&scratch).wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    assert!(receiver.runs(), "a receiver waits for more");
    receiver.signal(Signal::INT);
    let done = receiver.wait();
    assert_eq!(done.code, Some(0), "a receiver has no other end than a signal\n{}\n{}", done.stdout, done.stderr);
    let [sent, received] = ["sender", "receiver"].map(|name| Bundle::read(&scratch.path(name)));
    assert_eq!((sent.total("generated"), sent.total("success"), sent.total("received")), (200, 200, 0));
    assert_eq!((received.total("generated"), received.total("served")), (0, 200));
    assert_eq!(sent.total("bytes_sent"), received.total("bytes_received"));
    received.doubted(&[]);
}

#[test]
fn a_receiver_that_is_killed_ends_nobody_else() {
    let _busy = beside();
    let scratch = Scratch::new();
    let lines = "rate = \"50/s\"\nin_flight = 4\ntimeout = \"500ms\"\nretries = 1\nbackoff = \"10ms\"";
    let receiver = receiver(&scratch, Scenario { senders: 2, ..Scenario::sensor_for("3s", lines) });
    let sender = sender(&scratch);
    until("the run has begun", || scratch.path("sender.partial/latency.hlog").exists());
    thread::sleep(Duration::from_millis(1500));
    receiver.signal(Signal::KILL);
    assert_eq!(receiver.wait().code, None);
    let done = sender.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&scratch.path("sender"));
    let [generated, success, lost, aborted, unacknowledged] =
        ["generated", "success", "lost", "aborted", "unacknowledged"].map(|c| bundle.total(c));
    assert!(success > 0 && lost > 0, "{}", done.stdout);
    assert_eq!(generated, success + lost + aborted);
    assert!(unacknowledged >= 2 * lost, "{unacknowledged} for {lost}: each was tried twice");
    assert!((299..=301).contains(&generated), "the schedule goes on: {generated}");
    assert!(!scratch.path("receiver").exists(), "a process that is killed finishes no bundle");
}

/// Starts a run that would go on for a minute, and waits until it has traffic.
fn long_run(scratch: &Scratch, pause: &str) -> Running {
    let receiver = format!("analyzer = {{ pause = \"{pause}\" }}");
    scratch.write("trial.toml", Scenario { receiver, ..Scenario::sensor_for("1min", "") }.toml());
    let running = scratch.start(&["emulate", "trial.toml", "--out", "b", "--quiet"]);
    until("the run has begun", || scratch.path("b.partial/latency.hlog").exists());
    thread::sleep(Duration::from_millis(1800));
    running
}

#[test]
fn the_first_signal_drains_and_writes_the_bundle() {
    let _busy = beside();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scratch = Scratch::new();
        let running = long_run(&scratch, "150ms");
        running.signal(signal);
        let done = running.wait();
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        assert!(done.stderr.contains("stopping"), "{}", done.stderr);
        let bundle = Bundle::read(&scratch.path("b"));
        let reasons = bundle.verdict["reasons"].as_array().expect("reasons");
        let stopped = reasons.iter().find(|reason| reason["code"] == "interrupted");
        assert_eq!(stopped.expect("it is told")["severity"], "degraded", "{:#}", bundle.verdict);
        let [generated, success] = ["generated", "success"].map(|c| bundle.total(c));
        assert!(success >= 3 && success == generated, "what was under way has ended: {success} of {generated}");
        assert!(success < 60_000 / 150, "it ended early");
    }
}

/// A request that takes 40 s is under way; nobody waits for it.
#[test]
fn the_second_signal_ends_at_once() {
    let _busy = beside();
    let scratch = Scratch::new();
    let mut running = long_run(&scratch, "40s");
    let begun = Instant::now();
    running.signal(Signal::INT);
    thread::sleep(Duration::from_millis(500));
    assert!(running.runs(), "the first one waits for what is under way");
    running.signal(Signal::INT);
    let done = running.wait();
    assert_eq!(done.code, Some(130));
    assert!(done.stderr.contains("what was recorded is kept in b.partial"), "{}", done.stderr);
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the grace of 5 s");
    assert!(!scratch.path("b").exists(), "a run that is cut off finishes no bundle");
}

/// A dry run can be had again: what is half-written goes, finished repetitions stay.
#[test]
fn a_signal_ends_a_dry_run_and_leaves_nothing_half_written() {
    let _busy = beside();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for (more, partial) in [(&[][..], "b.partial"), (&["--repetitions", "2"], "b/rep-01.partial")] {
            let scratch = Scratch::new();
            let lines = "rate = \"100000/s\"\nin_flight = 100";
            scratch.write("trial.toml", Scenario::sensor_for("10h", lines).toml());
            let args = [&["simulate", "trial.toml", "--out", "b", "--quiet"], more].concat();
            let running = scratch.start(&args);
            until("the run has begun", || scratch.path(partial).exists());
            running.signal(signal);
            let done = running.wait();
            assert_eq!(done.code, Some(code), "{}", done.stderr);
            assert!(done.stderr.contains("no bundle of what was under way"), "{}", done.stderr);
            assert_eq!(scratch.listing(), ["trial.toml"]);
        }
    }
}
