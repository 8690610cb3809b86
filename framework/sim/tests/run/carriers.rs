//! What carriers other than HTTP and NATS cost, to the nanosecond: echoes, pipelines, acknowledgements of a broker.

use rehearsal_core::plan::{Carrier, Connection, DatagramMode, LinkSpec, MqttSpec, MqttVersion, Qos};
use rehearsal_core::run::RunEnd;
use rehearsal_core::units::{BitRate, Fraction};
use rehearsal_core::{Span, Status};

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{plan, run};

fn one_by_one(requests: u64) -> Sending {
    let gap = Some((Span::from_millis(100), false));
    Sending { gap, requests, deadline: Span::from_secs(1), retries: 0, ..Sending::default() }
}

/// Runs it; what it ended with, and how long each exchange took in ms.
fn over(link: LinkSpec, is: &Sending) -> (RunEnd, Vec<f64>) {
    let (end, _) = run(plan(vec![senders("s", 1, is.clone()), receiver(Serving::default()), services(1, None)], link));
    let took = is.outcomes().iter().map(|(_, o)| o.times.done.since(o.times.sent).as_nanos() as f64 / 1e6).collect();
    (end, took)
}

fn delayed(carrier: Carrier) -> LinkSpec {
    LinkSpec { carrier, delay: Span::from_millis(5), ..LinkSpec::default() }
}

fn echoing() -> LinkSpec {
    LinkSpec { mode: DatagramMode::Echo, ..delayed(Carrier::Udp) }
}

#[test]
fn an_echo_is_a_header_that_comes_back_at_once() {
    let link = LinkSpec { rate: Some(BitRate(8_000_000)), ..echoing() };
    let (end, took) = over(link, &one_by_one(3));
    // 1 byte per µs: 1000 + 8 + 58 there, 40 + 8 + 58 back; no handshake, and no worker has a part in it
    assert_eq!(took, [11.172; 3]);
    let (sender, server) = (end.groups[0].tally, end.groups[1].tally);
    assert_eq!((sender.success, sender.datagrams_sent, sender.bytes_replied), (3, 0, 120));
    assert_eq!((server.datagrams_received, server.received, server.served, server.bytes_received), (3, 0, 0, 3000));
}

#[test]
fn what_is_lost_on_the_way_of_an_echo_is_not_sent_again() {
    let is = Sending { gap: Some((Span::from_millis(10), false)), in_flight: 200, ..one_by_one(2000) };
    let (end, _) = over(LinkSpec { loss: Fraction(0.1), ..echoing() }, &is);
    let (sender, server) = (end.groups[0].tally, end.groups[1].tally);
    assert_eq!((sender.generated, sender.attempts, sender.success + sender.lost), (2000, 2000, 2000));
    // there 1800, standard deviation 13.4; back as well 1620, standard deviation 17.5; five of them
    assert!((1733..1867).contains(&server.datagrams_received), "{}", server.datagrams_received);
    assert!((1532..1708).contains(&sender.success), "{}", sender.success);
    let lost: u64 = end.links.iter().map(|l| l.lost).sum();
    assert_eq!((lost, end.links.iter().map(|l| l.retransmitted).sum::<u64>()), (sender.lost, 0));
    assert!(is.outcomes().iter().all(|(_, o)| matches!(o.status, Status::Success | Status::Unacknowledged)));
}

#[test]
fn a_pipeline_needs_fewer_connections() {
    let took = |pipeline, connection| {
        let link = LinkSpec { pipeline, connection, ..delayed(Carrier::Tcp) };
        let gap = Some((Span::from_millis(1), false));
        over(link, &Sending { gap, in_flight: 4, ..one_by_one(4) }).1
    };
    // 10 ms there and back, 1 ms of work, and 10 ms for each handshake
    assert_eq!(took(1, Connection::KeepAlive), [21.0; 4]);
    let mut shared = took(4, Connection::KeepAlive);
    shared.sort_by(f64::total_cmp);
    assert_eq!(shared, [11.0, 11.0, 11.0, 21.0]);
    assert_eq!(took(4, Connection::PerRequest), [21.0; 4]);
}

#[test]
fn a_frame_takes_its_header_along() {
    let link = LinkSpec { carrier: Carrier::Tcp, rate: Some(BitRate(8_000_000)), ..LinkSpec::default() };
    // 1 byte per µs: 1000 + 61 + 90 there, 64 + 48 + 90 back, 1 ms of work between them
    assert_eq!(over(link, &one_by_one(2)).1, [2.353; 2]);
}

fn mqtt(qos: Qos) -> LinkSpec {
    let spec = MqttSpec { broker: "mqtt://127.0.0.1".to_owned(), qos, version: MqttVersion::V5 };
    LinkSpec { mqtt: Some(Box::new(spec)), ..delayed(Carrier::Mqtt) }
}

#[test]
fn a_broker_acknowledges_once_or_after_another_round_trip() {
    for (qos, ms) in [(Qos::AtLeastOnce, 10.0), (Qos::ExactlyOnce, 20.0)] {
        let (end, took) = over(mqtt(qos), &one_by_one(3));
        assert_eq!(took, [ms; 3], "{qos:?}");
        let (sender, server) = (end.groups[0].tally, end.groups[1].tally);
        assert_eq!((sender.success, sender.bytes_replied), (3, 0));
        assert_eq!((server.datagrams_received, server.received, server.bytes_received), (3, 0, 3000));
    }
}

#[test]
fn a_publication_that_a_link_loses_comes_late() {
    let is = Sending { gap: Some((Span::from_millis(10), false)), in_flight: 200, ..one_by_one(500) };
    let (end, _) = over(LinkSpec { loss: Fraction(0.02), ..mqtt(Qos::AtLeastOnce) }, &is);
    let (sender, server) = (end.groups[0].tally, end.groups[1].tally);
    assert_eq!((sender.success, sender.attempts, server.datagrams_received), (500, 500, 500));
    assert!(end.links[0].lost > 0 && server.datagrams_reordered == 0, "all share a connection, in its order");
}
