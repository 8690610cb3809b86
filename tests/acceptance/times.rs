//! What a time is told of: a receiver that stands still, a generator that cannot keep up, a target that swallows all.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::void::{NOBODY, Void};
use crate::limits::{able, limited};
use crate::processes::{receiver, sender};
use crate::support::{Bundle, Done, Scenario, Scratch, alone, beside, until};

/// While the receiver stands still for 1.4 s only one request is under way; whoever wants to send meanwhile waits. That
/// wait is in the response time, which counts from the intended time, and in no service time but that of the one.
#[test]
fn a1_a_stopped_receiver_is_in_the_response_time_and_not_in_the_service_time() {
    let _quiet = alone();
    let scratch = Scratch::new();
    let lines = "rate = \"50/s\"\nin_flight = 1\non_late = \"queue\"\ntimeout = \"3s\"";
    let receiver = receiver(&scratch, Scenario::sensor_for("6s", lines));
    let sender = sender(&scratch);
    until("the run has begun", || scratch.path("sender.partial/latency.hlog").exists());
    thread::sleep(Duration::from_millis(2500));
    receiver.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(1400));
    receiver.signal(Signal::CONT);
    let done = sender.wait();
    receiver.signal(Signal::INT);
    receiver.wait();
    let bundle = Bundle::read(&scratch.path("sender"));
    assert_eq!((bundle.total("lost"), bundle.total("unacknowledged")), (0, 0), "{}", done.stdout);
    assert!((299..=301).contains(&bundle.total("success")), "{:#}", bundle.summary["total"]["totals"]);
    let [response, service] = ["response", "service"].map(|m| bundle.ns(m, "p99"));
    println!("p99: response {} ms, service {} ms", response / 1_000_000, service / 1_000_000);
    // 70 of 300 fell due while it stood still, so more than one in a hundred waited for nearly all of it
    assert!(response >= 1_000_000_000, "{}", done.stdout);
    assert!(service < response / 2, "{}", done.stdout);
    assert!(bundle.ns("service", "max") >= 1_000_000_000, "the one that was under way took as long: {}", done.stdout);
}

/// The run is INVALID, and the generator is blamed for it, not its target.
fn saturated(bundle: &Bundle, done: &Done, wanted: u64) {
    assert_eq!(done.code, Some(20), "{}\n{}", done.stdout, done.stderr);
    assert_eq!(bundle.status(), "INVALID");
    assert!(bundle.doubts().contains(&"generator_saturated"), "{:#}", bundle.verdict);
    assert!(!bundle.doubts().contains(&"target_saturated"), "{:#}", bundle.verdict);
    let sent = bundle.total("success");
    println!("{sent} of {wanted} came through");
    assert!(sent > 0 && sent * 10 < wanted, "the load is ten times what this generator can do: {sent} of {wanted}");
}

/// Two million a second are more than any machine of today renders and sends in one thread: the verdict must say that
/// the generator was too slow, and the run must end.
#[test]
fn a7_a_generator_that_cannot_keep_up_is_found_out() {
    let _quiet = alone();
    let scratch = Scratch::new();
    let lines = "rate = \"2000000/s\"\nin_flight = 100\nbytes = \"200B\"";
    scratch.write("trial.toml", Scenario::sensor_for("2s", lines).toml());
    let done = scratch.run(&["emulate", "trial.toml", "--out", "b", "--quiet"]);
    saturated(&Bundle::read(&scratch.path("b")), &done, 4_000_000);
}

/// The kernel holds the sender to a tenth of a core, and the receiver to nothing.
#[test]
fn a7_a_generator_with_too_small_a_quota_is_found_out() {
    if !able() {
        return;
    }
    let _quiet = alone();
    let scratch = Scratch::new();
    let scenario = Scenario::sensor_for("4s", "rate = \"400000/s\"\nin_flight = 100\nbytes = \"200B\"");
    scratch.write("trial.toml", limited(scenario, "vcpu = 0.1", ""));
    let done = scratch.run(&["emulate", "trial.toml", "--placement", "processes", "--out", "b", "--quiet"]);
    let bundle = Bundle::read(&scratch.path("b"));
    saturated(&bundle, &done, 1_600_000);
    assert!(bundle.doubts().contains(&"throttled"), "the cause is named too: {:#}", bundle.verdict);
}

/// The bundle of a run against somebody who never answers. All that fell due was generated, nothing came back, and the run
/// ended on time but for its drain.
fn swallowed(scratch: &Scratch, done: &Done, settles: &str) {
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    bundle.doubted(&["no_success"]);
    let total = |counter: &str| bundle.total(counter);
    assert!((59..=61).contains(&total("generated")), "{:#}", bundle.summary["total"]["totals"]);
    assert_eq!((total("success"), total(settles)), (0, total("generated")), "{:#}", bundle.summary["total"]["totals"]);
    let seconds = |name: &str| bundle.summary[name].as_f64().expect("seconds");
    println!("{settles}: {} s of traffic, {} s of drain", seconds("duration_seconds"), seconds("drain_seconds"));
    assert!(!bundle.doubts().contains(&"stretched"), "{:#}", bundle.verdict);
    // rows stand for whole seconds: 3 of traffic, at most 2 of grace, and the one that is begun last
    let last = bundle.rows().iter().filter_map(|row| row["second"].parse().ok()).max();
    assert!(last.is_some_and(|last: u32| (2..=5).contains(&last)), "{last:?}");
}

/// Two thirds of a second of patience, or more than the run has: the first is over by itself, the second is cut off.
const PATIENCE: [(&str, &str); 2] = [("600ms", "lost"), ("1min", "aborted")];

/// 20 requests a second for 3 s, 2 s of grace.
fn into_the_void(address: &str, timeout: &str) -> Scenario {
    let lines = format!("rate = \"20/s\"\nin_flight = 100\nretries = 0\ntimeout = \"{timeout}\"");
    let experiment = "duration = \"3s\"\ngrace = \"2s\"".to_owned();
    Scenario { experiment, receiver: format!("listen = \"{address}\""), ..Scenario::sensor(&lines) }
}

const VOID: [&str; 8] = ["emulate", "trial.toml", "--without", "receiver", "--out", "b", "--quiet", "--csv"];

/// The target takes every connection and says nothing.
#[test]
fn a10_a_run_against_a_target_that_never_answers_ends_on_time() {
    let _busy = beside();
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    for (timeout, settles) in PATIENCE {
        let scratch = Scratch::new();
        let address = silent.local_addr().expect("its address").to_string();
        scratch.write("trial.toml", into_the_void(&address, timeout).toml());
        swallowed(&scratch, &scratch.run(&VOID), settles);
    }
}

/// No packet to the target comes back, not even one that opens a connection.
#[test]
fn a10_a_run_into_a_black_hole_ends_on_time() {
    let _busy = beside();
    let Some(void) = Void::new() else { return };
    for (timeout, settles) in PATIENCE {
        let scratch = Scratch::new();
        scratch.write("trial.toml", into_the_void(&format!("{NOBODY}:7000"), timeout).toml());
        let args = [&VOID[..], &["--allow", "192.0.2.1/32"]].concat();
        swallowed(&scratch, &void.start(&scratch, &args).wait(), settles);
        assert!(void.sent(&scratch) >= 59, "each tried to open a connection");
    }
}
