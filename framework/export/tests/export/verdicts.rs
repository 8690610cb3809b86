//! Each rule of the verdict, reached by evidence that breaks it and nothing else.

use std::collections::BTreeSet;

use rehearsal_core::messages::LifeEvent;
use rehearsal_export::verdict::{BufferDrops, Code, Contention, GroupEvidence, NodeEvidence, Opening, Rule, judge};
use rehearsal_export::{Aborted, Clock, Evidence, Fault, Limits, Overcommit, Severity, Status};

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

type Spoil = fn(&mut Evidence);
type Case = (&'static str, Spoil, Code, Severity);

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
        ("a threshold ended it", |e| e.aborted = Some(Aborted::default()), ThresholdAborted, Degraded),
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
        ("others used a third of the CPU", |e| e.contention = Some(contention(33.0)), Contended, Degraded),
        ("others used an eighth of the CPU", |e| e.contention = Some(contention(12.5)), Contended, Note),
        ("hardly a descriptor left", |e| e.nodes[0].descriptors_percent = Some(96.0), DescriptorsExhausted, Degraded),
        ("hardly a port left", |e| e.nodes[0].ports_percent = Some(99.0), PortsExhausted, Degraded),
        ("a datagram in a thousand dropped", |e| dropped(e, 0.05), BuffersExhausted, Note),
        ("one in a hundred dropped", |e| dropped(e, 1.0), BuffersExhausted, Degraded),
        ("no descriptor left", |e| told(e, "descriptors-exhausted"), DescriptorsExhausted, Degraded),
        ("no port left", |e| told(e, "ports-exhausted"), PortsExhausted, Degraded),
        ("the wall clock was set", |e| told(e, "clock-stepped"), ClockStepped, Note),
        ("it was set by 21 ms, back", |e| stepped(e, -21_000_000), ClockStepped, Note),
        ("nine seconds", |e| e.measured_seconds = Some(9.0), ShortRun, Note),
        ("the first seconds raise a p99 by a fifth", |e| opened(e, 120), WarmupIncluded, Note),
        ("the first seconds double a p99", |e| opened(e, 200), WarmupIncluded, Degraded),
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

fn contention(others_percent: f64) -> Contention {
    Contention { others_percent, own_percent: 10.0 }
}

fn dropped(evidence: &mut Evidence, percent: f64) {
    evidence.nodes[1].buffer_drops = vec![BufferDrops { what: "a UDP receive buffer".to_owned(), count: 3, percent }];
}

fn told(evidence: &mut Evidence, kind: &str) {
    let event = LifeEvent { kind: kind.to_owned(), node: "camera".to_owned(), ..LifeEvent::default() };
    evidence.told.add(&event);
}

/// The wall clock was set by so much, ns.
fn stepped(evidence: &mut Evidence, moved_ns: i64) {
    let (kind, text) = ("clock-stepped".to_owned(), format!("by {moved_ns} ns"));
    evidence.told.add(&LifeEvent { kind, text, moved_ns: Some(moved_ns), ..LifeEvent::default() });
}

fn opened(evidence: &mut Evidence, all_ns: u64) {
    evidence.groups[0].opening = Some(Opening { stat: "p99", seconds: 3, all_ns, rest_ns: 100 });
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
    let mut reached = BTreeSet::from([Code::GeneratorSaturated, Code::LimitsLoosened]);
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

/// Nobody answers: the first requests fill `in_flight`, and all others wait behind them with no blocked time yet. That the
/// first left a little late does not make the generator the culprit; that they left far too late does.
#[test]
fn what_waits_behind_a_mute_target_is_not_the_generators_fault() {
    let first = |lag, waiting| {
        let mut mute = healthy();
        missed(&mut mute, 10.0, lag, 0);
        mute.groups[0].waiting = waiting;
        judge(&mute, &Limits::default()).reasons.iter().map(|r| r.code).find(|code| *code != Code::GeneratorLate)
    };
    let bearable = 10_000_000;
    assert_eq!(first(bearable, 1490), Some(Code::TargetSaturated));
    assert_eq!(first(bearable, 0), Some(Code::GeneratorSaturated), "they did not come due in time");
    assert_eq!(first(4_000_000_000, 1490), Some(Code::GeneratorSaturated));
}

/// `in_flight` is full in both; who held up the load shows in whether the sending thread had time to read answers.
#[test]
fn a_generator_without_time_left_is_not_blocked_by_its_target() {
    let judged = |held_up_busy, shared| {
        let mut evidence = healthy();
        missed(&mut evidence, 150.0, 100_000, 400_000_000);
        let group = &mut evidence.groups[0];
        (group.queue_full, group.held_up, group.held_up_busy, group.shared) = (1350, 1350, held_up_busy, shared);
        let verdict = judge(&evidence, &Limits::default());
        let [reason] = &verdict.reasons[..] else { panic!("{verdict:?}") };
        (reason.code, reason.text.clone())
    };
    assert_eq!(judged(0, false).0, Code::TargetSaturated);
    assert_eq!(judged(675, false).0, Code::TargetSaturated, "half of it may be either's fault");
    let (code, text) = judged(1215, false);
    assert_eq!(code, Code::GeneratorSaturated);
    assert!(text.ends_with("no CPU time left in the seconds that hold 90 % of what is missing"), "{text}");
    assert!(
        judged(1350, true)
            .1
            .ends_with("it shares its process with receivers: place them apart to tell who took that time")
    );
}

#[test]
fn a_step_of_the_clock_is_held_to_its_limit() {
    let mut evidence = healthy();
    [6_000_000, -19_000_000, 7_000_000].into_iter().for_each(|moved| stepped(&mut evidence, moved));
    let with = |severity, bound| {
        let mut limits = Limits::default();
        limits.set(Rule::ClockStepped, severity, bound);
        let reasons = judge(&evidence, &limits).reasons.into_iter().filter(|r| r.code == Code::ClockStepped);
        reasons.map(|r| (r.severity, r.value, r.limit)).collect::<Vec<_>>()
    };
    assert_eq!(with(Severity::Invalid, None), [], "below 20 ms");
    let expected = |severity, limit| [(severity, Some(19e6), Some(limit))];
    assert_eq!(with(Severity::Note, Some(10e6)), expected(Severity::Note, 10e6), "the largest counts");
    assert_eq!(with(Severity::Degraded, Some(5e6)), expected(Severity::Degraded, 5e6));
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
fn limits_can_be_set_and_a_looser_one_is_told() {
    let mut evidence = healthy();
    evidence.nodes[0].throttled_percent = Some(6.0);
    let mut limits = Limits::default();
    limits.set(Rule::Throttled, Severity::Invalid, Some(10.0));
    let verdict = judge(&evidence, &limits);
    let codes: Vec<_> = verdict.reasons.iter().map(|r| (r.code, r.severity)).collect();
    assert_eq!(codes, [(Code::Throttled, Severity::Degraded), (Code::LimitsLoosened, Severity::Note)]);
    assert!(verdict.reasons[1].text.ends_with("throttled: INVALID above 10 %, usually above 5 %"), "{verdict:?}");
    limits.set(Rule::Throttled, Severity::Invalid, Some(4.0));
    let codes: Vec<_> = judge(&evidence, &limits).reasons.iter().map(|r| (r.code, r.severity)).collect();
    assert_eq!(codes, [(Code::Throttled, Severity::Invalid)], "a tighter one needs no telling");
    for severity in [Severity::Degraded, Severity::Invalid] {
        limits.set(Rule::Throttled, severity, None);
    }
    assert_eq!(judge(&evidence, &limits).status, Status::Valid, "never means never");
}

#[test]
fn every_limit_decides_something() {
    let spoiled: &[(Rule, Spoil)] = &[
        (Rule::GeneratorLate, |e| e.groups[0].lag_p99_ns = Some(21_000_000)),
        (Rule::GeneratorLateMin, |e| (e.groups[0].gap_ns, e.groups[0].lag_p99_ns) = (None, Some(21_000_000))),
        (Rule::RateMissed, |e| missed(e, 1000.0, 0, 0)),
        (Rule::Skipped, |e| e.groups[0].skipped = 300),
        (Rule::Throttled, |e| e.nodes[0].throttled_percent = Some(50.0)),
        (Rule::Stolen, |e| e.nodes[0].steal_percent = Some(50.0)),
        (Rule::Contended, |e| e.contention = Some(contention(50.0))),
        (Rule::Stretched, |e| e.ran_seconds = 90.0),
        (Rule::ClockUnknown, |e| e.clock = Clock::Measured { uncertainty_ns: 9_000_000 }),
        (Rule::ClockStepped, |e| stepped(e, -30_000_000)),
        (Rule::FewSamples, |e| e.groups[0].samples = Some(5)),
        (Rule::ShortRun, |e| e.measured_seconds = Some(1.0)),
        (Rule::WarmupIncluded, |e| opened(e, 200)),
        (Rule::BuffersExhausted, |e| dropped(e, 50.0)),
        (Rule::DescriptorsExhausted, |e| e.nodes[0].descriptors_percent = Some(99.0)),
        (Rule::PortsExhausted, |e| e.nodes[0].ports_percent = Some(99.0)),
    ];
    assert_eq!(spoiled.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), Rule::ALL, "one case for each limit");
    for (rule, spoil) in spoiled {
        let mut evidence = healthy();
        spoil(&mut evidence);
        let with = |bounds: [Option<f64>; 3]| {
            let mut limits = Limits::default();
            let severities = [Severity::Note, Severity::Degraded, Severity::Invalid];
            severities.into_iter().zip(bounds).for_each(|(severity, bound)| limits.set(*rule, severity, bound));
            judge(&evidence, &limits).reasons.into_iter().filter(|r| r.code != Code::LimitsLoosened).collect::<Vec<_>>()
        };
        assert!(!with([rule.usual().note, rule.usual().degraded, rule.usual().invalid]).is_empty(), "{rule:?}");
        assert_eq!(with([None; 3]), [], "{rule:?} that is never broken");
        // a bound that everything breaks, or nothing does
        let bound = if rule.worse() == rehearsal_export::verdict::Worse::Above { 0.0 } else { 1e18 };
        if !matches!(rule, Rule::GeneratorLate | Rule::GeneratorLateMin) {
            assert_eq!(with([None, None, Some(bound)])[0].severity, Severity::Invalid, "{rule:?}");
        }
    }
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

/// Costs that nobody measured are told by the name of their calibration, and measured ones too.
#[test]
fn the_calibration_is_named() {
    let told = |calibrated: bool, title: Option<&str>| {
        let evidence = Evidence { calibrated: Some(calibrated), calibration: title.map(str::to_owned), ..healthy() };
        let verdict = judge(&evidence, &Limits::default());
        assert_eq!(verdict.status, Status::Valid);
        verdict.reasons.into_iter().map(|reason| (reason.code, reason.text)).collect::<Vec<_>>()
    };
    let assumed = "calibrated by `default`, which nobody measured: costs and what follows from them are assumptions";
    assert_eq!(told(false, Some("`default`, which nobody measured")), [(Code::Uncalibrated, assumed.to_owned())]);
    assert_eq!(told(true, Some("`lab`")), [(Code::Remark, "calibrated by `lab`".to_owned())]);
    assert!(told(false, None)[0].1.starts_with("not calibrated"));
}
