//! The page of the wire format cannot rot: its examples are made from the program's own types, and its tables name
//! every field that they show. `UPDATE_SNAPSHOTS=1` writes the examples anew.

use std::collections::BTreeMap;
use std::fs;

use bytes::Bytes;
use rehearsal_core::fleet::{ClockReading, ReadClock};
use rehearsal_core::life::{Beat, NodeBack, NodeLost, Rejoin, Stage};
use rehearsal_core::message::Header;
use rehearsal_core::messages::*;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::run::RunEnd;
use rehearsal_core::steer::{Answer, Ask, Steer, Steering};
use rehearsal_core::{Body, Message, Time};
use serde_bytes::ByteBuf;

use super::wire::Value;

/// The page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../framework/bus/PROTOCOL.md");
const RUN: &str = "uav-control-5f0c21aa";

/// An envelope of each kind, on the subject that it is published on.
fn examples() -> BTreeMap<&'static str, Value> {
    let mut all = BTreeMap::new();
    let mut add = |kind, from: &str, body: Body| {
        let header = Header { run: RUN, from, seq: 1, t_ns: 1_204_500_321 };
        let envelope = Value::decode(&body.to_wire(&header)).expect("MessagePack");
        assert_eq!(envelope.text("kind"), kind);
        all.insert(kind, envelope);
    };
    of_every_run(&mut add);
    of_some_runs(&mut add);
    all
}

/// Takes a message: its kind, its publisher, and what it says.
type Add<'a> = dyn FnMut(&'static str, &str, Body) + 'a;

fn node() -> String {
    "sensor".to_owned()
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// What is said in every run, from its preparation to its end.
fn of_every_run(add: &mut Add<'_>) {
    add(Prepare::KIND, "control.controller", Body::new(Prepare { round: 1 }));
    add(Ready::KIND, "sensor.logger", Body::new(Ready { node: node() }));
    let start = StartAt { at: at(1_704_500_000), until: Some(at(61_704_500_000)) };
    add(StartAt::KIND, "control.controller", Body::new(start));
    add(NodeDone::KIND, "sensor.host", Body::new(NodeDone { node: node() }));
    add(StopRun::KIND, "control.controller", Body::new(StopRun { reason: StopReason::Duration }));
    add(HostSample::KIND, "sensor.host", Body::new(sample()));
    add(GroupSnapshot::KIND, "sensor.main", Body::new(snapshot()));
    let report =
        NodeReport { node: node(), second: 7, host: Some(sample()), groups: vec![snapshot()], ..NodeReport::default() };
    add(NodeReport::KIND, "sensor.logger", Body::new(report));
    add(ReportAck::KIND, "control.aggregator", Body::new(ReportAck { node: node(), second: 7 }));
    let reports = vec![("receiver".to_owned(), 12), ("sensor".to_owned(), 12)];
    let on = "lab.v1.uav-control-5f0c21aa.ctl.control.aggregator.ack".to_owned();
    add(ReportsStored::KIND, "control.host", Body::new(ReportsStored { on, reports }));
    add(EventAck::KIND, "control.aggregator", Body::new(EventAck { id: "sensor-12".to_owned() }));
    let event = LifeEvent {
        at: at(1_704_500_000),
        kind: "fault".to_owned(),
        node: node(),
        actor: "main".to_owned(),
        text: "the battery is empty".to_owned(),
        ..LifeEvent::default()
    };
    add(LifeEvent::KIND, "sensor.main", Body::new(event));
    let name = format!("lab.v1.{RUN}.trf.receiver.main");
    let listen = BTreeMap::from([(name, "127.0.0.1:41873".parse().expect("an address"))]);
    add(Addresses::KIND, "control.host", Body::new(Addresses { listen, authorities: Vec::new() }));
    add(NodeDrained::KIND, "sensor.host", Body::new(NodeDrained { node: node() }));
    add(CloseBooks::KIND, "control.host", Body::new(CloseBooks {}));
    add(NodeEnd::KIND, "sensor.host", Body::new(NodeEnd { node: node(), end: RunEnd::default(), part: 0, parts: 0 }));
}

/// What is said when a run is steered, loses a node, or is asked for its clock.
fn of_some_runs(add: &mut Add<'_>) {
    let (sensor, receiver) = (Some("sensor".to_owned()), Some("receiver".to_owned()));
    let steer = Steer { number: 0, at: at(9_000_000_000), node: sensor.clone(), step: Steering::Factor(2.0) };
    add(Steer::KIND, "control.controller", Body::new(steer));
    add(Ask::KIND, "sensor.control", Body::new(Ask { id: 4, node: receiver, step: Some(Steering::Pause) }));
    let answer = Answer { id: 4, accepted: false, text: "`receiver` does not send".to_owned() };
    add(Answer::KIND, "control.controller", Body::new(answer));
    let generated = BTreeMap::from([("main".to_owned(), 160)]);
    let beat = Beat {
        node: node(),
        incarnation: 0,
        stage: Stage::Running,
        done: false,
        second: Some(8),
        generated: generated.clone(),
    };
    add(Beat::KIND, "sensor.host", Body::new(beat));
    let lost = NodeLost { node: node(), again: true, known_until: at(9_704_500_000), generated: generated.clone() };
    add(NodeLost::KIND, "control.host", Body::new(lost));
    add(NodeBack::KIND, "control.host", Body::new(NodeBack { node: node() }));
    let rejoin = Rejoin {
        node: node(),
        at: at(1_704_500_000),
        until: None,
        known_until: at(9_704_500_000),
        from: at(12_000_000_000),
        generated,
    };
    add(Rejoin::KIND, "control.controller", Body::new(rejoin));
    add(ReadClock::KIND, "control.host", Body::new(ReadClock {}));
    add(ClockReading::KIND, "control.host", Body::new(ClockReading { monotonic_ns: 88_231_904_112_345 }));
}

fn sample() -> HostSample {
    HostSample {
        node: "sensor".to_owned(),
        second: 7,
        cpu_percent: Some(12.5),
        memory_bytes: Some(41_943_040),
        voluntary_switches: Some(412),
        open_files: Some(23),
        open_files_limit: Some(1024),
        ..HostSample::default()
    }
}

fn snapshot() -> GroupSnapshot {
    let (generated, success) = (160, 159);
    let totals = Tally { generated, attempts: 160, success, bytes_sent: 112_000, ..Tally::default() };
    // one value of 5 ns, plain
    let mut v2 = vec![0x1C, 0x84, 0x93, 0x13, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3];
    v2.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 3, 70, 48, 184, 160, 0, 63, 240, 0, 0, 0, 0, 0, 0, 9, 2]);
    GroupSnapshot {
        node: "sensor".to_owned(),
        actor: "main".to_owned(),
        kind: "sensor".to_owned(),
        instances: 1,
        second: 7,
        totals,
        queue_length: 0,
        histograms: vec![HistogramPart { metric: Metric::Response, v2: ByteBuf::from(v2) }],
        counts: vec![("readings_skipped".to_owned(), 3)],
        requests: None,
    }
}

/// The kinds of the blocks in the page, each with where its text begins and ends.
fn blocks(page: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    for (at, fence) in page.match_indices("```json ") {
        let line = page[at..].find('\n').expect("an end of the line") + at;
        let end = page[line..].find("\n```").expect("an end of the block") + line;
        found.push((page[at + fence.len()..line].trim().to_owned(), line + 1..end.max(line) + 1));
    }
    found
}

#[test]
fn the_page_of_the_wire_format_shows_every_message_as_it_is() {
    let (mut page, examples) = (fs::read_to_string(PAGE).expect("the page"), examples());
    for kind in KINDS {
        assert!(examples.contains_key(kind), "give `{kind}` an example in tests/interop/protocol.rs");
    }
    let shown: Vec<String> = blocks(&page).into_iter().map(|(kind, _)| kind).collect();
    for kind in examples.keys() {
        let count = shown.iter().filter(|shown| shown == kind).count();
        assert_eq!(count, 1, "{PAGE} has one block ```json {kind}");
    }
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        for (kind, range) in blocks(&page).into_iter().rev() {
            page.replace_range(range, &format!("{}\n", examples[kind.as_str()].to_json(0)));
        }
        fs::write(PAGE, &page).expect("the page can be written");
    }
    for (kind, range) in blocks(&page) {
        let example = examples.get(kind.as_str()).unwrap_or_else(|| panic!("`{kind}` is no message"));
        assert_eq!(page[range].trim_end(), example.to_json(0), "`{kind}`: UPDATE_SNAPSHOTS=1 writes it anew");
    }
}

#[test]
fn every_field_that_an_example_shows_is_described() {
    let page = fs::read_to_string(PAGE).expect("the page");
    for (kind, example) in examples() {
        let mut fields = Vec::new();
        names(example.get("body").expect("a body"), &mut fields);
        for field in fields {
            assert!(page.contains(&format!("`{field}`")), "`{field}` of `{kind}` is not described");
        }
    }
}

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Map(entries) => {
            for (name, value) in entries {
                found.push(name.clone());
                // maps by names that somebody gave
                if !["generated", "listen"].contains(&name.as_str()) {
                    names(value, found);
                }
            }
        }
        Value::List(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

/// What another encoder makes of the page's examples, with keys in another order, longer numbers and a key more, is read.
#[test]
fn the_examples_are_understood_as_others_write_them() {
    let page = fs::read_to_string(PAGE).expect("the page");
    for (kind, range) in blocks(&page) {
        let json = serde_json::from_str(&page[range]).unwrap_or_else(|why| panic!("{kind}: {why}"));
        let Value::Map(mut envelope) = Value::from_json(&json) else { panic!("{kind}: no map") };
        envelope.reverse();
        envelope.push(("colour".to_owned(), Value::from_json(&serde_json::json!({"red": [1, 2]}))));
        let body = Body::from_wire(Bytes::from(Value::Map(envelope).encode()));
        let sealed = body.sealed().expect("an envelope").expect("in wire form");
        assert_eq!((sealed.kind.as_str(), sealed.run.as_str()), (kind.as_str(), RUN));
        if KINDS.contains(&kind.as_str()) {
            check(&body, &kind).unwrap_or_else(|why| panic!("{kind}: {why}"));
        }
    }
}

/// The smallest messages that a foreign node may send.
#[test]
fn what_may_be_left_out_may_be_left_out() {
    let small = [
        r#"{"v": 1, "kind": "node-end", "body": {"node": "sensor"}}"#,
        r#"{"v": 1, "kind": "node-report", "body": {"node": "sensor", "second": 0, "groups": []}}"#,
        r#"{"v": 1, "kind": "node-report", "body": {"node": "sensor", "second": 0, "groups": [{"node": "sensor",
            "actor": "main", "kind": "sensor", "instances": 1, "second": 0, "totals": {"generated": 1}}]}}"#,
        r#"{"v": 1, "kind": "host-sample", "body": {"node": "sensor", "second": 0}}"#,
    ];
    for text in small {
        let envelope = Value::from_json(&serde_json::from_str(text).expect("JSON"));
        let body = Body::from_wire(Bytes::from(envelope.encode()));
        check(&body, envelope.text("kind")).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
}
