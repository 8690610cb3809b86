//! What a calibration changes, to the nanosecond: costs, waits, cores, memory, samples.

use std::sync::Arc;

use rehearsal_core::calibration::{
    Calibration, Cost, HandshakeCosts, MemoryRules, Pacing, ReplyCosts, Saturation, TlsCosts, Wake, WhenFull,
};
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{Carrier, Connection, HostPlan, LinkSpec, NodePlan, Plan, TlsHandshake, TlsSpec};
use rehearsal_core::run::RunEnd;
use rehearsal_core::units::ByteSize;
use rehearsal_core::{Request, Span, Status};
use rehearsal_sim::SimOptions;

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{Kept, plan, run_with};

fn fixed(fixed_ns: f64) -> Cost {
    Cost { fixed_ns, ..Cost::default() }
}

/// 10 µs to send a message over HTTP, 20 µs to receive one.
fn dear() -> Calibration {
    let mut calibration = Calibration::free("dear");
    let http = calibration.carriers.entry(Carrier::Http1).or_default();
    (http.send, http.receive) = (fixed(10_000.0), fixed(20_000.0));
    calibration
}

fn run(plan: Plan, calibration: Calibration) -> (RunEnd, Kept) {
    assert_eq!(calibration.check(), Ok(()));
    let mut kept = Kept::default();
    let options = SimOptions { calibration: Some(Arc::new(calibration)), ..SimOptions::default() };
    (run_with(plan, options, &mut kept), kept)
}

fn lab(is: &Sending, server: NodePlan) -> Plan {
    plan(vec![senders("s", 1, is.clone()), server, services(1, None)], LinkSpec::default())
}

fn few(requests: u64) -> Sending {
    Sending { gap: Some((Span::from_millis(100), false)), requests, retries: 0, ..Sending::default() }
}

fn micros(is: &Sending, of: fn(&(Request, rehearsal_core::Outcome)) -> Span) -> Vec<u64> {
    is.outcomes().iter().map(|outcome| (of(outcome).as_nanos() + 500) / 1000).collect()
}

#[test]
fn each_end_pays_for_each_message() {
    let service = |calibration: Calibration| {
        let is = few(2);
        run(lab(&is, receiver(Serving::default())), calibration);
        micros(&is, |(_, o)| o.times.done.since(o.times.sent))
    };
    // sent, received, 1 ms of pause, the reply sent and received
    assert_eq!(service(dear()), [1060, 1060]);
    let mut by_size = dear();
    by_size.carriers.entry(Carrier::Http1).or_default().send.ns_per_byte = 1.0;
    // 1000 B there, 64 B back
    assert_eq!(service(by_size), [1061, 1061]);
    let mut slow = dear();
    slow.carriers.entry(Carrier::Http1).or_default().wake =
        Wake { idle_ns: vec![5000.0], busy_ns: vec![1_000_000.0], ..Wake::default() };
    assert_eq!(service(slow), [1070, 1070], "5 us at each end, which are idle");
    let mut napping = dear();
    napping.carriers.entry(Carrier::Http1).or_default().wake =
        Wake { idle_ns: vec![5000.0], nap_ns: vec![2000.0], ..Wake::default() };
    assert_eq!(service(napping), [1070, 1070], "the sender has slept for more than a millisecond, as the receiver has");
    let mut hidden = dear();
    hidden.carriers.entry(Carrier::Http1).or_default().saturation =
        Some(Saturation { per_second: 0.0, hidden_ns: 500_000.0 });
    assert_eq!(service(hidden), [1060, 1060], "it comes after the reply");
    let mut short = dear();
    short.carriers.entry(Carrier::Http1).or_default().reply =
        Some(ReplyCosts { send: fixed(1000.0), receive: fixed(2000.0) });
    assert_eq!(service(short), [1033, 1033], "replies have costs of their own");
}

#[test]
fn replies_with_costs_of_their_own_are_no_small_requests() {
    let outside = |payload_min: u64| {
        let mut calibration = dear();
        calibration.carriers.entry(Carrier::Http1).or_default().reply = Some(ReplyCosts::default());
        calibration.valid.payload_min = ByteSize(payload_min);
        run(lab(&few(2), receiver(Serving::default())), calibration).0.outside_calibration
    };
    // 1000 B there, 64 B back
    assert_eq!(outside(1000), Vec::<String>::new());
    assert_eq!(outside(1001).len(), 1);
}

#[test]
fn a_connection_for_each_request_is_paid_at_both_ends() {
    let is = few(1);
    let mut calibration = dear();
    calibration.carriers.entry(Carrier::Http1).or_default().connect = fixed(100_000.0);
    let mut plan = lab(&is, receiver(Serving::default()));
    plan.links[0].connection = Connection::PerRequest;
    run(plan, calibration);
    assert_eq!(micros(&is, |(_, o)| o.times.done.since(o.times.sent)), [1260]);
}

#[test]
fn taking_a_connection_in_may_cost_less_than_opening_one() {
    let is = few(1);
    let mut calibration = dear();
    let http = calibration.carriers.entry(Carrier::Http1).or_default();
    (http.connect, http.accept) = (fixed(100_000.0), Some(fixed(50_000.0)));
    let mut plan = lab(&is, receiver(Serving::default()));
    plan.links[0].connection = Connection::PerRequest;
    run(plan, calibration);
    assert_eq!(micros(&is, |(_, o)| o.times.done.since(o.times.sent)), [1210]);
}

#[test]
fn a_node_that_slept_pays_for_waking_up_and_one_at_work_does_not() {
    let waking = |wake_ns: f64, streams: u32| {
        let is = Sending { streams, ..few(1) };
        let mut calibration = dear();
        calibration.cpu.wake_ns = wake_ns;
        let (_, kept) = run(lab(&is, receiver(Serving::default())), calibration);
        let service = micros(&is, |(_, o)| o.times.done.since(o.times.sent));
        (service, micros(&is, |(_, o)| o.times.sent.since(o.times.ready)), kept)
    };
    // it wakes for the request, after the pause, and for the reply; what the sender needs to wake up is lag
    assert_eq!((waking(5000.0, 1).0, waking(5000.0, 1).1), (vec![1075], vec![5]));
    // three at once: the sender wakes once and sends them one after the other, the receiver is at work when the third comes
    let mut lag = waking(5000.0, 3).1;
    lag.sort_unstable();
    assert_eq!(lag, [5, 15, 25]);
}

/// The lab with one core for each node, whose load is known then.
fn loads(is: &Sending) -> Plan {
    let mut plan = lab(is, receiver(Serving::default()));
    plan.nodes.iter_mut().for_each(|node| node.vcpu = Some(1.0));
    plan
}

#[test]
fn falling_asleep_uses_a_core_and_delays_nobody() {
    let with = |sleep_ns: f64| {
        let is = few(20);
        let mut calibration = dear();
        calibration.cpu.sleep_ns = sleep_ns;
        let (_, kept) = run(loads(&is), calibration);
        let of = |node: &str| -> (f64, u64) {
            let of = kept.hosts.iter().filter(|host| host.node.starts_with(node));
            of.fold((0.0, 0), |(cpu, woken), host| {
                (cpu + host.cpu_percent.unwrap_or(0.0), woken + host.voluntary_switches.unwrap_or(0))
            })
        };
        (micros(&is, |(_, o)| o.times.done.since(o.times.sent)), of("receiver"))
    };
    let ((free, (cpu, woken)), (slow, (dearer, again))) = (with(0.0), with(100_000.0));
    assert_eq!((&free, free[0]), (&slow, 1060));
    // for each of at least ten requests in a whole second, and after the pause of each
    assert!(woken == again && woken >= 20 && woken.is_multiple_of(2), "{woken} {again}");
    assert!(dearer > 2.0 * cpu, "{cpu} {dearer}");
    // never longer than it has nothing to do, which is for two seconds and a little
    let (_, (longest, _)) = with(1e9);
    assert!(longest > 90.0 && longest < 250.0, "{longest}");
}

#[test]
fn an_answer_after_a_pause_may_cost_more_at_both_ends() {
    let service = |serving: Serving| {
        let is = few(2);
        let mut calibration = dear();
        let cost = |fixed_ns, ns_per_byte| Cost { fixed_ns, ns_per_byte, ..Cost::default() };
        calibration.carriers.entry(Carrier::Http1).or_default().paused =
            Some(ReplyCosts { send: cost(3_000.0, 1.0), receive: fixed(5_000.0) });
        run(lab(&is, receiver(serving)), calibration);
        micros(&is, |(_, o)| o.times.done.since(o.times.sent))
    };
    // 1060 as without, 3 us and 1 us for the 1000 B of the request, 5 us at the sender
    assert_eq!(service(Serving::default()), [1069, 1069]);
    assert_eq!(service(Serving { pause: Span::ZERO, ..Serving::default() }), [60, 60], "given at once");
}

#[test]
fn a_connection_may_be_closed_when_nobody_waits_any_more() {
    let with = |closing: f64| {
        let is = few(20);
        let mut calibration = dear();
        let http = calibration.carriers.entry(Carrier::Http1).or_default();
        http.connect = Cost { ns_per_byte: 10.0, ..fixed(90_000.0) };
        http.closing = closing;
        let mut plan = loads(&is);
        plan.links[0].connection = Connection::PerRequest;
        let (_, kept) = run(plan, calibration);
        let cpu: f64 = kept.hosts.iter().filter_map(|host| host.cpu_percent).sum();
        (micros(&is, |(_, o)| o.times.done.since(o.times.sent)), cpu)
    };
    // 90 us and 10 us for 1000 B at each end
    let (all, half) = (with(0.0), with(0.5));
    assert_eq!((&all.0[..], &half.0[..]), (&[1260; 20][..], &[1160; 20][..]));
    assert!(all.1 > 0.0 && (all.1 / half.1 - 1.0).abs() < 1e-3, "the same work: {} {}", all.1, half.1);
}

#[test]
fn what_a_clock_makes_due_costs_its_sender_more() {
    let cpu = |due_ns: f64, streams: u32| {
        let is = Sending { streams, ..few(20) };
        let mut calibration = dear();
        calibration.pacing.due_ns = due_ns;
        let (_, kept) = run(loads(&is), calibration);
        let late = micros(&is, |(_, o)| o.times.sent.since(o.times.ready));
        let service = micros(&is, |(_, o)| o.times.done.since(o.times.sent));
        let sender = kept.hosts.iter().filter(|host| !host.node.starts_with("receiver"));
        (sender.filter_map(|host| host.cpu_percent).sum::<f64>(), late, service)
    };
    let ((free, _, quick), (dearer, late, service)) = (cpu(0.0, 1), cpu(7_000.0, 1));
    assert_eq!(service, quick, "it is no part of the service");
    assert!(late.iter().all(|late| *late == 7), "{late:?}");
    // sent and heard for 30 us each, and 7 us more
    assert!((dearer / free - 37.0 / 30.0).abs() < 0.01, "{dearer} {free}");
}

#[test]
fn a_node_at_rest_has_its_share_of_a_core() {
    let mut calibration = Calibration::free("rest");
    calibration.cpu.rest_cores = 0.03;
    let mut server = receiver(Serving::default());
    server.vcpu = Some(0.5);
    let (_, kept) = run(lab(&few(20), server), calibration);
    let percents: Vec<f64> = kept.hosts.iter().filter(|h| h.node == "receiver").filter_map(|h| h.cpu_percent).collect();
    assert!(!percents.is_empty() && percents.iter().all(|percent| (percent - 6.0).abs() < 1e-6), "{percents:?}");
}

#[test]
fn a_calibrated_generator_wakes_by_its_quantum() {
    let lags = |quantum: u64, late_ns: Vec<f64>| {
        // due 0, 100.1, 200.2 and 300.3 ms after the start
        let is = Sending { gap: Some((Span::from_micros(100_100), false)), ..few(4) };
        let mut calibration = Calibration::free("paced");
        calibration.pacing = Pacing { quantum: Some(Span::from_micros(quantum)), late_ns, ..Pacing::default() };
        run(lab(&is, receiver(Serving::default())), calibration);
        (micros(&is, |(_, o)| o.times.sent.since(o.times.intended)), micros(&is, |(r, _)| r.at.since(r.intended)))
    };
    let (lag, _) = lags(250, Vec::new());
    assert_eq!(lag, [0, 150, 50, 200]);
    assert_eq!(lags(250, vec![7000.0]).0, [7, 157, 57, 207], "and a thread that sleeps is woken later");
    assert_eq!(lags(0, vec![7000.0]).0, [0, 0, 0, 0], "without a quantum it is never late");
}

#[test]
fn what_is_due_leaves_with_the_next_message() {
    // the second is due 1013 us after the start, and the sender would wake for it at 1200 us
    let is = Sending { gap: Some((Span::from_micros(1013), false)), in_flight: 9, ..few(2) };
    let mut calibration = dear();
    calibration.pacing.quantum = Some(Span::from_micros(200));
    run(lab(&is, receiver(Serving::default())), calibration);
    let mut lag = micros(&is, |(_, o)| o.times.sent.since(o.times.intended));
    lag.sort_unstable();
    // at 1061 us it has taken the answer to the first: the receiver's pause ends late by a part of it
    assert_eq!(lag, [0, 48]);
}

#[test]
fn a_node_at_work_pays_less_for_each_message() {
    // 10,000/s, 20 us to take one and 10 us to answer it: 0.3 cores, if load saves nothing
    let percents = |eased: f64| {
        let is = Sending { gap: Some((Span::from_micros(100), false)), requests: 20_000, in_flight: 99, ..few(1) };
        let mut calibration = dear();
        let http = calibration.carriers.entry(Carrier::Http1).or_default();
        (http.send.eased, http.receive.eased) = (eased, eased);
        let mut server = receiver(Serving { workers: 99, ..Serving::default() });
        server.vcpu = Some(1.0);
        let (_, kept) = run(lab(&is, server), calibration);
        kept.hosts.iter().filter(|h| h.node == "receiver").filter_map(|h| h.cpu_percent).fold(0.0, f64::max)
    };
    assert!((percents(0.0) - 30.0).abs() < 0.1, "{}", percents(0.0));
    // load = 0.3 (1 - 0.5 load)
    assert!((percents(0.5) - 100.0 * 0.3 / 1.15).abs() < 0.5, "{}", percents(0.5));
}

#[test]
fn a_sender_that_is_busy_is_late() {
    let is = Sending { streams: 3, ..few(1) };
    run(lab(&is, receiver(Serving::default())), dear());
    let mut lag = micros(&is, |(_, o)| o.times.sent.since(o.times.ready));
    lag.sort_unstable();
    assert_eq!(lag, [0, 10, 20], "one thread sends, one message after the other");
}

#[test]
fn more_than_a_core_can_take_is_not_taken() {
    // 30 µs of one thread for each request: 33,333 of them a second, and 40,000 are offered
    let gap = Some((Span::from_micros(25), false));
    let is = Sending { gap, in_flight: 64, queue: 1_000_000, ..few(60_000) };
    let serving = Serving { pause: Span::ZERO, workers: 1000, ..Serving::default() };
    let mut calibration = dear();
    let http = calibration.carriers.entry(Carrier::Http1).or_default();
    (http.send, http.receive) = (Cost::default(), fixed(30_000.0));
    let mut server = receiver(serving);
    server.vcpu = Some(1.0);
    let (end, kept) = run(lab(&is, server), calibration);
    let tally = end.groups[1].tally;
    assert_eq!(tally.served, 60_000);
    // and the sender has to take as many answers
    let seconds = end.stop.since(end.start.expect("it began")).as_secs_f64();
    assert!((1.80..1.81).contains(&seconds), "{seconds}");
    let percents: Vec<f64> = kept.hosts.iter().filter(|h| h.node == "receiver").filter_map(|h| h.cpu_percent).collect();
    assert!((percents[0] - 100.0).abs() < 0.01, "{percents:?}");
}

/// 1.7 s of work from half a second on, on a node of one core: half of the first second, all of the next, a fifth of the third.
#[test]
fn cores_are_accounted_for_second_by_second() {
    let is = Sending { gap: Some((Span::from_millis(500), true)), deadline: Span::from_secs(60), ..few(1) };
    let serving = Serving { pause: Span::ZERO, spin: Span::from_millis(1700), ..Serving::default() };
    let mut server = receiver(serving);
    server.vcpu = Some(1.0);
    let mut plan = lab(&is, server);
    plan.nodes[2] = services(99, Some(Span::from_millis(5600)));
    let (_, kept) = run(plan, Calibration::free("free"));
    let began = is.outcomes()[0].1.times.intended.as_nanos() as f64 - 1e6;
    let own: Vec<f64> = kept.hosts.iter().filter(|h| h.node == "receiver").filter_map(|h| h.cpu_percent).collect();
    let share = |second: f64| {
        let (from, to) = (began.max(second * 1e9), (began + 1.7e9).min((second + 1.0) * 1e9));
        (to - from).max(0.0) / 1e7
    };
    let expected: Vec<f64> = (0..own.len()).map(|second| share(second as f64)).collect();
    assert_eq!(
        own.iter().map(|p| (p * 1e6).round()).collect::<Vec<_>>(),
        expected.iter().map(|p| (p * 1e6).round()).collect::<Vec<_>>()
    );
    assert!((own.iter().sum::<f64>() - 170.0).abs() < 1e-6);
}

/// A handshake takes both ends 4.5 ms, so requests that are due meanwhile open connections of their own; without its costs one
/// connection does, whatever the machine would make of it.
#[test]
fn handshakes_cost_both_ends_and_the_connection_waits_for_them() {
    let tried = |carrier: Carrier, handshake: TlsHandshake, tls: TlsCosts| {
        let is = Sending { gap: Some((Span::from_millis(4), false)), in_flight: 10, ..few(300) };
        let spec = TlsSpec { handshake, ..TlsSpec::default() };
        let link = LinkSpec { carrier, tls: Some(spec), ..LinkSpec::default() };
        let one_core = |node: NodePlan| NodePlan { vcpu: Some(1.0), ..node };
        let (sender, receiver) = (senders("s", 1, is.clone()), receiver(Serving::default()));
        let plan = plan(vec![one_core(sender), one_core(receiver), services(1, None)], link);
        let (end, kept) = run(plan, Calibration { tls, ..Calibration::free("shaken") });
        let connections = &end.connections[0];
        // per cent of a second
        let busy = |node: &str| {
            let seconds = kept.hosts.iter().filter(|host| host.node == node).filter_map(|host| host.cpu_percent);
            (seconds.sum::<f64>() * 1000.0).round() / 1000.0
        };
        let service = micros(&is, |(_, o)| o.times.done.since(o.times.sent));
        let late: Vec<u64> = service.into_iter().filter(|us| *us > 1000).collect();
        ((connections.opened, connections.full), late, [busy("s"), busy("receiver")])
    };
    let costs = |connect_ns: f64, accept_ns: f64| HandshakeCosts { connect_ns, accept_ns };
    let tls = TlsCosts { full: costs(3.1e6, 1.4e6), resumed: costs(1e6, 5e5) };
    let (full, resumed) = (TlsHandshake::Full, TlsHandshake::Resumed);
    assert_eq!(tried(Carrier::Http1, full, TlsCosts::default()), ((1, 1), vec![], [0.0, 0.0]));
    // one is due 4 ms after the first, which is busy for 5.5 ms, and its answer waits until the sender's thread has computed the
    // second handshake, at 7.1 ms; each costs 3.1 and 1.4 ms of a second
    let two = ((2, 2), vec![7100, 5500], [0.62, 0.28]);
    assert_eq!(tried(Carrier::Http1, full, tls), two);
    assert_eq!(tried(Carrier::Http1, resumed, tls), two, "no ticket has come yet");
    // one connection, for which all wait that are due before it is there
    assert_eq!(tried(Carrier::Http3, full, tls), ((1, 1), vec![5500, 1500], [0.31, 0.14]));
}

/// Two nodes with a core each on a host of one core: each is half as fast, and what that costs it is lag.
#[test]
fn nodes_of_one_host_share_its_cores() {
    let lag = |cores: u32| {
        let is = few(1);
        let on_host = |name: &str| NodePlan { host: Some(0), vcpu: Some(1.0), ..senders(name, 1, is.clone()) };
        let nodes = vec![on_host("a"), on_host("b"), receiver(Serving::default()), services(2, None)];
        let mut plan = plan(nodes, LinkSpec::default());
        plan.hosts =
            vec![HostPlan { name: "h".to_owned(), cores, memory: None, labels: Default::default(), agent: None }];
        let mut calibration = Calibration::free("slow");
        calibration.carriers.entry(Carrier::Http1).or_default().send = fixed(10e6);
        run(plan, calibration);
        micros(&is, |(_, o)| o.times.sent.since(o.times.ready))
    };
    assert_eq!((lag(1), lag(2)), (vec![10_000, 10_000], vec![0, 0]));
}

#[test]
fn memory_turns_away_or_ends_the_node() {
    let with = |when_full: WhenFull| {
        let is = Sending { streams: 4, ..few(1) };
        let mut calibration = Calibration::free("small");
        calibration.memory =
            MemoryRules { base: ByteSize(10_000), connection: ByteSize(100), when_full, ..MemoryRules::default() };
        let mut server = receiver(Serving::default());
        // room for four connections and two payloads of 1,000 B
        server.memory = Some(ByteSize(12_400));
        let (end, kept) = run(lab(&is, server), calibration);
        (end, kept, is.outcomes())
    };
    let (end, kept, outcomes) = with(WhenFull::Reject);
    let count = |status: Status| outcomes.iter().filter(|(_, o)| o.status == status).count();
    assert_eq!((count(Status::Success), count(Status::Rejected)), (2, 2));
    assert_eq!((end.groups[1].tally.turned_away, end.faults.len()), (2, 0));
    let host = kept.hosts.iter().find(|h| h.node == "receiver").expect("a sample");
    assert_eq!((host.memory_bytes, host.memory_percent), (Some(12_400), Some(100.0)));
    let (end, _, outcomes) = with(WhenFull::Kill);
    assert_eq!((end.reason, end.faults.len()), (StopReason::Fault, 1));
    assert_eq!(end.faults[0].text, "receiver is out of memory: it would hold 13400B of 12400B");
    assert!(outcomes.iter().all(|(_, o)| o.status != Status::Success), "nobody is left to answer");
}

#[test]
fn what_is_beyond_the_calibration_is_named() {
    let outside = |change: fn(&mut Calibration)| {
        let mut calibration = dear();
        change(&mut calibration);
        run(lab(&few(3), receiver(Serving::default())), calibration).0.outside_calibration
    };
    assert_eq!(outside(|_| {}), [""; 0]);
    assert_eq!(
        outside(|c| c.valid.payload_max = Some(ByteSize(999))),
        ["payloads of 1kB, the largest it holds for is 999B"]
    );
    assert_eq!(
        outside(|c| c.valid.payload_min = ByteSize(100)),
        ["payloads of 64B, the smallest it holds for is 100B"]
    );
    assert_eq!(outside(|c| c.carriers.clear()), ["it says nothing of the carrier http1"]);
}

#[test]
fn messages_take_as_long_as_the_calibration_says() {
    let done = |control: Option<Span>| {
        let mut calibration = Calibration::free("messages");
        calibration.messages.control = control;
        let (end, _) = run(lab(&few(1), receiver(Serving::default())), calibration);
        end.stop.since(end.start.expect("it began")).as_nanos() / 1000
    };
    // one exchange of 1 ms, and the word that it is done
    assert_eq!((done(None), done(Some(Span::from_millis(7)))), (1100, 14_000));
}
