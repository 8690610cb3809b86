//! Conversations as actors of an experiment: two replayers wait for each other, in both engines alike, as datagrams and as whole
//! frames, through losses, and with words for what cannot be.

use std::fs;

use rehearsal_bus::server::Server;

use crate::links::namespaces;
use crate::support::{Bundle, CONFIGS, Done, PROGRAM, Running, Scratch, alone, beside, family};

/// Packets of the shipped capture that clients and servers of its conversations send: all but ARP.
const CLIENT: u64 = 56;
const SERVER: u64 = 57;
/// Conversations of two hosts in it.
const DIALOGUES: u64 = 3;

fn replayer(node: &str, side: &str, to: &str, keys: &str) -> String {
    format!(
        "[nodes.{node}.actors.main]\nkind = \"replayer\"\nto = \"{to}\"\ntemplate = \"{CONFIGS}/captures/cell.pcap\"\n\
         side = \"{side}\"\n{keys}\n\n"
    )
}

/// Two that converse; `keys` are of both.
fn experiment(keys: &str, link: &str) -> String {
    let head = "[experiment]\nname = \"trial\"\nstop = \"all-requests-done\"\n\n";
    let both = [("caller", "client", "callee/main"), ("callee", "server", "caller/main")];
    let nodes: String = both.iter().map(|(node, side, to)| replayer(node, side, to, keys)).collect();
    format!("{head}{nodes}[links.default]\n{link}\n")
}

fn counts(bundle: &Bundle, node: &str, name: &str) -> u64 {
    let rows = bundle.summary["templates"].as_array().expect("templates").iter();
    let row = rows.clone().find(|row| row["template"] == node).unwrap_or_else(|| panic!("no {node}"));
    row["counts"][name].as_u64().unwrap_or(0)
}

/// How conversations ended, as one side tells it.
fn ends(bundle: &Bundle, node: &str) -> [u64; 4] {
    ["completed", "timed_out", "unfinished", "not_begun"]
        .map(|end| counts(bundle, node, &format!("conversations.{end}")))
}

/// Nothing is lost: each packet goes once, and both engines plan the same.
fn agree(pair: &[Bundle; 2], copies: u64) {
    assert_eq!(pair[0].schedule(), pair[1].schedule());
    for bundle in pair {
        for (node, sent, heard) in [("caller", CLIENT, SERVER), ("callee", SERVER, CLIENT)] {
            assert_eq!(ends(bundle, node), [copies * DIALOGUES, 0, 0, 0], "{node}: {:#}", bundle.summary);
            let counted = ["generated", "datagrams_sent", "success", "lost"].map(|name| bundle.total_of(node, name));
            assert_eq!(counted, [copies * sent, copies * sent, copies * sent, 0], "{node}: {:#}", bundle.summary);
            let taken = ["datagrams_received", "datagrams_duplicate", "datagrams_reordered"];
            assert_eq!(taken.map(|name| bundle.total_of(node, name)), [copies * heard, 0, 0], "{node}");
            let told = ["heard", "resent", "heard_again", "heard_ahead", "strange"];
            let told = told.map(|name| counts(bundle, node, &format!("packets.{name}")));
            assert_eq!(told, [copies * heard, 0, 0, 0, 0], "{node}");
        }
    }
    let bytes = |bundle: &Bundle| ["caller", "callee"].map(|node| bundle.total_of(node, "bytes_sent"));
    assert_eq!(bytes(&pair[0]), bytes(&pair[1]), "sizes are the template's");
}

#[test]
fn two_sides_wait_for_each_other_in_both_engines_alike() {
    let _busy = beside();
    let scratch = Scratch::new();
    let slow = "carrier = \"udp\"\ndelay = \"5ms\"\nimpose = \"userspace\"";
    let patient = "resend_after = \"5s\"";
    let mut digests = Vec::new();
    for (name, keys, link, copies) in [
        ("once", format!("interactive = {{ {patient} }}"), "carrier = \"udp\"", 1),
        (
            "twelve",
            format!("speed = 4.0\ninteractive = {{ conversations = 12, start_rate = 50.0, {patient} }}"),
            slow,
            4,
        ),
        (
            "at-once",
            format!("interactive = {{ conversations = 6, think = false, concurrent = 2, {patient} }}"),
            slow,
            2,
        ),
    ] {
        scratch.write("trial.toml", experiment(&keys, link));
        let pair = scratch.both("trial.toml", name, &[]);
        agree(&pair, copies);
        digests.push(pair[0].schedule().to_owned());
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 3, "each is another schedule");
}

/// Who waits for an answer does so for as long as the link takes: the same talk lasts longer over a longer way.
#[test]
fn a_dry_run_waits_for_answers_over_its_link() {
    let scratch = Scratch::new();
    let lasts = |delay: &str| {
        let link = format!("carrier = \"udp\"\ndelay = \"{delay}\"");
        scratch.write("trial.toml", experiment("interactive = { think = false, resend_after = \"5s\" }", &link));
        let bundle = scratch.simulate("trial.toml", delay, &[]);
        assert_eq!(ends(&bundle, "caller"), [DIALOGUES, 0, 0, 0]);
        bundle.summary["duration_seconds"].as_f64().expect("a duration")
    };
    // 25 questions that a drive answers, each one way there and one back
    let more = lasts("110ms") - lasts("10ms");
    assert!((4.9..6.5).contains(&more), "{more} s for 50 ways of 100 ms more");
}

#[test]
fn through_losses_all_completes_and_every_packet_is_accounted_for() {
    let _busy = beside();
    let scratch = Scratch::new();
    let keys = "speed = 4.0\ninteractive = { conversations = 60, resend = 8, resend_after = \"100ms\" }";
    let link = "carrier = \"udp\"\ndelay = \"10ms\"\nloss = \"3%\"\nimpose = \"userspace\"";
    scratch.write("trial.toml", experiment(keys, link));
    for bundle in scratch.both("trial.toml", "lossy", &[]) {
        for (node, own, heard) in [("caller", CLIENT, SERVER), ("callee", SERVER, CLIENT)] {
            assert_eq!(ends(&bundle, node), [60, 0, 0, 0], "{node}: {:#}", bundle.summary);
            let of = |name: &str| bundle.total_of(node, name);
            let resent = counts(&bundle, node, "packets.resent");
            assert_eq!(of("datagrams_sent"), 20 * own + resent, "{node}");
            assert_eq!(of("success") + of("lost"), of("datagrams_sent"), "{node}");
            assert!(of("lost") > 0 && resent >= of("lost") / 2, "{node}: {} lost, {resent} sent again", of("lost"));
            assert_eq!(counts(&bundle, node, "packets.heard"), 20 * heard, "{node}: each once");
            let again = counts(&bundle, node, "packets.heard_again");
            assert_eq!(of("datagrams_received"), 20 * heard + again, "{node}");
        }
        let of = |node: &str, name: &str| bundle.total_of(node, name);
        assert_eq!(of("caller", "success"), of("callee", "datagrams_received"));
        assert_eq!(of("callee", "success"), of("caller", "datagrams_received"));
    }
}

#[test]
fn who_gives_up_times_out_and_is_counted() {
    let _busy = beside();
    let scratch = Scratch::new();
    let keys = "speed = 10.0\ninteractive = { conversations = 30, resend = 0, timeout = \"500ms\" }";
    let link = "carrier = \"udp\"\ndelay = \"5ms\"\nloss = \"4%\"\nimpose = \"userspace\"";
    scratch.write("trial.toml", experiment(keys, link));
    for bundle in scratch.both("trial.toml", "lossy", &[]) {
        let [completed, timed_out, ..] = ends(&bundle, "caller");
        assert_eq!(completed + timed_out, 30, "{:#}", bundle.summary);
        assert!(timed_out > 0, "each has some 38 packets");
        assert_eq!(ends(&bundle, "callee").iter().sum::<u64>(), 30);
        for node in ["caller", "callee"] {
            assert_eq!(counts(&bundle, node, "packets.resent"), 0);
        }
    }
}

/// In a pause nobody speaks, and no deadline passes; a stop ends all.
#[test]
fn a_pause_stands_still_and_a_stop_ends_conversations() {
    let _busy = beside();
    let scratch = Scratch::new();
    let step = |at: &str, what: &str| format!("[[experiment.control]]\nat = \"{at}\"\ndo = \"{what}\"\n");
    let keys = "interactive = { resend_after = \"300ms\", timeout = \"500ms\" }";
    let text = experiment(keys, "carrier = \"udp\"");
    let steered = |steps: &str| text.replacen("\n\n", &format!("\n{steps}\n"), 1);
    scratch.write("trial.toml", steered(&(step("200ms", "pause") + &step("1200ms", "resume"))));
    for bundle in scratch.both("trial.toml", "paused", &[]) {
        for node in ["caller", "callee"] {
            assert_eq!(ends(&bundle, node), [DIALOGUES, 0, 0, 0], "{node}: {:#}", bundle.summary);
            assert_eq!(counts(&bundle, node, "packets.resent"), 0, "{node}");
        }
    }
    scratch.write("trial.toml", steered(&step("300ms", "stop")));
    for bundle in scratch.both("trial.toml", "stopped", &[]) {
        let [completed, timed_out, unfinished, not_begun] = ends(&bundle, "caller");
        assert_eq!((completed + unfinished + not_begun, timed_out), (DIALOGUES, 0), "{:#}", bundle.summary);
        assert!(unfinished > 0);
    }
}

/// Each conversation has addresses of its own, and is known again by them.
#[test]
fn conversations_of_whole_frames_cross_between_namespaces() {
    if !namespaces() {
        return;
    }
    let _quiet = alone();
    let scratch = Scratch::new();
    let space = ["--placement", "processes", "--network", "namespaces"];
    let keys = "speed = 2.0\nedit = [\"vlan=push 7\"]\ninteractive = { conversations = 12, start_rate = 40.0, \
                resend_after = \"5s\", clients = [\"10.7.0.0/24\"], servers = [\"10.8.0.0/24\"] }";
    scratch.write("trial.toml", experiment(keys, "carrier = \"frames\""));
    let pair = [scratch.simulate("trial.toml", "s", &[]), scratch.emulate("trial.toml", "e", &space)];
    agree(&pair, 4);
}

fn refused(done: &Done, words: &[&str]) {
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    for word in words {
        assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
    }
}

#[test]
fn what_cannot_converse_is_told_with_its_line() {
    let scratch = Scratch::new();
    let check = |text: String| {
        scratch.write("trial.toml", text);
        scratch.run(&["check", "trial.toml"])
    };
    let udp = "carrier = \"udp\"";
    let good = experiment("interactive = {}", udp);
    let done = check(good.clone());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for (from, to, words) in [
        ("side = \"server\"", "side = \"client\"", ["trial.toml:16:", "are the same side"]),
        ("to = \"caller/main\"", "to = \"callee/main\"", ["trial.toml:14:", "send to itself"]),
        ("side = \"client\"\n", "side = \"client\"\nspeed = 2.0\n", ["trial.toml:", "another `speed`"]),
        ("side = \"client\"\n", "side = \"client\"\nloops = 2\n", ["trial.toml:10:", "no loops"]),
        ("side = \"client\"\n", "side = \"client\"\npps = 9.0\n", ["trial.toml:10:", "when it is answered"]),
        ("side = \"client\"\n", "", ["trial.toml:", "one of two"]),
        ("{}", "{ resend_after = \"0s\" }", ["trial.toml:10:", "a time above 0"]),
        ("{}", "{ resent = 3 }", ["trial.toml:10:", "resent"]),
        ("interactive = {}\n\n[nodes.callee", "\n[nodes.callee", ["trial.toml:7:", "hears nobody else"]),
        (
            "[nodes.callee.actors",
            "[nodes.callee]\ncount = 2\n[nodes.callee.actors",
            ["trial.toml:", "each converses with one"],
        ),
    ] {
        assert!(good.contains(from), "{from}");
        refused(&check(good.replacen(from, to, 1)), &words);
    }
    let alone = format!("{}[links.default]\n{udp}\n", good.split("[nodes.callee").next().unwrap_or_default());
    let sink = "[nodes.callee.actors.main]\nkind = \"receiver\"\n";
    refused(&check(format!("{alone}{sink}")), &["trial.toml:7:", "nothing to say"]);
    let seen = experiment("interactive = { clients = [\"10.0.0.0/8\"] }", udp);
    scratch.write("trial.toml", seen);
    refused(&scratch.run(&["simulate", "trial.toml", "--out", "b"]), &["trial.toml:10:", "whole frames alone"]);
}

/// A host that does not have the template fetches it from the lab's library, by its name and digest, once.
#[test]
fn a_template_that_only_the_lab_has_is_fetched_and_held_against_its_name() {
    if !family::server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let server = Server::start(&[]).expect("a server");
    let nats = ["--nats", server.url()];
    let cell = format!("{CONFIGS}/captures/cell.pcap");
    let import = ["template", "import", cell.as_str(), "--library", "first", "--format", "json"];
    let done = scratch.run(&[&import[..], &nats[..]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let called = done.json()["template"].as_str().expect("a name").to_owned();
    let digits = called.get(.."cell@".len() + 8).expect("a digest");
    let text = experiment("speed = 4.0\ninteractive = { resend_after = \"5s\" }", "carrier = \"udp\"");
    scratch.write("trial.toml", text.replace(&cell, digits));
    let run = |out: &str, library: &str, more: &[&str]| {
        let args = [&["emulate", "trial.toml", "--out", out, "--quiet"][..], more].concat();
        let mut command = scratch.command(PROGRAM, &args);
        command.env("REHEARSAL_LIBRARY", scratch.path(library));
        Running::spawn(command).wait()
    };
    let without = run("none", "second", &[]);
    refused(&without, &["trial.toml:8:", digits, "REHEARSAL_NATS"]);
    for (out, more) in [("one", &nats[..]), ("two", &["--placement", "processes", nats[0], nats[1]][..])] {
        let done = run(out, &format!("library-{out}"), more);
        assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
        assert_eq!(ends(&Bundle::read(&scratch.path(out)), "callee"), [DIALOGUES, 0, 0, 0]);
        let kept = |folder: &str| fs::read(scratch.path(&format!("{folder}/{called}.template"))).ok();
        assert!(kept("first").is_some() && kept("first") == kept(&format!("library-{out}")));
    }
    scratch.write("trial.toml", text.replace(&cell, "other@0123"));
    refused(&run("three", "library-one", &nats), &["trial.toml:8:", "no template `other@0123` in the folder or at"]);
}
