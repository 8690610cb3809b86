//! Conversations between two namespaces, over a veth pair or through a middle that is late and loses. Without root and
//! iproute2 the tests that need them say so and pass.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rehearsal_replay::middle::{Middle, Passed};
use serde_json::Value;

use crate::agents::hosts::ip;
use crate::support::{Done, PROGRAM, Running, Scratch, beside, until};

mod dialogues;

use dialogues::{Dialogue, pcap};

/// Three namespaces in a row, `va ═ ra` and `rb ═ vb`; they go with this.
struct Row {
    client: String,
    router: String,
    server: String,
}

impl Row {
    /// `None`, and a word about it, where this machine cannot have any.
    fn new() -> Option<Row> {
        if !rustix::process::geteuid().is_root() || !ip(&["netns", "list"]) {
            eprintln!("skipped: network namespaces need root and `ip`");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rhtalk{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let row = Row { client: format!("{name}a"), router: format!("{name}r"), server: format!("{name}b") };
        for space in [&row.client, &row.router, &row.server] {
            assert!(ip(&["netns", "add", space]));
            // neighbours that nobody asked for would be counted as packets
            let quiet = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"];
            ip(&[&["netns", "exec", space, "sysctl", "-qw"], &quiet[..]].concat());
        }
        for (space, end, inner) in [(&row.client, "va", "ra"), (&row.server, "vb", "rb")] {
            let link =
                ["link", "add", end, "netns", space, "type", "veth", "peer", "name", inner, "netns", &row.router];
            assert!(ip(&link), "a veth pair");
            assert!(
                ip(&["-n", space, "link", "set", end, "up"]) && ip(&["-n", &row.router, "link", "set", inner, "up"])
            );
        }
        Some(row)
    }

    /// What stands between the two.
    fn middle(&self, delay_ms: u64, loss: f64) -> Middle {
        let between = ["ra", "rb"].map(str::to_owned);
        Middle { between, space: Some(self.router.clone().into()), delay: delay_ms * 1_000_000, loss, seed: 7 }
    }

    fn start(&self, scratch: &Scratch, space: &str, args: &[&str]) -> Running {
        let before = ["netns", "exec", space, PROGRAM, "replay"];
        Running::spawn(scratch.command("ip", &[&before[..], args, &["--interactive", "--format", "json"]].concat()))
    }

    /// Both halves in one process, to their end.
    fn both(&self, scratch: &Scratch, args: &[&str]) -> Done {
        let peer = ["--interface", "va", "--peer", "vb", "--peer-in", &self.server];
        self.start(scratch, &self.client, &[&peer[..], args].concat()).wait()
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for space in [&self.client, &self.router, &self.server] {
            let _ = Command::new("ip").args(["netns", "delete", space]).status();
        }
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn record(done: &Done) -> Value {
    assert!(matches!(done.code, Some(0 | 20)), "{:?}\n{}\n{}", done.code, done.stdout, done.stderr);
    done.json()
}

fn outcomes(record: &Value) -> [u64; 4] {
    let all = &record["conversations"]["outcomes"];
    ["completed", "timed-out", "unfinished", "not-begun"].map(|outcome| count(&all[outcome]))
}

/// What tells packets of a dialogue apart, whatever its addresses: its way by ports, and its bytes without checksums.
fn mark(frame: &[u8]) -> Vec<u8> {
    let mut mark = [&frame[18..20], &frame[34..]].concat();
    let sum = if frame[23] == 6 { 16 } else { 6 };
    mark[2 + sum..4 + sum].fill(0);
    mark
}

/// The host's number of the address that is no server's: conversations are counted from it.
fn host(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[28], frame[29]])
}

/// Which packet of the dialogue was seen first of each conversation, in the order of what came to the middle.
type Seen = Arc<Mutex<BTreeMap<u16, Vec<usize>>>>;

/// Notes each packet of each conversation when it first comes.
fn noting(dialogue: &Dialogue) -> (Seen, impl FnMut(usize, &[u8], bool) + Send + 'static) {
    let seen = Seen::default();
    let marks: BTreeMap<Vec<u8>, usize> =
        dialogue.packets.iter().enumerate().map(|(at, (_, frame))| (mark(frame), at)).collect();
    assert_eq!(marks.len(), dialogue.packets.len(), "each packet of {} is its own", dialogue.name);
    let to = Arc::clone(&seen);
    let note = move |_: usize, frame: &[u8], _: bool| {
        let position = *marks.get(&mark(frame)).unwrap_or_else(|| panic!("nobody said {frame:x?}"));
        let mut seen = to.lock().expect("one that notes");
        let conversation = seen.entry(host(frame)).or_default();
        if !conversation.contains(&position) {
            conversation.push(position);
        }
    };
    (seen, note)
}

/// A thousand conversations over a link of 20 ms that loses one packet in a hundred: each completes, or is named with
/// the place where it stopped; at the middle each one's packets were first seen in the order of the template.
#[test]
fn a_thousand_conversations_over_a_link_that_loses_complete_or_are_named() {
    let Some(row) = Row::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    let dialogue = &dialogues::all()[0];
    scratch.write("c.pcap", pcap(&dialogue.packets));
    let (seen, note) = noting(dialogue);
    let middle = row.middle(20, 0.01).start(note).expect("a middle");
    let args = ["c.pcap", "--conversations", "1000", "--start-rate", "400", "--out", "out"];
    let record = record(&row.both(&scratch, &args));
    let passed = middle.finish();
    let [completed, timed_out, unfinished, not_begun] = outcomes(&record);
    assert_eq!((completed + timed_out, unfinished, not_begun), (1_000, 0, 0), "{record:#}");
    assert!(completed >= 990, "three more tries are enough for nearly all: {record:#}");
    let stopped = record["conversations"]["stopped"].as_array().expect("those that stopped");
    assert_eq!(stopped.len() as u64, timed_out);
    assert_eq!(count(&record["conversations"]["order_broken"]), 0);
    let len = dialogue.packets.len() as u64;
    let kind = &record["conversations"]["kinds"]["TCP 80"];
    let sum = |key: &str| kind[key].as_array().map(|pair| pair.iter().map(count).sum::<u64>());
    if timed_out == 0 {
        assert_eq!([sum("packets"), sum("sent"), sum("heard")], [Some(1_000 * len); 3]);
        let seen = seen.lock().expect("what was noted");
        let expected: Vec<usize> = (0..dialogue.packets.len()).collect();
        assert_eq!(seen.len(), 1_000);
        assert!(seen.values().all(|order| *order == expected), "{:?}", seen.values().find(|order| **order != expected));
    }
    // the imposed link did what was asked for, and what it took away was sent again
    let lost: u64 = passed.lost.iter().sum();
    assert!((50..1_000).contains(&lost), "{passed:?}");
    assert!(sum("repeated").is_some_and(|again| again >= lost * 9 / 10), "{lost} lost, {kind}");
    let table = fs::read_to_string(scratch.path("out/conversations.csv")).expect("a table");
    assert_eq!(table.lines().count(), 1_001);
    assert_eq!(table.lines().filter(|line| line.contains(",completed,")).count() as u64, completed);
    // two ways of 20 ms are in every round trip
    let round_trip = &record["halves"][0]["round_trip"];
    assert!(count(&round_trip["p50_ns"]) >= 40_000_000, "{round_trip}");
}

/// All four protocols together between the same two nodes, each at a rate of its own: the counts at the middle are
/// exact.
#[test]
fn four_protocols_at_their_rates_are_counted_exactly_between_two_nodes() {
    let Some(row) = Row::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    let seen: Arc<Mutex<BTreeMap<u8, u64>>> = Arc::default();
    let to = Arc::clone(&seen);
    let middle = row.middle(1, 0.0).start(move |_, frame: &[u8], _| {
        // the lower second part of both addresses is the clients' network
        *to.lock().expect("one that counts").entry(frame[27].min(frame[31])).or_default() += 1;
    });
    let middle = middle.expect("a middle");
    let rates = [2_000.0, 400.0, 800.0, 1_600.0];
    let mut running = Vec::new();
    let mut expected = BTreeMap::new();
    let mut on_wire = BTreeMap::new();
    for ((number, dialogue), rate) in (1_u8..).zip(dialogues::all()).zip(rates) {
        let file = format!("{}.pcap", dialogue.name);
        scratch.write(&file, pcap(&dialogue.packets));
        let len = dialogue.packets.len() as u64;
        let conversations = (rate as u64 / len).max(1);
        expected.insert(number, conversations * len);
        on_wire.insert(dialogue.on_wire, conversations * len);
        let [clients, servers] = [format!("10.{number}.0.0/16"), format!("10.{}.0.0/16", 100 + number)];
        let (pps, conversations) = (rate.to_string(), conversations.to_string());
        let place = [&file, "--interface", "va", "--peer", "vb", "--peer-in", &row.server];
        let play = ["--pps", &pps, "--conversations", &conversations, "--clients", &clients, "--servers", &servers];
        // a busy machine may be late, and must not be taken for a loss
        let patient = ["--loss", "resend=3,after=20s", "--timeout", "60s", "--ordinary"];
        let args = [&place[..], &play, &patient].concat();
        let started = row.start(&scratch, &row.client, &args);
        running.push((dialogue, conversations, started));
    }
    for (dialogue, conversations, running) in running {
        let record = record(&running.wait());
        let all: u64 = conversations.parse().expect("a number");
        assert_eq!(outcomes(&record), [all, 0, 0, 0], "{}: {record:#}", dialogue.name);
        let kind = &record["conversations"]["kinds"][dialogue.kind];
        let packets = all * dialogue.packets.len() as u64;
        for key in ["packets", "sent", "heard"] {
            assert_eq!(
                kind[key].as_array().map(|pair| pair.iter().map(count).sum()),
                Some(packets),
                "{key}: {record:#}"
            );
        }
        assert_eq!(
            (count(&record["conversations"]["order_broken"]), &kind["repeated"]),
            (0, &serde_json::json!([0, 0]))
        );
    }
    let passed: Passed = middle.finish();
    assert_eq!(*seen.lock().expect("what was counted"), expected, "{passed:?}");
    assert_eq!((passed.passed, passed.dropped, passed.missed), (passed.came, [0; 2], [0; 2]));
    for (kinds, packets) in on_wire {
        let counted: u64 = kinds.iter().flat_map(|kind| passed.kinds[*kind]).sum();
        assert_eq!(counted, packets, "{kinds:?} of {:?}", passed.kinds);
    }
}

/// Each half in a process of its own; neither knows the other one's time. No packet gets an answer of a kernel.
#[test]
fn halves_in_two_processes_converse() {
    let Some(row) = Row::new() else { return };
    let _busy = beside();
    let scratch = Scratch::new();
    let dialogue = &dialogues::all()[3];
    scratch.write("c.pcap", pcap(&dialogue.packets));
    let (seen, note) = noting(dialogue);
    let middle = row.middle(2, 0.0).start(note).expect("a middle");
    let half = |space: &str, name: &str, interface: &str| {
        let options = ["--conversations", "50", "--loss", "resend=3,after=5s", "--timeout", "30s", "--out", name];
        row.start(&scratch, space, &[&["c.pcap", "--interface", interface, "--half", name], &options[..]].concat())
    };
    let server = half(&row.server, "server", "vb");
    until("the server's half is there", || scratch.path("server.partial").exists());
    let client = half(&row.client, "client", "va");
    let records = [client, server].map(|running| record(&running.wait()));
    drop(middle.finish());
    for record in &records {
        assert_eq!(outcomes(record), [50, 0, 0, 0], "{record:#}");
        assert_eq!(
            (record["halves"].as_array().map(Vec::len), count(&record["conversations"]["order_broken"])),
            (Some(1), 0)
        );
    }
    let sent = |record: &Value| count(&record["halves"][0]["sent"]) - count(&record["halves"][0]["repeated"]);
    let len = dialogue.packets.len();
    assert_eq!(records.iter().map(sent).sum::<u64>(), 50 * len as u64);
    let seen = seen.lock().expect("what was noted");
    assert!(seen.len() == 50 && seen.values().all(|order| order.is_sorted() && order.len() == len), "{seen:?}");
}

#[test]
fn who_is_never_answered_is_named_with_the_place_where_it_stopped() {
    let Some(row) = Row::new() else { return };
    let scratch = Scratch::new();
    scratch.write("c.pcap", pcap(&dialogues::all()[1].packets));
    // nobody is at the other side: nothing stands between the two
    let options = ["--conversations", "3", "--loss", "resend=2,after=50ms", "--timeout", "400ms"];
    let done = row.both(&scratch, &[&["c.pcap"], &options[..]].concat());
    assert_eq!(done.code, Some(20), "{}", done.stderr);
    let record = done.json();
    assert_eq!(outcomes(&record), [0, 3, 0, 0], "{record:#}");
    let stopped = &record["conversations"]["stopped"];
    assert_eq!(stopped.as_array().map(Vec::len), Some(3));
    assert_eq!(
        (&stopped[0]["at"], &stopped[0]["from"], &stopped[0]["was_sent"]),
        (&0.into(), &"client".into(), &true.into())
    );
    let client = &record["halves"][0];
    assert_eq!([&client["sent"], &client["repeated"], &client["arrived"]].map(count), [9, 6, 0], "{client}");
    let reasons = record["verdict"]["reasons"].as_array().expect("reasons");
    assert!(reasons.iter().any(|reason| reason["code"] == "timed_out"), "{reasons:?}");
}

#[test]
fn what_cannot_converse_is_refused_with_the_remedy() {
    let Some(row) = Row::new() else { return };
    let scratch = Scratch::new();
    scratch.write("c.pcap", pcap(&dialogues::all()[0].packets));
    let refused = |args: &[&str], code: i32, words: &str| {
        let done = row.start(&scratch, &row.client, &[&["c.pcap", "--out", "out"], args].concat()).wait();
        assert_eq!(done.code, Some(code), "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(words), "{args:?}: {}", done.stderr);
        assert_eq!(scratch.listing(), ["c.pcap"], "{args:?}: nothing is half-written");
    };
    let client = ["--interface", "va", "--half", "client"];
    refused(&["--interface", "va"], 2, "write --peer NAME");
    refused(&["--half", "client"], 2, "write --interface NAME");
    refused(&[&client[..], &["--receive", "vb"]].concat(), 2, "cannot be used with");
    refused(&[&client[..], &["--loss", "sometimes"]].concat(), 2, "resend=3,after=200ms");
    refused(&[&client[..], &["--servers", "10.9.0.0/30", "--conversations", "3"]].concat(), 2, "2 addresses for 3");
    refused(&["--interface", "vx", "--half", "client"], 3, "there is no interface `vx`");
    assert!(ip(&["-n", &row.client, "addr", "add", "198.18.0.3/16", "dev", "va"]));
    refused(&[&client[..], &["--conversations", "9"]].concat(), 3, "198.18.0.3 is an address of this host");
    assert!(ip(&["-n", &row.client, "link", "set", "va", "mtu", "1000"]));
    refused(&client, 3, "does not fit `va` (MTU 1000)");
}
