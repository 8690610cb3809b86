//! A generator that is held to one core and asked for ten times what it can do there, while its receiver runs freely: what
//! fills `in_flight` is that it does not get round to reading answers. And the reverse, which must not be mistaken for it.

use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::processes::{receiver, sender};
use crate::support::{Bundle, Done, Running, Scenario, Scratch, alone, family, until};

/// What a generator is asked for, in parts of what it was seen to do on that core.
const TOO_MUCH: u64 = 12;
/// Requests per second that a schedule can have: what is due in one nanosecond is one.
const RATE_MAX: u64 = 100_000_000;
const SECONDS: u64 = 4;

/// Cores that this thread may use, and the first of them alone; nothing to test where there is but one.
fn cores() -> Option<(CpuSet, CpuSet)> {
    let all = sched_getaffinity(None).expect("the cores of this thread");
    let first = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).expect("it runs on one");
    if all.count() < 2 {
        eprintln!("skipped: generator and receiver need a core each");
        return None;
    }
    let mut one = CpuSet::new();
    one.set(first);
    Some((all, one))
}

/// What `start` starts may use the first core alone: a process has the affinity of the thread that starts it.
fn pinned(start: impl FnOnce() -> Running) -> Option<Running> {
    let (all, one) = cores()?;
    sched_setaffinity(None, &one).expect("a thread may do with less");
    let running = start();
    sched_setaffinity(None, &all).expect("and have back what it had");
    Some(running)
}

/// Every thread of a process that runs may use the first core alone; those that it starts later too.
fn pin(process: i32) {
    let Some((_, one)) = cores() else { return };
    for thread in fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten() {
        let id: i32 = thread.file_name().to_str().and_then(|name| name.parse().ok()).expect("a thread's id");
        // it may have ended
        let _ = sched_setaffinity(Pid::from_raw(id), &one);
    }
}

/// What a pinned generator sends in a second when its receiver runs freely, as it does where it is found out.
fn capacity() -> Option<u64> {
    let scratch = Scratch::new();
    let scenario = || Scenario::sensor_for("1s", "in_flight = 100\nbytes = \"200B\"");
    let receiver = receiver(&scratch, scenario());
    let done = pinned(|| sender(&scratch)).map(Running::wait);
    receiver.signal(rustix::process::Signal::INT);
    receiver.wait();
    done?;
    Some(Bundle::read(&scratch.path("sender")).total("success"))
}

/// A load far above what a pinned generator does, and its rate.
fn overload() -> Option<(Scenario, u64)> {
    let rate = (capacity()? * TOO_MUCH).clamp(1, RATE_MAX);
    let lines = format!("rate = \"{rate}/s\"\nin_flight = 100\nbytes = \"200B\"");
    Some((Scenario::sensor_for(&format!("{SECONDS}s"), &lines), rate))
}

/// INVALID by the generator's fault, and nobody else's.
fn found_out(bundle: &Bundle, done: &Done, rate: u64) {
    assert_eq!(done.code, Some(20), "{}\n{}", done.stdout, done.stderr);
    assert_eq!(bundle.status(), "INVALID");
    assert!(bundle.doubts().contains(&"generator_saturated"), "{:#}", bundle.verdict);
    assert!(!bundle.doubts().contains(&"target_saturated"), "{:#}", bundle.verdict);
    let (sent, wanted) = (bundle.total("success"), rate * SECONDS);
    println!("{sent} of {wanted} came through");
    assert!(sent > 0 && sent * 5 < wanted, "the load is many times what this generator can do: {sent} of {wanted}");
    assert!(bundle.total("queue_full") > wanted / 2, "`in_flight` was full: {:#}", bundle.summary["total"]["totals"]);
}

#[test]
fn a7_a_pinned_generator_is_found_out_though_its_in_flight_is_full() {
    let _quiet = alone();
    let scratch = Scratch::new();
    let Some((scenario, rate)) = overload() else { return };
    let receiver = receiver(&scratch, scenario);
    let done = pinned(|| sender(&scratch)).map(Running::wait);
    receiver.signal(rustix::process::Signal::INT);
    receiver.wait();
    let Some(done) = done else { return };
    found_out(&Bundle::read(&scratch.path("sender")), &done, rate);
}

#[test]
fn a7_a_pinned_node_among_processes_is_found_out_though_its_in_flight_is_full() {
    if !family::server() || cores().is_none() {
        return;
    }
    let _quiet = alone();
    let scratch = Scratch::new();
    let Some((scenario, rate)) = overload() else { return };
    scratch.write("trial.toml", scenario.toml());
    let running = scratch.start(&["emulate", "trial.toml", "--placement", "processes", "--out", "b", "--quiet"]);
    until("both nodes run", || family::nodes(running.id()).len() == 2);
    pin(family::nodes(running.id())[0]);
    let done = running.wait();
    found_out(&Bundle::read(&scratch.path("b")), &done, rate);
}

/// All of the run may use but one core: nobody can tell whose fault it is, but the load did not leave for want of it.
#[test]
fn a7_a_run_on_one_core_blames_what_both_ends_share() {
    let _quiet = alone();
    let scratch = Scratch::new();
    let Some((scenario, rate)) = overload() else { return };
    scratch.write("trial.toml", scenario.toml());
    let run = || scratch.start(&["emulate", "trial.toml", "--out", "b", "--quiet"]);
    let Some(done) = pinned(run).map(Running::wait) else { return };
    let bundle = Bundle::read(&scratch.path("b"));
    found_out(&bundle, &done, rate);
    let reasons = bundle.verdict["reasons"].as_array().expect("reasons");
    let own = reasons.iter().find(|reason| reason["code"] == "generator_saturated").expect("it was found");
    assert!(own["text"].as_str().expect("a text").contains("shares its process with receivers"), "{own:#}");
}

/// A receiver that takes its time, and a generator that waits for it idly or busily.
#[test]
fn a7_a_slow_receiver_is_not_taken_for_a_generator_that_waits_busily() {
    let _quiet = alone();
    for more in [&[][..], &["--spin"]] {
        let scratch = Scratch::new();
        let slow = "analyzer = { pause = \"50ms\" }\nworkers = 1".to_owned();
        let scenario = Scenario { receiver: slow, ..Scenario::sensor_for("4s", "rate = \"200/s\"\nin_flight = 4") };
        let receiver = receiver(&scratch, scenario);
        let args = ["emulate", "trial.toml", "--without", "receiver", "--out", "sender", "--quiet"];
        let done = scratch.run(&[&args[..], more].concat());
        receiver.signal(rustix::process::Signal::INT);
        receiver.wait();
        let bundle = Bundle::read(&scratch.path("sender"));
        assert_eq!(done.code, Some(20), "{}\n{}", done.stdout, done.stderr);
        assert!(bundle.doubts().contains(&"target_saturated"), "{more:?}: {:#}", bundle.verdict);
        assert!(!bundle.doubts().contains(&"generator_saturated"), "{more:?}: {:#}", bundle.verdict);
    }
}
