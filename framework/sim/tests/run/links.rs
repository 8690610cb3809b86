//! Links with more than a rate: cells that several nodes share, classes, CoDel, handshakes and slow start.

use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{Carrier, Codel, Handshake, LinkClass, LinkSpec, NodePlan, Plan, Scheduler};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::{BitRate, ByteSize, Fraction};
use rehearsal_core::{Span, Status};

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{plan, run};

/// What a group sends is of this class.
fn marked(mut node: NodePlan, dscp: &str) -> NodePlan {
    node.groups[0].sender = Some(SenderParams {
        to: "receiver/main".to_owned(),
        spread: Default::default(),
        streams: 1,
        requests: None,
        rate: None,
        arrivals: None,
        in_flight: 1,
        on_late: Default::default(),
        queue: 1000,
        timeout: Span::from_secs(10),
        retries: 3,
        backoff: Span::from_millis(100),
        limit: None,
        malformed: Fraction(0.0),
        dscp: dscp.parse().expect("a DSCP"),
        request: None,
        service: None,
    });
    node
}

/// One link for all pairs: 12.304 Mbit/s, a full frame each millisecond.
fn cell(link: LinkSpec) -> LinkSpec {
    let members = ["bulk->receiver", "urgent->receiver"].map(str::to_owned).to_vec();
    LinkSpec { rate: Some(BitRate(12_304_000)), members, ..link }
}

/// Urgent readings of one frame beside closed loops of 50 kB, that is 35 frames, which use the cell up.
fn crowd(link: LinkSpec) -> (Plan, Sending, Sending) {
    let serving = || Serving { pause: Span::ZERO, workers: 100, ..Serving::default() };
    let bulk = Sending {
        gap: None,
        requests: 100,
        streams: 5,
        bytes: 50_000,
        deadline: Span::from_secs(20),
        ..Sending::default()
    };
    let gap = Some((Span::from_millis(37), false));
    let urgent = Sending { gap, requests: 400, in_flight: 50, deadline: Span::from_secs(20), ..Sending::default() };
    let nodes = vec![
        marked(senders("bulk", 1, bulk.clone()), "CS1"),
        marked(senders("urgent", 1, urgent.clone()), "EF"),
        receiver(serving()),
        services(2, None),
    ];
    let mut plan = plan(nodes, LinkSpec::default());
    plan.links.push(cell(link));
    plan.routes = ["bulk", "urgent"].map(|from| (from.to_owned(), "receiver".to_owned(), 1)).to_vec();
    (plan, bulk, urgent)
}

/// Service times in ms, sorted.
fn services_ms(is: &Sending) -> Vec<f64> {
    let outcomes = is.outcomes();
    assert!(outcomes.iter().all(|(_, o)| o.status == Status::Success));
    let mut all: Vec<f64> =
        outcomes.iter().map(|(_, o)| o.times.done.since(o.times.sent).as_nanos() as f64 / 1e6).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn classes(scheduler: Scheduler) -> LinkSpec {
    let class = |dscp: &[Dscp], weight| LinkClass { dscp: dscp.to_vec(), weight };
    LinkSpec { scheduler, classes: vec![class(&[Dscp::EF], 1), class(&[], 1)], ..LinkSpec::default() }
}

#[test]
fn the_members_of_a_cell_share_its_rate() {
    let (plan, bulk, urgent) = crowd(LinkSpec::default());
    let (end, _) = run(plan);
    let [a, b] = [0, 1].map(|row| &end.groups[row].tally);
    assert_eq!((a.success, b.success), (500, 400));
    let there: Vec<_> = end.links.iter().filter(|l| l.to == "receiver").collect();
    assert_eq!(there.len(), 2, "each pair has its own row");
    let bytes: u64 = there.iter().map(|l| l.bytes).sum();
    let bits = bytes as f64 * 8.0 / (there[0].active_ns.max(there[1].active_ns) as f64 / 1e9);
    // five loops keep it busy all the time: both together have its rate, neither alone
    assert!((0.97 * 12_304_000.0..=12_304_000.0).contains(&bits), "{bits}");
    // an urgent reading waits for what is before it: up to five messages of 35 ms
    let times = services_ms(&urgent);
    assert!(times[times.len() / 2] > 100.0 && times[399] < 180.0, "{times:?}");
    drop(bulk);
}

#[test]
fn a_reading_in_the_urgent_class_waits_for_one_frame() {
    let (plan, bulk, urgent) = crowd(classes(Scheduler::Priority));
    run(plan);
    let times = services_ms(&urgent);
    // its own 1210 B take 0.787 ms; the frame on the wire up to one; and the acknowledgement comes back at once
    assert!(times[0] >= 0.78 && times[399] <= 1.79, "{} to {}", times[0], times[399]);
    let bulk = services_ms(&bulk);
    assert!(bulk[250] > 150.0, "what is left is shared by five: {}", bulk[250]);
}

#[test]
fn a_message_that_is_alone_takes_as_long_with_classes_as_without() {
    let alone = |link: LinkSpec| {
        let gap = Some((Span::from_secs(2), false));
        let one = Sending { gap, requests: 3, bytes: 100_000, ..Sending::default() };
        let nodes = vec![
            marked(senders("bulk", 1, one.clone()), "CS1"),
            receiver(Serving { pause: Span::ZERO, workers: 100, ..Serving::default() }),
            services(1, None),
        ];
        let mut plan = plan(nodes, LinkSpec::default());
        let delay = Span::from_millis(25);
        plan.links.push(LinkSpec { members: vec!["bulk->receiver".to_owned()], delay, ..cell(link) });
        plan.routes = vec![("bulk".to_owned(), "receiver".to_owned(), 1)];
        run(plan);
        services_ms(&one)
    };
    let codel = LinkSpec { codel: Some(Codel::default()), ..LinkSpec::default() };
    for link in [LinkSpec::default(), classes(Scheduler::Priority), classes(Scheduler::Weighted), codel] {
        let what = (link.scheduler, link.codel.is_some());
        let times = alone(link);
        // 106,420 B take 69.2 ms, and 25 ms to arrive; of 70 packets 10 leave, 20 more at 26 ms, and the rest from 52 ms on,
        // which is 22 ms more than without waits; the first had its handshake too
        assert!(times[..2].iter().all(|ms| (116.0..116.4).contains(ms)), "{what:?}: {times:?}");
    }
}

#[test]
fn weights_hold_between_loops_that_want_everything() {
    let mut link = classes(Scheduler::Weighted);
    link.classes[0].weight = 3;
    let loops = || Sending {
        gap: None,
        requests: 200,
        streams: 5,
        bytes: 20_000,
        deadline: Span::from_secs(60),
        ..Sending::default()
    };
    let nodes = vec![
        marked(senders("bulk", 1, loops()), "CS1"),
        marked(senders("urgent", 1, loops()), "EF"),
        receiver(Serving { pause: Span::ZERO, workers: 100, ..Serving::default() }),
        services(9, Some(Span::from_secs(10))),
    ];
    let mut plan = plan(nodes, LinkSpec::default());
    plan.links.push(cell(link));
    plan.routes = ["bulk", "urgent"].map(|from| (from.to_owned(), "receiver".to_owned(), 1)).to_vec();
    let (end, _) = run(plan);
    let [bulk, urgent] = [0, 1].map(|row| end.groups[row].tally.success as f64);
    assert!((2.9..3.1).contains(&(urgent / bulk)), "{urgent} and {bulk}");
}

/// 20 ms there and back without a rate: 10, 20, 40 and 80 packets leave in four rounds.
#[test]
fn a_large_request_takes_the_rounds_of_slow_start_once() {
    // 100 packets: 100 · 1460 bytes with their head of 150
    let is = Sending { bytes: 145_850, requests: 3, gap: Some((Span::from_millis(100), false)), ..Sending::default() };
    let link = LinkSpec { delay: Span::from_millis(10), ..LinkSpec::default() };
    let serving = Serving { pause: Span::ZERO, ..Serving::default() };
    run(plan(vec![senders("s", 1, is.clone()), receiver(serving), services(1, None)], link));
    let times: Vec<f64> =
        is.outcomes().iter().map(|(_, o)| o.times.done.since(o.times.sent).as_nanos() as f64 / 1e6).collect();
    // handshake 20, three waits of 20, there and back 20; then the window has grown to 80 and there is one wait
    assert_eq!(times, [100.0, 40.0, 20.0]);
}

#[test]
fn handshakes_cost_their_round_trips() {
    let first = |handshake| {
        let is = Sending { requests: 1, ..Sending::default() };
        let link = LinkSpec { handshake, delay: Span::from_millis(10), ..LinkSpec::default() };
        let serving = Serving { pause: Span::ZERO, ..Serving::default() };
        run(plan(vec![senders("s", 1, is.clone()), receiver(serving), services(1, None)], link));
        services_ms(&is)[0]
    };
    let all = [Handshake::Tcp, Handshake::Tls, Handshake::TlsEarlyData, Handshake::Quic, Handshake::QuicEarlyData];
    assert_eq!(all.map(first), [40.0, 60.0, 40.0, 40.0, 20.0]);
}

/// Over NATS all share a connection: what comes after a loss waits for it.
#[test]
fn a_loss_holds_up_what_shares_its_connection() {
    let order = |carrier| {
        let is =
            Sending { gap: Some((Span::from_millis(5), false)), requests: 300, in_flight: 300, ..Sending::default() };
        let link = LinkSpec { carrier, loss: Fraction(0.02), delay: Span::from_millis(2), ..LinkSpec::default() };
        let serving = Serving { pause: Span::ZERO, workers: 300, ..Serving::default() };
        let (end, _) = run(plan(vec![senders("s", 1, is.clone()), receiver(serving), services(1, None)], link));
        assert!(end.links[0].lost > 0 && end.groups[0].tally.success == 300);
        let mut slow = 0;
        for (_, outcome) in is.outcomes() {
            slow += u64::from(outcome.times.done.since(outcome.times.sent) > Span::from_millis(50));
        }
        (slow, end.links.iter().map(|l| l.lost).sum::<u64>())
    };
    let (apart, lost) = order(Carrier::Http1);
    assert!(apart <= lost + 2, "{apart} slow, {lost} lost");
    let (together, lost) = order(Carrier::Nats);
    // 204 ms of timeout hold up forty of those that leave each 5 ms
    assert!(together > 10 * lost, "{together} slow, {lost} lost");
}

#[test]
fn codel_drops_what_would_stand_in_the_queue() {
    let run_with = |codel| {
        let link = LinkSpec { codel, queue: ByteSize(10_000_000), ..LinkSpec::default() };
        let is = Sending {
            gap: Some((Span::from_micros(900), false)),
            requests: 5000,
            bytes: 1310,
            in_flight: 5000,
            queue: 5000,
            retries: 0,
            deadline: Span::from_secs(30),
            ..Sending::default()
        };
        let nodes = vec![
            senders("bulk", 1, is.clone()),
            receiver(Serving { pause: Span::ZERO, ..Serving::default() }),
            services(1, None),
        ];
        let mut plan = plan(nodes, LinkSpec::default());
        plan.links.push(LinkSpec { members: vec!["bulk->receiver".to_owned()], ..cell(link) });
        plan.routes = vec![("bulk".to_owned(), "receiver".to_owned(), 1)];
        let (end, _) = run(plan);
        (end.links[0].full, end.links[0].offered, end.groups[0].tally.success)
    };
    let (full, offered, success) = run_with(None);
    assert_eq!((full, offered, success), (0, 5000, 5000), "without it all wait");
    let (full, offered, success) = run_with(Some(Codel::default()));
    assert!(full > 50, "{full}");
    assert!(offered > 5000 && success > 4900, "a stream offers again what was dropped: {offered}, {success}");
}
