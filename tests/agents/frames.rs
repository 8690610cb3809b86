//! Whole frames between agents: each sends and takes them at its own interface, between two namespaces on a bridge.

use super::hosts::Lab;
use crate::support::{Bundle, CONFIGS, alone};

/// Packets of the shipped capture.
const CELL: u64 = 115;

/// A node on a host of its own.
fn node(name: &str, host: &str, actor: &str) -> String {
    format!("[nodes.{name}]\nhost = \"{host}\"\n[nodes.{name}.actors.main]\n{actor}\n\n")
}

fn replayer(to: &str, keys: &str) -> String {
    format!("kind = \"replayer\"\nto = \"{to}\"\ntemplate = \"{CONFIGS}/captures/cell.pcap\"\n{keys}")
}

fn experiment(nodes: &[String]) -> String {
    let hosts = ["here", "there"].iter().zip(["a1", "a2"]);
    let hosts: String =
        hosts.map(|(host, agent)| format!("[hosts.{host}]\ncores = 2\nagent = \"{agent}\"\n\n")).collect();
    let head = "[experiment]\nname = \"trial\"\nstop = \"all-requests-done\"\n\n";
    format!("{head}{hosts}{}[links.default]\ncarrier = \"frames\"\n", nodes.concat())
}

fn one_way() -> String {
    let probe = node("probe", "here", &replayer("sink/main", "speed = 2.0\nloops = 3"));
    experiment(&[probe, node("sink", "there", "kind = \"receiver\"")])
}

fn of(bundle: &Bundle, node: &str, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| bundle.total_of(node, name)).collect()
}

#[test]
fn whole_frames_go_from_agent_to_agent_at_the_interfaces_that_they_permit() {
    let _quiet = alone();
    let Some(lab) = Lab::new(2) else { return };
    let fleet = lab.fleet_with(|number| vec!["--interface".to_owned(), lab.interface(number)]);
    fleet.scratch.write("trial.toml", one_way());
    let simulated = fleet.scratch.simulate("trial.toml", "s", &[]);
    let bundle = fleet.emulate("b", &[]);
    assert_eq!(bundle.schedule(), simulated.schedule());
    for bundle in [&simulated, &bundle] {
        let sent = of(bundle, "probe", &["generated", "datagrams_sent", "success", "lost"]);
        assert_eq!(sent, [3 * CELL, 3 * CELL, 3 * CELL, 0], "{:#}", bundle.summary);
        let taken = of(bundle, "sink", &["datagrams_received", "datagrams_duplicate", "datagrams_reordered"]);
        assert_eq!(taken, [3 * CELL, 0, 0], "{:#}", bundle.summary);
    }
    let bytes = |bundle: &Bundle| (bundle.total_of("probe", "bytes_sent"), bundle.total_of("sink", "bytes_received"));
    assert_eq!(bytes(&simulated), bytes(&bundle));

    // and in conversation
    let keys = |side: &str| {
        format!("speed = 2.0\nside = \"{side}\"\ninteractive = {{ conversations = 9, resend_after = \"5s\" }}")
    };
    let caller = node("caller", "here", &replayer("callee/main", &keys("client")));
    let callee = node("callee", "there", &replayer("caller/main", &keys("server")));
    fleet.scratch.write("trial.toml", experiment(&[caller, callee]));
    let simulated = fleet.scratch.simulate("trial.toml", "s2", &[]);
    let bundle = fleet.emulate("b2", &[]);
    assert_eq!(bundle.schedule(), simulated.schedule());
    for name in ["generated", "success", "lost", "datagrams_received", "bytes_sent", "bytes_received"] {
        assert_eq!(bundle.total(name), simulated.total(name), "{name}: {:#}", bundle.summary);
    }
    let counts = &bundle.summary["total"]["counts"];
    assert_eq!(counts["conversations.completed"].as_u64(), Some(18), "both sides: {counts}");
}

#[test]
fn frames_that_no_agent_permits_or_that_would_not_leave_are_refused() {
    let _busy = crate::support::beside();
    let Some(lab) = Lab::new(2) else { return };
    let fleet = lab.fleet_with(|number| match number {
        1 => vec!["--interface".to_owned(), lab.interface(1)],
        _ => Vec::new(),
    });
    fleet.scratch.write("trial.toml", one_way());
    let refused = fleet.run("b", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("`sink/main`") && refused.stderr.contains("--interface NAME"),
        "{}",
        refused.stderr
    );
    fleet.scratch.write("trial.toml", one_way().replace("host = \"there\"", "host = \"here\""));
    let refused = fleet.run("b", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("at the same agent"), "{}", refused.stderr);
    let nowhere = ["agent", "--nats", &fleet.url, "--name", "a3", "--interface", "nowhere", "--cache", "c"];
    let nowhere = fleet.scratch.run(&nowhere);
    assert_eq!(nowhere.code, Some(3), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("--interface nowhere: there is no such interface"), "{}", nowhere.stderr);
    assert!(fleet.is_free());
}
