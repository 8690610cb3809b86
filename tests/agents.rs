//! Nodes on a fleet of agents over a real NATS server: placed, reserved, started together, watched, let go. Without a server
//! on this machine these tests say so and pass; those with namespaces need root, `ip` and `unshare` too.

use std::fs;
use std::thread;
use std::time::Duration;

use rehearsal_bus::server::Server;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::family::{nodes, server as has_server};
use crate::support::{Bundle, Done, PROGRAM, Running, Scenario, Scratch, beside, until};

mod calibrating;
pub mod faults;
mod frames;
pub mod hosts;
mod outages;
mod provision;
mod strangers;

/// Whether there is a server to run with.
fn server() -> Option<Server> {
    has_server().then(|| Server::start(&[]).expect("a server"))
}

/// A server, agents on it, and a folder.
pub struct Fleet {
    pub scratch: Scratch,
    url: String,
    pub agents: Vec<Running>,
    _server: Option<Server>,
}

impl Fleet {
    /// Agents `a1 …` on this machine, each with further flags.
    pub fn new(agents: &[&[&str]]) -> Option<Fleet> {
        let server = server()?;
        let mut fleet =
            Fleet { scratch: Scratch::new(), url: server.url().to_owned(), agents: Vec::new(), _server: Some(server) };
        for more in agents {
            let name = format!("a{}", fleet.agents.len() + 1);
            fleet.agent(&name, more, &[]);
        }
        fleet.complete();
        Some(fleet)
    }

    /// Starts one more, by way of the program and arguments in `through`.
    pub fn agent(&mut self, name: &str, more: &[&str], through: &[&str]) {
        let cache = format!("cache-{name}");
        let own = [PROGRAM, "agent", "--nats", &self.url, "--name", name, "--cache", &cache];
        let words = [through, &own, more].concat();
        let running = Running::spawn(self.scratch.command(words[0], &words[1..]));
        self.agents.push(running);
    }

    /// Waits until all are found.
    pub fn complete(&self) {
        until("all agents are found", || self.cards().len() == self.agents.len());
    }

    /// The list of agents.
    fn cards(&self) -> Vec<Value> {
        let done = self.scratch.run(&["agents", "--nats", &self.url, "--format", "json"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.json().as_array().expect("a list").clone()
    }

    /// Whether nobody holds anything.
    pub fn is_free(&self) -> bool {
        self.cards().iter().all(|card| card["held"].as_array().is_some_and(Vec::is_empty))
    }

    pub fn args<'a>(&'a self, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let args = ["emulate", "trial.toml", "--placement", "agents", "--nats", &self.url, "--out", out];
        [&args[..], more].concat()
    }

    /// A run to its end, whatever becomes of it.
    pub fn run(&self, out: &str, more: &[&str]) -> Done {
        self.scratch.run(&self.args(out, more))
    }

    fn start(&self, out: &str) -> Running {
        self.scratch.start(&self.args(out, &["--quiet"]))
    }

    /// A run to its end, which must come about without doubts but for those of a busy machine.
    pub fn emulate(&self, out: &str, more: &[&str]) -> Bundle {
        self.scratch.emulate("trial.toml", out, &[&["--placement", "agents", "--nats", &self.url][..], more].concat())
    }
}

pub fn sensors(senders: u32, duration: &str) -> Scenario {
    let lines = "rate = \"50/s\"\nin_flight = 50\ntimeout = \"1s\"";
    Scenario { senders, ..Scenario::sensor_for(duration, lines) }
}

#[test]
fn nodes_on_agents_leave_one_bundle_with_the_simulators_schedule() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[], &[]]) else { return };
    let lines = "rate = \"50/s\"\nrequests = 100\nin_flight = 50\nbytes = \"700B\"";
    fleet.scratch.write("trial.toml", Scenario { senders: 3, ..Scenario::sensor(lines) }.toml());
    let simulated = fleet.scratch.simulate("trial.toml", "s", &[]);
    let bundle = fleet.emulate("b", &["--expect-agents", "2"]);
    assert_eq!(bundle.manifest["placement"], "agents");
    assert_eq!((bundle.total("generated"), bundle.total("success"), bundle.total("lost")), (300, 300, 0));
    assert_eq!(bundle.schedule(), simulated.schedule());
    let clocks = bundle.manifest["clocks"].as_array().expect("clocks");
    assert_eq!(clocks.len(), 2, "both agents run nodes: {clocks:?}");
    for clock in clocks {
        // one machine: nothing to estimate
        assert_eq!((&clock["offset_ns"], &clock["uncertainty_ns"]), (&0.into(), &0.into()), "{clock}");
        assert_eq!(clock["nodes"].as_array().map(Vec::len), Some(2));
    }
    assert_eq!(bundle.summary["starts"].as_array().map(Vec::len), Some(4));
    assert!(bundle.summary["start_skew_ns"].is_u64());
    assert!(fleet.is_free(), "a run that is over holds nothing");
    assert!(fleet.agents.iter().all(|agent| nodes(agent.id()).is_empty()));
}

#[test]
fn a_run_that_finds_no_room_is_told_who_holds_it() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&["--cores", "1", "--memory", "1GiB"]]) else { return };
    let half =
        |toml: String| toml.replace("[nodes.receiver.actors", "[nodes.receiver]\nvcpu = 0.5\n[nodes.receiver.actors");
    fleet.scratch.write("trial.toml", half(sensors(1, "8s").toml()));
    let first = fleet.start("first");
    until("the first run holds something", || !fleet.is_free());
    // half a core is left
    let second = fleet.start("second");
    until("two runs share the agent", || fleet.cards()[0]["held"].as_array().is_some_and(|held| held.len() == 2));
    let refused = fleet.run("third", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("`receiver` needs 0.5 vCPU"), "{}", refused.stderr);
    assert!(refused.stderr.contains("a1: 0 of 1 vCPU are left, run trial-"), "{}", refused.stderr);
    assert!(!fleet.scratch.path("third").exists() && !fleet.scratch.path("third.partial").exists());
    for running in [first, second] {
        let done = running.wait();
        assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    }
    for out in ["first", "second"] {
        let bundle = Bundle::read(&fleet.scratch.path(out));
        assert_eq!(bundle.total("lost"), 0, "runs that share an agent do not hear each other");
        assert!(!bundle.doubts().contains(&"node_lost"));
    }
    assert!(fleet.is_free());
}

#[test]
fn hosts_are_agents_with_their_labels() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&["--labels", "rack=a"], &["--labels", "rack=b,radio=5g"], &[]]) else { return };
    let hosts = "[hosts.air]\ncores = 1\nlabels = { radio = \"5g\" }\n[hosts.edge]\ncores = 1\nagent = \"a3\"\n\n";
    let placed = |toml: String| {
        let toml = toml.replace("[nodes.sender]\n", "[nodes.sender]\nhost = \"air\"\n");
        hosts.to_owned()
            + &toml.replace("[nodes.receiver.actors", "[nodes.receiver]\nhost = \"edge\"\n[nodes.receiver.actors")
    };
    fleet.scratch.write("trial.toml", placed(sensors(2, "1s").toml()));
    let bundle = fleet.emulate("b", &[]);
    let clocks = bundle.manifest["clocks"].as_array().expect("clocks");
    let found: Vec<(&str, Vec<&str>)> = clocks
        .iter()
        .map(|c| {
            (c["agent"].as_str().unwrap(), c["nodes"].as_array().unwrap().iter().filter_map(Value::as_str).collect())
        })
        .collect();
    assert_eq!(found, [("a2", vec!["sender-1", "sender-2"]), ("a3", vec!["receiver"])]);
    fleet.scratch.write("trial.toml", placed(sensors(2, "1s").toml()).replace("5g", "6g"));
    let refused = fleet.run("c", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("a2: it has no label radio=6g"), "{}", refused.stderr);
}

#[test]
fn an_agent_refuses_what_its_operator_does_not_permit() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&["--rate-max", "120/s"]]) else { return };
    fleet.scratch.write("trial.toml", sensors(3, "1s").toml());
    let refused = fleet.run("b", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("agent `a1` refuses") && refused.stderr.contains("--rate-max"),
        "{}",
        refused.stderr
    );
    assert!(!fleet.scratch.path("b").exists() && !fleet.scratch.path("b.partial").exists());
    assert!(fleet.is_free(), "a refused run holds nothing");
    fleet.scratch.write("trial.toml", sensors(2, "1s").toml());
    assert!(fleet.emulate("c", &[]).total("success") > 0);
    let elsewhere =
        sensors(1, "1s").toml().replace("kind = \"receiver\"", "kind = \"receiver\"\nlisten = \"192.0.2.7:7001\"");
    fleet.scratch.write("trial.toml", elsewhere);
    let refused = fleet.run("d", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("192.0.2.7") && refused.stderr.contains("--allow"), "{}", refused.stderr);
}

#[test]
fn an_agent_that_is_killed_takes_its_nodes_along_and_is_named() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[], &[]]) else { return };
    fleet.scratch.write("trial.toml", sensors(3, "30s").toml());
    let running = fleet.start("b");
    until("every node runs", || fleet.agents.iter().map(|a| nodes(a.id()).len()).sum::<usize>() == 4);
    thread::sleep(Duration::from_millis(2500));
    let victims = nodes(fleet.agents[0].id());
    fleet.agents[0].signal(Signal::KILL);
    let done = running.wait();
    assert_eq!(done.code, Some(20), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&fleet.scratch.path("b"));
    assert!(bundle.doubts().contains(&"node_lost"), "{:#}", bundle.verdict);
    for id in victims {
        until("its nodes are gone", || !fs::exists(format!("/proc/{id}")).unwrap_or(true));
    }
    until("the other one is free", || nodes(fleet.agents[1].id()).is_empty() && fleet.is_free());
    until("the card expires", || fleet.cards().len() == 1);
}

/// The agent is held up, its nodes are not: the run does not notice, and the lease outlives it.
#[test]
fn an_agent_that_stands_still_for_a_while_loses_nothing() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    fleet.scratch.write("trial.toml", sensors(1, "14s").toml());
    let running = fleet.start("b");
    until("every node runs", || nodes(fleet.agents[0].id()).len() == 2);
    thread::sleep(Duration::from_secs(2));
    fleet.agents[0].signal(Signal::STOP);
    thread::sleep(Duration::from_secs(10));
    fleet.agents[0].signal(Signal::CONT);
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&fleet.scratch.path("b"));
    assert!(!bundle.doubts().contains(&"node_lost"), "{:#}", bundle.verdict);
    assert!((698..=701).contains(&bundle.total("generated")), "{}", bundle.total("generated"));
    assert_eq!(bundle.total("lost"), 0);
    assert!(fleet.is_free());
}

#[test]
fn agents_free_themselves_when_their_leader_is_killed() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[], &[]]) else { return };
    fleet.scratch.write("trial.toml", sensors(3, "60s").toml());
    let running = fleet.start("b");
    until("every node runs", || fleet.agents.iter().map(|a| nodes(a.id()).len()).sum::<usize>() == 4);
    thread::sleep(Duration::from_secs(2));
    running.signal(Signal::KILL);
    running.wait();
    assert!(!fleet.is_free(), "the lease is not over yet");
    until("they are free", || fleet.is_free() && fleet.agents.iter().all(|agent| nodes(agent.id()).is_empty()));
    fleet.scratch.write("trial.toml", sensors(3, "1s").toml());
    assert!(fleet.emulate("again", &[]).total("success") > 0, "the next run finds them");
}

#[test]
fn the_first_signal_ends_an_agent_with_its_nodes() {
    let _busy = beside();
    let Some(mut fleet) = Fleet::new(&[&[]]) else { return };
    fleet.scratch.write("trial.toml", sensors(1, "30s").toml());
    let running = fleet.start("b");
    until("every node runs", || nodes(fleet.agents[0].id()).len() == 2);
    let nodes = nodes(fleet.agents[0].id());
    thread::sleep(Duration::from_secs(1));
    let agent = fleet.agents.remove(0);
    agent.signal(Signal::TERM);
    let done = agent.wait();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(fleet.cards().is_empty(), "it took its card away");
    assert!(nodes.iter().all(|id| !fs::exists(format!("/proc/{id}")).unwrap_or(true)));
    let done = running.wait();
    assert_eq!(done.code, Some(20), "{}\n{}", done.stdout, done.stderr);
    assert!(Bundle::read(&fleet.scratch.path("b")).doubts().contains(&"node_lost"));
}

#[test]
fn what_a_fleet_cannot_do_is_refused_with_the_remedy() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    fleet.scratch.write("trial.toml", sensors(1, "1s").toml());
    let few = fleet.run("b", &["--expect-agents", "2", "--expect-timeout", "1s"]);
    assert_eq!(few.code, Some(3), "{}", few.stderr);
    assert!(few.stderr.contains("waited 1s for 2 agents, and one is there: a1"), "{}", few.stderr);
    let twice = fleet.scratch.run(&["agent", "--nats", &fleet.url, "--name", "a1", "--cache", "other"]);
    assert_eq!(twice.code, Some(3), "{}", twice.stderr);
    assert!(twice.stderr.contains("an agent `a1` is there already"), "{}", twice.stderr);
    let nowhere =
        fleet.scratch.run(&["agent", "--nats", &fleet.url, "--name", "a2", "--listen", "192.0.2.1", "--cache", "o"]);
    assert_eq!(nowhere.code, Some(3), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("name an address of this host"), "{}", nowhere.stderr);
    let without = fleet.scratch.run(&["emulate", "trial.toml", "--placement", "agents", "--out", "b"]);
    assert_eq!(without.code, Some(2), "{}", without.stderr);
    assert!(without.stderr.contains("--nats URL"), "{}", without.stderr);
    assert!(!fleet.scratch.path("b").exists() && !fleet.scratch.path("b.partial").exists());
}

#[test]
fn a_clip_is_shipped_once_and_kept() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    let clip = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/media")).expect("media").flatten();
    let clip = clip.map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "mp4")).expect("a clip");
    let sender = format!(
        "kind = \"camera\"\nmedia = \"{}\"\nframe = \"100kB..200kB\"\nrate = \"20/s\"\nrequests = 20\nin_flight = 50",
        clip.display()
    );
    fleet.scratch.write("trial.toml", Scenario { sender, ..Scenario::default() }.toml());
    let simulated = fleet.scratch.simulate("trial.toml", "s", &[]);
    for out in ["b", "c"] {
        let bundle = fleet.emulate(out, &[]);
        assert_eq!((bundle.total("success"), bundle.total("invalid")), (20, 0));
        assert_eq!(bundle.total("bytes_sent"), simulated.total("bytes_sent"), "the same frames");
        assert_eq!(bundle.schedule(), simulated.schedule());
    }
    let kept = fs::read_dir(fleet.scratch.path("cache-a1/files")).expect("a cache").flatten();
    let kept: Vec<u64> = kept.map(|entry| entry.metadata().expect("a file").len()).collect();
    assert_eq!(kept, [clip.metadata().expect("the clip").len()], "one file, brought once");
    let runs = fs::read_dir(fleet.scratch.path("cache-a1/runs/a1")).expect("a folder");
    assert_eq!(runs.count(), 0, "folders of runs go with them");
}

#[test]
fn agents_of_one_machine_with_more_vcpu_than_cores_are_told() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[], &[]]) else { return };
    let card = &fleet.cards()[0];
    if card["enforces"] == false {
        eprintln!("skipped: limits are not enforced here");
        return;
    }
    let most = card["host_cores"].as_f64().expect("cores") * 0.75;
    let toml = sensors(1, "1s").toml().replace("[nodes.sender]\n", &format!("[nodes.sender]\nvcpu = {most:.2}\n"));
    let toml =
        toml.replace("[nodes.receiver.actors", &format!("[nodes.receiver]\nvcpu = {most:.2}\n[nodes.receiver.actors"));
    // a long text is shipped as a file
    let words = "What it is for, at length. ".repeat(12_000);
    let toml = toml.replace("name = \"trial\"", &format!("name = \"trial\"\ndescription = \"{words}\""));
    fleet.scratch.write("trial.toml", toml);
    let bundle =
        fleet.scratch.bundle("emulate", "trial.toml", "b", &["--placement", "agents", "--nats", &fleet.url], &[0, 20]);
    assert!(bundle.doubts().contains(&"host_overcommitted"), "{:#}", bundle.verdict);
    assert!(bundle.verdict.to_string().contains("of a1, a2 has"), "{:#}", bundle.verdict);
    assert!(bundle.total("success") > 0);
}
