//! Each rule of the verdict, reached by evidence that breaks it and nothing else.

use std::collections::BTreeSet;

use rehearsal_export::verdict::{Code, GroupEvidence, NodeEvidence, judge};
use rehearsal_export::{Clock, Evidence, Fault, Limits, Overcommit, Severity, Status};

/// A camera at 25/s for a minute, a receiver, and nothing wrong.
fn healthy() -> Evidence {
    let camera = GroupEvidence {
        node: "camera".to_owned(),
        actor: "main".to_owned(),
        sends: true,
        gap_ns: Some(40_000_000),
        expected: Some(1500.0),
        left: Some(1500.0),
        slack: 1.0,
        generated: 1500,
        success: 1500,
        lag_p99_ns: Some(100_000),
        blocked_p99_ns: Some(0),
        samples: Some(1500),
        ..GroupEvidence::default()
    };
    let receiver = GroupEvidence {
        node: "receiver".to_owned(),
        actor: "main".to_owned(),
        samples: Some(1500),
        ..GroupEvidence::default()
    };
    let node = |name: &str, sends| NodeEvidence { node: name.to_owned(), sends, ..NodeEvidence::default() };
    Evidence {
        groups: vec![camera, receiver],
        nodes: vec![node("camera", true), node("receiver", false)],
        planned_seconds: Some(60.0),
        ran_seconds: 60.0,
        limits_enforced: Some(true),
        calibrated: Some(true),
        ..Evidence::default()
    }
}

type Case = (&'static str, fn(&mut Evidence), Code, Severity);

const CASES: &[Case] = {
    use Code::*;
    use Severity::*;
    &[
        (
            "lag p99 of 4.1 ms, a tenth of the gap is 4",
            |e| e.groups[0].lag_p99_ns = Some(4_100_000),
            GeneratorLate,
            Degraded,
        ),
        ("lag p99 of 21 ms, half the gap is 20", |e| e.groups[0].lag_p99_ns = Some(21_000_000), GeneratorLate, Invalid),
        ("98.5 % left, late", |e| missed(e, 1475.0, 3_900_000, 0), RateMissed, Degraded),
        ("nine tenths left, blocked", |e| missed(e, 1350.0, 100_000, 9_000_000), TargetSaturated, Invalid),
        ("98 % left, blocked", |e| missed(e, 1470.0, 100_000, 9_000_000), TargetSaturated, Degraded),
        (
            "98 % left, queue full",
            |e| {
                missed(e, 1470.0, 0, 0);
                e.groups[0].queue_full = 30;
            },
            TargetSaturated,
            Degraded,
        ),
        ("2 % skipped", |e| e.groups[0].skipped = 31, Skipped, Invalid),
        ("a sender throttled for 2 %", |e| e.nodes[0].throttled_percent = Some(2.0), Throttled, Degraded),
        ("a sender throttled for 6 %", |e| e.nodes[0].throttled_percent = Some(6.0), Throttled, Invalid),
        ("a receiver throttled for 40 %", |e| e.nodes[1].throttled_percent = Some(40.0), ReceiverThrottled, Note),
        ("2 % stolen", |e| e.nodes[1].steal_percent = Some(2.0), Stolen, Degraded),
        ("6 % stolen", |e| e.nodes[1].steal_percent = Some(6.0), Stolen, Invalid),
        ("traffic for 64 s instead of 60", |e| e.ran_seconds = 64.0, Stretched, Invalid),
        ("a node lost", |e| e.lost_nodes = vec!["camera".to_owned()], NodeLost, Invalid),
        (
            "a node lost half way",
            |e| {
                missed(e, 750.0, 0, 0);
                e.lost_nodes = vec!["camera".to_owned()];
            },
            NodeLost,
            Invalid,
        ),
        ("a panic", |e| e.faults = vec![broke("panicked")], Fault, Invalid),
        ("a broken identity", |e| e.broken_checks = vec!["x".to_owned()], CountersBroken, Invalid),
        (
            "no traffic",
            |e| {
                e.groups[0].generated = 0;
                e.groups[0].expected = None;
            },
            NoTraffic,
            Invalid,
        ),
        (
            "a target that answers nothing",
            |e| (e.groups[0].success, e.groups[0].in_vain) = (0, 1500),
            NoSuccess,
            Degraded,
        ),
        (
            "Ctrl-C",
            |e| {
                e.interrupted = true;
                e.ran_seconds = 10.0;
            },
            Interrupted,
            Degraded,
        ),
        ("reports dropped", |e| e.nodes[0].dropped = 3, TelemetryDropped, Degraded),
        ("seconds missing", |e| e.nodes[0].missing_seconds = 1, SnapshotsMissing, Degraded),
        ("clocks unknown", |e| e.clock = Clock::Unknown, ClockUnknown, Degraded),
        ("clocks uncertain", |e| e.clock = Clock::Measured { uncertainty_ns: 2_000_000 }, ClockUnknown, Degraded),
        (
            "8 vCPU on 6 cores",
            |e| e.overcommitted = vec![Overcommit { host: "lab".to_owned(), vcpu: 8.0, cores: 6 }],
            HostOvercommitted,
            Degraded,
        ),
        (
            "outside of the calibration",
            |e| e.outside_calibration = vec!["9 MB".to_owned()],
            OutsideCalibration,
            Degraded,
        ),
        ("not calibrated", |e| e.calibrated = Some(false), Uncalibrated, Note),
        ("limits not enforced", |e| e.limits_enforced = Some(false), LimitsUnenforced, Note),
        ("999 values", |e| e.groups[0].samples = Some(999), FewSamples, Note),
        (
            "a pause",
            |e| {
                e.rate_changed = true;
                e.groups[0].left = Some(10.0);
            },
            RateChanged,
            Note,
        ),
        ("a remark", |e| e.notes = vec!["mind the gap".to_owned()], Remark, Note),
    ]
};

fn broke(text: &str) -> Fault {
    Fault { text: text.to_owned(), ..Fault::default() }
}

fn missed(e: &mut Evidence, left: f64, lag: u64, blocked: u64) {
    let group = &mut e.groups[0];
    (group.left, group.lag_p99_ns, group.blocked_p99_ns) = (Some(left), Some(lag), Some(blocked));
}

#[test]
fn a_healthy_run_is_valid_without_any_reason() {
    let verdict = judge(&healthy(), &Limits::default());
    assert_eq!((verdict.status, verdict.reasons), (Status::Valid, vec![]));
}

#[test]
fn each_rule_speaks_when_it_is_broken_and_only_then() {
    let mut reached = BTreeSet::from([Code::GeneratorSaturated]);
    for (what, spoil, code, severity) in CASES {
        let mut evidence = healthy();
        spoil(&mut evidence);
        let verdict = judge(&evidence, &Limits::default());
        let reasons: Vec<_> = verdict.reasons.iter().map(|r| (r.code, r.severity)).collect();
        assert_eq!(reasons, [(*code, *severity)], "{what}");
        let status = match severity {
            Severity::Note => Status::Valid,
            Severity::Degraded => Status::Degraded,
            Severity::Invalid => Status::Invalid,
        };
        assert_eq!(verdict.status, status, "{what}");
        assert!(!verdict.reasons[0].text.is_empty(), "{what}");
        reached.insert(*code);
    }
    let all: BTreeSet<Code> = Code::ALL.iter().copied().collect();
    assert_eq!(all.difference(&reached).collect::<Vec<_>>(), Vec::<&Code>::new(), "codes that no case reaches");
}

#[test]
fn a_saturated_generator_is_told_from_a_saturated_receiver() {
    let mut late = healthy();
    missed(&mut late, 1200.0, 400_000_000, 2_000_000);
    let mut blocked = healthy();
    missed(&mut blocked, 1200.0, 2_000_000, 400_000_000);
    let first = |evidence: &Evidence| {
        let verdict = judge(evidence, &Limits::default());
        let codes: Vec<_> = verdict.reasons.iter().map(|r| r.code).collect();
        codes
    };
    assert_eq!(first(&late), [Code::GeneratorLate, Code::GeneratorSaturated]);
    assert_eq!(first(&blocked), [Code::TargetSaturated]);
    // no receiver can keep slots of an open loop from coming due, however long it blocks
    blocked.groups[0].generated = 1300;
    assert_eq!(first(&blocked), [Code::GeneratorSaturated]);
    // slots given up because `in_flight` was full are the receiver's fault, unless the generator was late itself
    blocked.groups[0].skipped = 200;
    assert_eq!(first(&blocked), [Code::TargetSaturated, Code::Skipped]);
    blocked.groups[0].lag_p99_ns = Some(5_000_000);
    assert_eq!(first(&blocked), [Code::GeneratorSaturated, Code::Skipped, Code::GeneratorLate]);
}

#[test]
fn nobody_is_told_to_be_late_and_on_time() {
    let mut both = healthy();
    missed(&mut both, 1200.0, 30_000_000, 400_000_000);
    let reasons = judge(&both, &Limits::default()).reasons;
    let codes: Vec<_> = reasons.iter().map(|r| r.code).collect();
    assert_eq!(codes, [Code::GeneratorLate, Code::TargetSaturated]);
    assert!(reasons[1].text.ends_with("`in_flight` was full for longer than the generator was late"), "{reasons:?}");
    missed(&mut both, 1200.0, 1_000_000, 400_000_000);
    let reasons = judge(&both, &Limits::default()).reasons;
    assert!(reasons[0].text.ends_with("`in_flight` was full while the generator was on time"), "{reasons:?}");
}

#[test]
fn a_target_that_answers_nothing_blocks_the_sender() {
    // what left before the window fills every slot: in it nothing leaves, so nothing is recorded of lag or blocked time
    let mut evidence = healthy();
    let group = &mut evidence.groups[0];
    (group.left, group.success, group.samples, group.waiting) = (Some(0.0), 0, None, 1500);
    (group.lag_p99_ns, group.blocked_p99_ns) = (None, None);
    let reasons = judge(&evidence, &Limits::default()).reasons;
    assert_eq!(reasons[0].code, Code::TargetSaturated);
    assert!(reasons[0].text.ends_with("`in_flight` was full all the time and 1500 exchanges waited at the end"));
    evidence.groups[0].waiting = 0;
    assert_eq!(judge(&evidence, &Limits::default()).reasons[0].code, Code::RateMissed);
}

#[test]
fn a_run_of_receivers_alone_needs_something_that_came_in() {
    let mut evidence = healthy();
    evidence.groups.remove(0);
    let verdict = judge(&evidence, &Limits::default());
    assert_eq!((verdict.status, verdict.reasons[0].code), (Status::Invalid, Code::NoTraffic));
    evidence.groups[0].received = 1;
    assert_eq!(judge(&evidence, &Limits::default()).status, Status::Valid);
}

#[test]
fn hundreds_of_reasons_of_one_code_are_folded() {
    let mut evidence = healthy();
    let late = |n: u32| GroupEvidence {
        node: format!("camera-{n:03}"),
        lag_p99_ns: Some(30_000_000),
        ..healthy().groups[0].clone()
    };
    evidence.groups.extend((0..200).map(late));
    evidence.interrupted = true;
    let verdict = judge(&evidence, &Limits::default());
    assert_eq!(verdict.reasons.len(), 20 + 1 + 1);
    let folded = &verdict.reasons[20];
    assert_eq!((folded.code, folded.severity, folded.count()), (Code::GeneratorLate, Severity::Invalid, 180));
    assert_eq!((folded.node.as_deref(), folded.text.as_str()), (None, "180 more like these"));
    assert_eq!(verdict.reasons.iter().map(|r| r.count()).sum::<usize>(), 201);
}

#[test]
fn one_slot_per_stream_may_be_missing() {
    // 16 streams at 1/s for three whole seconds, each of which began in the middle of a gap
    let mut evidence = healthy();
    let group = &mut evidence.groups[0];
    (group.expected, group.left, group.slack, group.gap_ns) = (Some(48.0), Some(32.0), 16.0, Some(1_000_000_000));
    assert_eq!(judge(&evidence, &Limits::default()).status, Status::Valid);
    evidence.groups[0].left = Some(20.0);
    assert_eq!(judge(&evidence, &Limits::default()).status, Status::Invalid);
}

#[test]
fn limits_can_be_set() {
    let mut evidence = healthy();
    evidence.nodes[0].throttled_percent = Some(6.0);
    let mut limits = Limits::default();
    limits.throttled_percent.invalid = 10.0;
    assert_eq!(judge(&evidence, &limits).status, Status::Degraded);
    let read: Limits = serde_json::from_str(r#"{"skipped_percent": 3.0}"#).unwrap();
    assert_eq!((read.skipped_percent, read.samples_p99), (3.0, 1000));
}

#[test]
fn the_gravest_reason_comes_first() {
    let mut evidence = healthy();
    evidence.notes = vec!["a".to_owned()];
    evidence.interrupted = true;
    evidence.groups[0].skipped = 400;
    let severities: Vec<_> = judge(&evidence, &Limits::default()).reasons.iter().map(|r| r.severity).collect();
    assert_eq!(severities, [Severity::Invalid, Severity::Degraded, Severity::Note]);
}
