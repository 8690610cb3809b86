//! Messages that a run must neither understand nor stumble over, on every subject that it has.

use nats::Connection;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::Said;
use super::wire::Value;

/// What is wrong with a message.
#[derive(Clone, Debug)]
enum Wrong {
    /// No MessagePack that was meant.
    Bytes(Vec<u8>),
    /// The first so many parts of 256 of a true message.
    CutOff(u8),
    /// A true message and then more.
    GoesOn(Vec<u8>),
    /// One key of the envelope is another value.
    Key(&'static str, i64),
    /// A kind that belongs to nobody.
    Kind(String),
    /// A list that says it holds four billion.
    Lie,
    /// Nested so many levels deep.
    Deep(u16),
    /// A body of another shape.
    Body(Vec<u8>),
}

fn wrong() -> impl Strategy<Value = Wrong> {
    let bytes = || proptest::collection::vec(any::<u8>(), 1..200);
    prop_oneof![
        bytes().prop_map(Wrong::Bytes),
        (0_u8..255).prop_map(Wrong::CutOff),
        bytes().prop_map(Wrong::GoesOn),
        (prop::sample::select(vec!["v", "run", "from", "body"]), 2_i64..1_000_000).prop_map(|(k, n)| Wrong::Key(k, n)),
        "[a-z]{3,12}-[0-9]".prop_map(Wrong::Kind),
        Just(Wrong::Lie),
        (100_u16..5000).prop_map(Wrong::Deep),
        bytes().prop_map(Wrong::Body),
    ]
}

/// How many were published, by plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Published {
    pub control: usize,
    pub telemetry: usize,
}

/// Publishes `count` of them, each on a subject of the run's life cycle or telemetry, the start and the stop among them.
/// The draws are the same in every run.
pub fn publish(client: &Connection, known: &[Said], count: usize) -> Published {
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), seed);
    let mut subjects: Vec<(&str, &Value)> = Vec::new();
    for Said { subject, envelope } in known.iter().filter(|s| s.envelope.number("seq") > 0) {
        if !subjects.iter().any(|(name, _)| name == subject) {
            subjects.push((subject, envelope));
        }
    }
    let run = subjects[0].1.text("run");
    let actors = ["control.controller", "sender-1.host", "sender-2.main", "receiver.logger", "nobody.main"];
    let verbs = ["start", "stop", "prepare", "ready", "done", "close", "end", "drained", "beat", "addresses", "ask"];
    let more: Vec<String> =
        actors.iter().flat_map(|a| verbs.map(|verb| format!("lab.v1.{run}.ctl.{a}.{verb}"))).collect();
    let start = known.iter().find(|s| s.envelope.text("kind") == "start-at").expect("the run has begun");
    subjects.extend(more.iter().map(|subject| (subject.as_str(), &start.envelope)));
    let mut published = Published::default();
    for number in 0..count {
        let (subject, envelope) = subjects[number % subjects.len()];
        let wrong = wrong().new_tree(&mut runner).expect("a value").current();
        client.publish(subject, spoil(envelope, &wrong)).expect("it is sent");
        let plane = if subject.contains(".ctl.") { &mut published.control } else { &mut published.telemetry };
        *plane += 1;
    }
    published
}

fn spoil(envelope: &Value, wrong: &Wrong) -> Vec<u8> {
    let true_bytes = envelope.encode();
    match wrong {
        // the marker that MessagePack never uses: no draw is a message by chance
        Wrong::Bytes(bytes) => [&b"\xc1"[..], bytes].concat(),
        Wrong::CutOff(part) => true_bytes[..true_bytes.len() * usize::from(*part) / 256].to_vec(),
        Wrong::GoesOn(bytes) => [true_bytes, bytes.clone()].concat(),
        // `from` of another type, `run` of no run, a version that is not known, a body that is a number
        Wrong::Key(key, number) => with(envelope, key, Value::Int(i128::from(*number))).encode(),
        Wrong::Kind(kind) => with(envelope, "kind", Value::Text(kind.clone())).encode(),
        Wrong::Lie => {
            let mut bytes = with(envelope, "body", Value::Nil).encode();
            bytes.pop();
            bytes.extend(b"\xdd\xff\xff\xff\xff");
            bytes
        }
        Wrong::Deep(levels) => {
            let mut bytes = with(envelope, "body", Value::Nil).encode();
            bytes.pop();
            bytes.extend(b"\x91".repeat(usize::from(*levels)));
            bytes.push(0xC0);
            bytes
        }
        Wrong::Body(bytes) => with(envelope, "body", Value::Bytes(bytes.clone())).encode(),
    }
}

/// The same envelope with another value under a key, which comes last; and a number that would silence its publisher.
fn with(envelope: &Value, key: &str, value: Value) -> Value {
    let Value::Map(entries) = envelope else { panic!("an envelope is a map") };
    let mut entries = entries.clone();
    entries.retain(|(name, _)| name != key && name != "seq");
    entries.push(("seq".to_owned(), Value::Int(1 << 60)));
    entries.push((key.to_owned(), value));
    Value::Map(entries)
}

/// Each of them is wrong in itself, whatever it was made from; what is only on a wrong subject is not among them.
#[test]
fn no_draw_is_a_message_by_chance() {
    use rehearsal_core::Body;
    use rehearsal_core::messages::check;

    let head = r#"{"v": 1, "kind": "prepare", "run": "trial-00000000", "from": "a.b", "seq": 1, "t_ns": 5, "body": "#;
    let prepare = Value::from_json(&serde_json::from_str(&format!("{head}{{\"round\": 1}}}}")).expect("JSON"));
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), seed);
    for number in 0..2_000 {
        let wrong = wrong().new_tree(&mut runner).expect("a value").current();
        let body = Body::from_wire(spoil(&prepare, &wrong).into());
        assert!(check(&body, "prepare").is_err(), "{number}: {wrong:?}");
    }
}
