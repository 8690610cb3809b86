//! Datagrams and flows: what arrives is success, the rest is lost, and each second of a flow is reported.

use std::sync::{Arc, Mutex};

use rehearsal_core::flow::{Arrivals, FlowReport, FlowSet, FlowSpec};
use rehearsal_core::messages::StartAt;
use rehearsal_core::plan::{Carrier, GroupPlan, LinkSpec};
use rehearsal_core::units::{BitRate, ByteSize, Fraction, Rate};
use rehearsal_core::{Datagram, Event, FlowId, Payload, Role, Span, Time, TimerKey};

use crate::actors::{START, services};
use crate::lab::{act, group, node, plan, run};

type Log<T> = Arc<Mutex<Vec<T>>>;

fn udp() -> LinkSpec {
    LinkSpec { carrier: Carrier::Udp, delay: Span::from_millis(2), ..LinkSpec::default() }
}

/// Notes (seq, sent, done) of every datagram, in ns after the start.
fn sink(log: &Log<(u64, u64, u64)>) -> GroupPlan {
    let log = log.clone();
    group("main", Role::Receiver, 1, move |_, wiring| {
        wiring.serve(None);
        let log = log.clone();
        act(move |now, event, _| {
            if let Event::Datagram { head, times, payload } = event {
                assert_eq!((times.done, payload.seq), (now, head.seq));
                let ns = |t: Time| t.since(START).as_nanos();
                log.lock().expect("one thread").push((head.seq, ns(times.sent), ns(times.done)));
            }
        })
    })
}

/// A flow of 1000 datagrams a second for `for_`, and what is done to it at a time after the start.
fn flow(span: Span, change: Option<(Span, FlowSet)>, reports: &Log<(Time, FlowReport)>) -> GroupPlan {
    let reports = reports.clone();
    group("main", Role::Sender, 1, move |_, wiring| {
        wiring.subscribe("lab.v1.t.ctl.*.*.start")?;
        let to = wiring.target("receiver/main")?;
        let recipe = wiring.recipe(Arc::new(crate::actors::Plain { malformed: false }));
        let (rng, reports) = (wiring.rng(0, 0, "flow"), reports.clone());
        act(move |now, event, out| match event {
            Event::Message { body, .. } if let Ok(start) = body.get::<StartAt>() => {
                out.flow(FlowSpec {
                    flow: FlowId(4),
                    to: to.base,
                    stream: 0,
                    recipe,
                    bytes: 100,
                    arrivals: Arrivals::Constant(Rate::per_second(1000)),
                    from: start.at,
                    after: Time::ZERO,
                    until: start.at + span,
                    limit: u64::MAX,
                    rng: rng.clone(),
                });
                if let Some((after, _)) = change {
                    out.set_timer(TimerKey(0), start.at + after);
                }
            }
            Event::Timer { .. } => out.set_flow(FlowId(4), change.expect("a timer was set for it").1),
            Event::FlowReport(report) => {
                reports.lock().expect("one thread").push((now, *report));
                if report.ended {
                    out.finish();
                }
            }
            _ => {}
        })
    })
}

fn seconds(reports: &Log<(Time, FlowReport)>) -> Vec<(u64, u64, u64, bool)> {
    let ms = |t: Time| t.since(START).as_nanos() / 1_000_000;
    let all = reports.lock().expect("one thread");
    all.iter().map(|(at, r)| (ms(*at), r.sent, r.skipped, r.ended)).collect()
}

#[test]
fn only_a_link_that_reorders_puts_datagrams_out_of_order() {
    let late = |reorder| {
        let link = LinkSpec { jitter: Span::from_millis(10), reorder, ..udp() };
        let nodes = vec![
            node("s", vec![flow(Span::from_secs(1), None, &Log::default())]),
            node("receiver", vec![sink(&Log::default())]),
            services(1, None),
        ];
        let (end, _) = run(plan(nodes, link));
        assert_eq!(end.groups[0].tally.success, 1000);
        end.groups[1].tally.datagrams_reordered
    };
    assert_eq!(late(false), 0);
    // one a millisecond and 10 ms of jitter: most come after a later one
    assert!(late(true) > 500, "{}", late(true));
}

#[test]
fn a_lossy_flow_is_settled_by_the_receivers_counts() {
    let (log, reports) = (Log::default(), Log::default());
    let link = LinkSpec { loss: Fraction(0.1), ..udp() };
    let nodes = vec![
        node("s", vec![flow(Span::from_millis(2500), None, &reports)]),
        node("receiver", vec![sink(&log)]),
        services(1, None),
    ];
    let (end, kept) = run(plan(nodes, link));
    let (sender, server) = (end.groups[0].tally, end.groups[1].tally);
    assert_eq!((sender.datagrams_sent, sender.generated, sender.attempts), (2500, 2500, 2500));
    assert_eq!(sender.bytes_sent, 250_000);
    assert_eq!((sender.success, sender.success + sender.lost), (server.datagrams_received, 2500));
    assert_eq!((sender.unacknowledged, sender.open(), sender.open_attempts()), (sender.lost, 0, 0));
    assert_eq!(server.bytes_received, server.datagrams_received * 100);
    assert_eq!((server.datagrams_duplicate, server.datagrams_reordered), (0, 0));
    // 250 expected, standard deviation 15
    assert!((190..310).contains(&sender.lost), "{} lost", sender.lost);
    let log = log.lock().expect("one thread");
    assert_eq!(log.len() as u64, server.datagrams_received);
    assert!(log.iter().all(|(seq, sent, done)| *sent == seq * 1_000_000 && done - sent == 2_000_000));
    // the one due at a full second leaves before the report
    assert_eq!(seconds(&reports), [(1000, 1001, 0, false), (2000, 1000, 0, false), (2499, 499, 0, true)]);
    let open: Vec<u64> = kept.snapshots.iter().filter(|s| s.node == "s").map(|s| s.totals.open()).collect();
    assert_eq!(open, [1001, 2001, 0], "datagrams are open until the end settles them");
    let names: Vec<_> =
        kept.snapshots.iter().find(|s| s.node == "receiver").map(|s| s.histograms.len()).into_iter().collect();
    assert_eq!(names, [3], "the receiver's one-way time, its jitter and its IPDV");
}

#[test]
fn a_paused_flow_skips_and_a_stopped_one_ends() {
    let ms = Span::from_millis;
    let cases = [
        (FlowSet::Pause, (500, 500), vec![(1000, 500, 501, false), (1999, 0, 999, true)]),
        (FlowSet::Stop, (500, 500), vec![(499, 500, 0, true)]),
        // 500 up to 499 ms, then one every 10 ms from 509.5 ms on
        (FlowSet::Rate(Rate::per_second(100)), (650, 650), vec![(1000, 550, 0, false), (1999, 100, 0, true)]),
        (FlowSet::Resume, (2000, 2000), vec![(1000, 1001, 0, false), (1999, 999, 0, true)]),
    ];
    for (set, (sent, success), expected) in cases {
        let (log, reports) = (Log::default(), Log::default());
        let nodes = vec![
            // the change comes at 499.5 ms, between two departures
            node("s", vec![flow(ms(2000), Some((Span::from_micros(499_500), set)), &reports)]),
            node("receiver", vec![sink(&log)]),
            services(1, None),
        ];
        let (end, _) = run(plan(nodes, udp()));
        let tally = end.groups[0].tally;
        let reports = seconds(&reports);
        assert_eq!(reports, expected, "{set:?}");
        assert_eq!((tally.datagrams_sent, tally.success), (sent, success), "{set:?}");
        assert_eq!(tally.skipped, expected.iter().map(|r| r.2).sum::<u64>(), "{set:?}");
    }
}

#[test]
fn the_stop_ends_a_flow_and_waits_for_what_is_under_way() {
    let (log, reports) = (Log::default(), Log::default());
    let nodes = vec![
        node("s", vec![flow(Span::from_secs(60), None, &reports)]),
        node("receiver", vec![sink(&log)]),
        services(9, Some(Span::from_micros(1_500_500))),
    ];
    let (end, _) = run(plan(nodes, udp()));
    let tally = end.groups[0].tally;
    assert_eq!((tally.datagrams_sent, tally.success, tally.lost), (1501, 1501, 0));
    assert_eq!(seconds(&reports), [(1000, 1001, 0, false), (1500, 500, 0, true)]);
    assert_eq!(end.groups[1].tally.datagrams_received, 1501);
}

#[test]
fn a_burst_of_datagrams_overflows_the_queue_and_planned_ones_leave_on_time() {
    let log = Log::default();
    let burst = group("main", Role::Sender, 1, |_, wiring| {
        wiring.subscribe("lab.v1.t.ctl.*.*.start")?;
        let to = wiring.target("receiver/main")?;
        let recipe = wiring.recipe(Arc::new(crate::actors::Plain { malformed: false }));
        act(move |_, event, out| {
            if let Event::Message { body, .. } = event
                && let Ok(start) = body.get::<StartAt>()
            {
                for seq in 0..30 {
                    let at = start.at + Span::from_millis(if seq < 20 { 0 } else { 100 * (seq - 19) });
                    let payload = Payload::new(934, recipe, seq);
                    out.send(Datagram { to: to.base, stream: 0, seq, intended: at, at, payload });
                }
                out.finish();
            }
        })
    });
    // a packet of 934 + 8 + 58 bytes takes 1 ms, and ten may wait behind the one being sent
    let link = LinkSpec { rate: Some(BitRate(8_000_000)), queue: ByteSize(10_000), ..udp() };
    let nodes = vec![node("s", vec![burst]), node("receiver", vec![sink(&log)]), services(1, None)];
    let (end, _) = run(plan(nodes, link));
    let tally = end.groups[0].tally;
    assert_eq!((tally.datagrams_sent, tally.success, tally.lost), (30, 21, 9));
    let arrivals: Vec<u64> = log.lock().expect("one thread").iter().map(|d| d.2 / 1_000_000).collect();
    let expected: Vec<u64> = (1..=11).map(|k| k + 2).chain((1..=10).map(|k| 100 * k + 3)).collect();
    assert_eq!(arrivals, expected);
}

/// What an acknowledged stream carries is late and never lost, though nobody tells its sender.
#[test]
fn publications_without_acknowledgement_are_datagrams_that_a_stream_carries() {
    use rehearsal_core::plan::{MqttSpec, MqttVersion, Qos};
    let mqtt = MqttSpec { broker: "mqtt://127.0.0.1".to_owned(), qos: Qos::AtMostOnce, version: MqttVersion::V311 };
    let link = LinkSpec { carrier: Carrier::Mqtt, mqtt: Some(Box::new(mqtt)), loss: Fraction(0.05), ..udp() };
    let reports = Log::default();
    let nodes = vec![
        node("s", vec![flow(Span::from_secs(1), None, &reports)]),
        node("receiver", vec![sink(&Log::default())]),
        services(1, None),
    ];
    let (end, _) = run(plan(nodes, LinkSpec { carrier: Carrier::Mqtt, ..link }));
    let (sender, server) = (end.groups[0].tally, end.groups[1].tally);
    assert_eq!((sender.datagrams_sent, sender.success, sender.lost), (1000, 1000, 0));
    assert_eq!((server.datagrams_received, server.datagrams_reordered), (1000, 0));
    assert!(end.links[0].lost > 0);
}
