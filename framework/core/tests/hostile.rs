//! Bytes that nobody of ours has written: whatever comes over a wire is told apart or refused, without a panic, and without
//! memory for what it only claims to hold.

use std::fs;

use bytes::Bytes;
use proptest::prelude::*;
use rehearsal_core::message::{BodyError, DEPTH_MAX, Header};
use rehearsal_core::messages::{
    Addresses, GroupSnapshot, HistogramPart, HostSample, KINDS, Metric, NodeEnd, NodeReport, Prepare, StartAt,
    StopReason, StopRun, check,
};
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::run::{Fault, GroupEnd, RunEnd};
use rehearsal_core::{Body, Message, Time};
use serde_bytes::ByteBuf;

/// Memory that reading a message of a few bytes may take, threads of the test included.
const MEMORY_MAX: u64 = 512 << 20;
/// Starts of a list, a map, a text and bytes that say they hold four billion.
const LIES: [&[u8]; 4] =
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"];

fn report() -> NodeReport {
    let histograms = vec![HistogramPart { metric: Metric::Response, v2: ByteBuf::from(vec![0x1C; 60]) }];
    let group = GroupSnapshot {
        node: "camera-1".into(),
        actor: "main".into(),
        kind: "camera".into(),
        instances: 2,
        second: 9,
        totals: Tally { generated: 70_000, success: 1 << 40, ..Tally::default() },
        queue_length: 3,
        histograms,
        counts: vec![("frames_skipped".into(), 7)],
        requests: None,
    };
    let host = HostSample { node: "camera-1".into(), second: 9, cpu_percent: Some(99.5), ..HostSample::default() };
    NodeReport { node: "camera-1".into(), second: 9, host: Some(host), groups: vec![group], ..NodeReport::default() }
}

/// Messages as they are sent.
fn sent() -> Vec<Bytes> {
    let header = Header { run: "trial-12345678", from: "camera-1.logger", seq: 300, t_ns: 1 << 40 };
    let tally = Tally { generated: 1, success: 1, ..Tally::default() };
    let group = GroupEnd { group: 3, tally, schedule: 9, counts: vec![], datagrams_elsewhere: 0, listen: None };
    let fault = Fault { at: Time::ZERO, node: "a".into(), actor: "b".into(), text: "c".into() };
    let end = RunEnd { groups: vec![group], faults: vec![fault], notes: vec!["n".into()], ..RunEnd::default() };
    let listen = [("lab.v1.r.trf.a.b".to_owned(), "[::1]:80".parse().expect("an address"))].into();
    let all = [
        Body::new(Prepare { round: 1 }),
        Body::new(StartAt { at: Time::from_nanos(5), until: None }),
        Body::new(StopRun { reason: StopReason::Interrupted }),
        Body::new(Addresses { listen, authorities: vec![serde_bytes::ByteBuf::from(vec![48, 0])] }),
        Body::new(report()),
        Body::new(NodeEnd { node: "camera-1".into(), end, part: 0, parts: 0 }),
    ];
    all.iter().map(|body| body.to_wire(&header)).collect()
}

/// An envelope with this body, put together by hand.
fn sealed(kind: &str, body: &[u8]) -> Vec<u8> {
    let text = |text: &str| [&[0xA0 | text.len() as u8], text.as_bytes()].concat();
    [&[0x83][..], &text("v"), &[1], &text("kind"), &text(kind), &text("body"), body].concat()
}

/// Asks everything that can be asked of a message; whether it is an envelope.
fn read(bytes: impl Into<Bytes>) -> bool {
    let body = Body::from_wire(bytes.into());
    let any = KINDS.iter().filter(|kind| check(&body, kind).is_ok()).count();
    let envelope = body.sealed().is_ok();
    assert!(any <= usize::from(envelope), "one message, of one kind");
    envelope
}

#[test]
fn what_is_cut_off_or_goes_on_is_no_message() {
    for bytes in sent() {
        assert!(read(bytes.clone()));
        for len in 0..bytes.len() {
            assert!(!read(bytes.slice(..len)), "{len} of {} bytes", bytes.len());
        }
        for more in [&b"\xc0"[..], b"\x00", b"\xc1", &bytes] {
            let longer = Body::from_wire([&bytes[..], more].concat().into());
            assert!(matches!(longer.sealed(), Err(BodyError::Trailing)));
            assert!(matches!(longer.get::<Prepare>(), Err(BodyError::Trailing | BodyError::Decode(_))));
        }
    }
}

#[test]
fn another_version_and_another_kind_are_told() {
    let body = sealed("prepare", b"\x81\xa5round\x07");
    assert_eq!(Body::from_wire(body.clone().into()).get::<Prepare>().expect("a message").round, 7);
    let newer: Vec<u8> = body.iter().enumerate().map(|(at, byte)| if at == 3 { 2 } else { *byte }).collect();
    assert!(matches!(Body::from_wire(newer.into()).get::<Prepare>(), Err(BodyError::Version { got: 2 })));
    let other = Body::from_wire(sealed("stop-run", b"\x81\xa5round\x07").into());
    assert!(matches!(other.get::<Prepare>(), Err(BodyError::Kind { wanted: "prepare" })));
    assert!(matches!(other.get::<StopRun>(), Err(BodyError::Decode(_))));
    assert!(check(&other, "no-such-kind").is_err());
}

/// Lists in the order of the fields, or their bytes, are no bodies: the wire format has names.
#[test]
fn a_message_is_a_map_of_maps() {
    for body in [&b"\x91\x07"[..], b"\xc4\x01\x07", b"\xc4\x02\x07\x07", b"\x07", b"\xc0", b"\xa1a"] {
        assert!(!read(sealed("prepare", body)), "{body:x?}");
    }
    assert!(!read(&b"\x97\x01\xa7prepare\xa1r\xa3a.b\x01\x01\x81\xa5round\x07"[..]), "an envelope without names");
}

#[test]
fn keys_that_nobody_knows_are_ignored() {
    let mut bytes = sealed("prepare", b"\x82\xa5round\x07\xa6colour\x93\x01\x02\xa3red");
    bytes[0] = 0x84;
    bytes.extend(b"\xa5shape\x81\xa1a\xc0");
    let body = Body::from_wire(bytes.into());
    assert_eq!(body.get::<Prepare>().expect("a message").round, 7);
}

/// Where a list, a map, a text or bytes are wanted, or nothing at all is.
#[test]
fn lengths_that_lie_take_no_memory() {
    let before = peak();
    let mut starts: Vec<Vec<u8>> = vec![Vec::new(), sealed("prepare", b"")];
    starts.extend(KINDS.iter().map(|kind| sealed(kind, b"")));
    let key = |name: &str| [&[0x81, 0xA0 | name.len() as u8], name.as_bytes()].concat();
    for (kind, name) in [
        ("node-report", "groups"),
        ("node-report", "node"),
        ("node-end", "end"),
        ("addresses", "listen"),
        ("group-snapshot", "histograms"),
        ("group-snapshot", "counts"),
        ("group-snapshot", "requests"),
        ("ready", "node"),
    ] {
        starts.push(sealed(kind, &key(name)));
    }
    let histograms = [&b"\x81\xaahistograms\x91\x82\xa6metric\xa3lag\xa2v2"[..]].concat();
    starts.push(sealed("group-snapshot", &histograms));
    for (start, lie) in starts.iter().flat_map(|start| LIES.map(|lie| (start, lie))) {
        assert!(!read([start, lie].concat()));
        assert!(!read([start, lie, &[0xC0; 64]].concat()), "some of it is there");
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < MEMORY_MAX, "{grown} bytes");
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    for open in [&b"\x91"[..], b"\x81\xa1a", b"\x81\xa4body", b"\xdd\x00\x00\x00\x01"] {
        for depth in [DEPTH_MAX + 1, 1000, 100_000] {
            let deep = [open.repeat(depth), vec![0xC0]].concat();
            assert!(!read(deep.clone()), "{depth} levels of {open:x?}");
            KINDS.iter().for_each(|kind| assert!(!read(sealed(kind, &deep)), "{kind}: {depth} levels"));
        }
    }
    let body = [&b"\x82\xa5round\x07\xa1x"[..], &b"\x91".repeat(DEPTH_MAX / 2), b"\xc0"].concat();
    assert!(Body::from_wire(sealed("prepare", &body).into()).get::<Prepare>().is_ok(), "some are allowed");
}

/// The most address space that this process ever had, bytes (proc(5)).
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap_or("VmPeak: 0 kB");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn garbage_is_no_message(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(!read(bytes));
    }

    #[test]
    fn garbage_in_an_envelope_is_no_body(kind in 0..KINDS.len(), bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        read(sealed(KINDS[kind], &bytes));
    }

    #[test]
    fn a_message_with_spoiled_bytes_never_panics(
        which in 0_usize..6,
        spots in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = sent()[which].to_vec();
        for (at, byte) in spots {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read(bytes);
    }

    #[test]
    fn a_report_is_read_as_it_was_written(
        node in "[a-z0-9-]{1,32}", second in any::<u32>(), generated in any::<u64>(), cpu in any::<f64>(),
        v2 in proptest::collection::vec(any::<u8>(), 0..50), counts in proptest::collection::vec((".{0,20}", any::<u64>()), 0..4),
    ) {
        let mut sent = report();
        sent.node = node;
        sent.second = second;
        sent.groups[0].totals.generated = generated;
        sent.groups[0].histograms[0].v2 = ByteBuf::from(v2);
        sent.groups[0].counts = counts;
        sent.host.as_mut().expect("a sample").cpu_percent = Some(cpu).filter(|cpu| !cpu.is_nan());
        let wire = Body::from_wire(Body::new(sent.clone()).to_wire(&Header::default()));
        prop_assert_eq!(wire.get::<NodeReport>().expect("a report").into_owned(), sent);
        prop_assert!(check(&wire, NodeReport::KIND).is_ok());
    }

    /// Counters of somebody else may be any numbers.
    #[test]
    fn counters_of_any_size_are_added_up(numbers in proptest::array::uniform8(any::<u64>())) {
        let [generated, success, invalid, failed, lost, aborted, attempts, rejected] = numbers;
        let mut tally = Tally { generated, success, invalid, failed, lost, aborted, attempts, rejected, ..Tally::default() };
        let open = tally.open();
        prop_assert!(open <= generated && tally.open_attempts() <= attempts);
        let consistent = tally.consistent();
        if consistent {
            tally.close();
            prop_assert_eq!((tally.open(), tally.open_attempts()), (0, 0));
        }
    }
}
