//! What goes away and comes back: the server, the network of one host, a node's process.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::hosts::{Lab, ip};
use super::{Fleet, sensors};
use crate::support::family::{Fixed, nodes, signal};
use crate::support::{Bundle, Scenario, Scratch, beside, free_port, until};

impl Fleet {
    /// Agents on a server that can be stopped, and started again at the same port.
    pub(super) fn on_fixed(agents: &[&str]) -> Option<(Fleet, Fixed, u16)> {
        let (scratch, port) = (Scratch::new(), free_port());
        let server = Fixed::start(&scratch, port, &["-js"])?;
        let url = format!("nats://127.0.0.1:{port}");
        let mut fleet = Fleet { scratch, url, agents: Vec::new(), _server: None };
        agents.iter().for_each(|name| fleet.agent(name, &[], &[]));
        fleet.complete();
        Some((fleet, server, port))
    }
}

#[test]
fn agents_come_back_after_their_server_did() {
    let _busy = beside();
    let Some((mut fleet, server, port)) = Fleet::on_fixed(&["a1"]) else { return };
    drop(server);
    thread::sleep(Duration::from_secs(1));
    let _server = Fixed::start(&fleet.scratch, port, &["-js"]);
    // the bucket was in memory, and went with the server
    fleet.complete();
    fleet.scratch.write("trial.toml", sensors(1, "1s").toml());
    assert!(fleet.emulate("b", &[]).total("success") > 0);
    assert!(fleet.agents[0].runs());
}

#[test]
fn a_server_without_jetstream_is_refused_with_the_remedy() {
    let _busy = beside();
    let (scratch, port) = (Scratch::new(), free_port());
    let Some(_server) = Fixed::start(&scratch, port, &[]) else { return };
    let url = format!("nats://127.0.0.1:{port}");
    for verb in ["agent", "agents"] {
        let done = scratch.run(&[verb, "--nats", &url]);
        assert_eq!(done.code, Some(3), "{verb}: {}", done.stderr);
        assert!(done.stderr.contains("start it with `nats-server -js`"), "{verb}: {}", done.stderr);
    }
}

#[test]
fn a_node_that_is_killed_on_an_agent_is_started_again_there() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    let lines = "rate = \"50/s\"\nin_flight = 50\ntimeout = \"500ms\"";
    let scenario = Scenario::sensor_for("10s", lines);
    let experiment = format!("{}\non_loss = \"restart-node\"", scenario.experiment);
    fleet.scratch.write("trial.toml", Scenario { experiment, ..scenario }.toml());
    let running = fleet.start("b");
    until("every node runs", || nodes(fleet.agents[0].id()).len() == 2);
    thread::sleep(Duration::from_secs(3));
    let before = nodes(fleet.agents[0].id());
    signal(before[0], Signal::KILL);
    until("another one runs", || nodes(fleet.agents[0].id()).iter().any(|id| !before.contains(id)));
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&fleet.scratch.path("b"));
    assert!(bundle.doubts().contains(&"node_lost"), "{:#}", bundle.verdict);
    assert!(bundle.total("success") > 100, "{:#}", bundle.summary["total"]["totals"]);
    let starts = bundle.summary["starts"].as_array().map(Vec::len);
    assert_eq!(starts, Some(1), "one that is started again does not begin with the others");
    assert!(fleet.is_free());
}

#[test]
fn a_host_that_is_cut_off_for_a_while_takes_part_again() {
    let _busy = beside();
    let Some(lab) = Lab::new(2) else { return };
    let fleet = lab.fleet();
    let lines = "rate = \"20/s\"\nin_flight = 40\ntimeout = \"500ms\"\nretries = 0";
    let scenario = Scenario::sensor_for("22s", lines);
    let experiment = format!("{}\non_loss = \"continue\"", scenario.experiment);
    let toml =
        Scenario { experiment, ..scenario }.toml().replace("[nodes.sender]\n", "[nodes.sender]\nhost = \"far\"\n");
    fleet.scratch.write("trial.toml", format!("[hosts.far]\ncores = 1\nagent = \"a2\"\n{toml}"));
    let running = fleet.start("b");
    until("the run has begun", || fleet.scratch.path("b.partial/latency.hlog").exists());
    thread::sleep(Duration::from_secs(4));
    assert!(ip(&["link", "set", &lab.port(2), "down"]));
    thread::sleep(Duration::from_secs(10));
    assert!(ip(&["link", "set", &lab.port(2), "up"]));
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&fleet.scratch.path("b"));
    assert!(bundle.doubts().contains(&"node_lost"), "the window is named: {:#}", bundle.verdict);
    let [generated, success] = ["generated", "success"].map(|name| bundle.total(name));
    assert!(success > 100 && generated > success, "before and after, but not meanwhile: {success} of {generated}");
    until("everybody is free", || fleet.is_free());
}
