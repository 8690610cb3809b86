//! Hosts that the experiment's own commands make: the shipped example, and what becomes of hosts when things go wrong.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::{Fleet, sensors};
use crate::support::{CONFIGS, PROGRAM, Running, beside, until};

/// A run with `[provision]`, whose commands are `create` and `destroy` for the shell.
fn start(fleet: &Fleet, duration: &str, create: &str, destroy: &str, timeout: &str) -> Running {
    start_with(fleet, sensors(1, duration).toml(), create, destroy, timeout)
}

/// The same with another experiment.
fn start_with(fleet: &Fleet, toml: String, create: &str, destroy: &str, timeout: &str) -> Running {
    let provision = format!(
        "[provision]\ncreate = [\"sh\", \"-c\", '''{create}''']\ndestroy = [\"sh\", \"-c\", '''{destroy}''']\n\
         timeout = \"{timeout}\"\n\n"
    );
    fleet.scratch.write("trial.toml", provision + &toml);
    let mut command = fleet.scratch.command(PROGRAM, &fleet.args("b", &["--quiet", "--expect-agents", "1"]));
    command.env("REHEARSAL_PROGRAM", PROGRAM);
    Running::spawn(command)
}

#[test]
fn the_local_example_makes_two_agents_and_takes_them_away() {
    let _busy = beside();
    // one that was there before, and comes first by its name
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    let script = fs::canonicalize(format!("{CONFIGS}/provision/local.sh")).expect("the example");
    let call = |what: &str| format!("{} {what}", script.display());
    let hosts =
        "[hosts.x]\ncores = 1\nlabels = { made = \"local\" }\n[hosts.y]\ncores = 1\nlabels = { made = \"local\" }\n\n";
    let toml = sensors(1, "2s").toml().replace("[nodes.sender]\n", "[nodes.sender]\nhost = \"x\"\n");
    let aimed = toml.replace("[nodes.receiver.actors", "[nodes.receiver]\nhost = \"y\"\n[nodes.receiver.actors");
    let mut running = start_with(&fleet, hosts.to_owned() + &aimed, &call("create"), &call("destroy"), "30s");
    let mut most = 0;
    while running.runs() {
        most = most.max(fleet.cards().len());
        thread::sleep(Duration::from_millis(50));
    }
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    assert_eq!(most, 3, "two agents were made");
    assert_eq!(fleet.cards().len(), 1, "they are gone");
    let bundle = crate::support::Bundle::read(&fleet.scratch.path("b"));
    let agents: Vec<&str> =
        bundle.manifest["clocks"].as_array().expect("clocks").iter().filter_map(|c| c["agent"].as_str()).collect();
    assert_eq!(agents, ["local-1", "local-2"], "nodes went to the hosts that were made for them");
    assert!(bundle.total("success") > 0);
}

#[test]
fn commands_know_what_is_needed_and_their_failures_are_named() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[]) else { return };
    let tell = "echo \"$REHEARSAL_NATS $REHEARSAL_RUN $REHEARSAL_HOSTS\" > told; echo 'out of hosts' >&2; exit 7";
    let done = start(&fleet, "1s", tell, "echo \"$REHEARSAL_RUN\" > gone", "30s").wait();
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("provision.create failed: exit status: 7"), "{}", done.stderr);
    assert!(done.stderr.contains("out of hosts"), "what it said is passed on: {}", done.stderr);
    let told = fs::read_to_string(fleet.scratch.path("told")).expect("it ran");
    let (head, hosts) = told.split_at(told.find('[').expect("a list"));
    let words: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(words[0], fleet.url);
    assert!(words[1].starts_with("trial-"), "{words:?}");
    let hosts: serde_json::Value = serde_json::from_str(hosts).expect("JSON");
    assert_eq!(hosts[0]["nodes"], serde_json::json!(["sender", "receiver"]), "{hosts}");
    let gone = fs::read_to_string(fleet.scratch.path("gone")).expect("destroy ran after the failure");
    assert_eq!(gone.trim(), words[1]);
    let slow = start(&fleet, "1s", "sleep 60", "true", "1s").wait();
    assert_eq!(slow.code, Some(3), "{}", slow.stderr);
    assert!(slow.stderr.contains("provision.create did not end within 1s"), "{}", slow.stderr);
    let nobody = start(&fleet, "1s", "touch made", "exit 9", "30s");
    until("hosts are made", || fleet.scratch.path("made").exists());
    nobody.signal(Signal::INT);
    let nobody = nobody.wait();
    assert_eq!(nobody.code, Some(130), "it waits for agents no longer: {}", nobody.stderr);
    assert!(nobody.stderr.contains("provision.destroy failed: exit status: 9"), "{}", nobody.stderr);
}

#[test]
fn a_signal_takes_hosts_away_too() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    let running = start(&fleet, "60s", "true", "echo gone > gone", "30s");
    until("the run has begun", || fleet.scratch.path("b.partial/latency.hlog").exists());
    thread::sleep(Duration::from_millis(1500));
    running.signal(Signal::INT);
    let done = running.wait();
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    assert!(fleet.scratch.path("gone").exists(), "{}", done.stderr);
    assert!(fleet.is_free());
}

#[test]
fn hosts_are_taken_away_also_at_the_second_signal() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[]]) else { return };
    let running = start(&fleet, "60s", "true", "sleep 1; echo gone > gone", "30s");
    until("the run has begun", || fleet.scratch.path("b.partial/latency.hlog").exists());
    running.signal(Signal::INT);
    running.signal(Signal::INT);
    let done = running.wait();
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    until("the command has run by itself", || fleet.scratch.path("gone").exists());
}
