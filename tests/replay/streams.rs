//! Streams that are opened at top speed and held, counted at the far end by their 5-tuples.

use super::wire::{FAR, NEAR, Wire, capture, datagram, mixed};
use super::{count, doubts, record};
use crate::support::{Scratch, beside, until};

const HOSTS: [&str; 2] = ["--edit", "random_hosts=10.0.0.0/8"];

#[test]
fn fifty_thousand_streams_are_opened_at_top_speed_and_held() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &(0..50).map(|n| (0, datagram(n, 0, 60))).collect::<Vec<_>>());
    // three times all of them: fewer frames than the ear has room for, so none is lost however late it looks
    let hold = ["--top-speed", "--hold", "50000", "--loops", "3000", "--format", "json"];
    for path in ["packet", "af-xdp", "xdp-live"] {
        let args = [&["c.pcap", "--path", path], &wire.ends()[..], &HOSTS, &hold].concat();
        let record = record(&wire.replay(&scratch, &args));
        let received = &record["received"];
        assert_eq!((record["path"]["kind"].as_str(), received["mode"].as_str()), (Some(path), Some("streams")));
        assert_eq!([&received["sent"], &received["arrived"]].map(count), [150_000, 150_000], "{path}: {record:#}");
        let held = &received["held"];
        let counts = ["streams", "held_max", "held_at_end"].map(|key| count(&held[key]));
        assert_eq!(counts, [50_000; 3], "{path}: {held}");
        assert_eq!(doubts(&record), Vec::<&str>::new(), "{path}: {record:#}");
        assert_eq!(held["curve"].as_array().and_then(|curve| curve.last()).map(count), Some(50_000), "{path}");
        assert!(held["opened_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{path}: {held}");
    }
    assert!(!wire.has_program(), "what was attached is gone");
}

#[test]
fn both_directions_and_all_packets_of_a_stream_are_one() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(80, 1_000));
    let args = [&["c.pcap", "--receive-as", "streams", "--format", "json"], &wire.ends()[..]].concat();
    let record = record(&wire.replay(&scratch, &args));
    let received = &record["received"];
    assert_eq!([&received["arrived"], &received["lost"], &received["held"]["streams"]].map(count), [80, 0, 8]);
    assert!(received["gap_error"].is_null() && received["reordered"].is_null(), "only counted: {record:#}");
    assert_eq!(doubts(&record), Vec::<&str>::new(), "nobody asked to hold anything");
}

#[test]
fn what_is_not_held_is_told_before_and_after() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(8, 1_000));
    // eight streams in a loop: 500 loops open 4,000, and 10 open 80
    let few = ["c.pcap", "--hold", "4000", "--loops", "10", "--pps", "10000", "--format", "json"];
    let done = wire.replay(&scratch, &[&few, &HOSTS[..], &wire.ends()].concat());
    assert!(!done.stderr.contains("not held"), "{}", done.stderr);
    let record = record(&done);
    assert_eq!((doubts(&record), count(&record["received"]["held"]["held_max"])), (vec!["not_held"], 80), "{record:#}");
    let slow = ["c.pcap", "--hold", "4000", "--pps", "100", "--duration", "50ms", "--interface", NEAR];
    let done = wire.replay(&scratch, &[&slow, &HOSTS[..]].concat());
    assert!(
        done.stderr.contains("4000 streams are not held at this pace: each is silent for 39.9 s"),
        "{}",
        done.stderr
    );
}

#[test]
fn what_another_program_sends_is_expected_and_not_sent() {
    let Some(wire) = Wire::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    capture(&scratch, "c.pcap", &mixed(300, 10_000));
    let listen = ["c.pcap", "--path", "others", "--receive", FAR, "--receive-in", &wire.far, "--out", "far"];
    let far = wire.start(&scratch, &listen);
    until("it listens", || scratch.path("far.partial").exists());
    let sent = wire.replay(&scratch, &["c.pcap", "--interface", NEAR, "--quiet"]);
    assert!(sent.stdout.contains("sent      300 packets"), "{}", sent.stdout);
    let heard = far.wait();
    assert!(
        heard.stdout.contains("expected  300 packets") && heard.stdout.contains("arrived   300"),
        "{}",
        heard.stdout
    );
    assert!(!heard.stdout.contains("sent ") && !heard.stdout.contains("workers"), "{}", heard.stdout);
}
