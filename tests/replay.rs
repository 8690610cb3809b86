//! Replaying over a veth pair between two namespaces, counted at its far end. Without root and iproute2 the tests that need
//! them say so and pass.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Done, Running, Scratch, beside, until};

mod streams;
mod wire;

use wire::{FAR, NEAR, Wire, capture, datagram, mixed, read};

/// A replay that came to its end, however it was judged.
fn record(done: &Done) -> Value {
    assert!(matches!(done.code, Some(0 | 20)), "{:?}\n{}\n{}", done.code, done.stdout, done.stderr);
    done.json()
}

/// Its doubts but those that a busy machine raises.
fn doubts(record: &Value) -> Vec<&str> {
    let reasons = record["verdict"]["reasons"].as_array().expect("reasons").iter();
    reasons
        .filter_map(|reason| reason["code"].as_str())
        .filter(|code| !["stalled", "clock_moved"].contains(code))
        .collect()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a count: {value}"))
}

/// All of `packets` arrived once, in order.
fn must_be_whole(record: &Value, packets: u64, what: &str) {
    let received = &record["received"];
    let counts = ["sent", "arrived", "lost", "duplicated", "reordered"].map(|key| received[key].as_u64());
    assert_eq!(counts, [Some(packets), Some(packets), Some(0), Some(0), Some(0)], "{what}: {record:#}");
    assert_eq!(doubts(record), Vec::<&str>::new(), "{what}: {record:#}");
    assert!(count(&record["wire"]["tx_packets"]) >= packets, "{what}");
}

#[test]
fn every_path_delivers_every_frame_as_it_was_and_in_order() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(500, 50_000));
    let timed = [
        &["--path", "packet"][..],
        &["--path", "af-xdp"],
        &["--pacing", "dtrf"],
        &["--pps", "40000"],
        &["--bps", "100Mbit/s"],
    ];
    let top = ["packet", "af-xdp", "xdp-live"].map(|path| ["--path", path, "--top-speed", "--receive-as", "frames"]);
    for more in timed.into_iter().chain(top.iter().map(|args| &args[..])) {
        let args = [&["c.pcap", "--loops", "3", "--format", "json"], &wire.ends()[..], more].concat();
        let record = record(&wire.replay(&scratch, &args));
        must_be_whole(&record, 1_500, &more.join(" "));
        let asked = more.iter().position(|word| *word == "--path").map_or("packet", |at| more[at + 1]);
        assert_eq!(record["path"]["kind"], asked);
        assert_eq!(record["received"]["gap_error"].is_object(), !more.contains(&"--top-speed"));
    }
    assert!(!wire.has_program(), "what was attached is gone");
}

#[test]
fn edited_copies_are_what_arrives_in_every_loop() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(200, 50_000));
    let edits =
        ["--edit", "ttl=7", "--edit", "vlan=push 9", "--edit", "random_hosts=198.18.0.0/15", "--edit", "laps=unique"];
    let paces: [&[&str]; 3] = [
        &["--path", "packet"],
        &["--path", "af-xdp", "--top-speed", "--receive-as", "frames"],
        &["--path", "xdp-live", "--top-speed", "--receive-as", "frames"],
    ];
    for pace in paces {
        let args = [&["c.pcap", "--loops", "3", "--format", "json"], &wire.ends()[..], &edits, pace].concat();
        let record = record(&wire.replay(&scratch, &args));
        must_be_whole(&record, 600, &pace.join(" "));
        assert_eq!(record["template"]["edited"], true);
    }
    let args =
        [&["replay", "c.pcap", "--path", "pcap", "--write", "w.pcap", "--loops", "2", "--quiet"], &edits[..]].concat();
    assert_eq!(scratch.run(&args).code, Some(0));
    let written = read(&scratch, "w.pcap");
    assert_eq!(written.len(), 400);
    // tag 9, then IPv4 with its TTL and its source
    assert!(
        written.iter().all(|(_, frame)| frame[12..18] == [0x81, 0, 0, 9, 8, 0] && frame[26] == 7 && frame[30] == 198)
    );
    assert_ne!(written[0].1[30..38], written[200].1[30..38], "each lap has hosts of its own");
}

#[test]
fn streams_are_opened_and_held() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(16, 1_000));
    // 8 streams in a loop, so 50 laps open 400, and these come again
    let hold = ["--hold", "400", "--pps", "20000", "--edit", "random_hosts=10.0.0.0/8"];
    let args = [&["c.pcap", "--format", "json", "--loops", "120"], &wire.ends()[..], &hold].concat();
    let record = record(&wire.replay(&scratch, &args));
    must_be_whole(&record, 120 * 16, "held");
    let held = &record["received"]["held"];
    assert_eq!([&held["streams"], &held["held_max"], &held["held_at_end"]].map(count), [400, 400, 400], "{record:#}");
    let done = wire.replay(&scratch, &["c.pcap", "--interface", NEAR, "--hold", "400"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--edit random_hosts=10.0.0.0/8"), "{}", done.stderr);
}

#[test]
fn another_program_is_held_against_the_schedule() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(300, 100_000));
    let listen =
        ["c.pcap", "--path", "others", "--receive", FAR, "--receive-in", &wire.far, "--format", "json", "--out", "far"];
    let far = wire.start(&scratch, &listen);
    until("it listens", || scratch.path("far.partial").exists());
    let sent = wire.replay(&scratch, &["c.pcap", "--interface", NEAR, "--quiet"]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let record = record(&far.wait());
    let [sent, arrived] = [&record["received"]["sent"], &record["received"]["arrived"]].map(count);
    assert_eq!((sent, arrived, record["path"]["kind"].as_str()), (300, 300, Some("others")), "{record:#}");
    let done = wire.replay(&scratch, &["c.pcap", "--path", "others"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
}

#[test]
fn top_speed_is_counted_by_a_program_that_goes_again() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(1_000, 0));
    let args = [&["c.pcap", "--top-speed", "--loops", "50", "--format", "json"], &wire.ends()[..]].concat();
    let record = record(&wire.replay(&scratch, &args));
    assert_eq!(record["path"]["kind"], "xdp-live", "{record:#}");
    assert_eq!(record["received"]["mode"], "count");
    let bytes: u64 = mixed(1_000, 0).iter().map(|(_, frame)| frame.len() as u64).sum();
    assert_eq!([&record["sent"]["packets"], &record["sent"]["bytes"]].map(count), [50_000, 50 * bytes]);
    assert_eq!((count(&record["received"]["arrived"]), doubts(&record)), (50_000, Vec::new()), "{record:#}");
    assert!(!wire.has_program());
}

#[test]
fn more_than_its_memory_holds_is_fed_to_the_program_while_it_runs() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    // 64 MiB of slots of 1,520 bytes hold 44,150 frames
    capture(&scratch, "c.pcap", &(0..50_000).map(|n| (0, datagram((n % 64) as u16, n, 1_500))).collect::<Vec<_>>());
    let args = [&["c.pcap", "--top-speed", "--loops", "2", "--path", "xdp-live", "--format", "json"], &wire.ends()[..]]
        .concat();
    let record = record(&wire.replay(&scratch, &args));
    assert_eq!((count(&record["received"]["arrived"]), doubts(&record)), (100_000, Vec::new()), "{record:#}");
}

#[test]
fn a_veth_without_a_program_at_its_other_end_is_told_and_another_path_taken() {
    let Some(wire) = Wire::new() else { return };
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(10, 0));
    let done = wire.replay(&scratch, &["c.pcap", "--top-speed", "--interface", NEAR, "--path", "xdp-live"]);
    assert_eq!(done.code, Some(3), "{}", done.stdout);
    assert!(done.stderr.contains("the other end must have an XDP program or GRO"), "{}", done.stderr);
    let done = wire.replay(&scratch, &["c.pcap", "--top-speed", "--interface", NEAR, "--format", "json"]);
    let record = record(&done);
    assert_eq!((record["path"]["kind"].as_str(), count(&record["sent"]["packets"])), (Some("af-xdp"), 10));
    assert!(done.stderr.contains("xdp-live was not taken"), "{}", done.stderr);
}

#[test]
fn streams_are_spread_over_workers_and_keep_their_order() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    let packets: Vec<_> = (0..4_000u32).map(|n| (u64::from(n) * 10_000, datagram((n % 40) as u16, n, 80))).collect();
    capture(&scratch, "c.pcap", &packets);
    for path in ["packet", "af-xdp", "xdp-live"] {
        let pace: &[&str] = if path == "xdp-live" { &["--top-speed", "--receive-as", "frames"] } else { &[] };
        let args = [&["c.pcap", "--workers", "2", "--path", path, "--format", "json"], &wire.ends()[..], pace].concat();
        let record = record(&wire.replay(&scratch, &args));
        must_be_whole(&record, 4_000, path);
        let workers = record["workers"]["each"].as_array().expect("workers");
        assert_eq!(workers.iter().map(|each| count(&each["submitted"])).collect::<Vec<_>>(), [2_000, 2_000], "{path}");
        assert_eq!(record["workers"]["spread"]["imbalance_percent"], 0.0);
    }
}

#[test]
fn what_does_not_fit_is_skipped_whole_and_counted() {
    let Some(wire) = Wire::new() else { return };
    let scratch = Scratch::new();
    let frames = [60, 1_514, 1_515, 9_000, 14].map(|len| if len < 42 { vec![0xee; len] } else { datagram(0, 0, len) });
    capture(&scratch, "c.pcap", &frames.map(|frame| (0, frame)));
    for path in ["packet", "af-xdp"] {
        let args =
            [&["c.pcap", "--path", path, "--loops", "2", "--loop-gap", "1ms", "--format", "json"], &wire.ends()[..]]
                .concat();
        let done = wire.replay(&scratch, &args);
        let record = record(&done);
        assert_eq!((done.code, record["verdict"]["status"].as_str()), (Some(0), Some("DEGRADED")), "{record:#}");
        assert_eq!(record["sent"]["skipped"], serde_json::json!({ "over-mtu": 4 }), "{path}");
        let arrived = count(&record["received"]["arrived"]);
        assert_eq!(
            [count(&record["sent"]["packets"]), arrived, count(&record["wire"]["tx_packets"])],
            [6, 6, 6],
            "{path}"
        );
    }
}

#[test]
fn a_place_that_cannot_send_is_refused_with_the_remedy() {
    let Some(wire) = Wire::new() else { return };
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(10, 0));
    let refused = |args: &[&str], code: i32, words: &str| {
        let done = wire.replay(&scratch, &[&["c.pcap", "--out", "out"], args].concat());
        assert_eq!(done.code, Some(code), "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(words), "{args:?}: {}", done.stderr);
        assert_eq!(scratch.listing(), ["c.pcap"], "{args:?}: nothing is half-written");
    };
    refused(&[], 2, "write --interface NAME (there are: lo, va)");
    refused(&["--interface", "vc"], 3, "there is no interface `vc` (there are: lo, va)");
    refused(&["--interface", "lo"], 3, "`ip link set lo up` switches it on");
    refused(&["--interface", NEAR, "--receive", "vc", "--receive-in", &wire.far], 3, "no interface `vc` to receive on");
    refused(
        &["--interface", NEAR, "--receive", FAR, "--receive-in", "nowhere"],
        3,
        "/run/netns/nowhere cannot be entered",
    );
    refused(&["--interface", NEAR, "--path", "xdp-live"], 3, "it is for top speed alone");
    refused(&["--path", "udp"], 2, "write --to HOST:PORT");
    refused(&["--path", "pcap"], 2, "write --write FILE");
    refused(&["--interface", NEAR, "--speed", "0"], 2, "the speed is 0; write a number above 0");
    refused(&["--interface", NEAR, "--loops", "0"], 2, "0 loops send nothing");
    refused(&["--interface", NEAR, "--limit-gap", "soon"], 2, "--limit-gap");
}

#[test]
fn without_privileges_it_says_which_and_what_goes_without() {
    let Some(wire) = Wire::new() else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        return eprintln!("skipped: setpriv (util-linux) is needed");
    }
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(10, 0));
    let bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    for path in ["auto", "packet", "af-xdp"] {
        let args = ["c.pcap", "--interface", NEAR, "--path", path];
        let done = Running::spawn(wire.command(&scratch, &bare, &args)).wait();
        assert_eq!(done.code, Some(3), "{path}: {}", done.stderr);
        assert!(done.stderr.contains("CAP_NET_RAW") && done.stderr.contains("--path udp"), "{path}: {}", done.stderr);
    }
    let _program = ear_at(&wire);
    let args = ["c.pcap", "--interface", NEAR, "--path", "xdp-live", "--top-speed"];
    let done = Running::spawn(wire.command(&scratch, &bare, &args)).wait();
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("it needs root, or CAP_BPF and CAP_NET_ADMIN"), "{}", done.stderr);
}

/// Somebody who counts at the far end with an XDP program, until this is dropped.
fn ear_at(wire: &Wire) -> (Scratch, Running) {
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(1, 0));
    let listen = ["c.pcap", "--path", "others", "--top-speed", "--receive", FAR, "--receive-in", &wire.far];
    let running = wire.start(&scratch, &listen);
    until("it counts", || wire.has_program());
    (scratch, running)
}

#[test]
fn an_interface_that_goes_away_ends_it_with_true_counts() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    for path in ["packet", "af-xdp"] {
        let wire = Wire::new().expect("there was one before");
        let scratch = Scratch::new();
        capture(&scratch, "c.pcap", &mixed(100, 0));
        let args = [
            "c.pcap",
            "--interface",
            NEAR,
            "--path",
            path,
            "--pps",
            "1000",
            "--duration",
            "50s",
            "--out",
            "out",
            "--format",
            "json",
        ];
        let running = wire.start(&scratch, &args);
        until("packets leave", || sent_by(&wire) > 50);
        wire.cut();
        let done = running.wait();
        assert_eq!(done.code, Some(20), "{}", done.stderr);
        let record = done.json();
        assert_eq!(doubts(&record), ["ended_early"], "{record:#}");
        let sent = count(&record["sent"]["packets"]);
        assert!((50..50_000).contains(&sent), "{sent}");
        assert!(
            ["interface-gone", "interface-down", "failed"].iter().any(|why| record["sent"]["ended"] == *why),
            "{record:#}"
        );
    }
    drop(wire);
}

/// What the near end has sent.
fn sent_by(wire: &Wire) -> u64 {
    let told = Command::new("ip").args(["netns", "exec", &wire.near, "cat", "/proc/net/dev"]).output().expect("ip");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("va:"));
    line.and_then(|line| line.split_whitespace().nth(9)?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_signal_ends_it_and_what_was_sent_is_judged() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(100, 0));
    for (pace, out) in [(&["--pps", "2000"][..], "timed"), (&["--top-speed"], "top")] {
        let args =
            [&["c.pcap", "--duration", "50s", "--out", out, "--format", "json"], &wire.ends()[..], pace].concat();
        let before = sent_by(&wire);
        let running = wire.start(&scratch, &args);
        until("packets leave", || sent_by(&wire) > before + 100);
        running.signal(Signal::INT);
        let done = running.wait();
        assert_eq!(done.code, Some(130), "{}", done.stderr);
        let record = done.json();
        assert_eq!(
            (doubts(&record), record["sent"]["ended"].as_str()),
            (vec!["ended_early"], Some("asked")),
            "{record:#}"
        );
        let [sent, arrived] = [&record["sent"]["packets"], &record["received"]["arrived"]].map(count);
        assert!(sent > 100 && sent == arrived, "{sent} {arrived}");
        assert_eq!(
            std::fs::read_to_string(scratch.path(out).join("replay.json")).expect("a record").trim(),
            done.stdout.trim()
        );
        assert!(!scratch.path(&format!("{out}.partial")).exists() && !wire.has_program());
    }
}

#[test]
fn payloads_go_to_an_address_without_privileges() {
    let scratch = Scratch::new();
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    receiver.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let mut packets = mixed(50, 100_000);
    packets.push((5_000_000, vec![0xee; 60]));
    capture(&scratch, "c.pcap", &packets);
    let to = receiver.local_addr().expect("its address").to_string();
    let done = scratch.run(&["replay", "c.pcap", "--path", "udp", "--to", &to, "--format", "json"]);
    let record = record(&done);
    assert_eq!(record["sent"]["skipped"], serde_json::json!({ "not-udp": 1 }));
    let mut buffer = [0; 2_048];
    for (number, (_, frame)) in packets[..50].iter().enumerate() {
        let len = receiver.recv(&mut buffer).unwrap_or_else(|why| panic!("datagram {number}: {why}"));
        assert_eq!(&buffer[..len], &frame[42..]);
    }
}

#[test]
fn a_capture_holds_what_would_be_sent_when_it_is_due() {
    let scratch = Scratch::new();
    let day = 86_400_000_000_000;
    let packets = [(7, 0), (1_000_007, 1), (day, 2)].map(|(at, n)| (at, datagram(0, n, 60)));
    capture(&scratch, "c.pcap", &packets);
    let args = [
        "c.pcap",
        "--path",
        "pcap",
        "--write",
        "w.pcap",
        "--limit-gap",
        "2s",
        "--speed",
        "2",
        "--loops",
        "2",
        "--loop-gap",
        "1s",
    ];
    let done = scratch.run(&[&["replay"], &args[..]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("takes: 3.001 s"), "told before: {}", done.stderr);
    assert!(done.stderr.contains("gaps:  1 are cut; the longest was 24.0 h"), "{}", done.stderr);
    let due = [0, 500_000, 1_000_500_000, 2_000_500_000, 2_001_000_000, 3_001_000_000];
    let expected: Vec<_> =
        due.into_iter().zip(packets.iter().cycle()).map(|(due, (_, frame))| (due, frame.clone())).collect();
    assert_eq!(read(&scratch, "w.pcap"), expected);
    let again = scratch.run(&[&["replay"], &args[..]].concat());
    assert_eq!(again.code, Some(3), "a file is never overwritten: {}", again.stderr);
}

#[test]
fn the_record_tells_what_a_reader_needs() {
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(20, 1_000));
    let done = scratch.run(&["replay", "c.pcap", "--path", "pcap", "--write", "w.pcap", "--out", "out", "--quiet"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let files: BTreeMap<_, _> = crate::support::files(&scratch.path("out"));
    assert_eq!(files.keys().collect::<Vec<_>>(), ["replay.json", "summary.txt"]);
    let record: Value = serde_json::from_slice(&files["replay.json"]).expect("JSON");
    assert_eq!((record["version"].as_u64(), record["verdict"]["status"].as_str()), (Some(1), Some("VALID")));
    assert_eq!(record["template"]["streams"], 8);
    assert_eq!(String::from_utf8_lossy(&files["summary.txt"]).trim(), done.stdout.trim());
    let again = scratch.run(&["replay", "c.pcap", "--path", "pcap", "--write", "v.pcap", "--out", "out"]);
    assert_eq!(again.code, Some(3), "{}", again.stderr);
    assert!(again.stderr.contains("exists already") && !scratch.path("v.pcap").exists(), "{}", again.stderr);
}
