//! Captures as actors of an experiment: the same packets at the same times in both engines, beside other senders, as datagrams
//! and as whole frames.

use std::fs;

use crate::links::namespaces;
use crate::support::{Bundle, CONFIGS, Done, Scratch, alone, beside};

/// Packets of the shipped capture: all, and those of the sides that opened its streams.
const CELL: u64 = 115;
const CLIENT: u64 = 60;

/// A replayer at `probe`, a sensor beside it, a receiver for each.
fn experiment(head: &str, replayer: &str, link: &str) -> String {
    format!(
        "[experiment]\nname = \"trial\"\n{head}\n\n[nodes.probe.actors.main]\nkind = \"replayer\"\nto = \"sink/taps\"\n\
         template = \"{CONFIGS}/captures/cell.pcap\"\n{replayer}\n\n[nodes.sensor.actors.main]\nkind = \"sensor\"\n\
         to = \"sink/readings\"\nrate = \"100/s\"\nrequests = 50\n\n[nodes.sink.actors.taps]\nkind = \"receiver\"\n\
         [nodes.sink.actors.readings]\nkind = \"receiver\"\n\n[links.default]\n{link}\n\n[links.\"sensor->sink\"]\ncarrier = \"http1\"\n"
    )
}

const COUNTED: &str = "stop = \"all-requests-done\"";
const UDP: &str = "carrier = \"udp\"";

fn agree(pair: &[Bundle; 2], packets: u64) {
    assert_eq!(pair[0].schedule(), pair[1].schedule());
    for bundle in pair {
        let counted = ["generated", "datagrams_sent", "success", "lost"].map(|name| bundle.total_of("probe", name));
        assert_eq!(counted, [packets, packets, packets, 0], "{:#}", bundle.summary);
        let taken = ["datagrams_received", "datagrams_duplicate", "datagrams_reordered"];
        assert_eq!(taken.map(|name| bundle.total_of("sink", name)), [packets, 0, 0], "{:#}", bundle.summary);
        assert_eq!(bundle.total_of("sensor", "success"), 50, "beside it");
    }
    let bytes = |bundle: &Bundle| (bundle.total_of("probe", "bytes_sent"), bundle.total_of("sink", "bytes_received"));
    assert_eq!(bytes(&pair[0]), bytes(&pair[1]), "sizes are the template's");
}

#[test]
fn both_engines_replay_the_same_packets_beside_a_sensor() {
    let _busy = beside();
    let scratch = Scratch::new();
    let mut digests = Vec::new();
    for (name, lines, packets) in [
        ("whole", "speed = 4.0\nloops = 3", 3 * CELL),
        ("client", "speed = 4.0\nloops = 3\nside = \"client\"", 3 * CLIENT),
        ("even", "pps = 1000.0\nloops = 3", 3 * CELL),
        ("bits", "bps = \"1Mbit/s\"\nloops = 2\nloop_gap = \"50ms\"", 2 * CELL),
        ("edited", "speed = 4.0\nloops = 3\nedit = [\"payload_bytes_max=48\"]", 3 * CELL),
    ] {
        scratch.write("trial.toml", experiment(COUNTED, lines, UDP));
        let pair = scratch.both("trial.toml", name, &[]);
        agree(&pair, packets);
        digests.push(pair[0].schedule().to_owned());
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 5, "each is another schedule");
}

/// A pause and another pace move every packet behind them, in both engines alike; a stop ends it.
#[test]
fn steers_act_on_a_replay_in_both_engines_alike() {
    let _busy = beside();
    let scratch = Scratch::new();
    let steps = "\n[[experiment.control]]\nat = \"200ms\"\ndo = \"pause\"\nnode = \"probe\"\n\
                 [[experiment.control]]\nat = \"500ms\"\ndo = \"resume\"\nnode = \"probe\"\n\
                 [[experiment.control]]\nat = \"600ms\"\ndo = \"rate\"\nfactor = 3.0\nnode = \"probe\"\n";
    let text = |steps: &str| experiment(&format!("duration = \"1300ms\"\n{steps}"), "", UDP);
    scratch.write("plain.toml", text(""));
    let plain = scratch.simulate("plain.toml", "plain", &[]);
    scratch.write("trial.toml", text(steps));
    let pair = scratch.both("trial.toml", "steered", &[]);
    let packets = pair[0].total_of("probe", "generated");
    agree(&pair, packets);
    assert_ne!(plain.schedule(), pair[0].schedule());
    let stop = format!("{steps}[[experiment.control]]\nat = \"700ms\"\ndo = \"stop\"\nnode = \"probe\"\n");
    scratch.write("trial.toml", text(&stop));
    let stopped = scratch.both("trial.toml", "stopped", &[]);
    let fewer = stopped[0].total_of("probe", "generated");
    agree(&stopped, fewer);
    assert!(fewer < packets, "{fewer} of {packets}");
}

#[test]
fn a_dry_run_puts_whole_frames_on_the_wire() {
    let scratch = Scratch::new();
    let link = "carrier = \"frames\"\nrate = \"10Mbit/s\"";
    scratch.write("trial.toml", experiment(COUNTED, "loops = 2", link));
    let bundle = scratch.simulate("trial.toml", "b", &[]);
    assert_eq!(bundle.total_of("probe", "success"), 2 * CELL);
    let capture = fs::metadata(format!("{CONFIGS}/captures/cell.pcap")).expect("it is shipped").len();
    let frames = capture - 24 - 16 * CELL;
    assert_eq!(bundle.total_of("probe", "bytes_sent"), 2 * frames);
    let links = bundle.summary["links"].as_array().expect("links").iter();
    let wire: u64 = links.filter(|link| link["from"] == "probe").filter_map(|link| link["bytes"].as_u64()).sum();
    assert_eq!(
        wire,
        2 * (frames + 24 * CELL),
        "preamble, check sequence and gap of each: {:#}",
        bundle.summary["links"]
    );
}

/// Frames go over the interfaces of two nodes, and their receiver knows each again.
#[test]
fn whole_frames_cross_between_namespaces() {
    if !namespaces() {
        return;
    }
    let _quiet = alone();
    let scratch = Scratch::new();
    let space = ["--placement", "processes", "--network", "namespaces"];
    let lines = "speed = 2.0\nloops = 3\nedit = [\"vlan=push 7\"]";
    scratch.write("trial.toml", experiment(COUNTED, lines, "carrier = \"frames\""));
    let pair = [scratch.simulate("trial.toml", "s", &[]), scratch.emulate("trial.toml", "e", &space)];
    agree(&pair, 3 * CELL);
    assert_eq!(pair[1].summary["total"]["metrics"]["one-way"]["count"].as_u64().unwrap_or(0), 0, "nobody can tell");
}

fn refused(done: &Done, code: i32, words: &[&str]) {
    assert_eq!(done.code, Some(code), "{}", done.stderr);
    for word in words {
        assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
    }
}

#[test]
fn what_cannot_be_replayed_is_told_with_its_line() {
    let scratch = Scratch::new();
    let run = |replayer: &str, link: &str| {
        scratch.write("trial.toml", experiment(COUNTED, replayer, link));
        scratch.run(&["emulate", "trial.toml", "--out", "b"])
    };
    refused(&run("", "carrier = \"http1\""), 2, &["trial.toml:7:", "carrier = \"udp\""]);
    refused(&run("", "carrier = \"frames\""), 3, &["probe/main", "--network namespaces", "carrier = \"udp\""]);
    refused(&run("speed = 2.0\npps = 3.0", UDP), 2, &["trial.toml:10:", "exclude each other"]);
    refused(&run("edit = [\"tll=3\"]", UDP), 2, &["trial.toml:9:", "unknown field `tll`"]);
    refused(&run("rate = \"3/s\"", UDP), 2, &["trial.toml:9:", "take this key away"]);
    let text = experiment(COUNTED, "", UDP).replace("captures/cell.pcap", "captures/none.pcap");
    scratch.write("trial.toml", text);
    let library = scratch.path("library");
    let mut command = scratch.command(crate::support::PROGRAM, &["check", "trial.toml"]);
    command.env("REHEARSAL_LIBRARY", &library);
    let done = crate::support::Running::spawn(command).wait();
    refused(&done, 2, &["trial.toml:8:", "none.pcap"]);
    let text = experiment(COUNTED, "", UDP).replace("carrier = \"http1\"", "carrier = \"frames\"");
    scratch.write("trial.toml", text);
    refused(&scratch.run(&["simulate", "trial.toml", "--out", "b"]), 2, &["only a `replayer` has whole frames"]);
}

#[test]
fn a_template_of_the_library_is_replayed_by_its_name_and_check_tells_what_it_offers() {
    let _busy = beside();
    let scratch = Scratch::new();
    let library = scratch.path("library");
    let folder = library.to_str().expect("a readable path");
    let done = scratch.run(&["template", "import", &format!("{CONFIGS}/captures/cell.pcap"), "--library", folder]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let text = experiment("duration = \"2s\"", "pps = 230.0\nloops = 2", UDP);
    let text = text.replace(&format!("{CONFIGS}/captures/cell.pcap"), "cell");
    scratch.write("trial.toml", text);
    let run = |args: &[&str]| {
        let mut command = scratch.command(crate::support::PROGRAM, args);
        command.env("REHEARSAL_LIBRARY", &library);
        crate::support::Running::spawn(command).wait()
    };
    let checked = run(&["check", "trial.toml"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for word in ["230 packets/s", "230 requests/s", "230 requests", "udp"] {
        assert!(checked.stdout.contains(word), "{word}: {}", checked.stdout);
    }
    let ran = run(&["simulate", "trial.toml", "--out", "b", "--quiet"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(Bundle::read(&scratch.path("b")).total_of("probe", "success"), 2 * CELL);
}
