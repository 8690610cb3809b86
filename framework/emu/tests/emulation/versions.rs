//! Every version of HTTP, in clear and encrypted: every request has one outcome, both ends agree, and what was agreed on
//! is told.

use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{Carrier, Connection, LinkSpec, Plan, Stop, TlsHandshake, TlsMode, TlsSpec};
use rehearsal_core::run::{ConnectionEnd, RunEnd};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::ByteSize;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{ANSWER_BYTES, Temper, controller, logger, receivers, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

/// Sensors of `bytes` a request and a receiver, over a link.
fn over(link: LinkSpec, params: SenderParams, bytes: u32) -> Plan {
    let nodes = vec![
        sensors("sensor", 2, params, bytes),
        receivers("receiver", 1, Temper::Prompt),
        controller(1, None),
        logger(),
    ];
    let plan = plan(nodes, link.carrier, link.connection, Stop::AllRequestsDone);
    Plan { links: vec![link], ..plan }
}

fn done(plan: Plan, shards: usize) -> RunEnd {
    let options = EmuOptions { shards: Some(shards), ..EmuOptions::default() };
    let end = emulate(plan, options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!((end.faults.as_slice(), end.reason), (&[][..], StopReason::Done));
    end
}

fn tls(mode: TlsMode, handshake: TlsHandshake) -> Option<TlsSpec> {
    Some(TlsSpec { mode, handshake, ..TlsSpec::default() })
}

/// The one row of connections from sensors to the receiver.
fn row(end: &RunEnd) -> ConnectionEnd {
    let [row] = &end.connections[..] else { panic!("one row, not {:?}", end.connections) };
    assert_eq!((row.from.as_str(), row.to.as_str()), ("sensor", "receiver"));
    row.clone()
}

#[test]
fn each_version_carries_every_request_in_clear_and_encrypted() {
    let full = |mode| tls(mode, TlsHandshake::Full);
    let links = [
        (Carrier::Http1, full(TlsMode::Server), "http/1.1"),
        (Carrier::Http1, full(TlsMode::Mutual), "http/1.1"),
        (Carrier::Http2, None, ""),
        (Carrier::Http2, full(TlsMode::Server), "h2"),
        (Carrier::Http2, full(TlsMode::Mutual), "h2"),
        (Carrier::Http3, None, "h3"),
        (Carrier::Http3, full(TlsMode::Mutual), "h3"),
    ];
    for (carrier, tls, alpn) in links {
        for (connection, shards) in [(Connection::KeepAlive, 2), (Connection::PerRequest, 1)] {
            let link = LinkSpec { carrier, connection, tls: tls.clone(), ..LinkSpec::default() };
            let end = done(over(link, SenderParams { streams: 4, ..sender("receiver/main", 25) }, 1000), shards);
            let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
            let what = format!("{carrier:?}, {tls:?}, {connection:?}: {:?}", end.notes);
            assert_eq!((sent.generated, sent.success, sent.attempts), (200, 200, 200), "{what}");
            assert_eq!((got.received, got.served, got.bytes_received), (200, 200, 200_000), "{what}");
            assert_eq!(sent.bytes_replied, 200 * u64::from(ANSWER_BYTES), "{what}");
            let row = row(&end);
            assert_eq!((row.carrier, row.alpn.as_str()), (carrier, alpn), "{what}");
            let opened = match (connection, carrier) {
                (Connection::PerRequest, _) => 200..=200,
                // each exchange under way has a connection: at most eight
                (_, Carrier::Http1) => 1..=8,
                // both sensors are in one node, which shares one connection
                _ => 1..=1,
            };
            assert!(opened.contains(&row.opened), "{what}: {row:?}");
            if alpn.is_empty() {
                assert_eq!((row.full, row.tls.as_str(), row.cipher.as_str()), (0, "", ""), "{what}");
            } else {
                let agreed = (row.full, row.resumed, row.tls.as_str(), row.cipher.as_str());
                assert_eq!(agreed, (row.opened, 0, "TLS 1.3", "TLS_AES_128_GCM_SHA256"), "{what}");
            }
        }
    }
}

#[test]
fn connections_are_resumed_after_the_first() {
    for carrier in [Carrier::Http1, Carrier::Http2, Carrier::Http3] {
        for mode in [TlsMode::Server, TlsMode::Mutual] {
            let tls = tls(mode, TlsHandshake::Resumed);
            let link = LinkSpec { carrier, connection: Connection::PerRequest, tls, ..LinkSpec::default() };
            let mut plan = over(link, sender("receiver/main", 20), 100);
            plan.nodes[0].groups[0].count = 1;
            let row = row(&done(plan, 1));
            assert_eq!((row.opened, row.full, row.resumed), (20, 1, 19), "{carrier:?}, {mode:?}");
        }
    }
}

#[test]
fn bodies_beyond_every_window_arrive_whole() {
    for carrier in [Carrier::Http2, Carrier::Http3] {
        for window in [None, Some(ByteSize(1 << 20))] {
            let link = LinkSpec { carrier, stream_window: window, connection_window: window, ..LinkSpec::default() };
            let end = done(over(link, SenderParams { streams: 3, ..sender("receiver/main", 10) }, 700_000), 2);
            let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
            assert_eq!((sent.success, got.bytes_received), (60, 60 * 700_000), "{carrier:?}: {:?}", end.notes);
        }
    }
}

#[test]
fn streams_and_connections_are_as_many_as_the_link_says() {
    for carrier in [Carrier::Http2, Carrier::Http3] {
        for (streams, connections, opened) in [(1, 4, 4), (2, 4, 4), (4, 4, 2), (3, 1, 1)] {
            let (streams, connections) = (Some(streams), Some(connections));
            let link = LinkSpec { carrier, streams, connections, ..LinkSpec::default() };
            // the receiver answers after a while, so that all eight exchanges are under way at once
            let mut plan = over(link, SenderParams { streams: 4, ..sender("receiver/main", 5) }, 100);
            let pause = rehearsal_core::Span::from_millis(20);
            plan.nodes[1] = receivers("receiver", 1, Temper::Paused(pause));
            let end = done(plan, 1);
            let sent = &group(&end, 0).tally;
            assert_eq!((sent.success, sent.attempts, row(&end).opened), (40, 40, opened), "{carrier:?} {streams:?}");
        }
    }
}
