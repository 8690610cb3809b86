//! What goes wrong while agents run nodes: the server restarts, the process that stores dies. Each time senders keep to the
//! schedule, counters add up, and the series has every second. An agent that is killed and a host whose date is set are
//! among the acceptance tests.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::Fleet;
use crate::support::family::{Fixed, nodes};
use crate::support::{Bundle, Done, Running, Scenario, beside, until};
use crate::telemetry::{events, signal_storing, storing};

/// Seconds of traffic.
pub const SECONDS: u32 = 8;
/// Requests that fall due: one sender, 50 a second.
pub const DUE: u64 = 50 * SECONDS as u64;

/// A sender on `a2`, a receiver on `a1`.
pub fn apart(fleet: &Fleet) {
    let lines = "rate = \"50/s\"\nin_flight = 100\ntimeout = \"3s\"";
    let toml = Scenario::sensor_for(&format!("{SECONDS}s"), lines).toml();
    let toml = toml.replace("[nodes.sender]\n", "[nodes.sender]\nhost = \"far\"\n");
    let toml = toml.replace("[nodes.receiver.actors", "[nodes.receiver]\nhost = \"near\"\n[nodes.receiver.actors");
    let hosts = "[hosts.near]\ncores = 1\nagent = \"a1\"\n[hosts.far]\ncores = 1\nagent = \"a2\"\n";
    fleet.scratch.write("trial.toml", format!("{hosts}{toml}"));
}

/// Starts a run; it has begun when this returns.
pub fn begin(fleet: &Fleet, all: usize) -> Running {
    let running = fleet.scratch.start(&fleet.args("b", &["--quiet", "--csv"]));
    until("every node runs", || fleet.agents.iter().map(|agent| nodes(agent.id()).len()).sum::<usize>() == all);
    until("the run has begun", || fleet.scratch.path("b.partial/latency.hlog").exists());
    running
}

/// The bundle: nothing is lost, no second is missing, and only a busy machine's times are doubted.
pub fn whole(fleet: &Fleet, done: &Done) -> Bundle {
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&fleet.scratch.path("b"));
    bundle.doubted(&[]);
    assert!((DUE - 2..=DUE + 2).contains(&bundle.total("generated")), "{:#}", bundle.summary["total"]["totals"]);
    assert_eq!((bundle.total("success"), bundle.total("lost")), (bundle.total("generated"), 0));
    assert_eq!(bundle.total_of("receiver", "served"), bundle.total("generated"));
    let rows = bundle.rows();
    for node in ["sender", "receiver"] {
        let own = rows.iter().filter(|row| row["node"] == node && row["actor"] == "main");
        let seconds: BTreeSet<u32> = own.map(|row| row["second"].parse().expect("a second")).collect();
        assert!((0..SECONDS).all(|second| seconds.contains(&second)), "{node}: {seconds:?}");
    }
    assert_eq!(bundle.summary["telemetry"]["missing_seconds"], 0);
    until("everybody is free", || fleet.is_free());
    bundle
}

#[test]
fn a_server_that_restarts_in_the_middle_of_a_run_on_agents_loses_no_second() {
    let _busy = beside();
    let Some((fleet, server, port)) = Fleet::on_fixed(&["a1", "a2"]) else { return };
    apart(&fleet);
    let running = begin(&fleet, 2);
    thread::sleep(Duration::from_secs(2));
    drop(server);
    thread::sleep(Duration::from_secs(2));
    let _server = Fixed::start(&fleet.scratch, port, &["-js"]);
    let done = running.wait();
    assert!(done.stderr.contains("the NATS server is back after"), "{}", done.stderr);
    let bundle = whole(&fleet, &done);
    let told = events(&bundle);
    for node in ["sender", "receiver"] {
        for kind in ["nats-disconnected", "nats-connected"] {
            assert!(told.iter().any(|(k, n)| k == kind && n == node), "{kind} of {node}: {told:?}");
        }
    }
    fleet.complete();
}

#[test]
fn a_process_that_stores_a_run_on_agents_and_is_killed_reads_all_again() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[], &[]]) else { return };
    apart(&fleet);
    let running = begin(&fleet, 2);
    thread::sleep(Duration::from_secs(3));
    let killed = signal_storing(running.id(), Signal::KILL);
    until("another one stores", || storing(running.id()).is_some_and(|id| id != killed));
    let bundle = whole(&fleet, &running.wait());
    assert!(events(&bundle).contains(&("aggregator-restarted".to_owned(), "aggregator".to_owned())));
}
