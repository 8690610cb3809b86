//! Exchanges over `tcp`: counts at both ends, pipelines, and peers that break off, lie, or are no peers at all.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rehearsal_core::Span;
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{Carrier, Connection, LinkSpec, NodePlan, Plan, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::Rate;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{ANSWER_BYTES, Temper, controller, receivers, receivers_at, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

fn link(connection: Connection, pipeline: u32) -> LinkSpec {
    LinkSpec { carrier: Carrier::Tcp, connection, pipeline, ..LinkSpec::default() }
}

fn over(link: LinkSpec, nodes: Vec<NodePlan>) -> Plan {
    let mut plan = plan(nodes, Carrier::Tcp, link.connection, Stop::AllRequestsDone);
    plan.links = vec![link];
    plan
}

fn one_to_one(params: SenderParams, temper: Temper, link: LinkSpec, shards: usize) -> RunEnd {
    let nodes = vec![sensors("sensor", 1, params, 1000), receivers("receiver", 1, temper), controller(1, None)];
    let options = EmuOptions { shards: Some(shards), ..EmuOptions::default() };
    let end = emulate(over(link, nodes), options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!((end.faults.as_slice(), end.reason), ([].as_slice(), StopReason::Done));
    end
}

#[test]
fn all_are_answered_however_connections_are_used() {
    for (connection, pipeline) in [
        (Connection::KeepAlive, 1),
        (Connection::KeepAlive, 4),
        (Connection::KeepAlive, 64),
        (Connection::PerRequest, 1),
    ] {
        for shards in [1, 2] {
            let params = SenderParams { streams: 16, ..sender("receiver/main", 25) };
            let end = one_to_one(params, Temper::Prompt, link(connection, pipeline), shards);
            let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
            assert_eq!((sent.generated, sent.success, sent.attempts), (400, 400, 400));
            assert_eq!((got.received, got.served, end.late_replies), (400, 400, 0));
            assert_eq!((sent.bytes_sent, got.bytes_received), (400_000, 400_000));
            assert_eq!(sent.bytes_replied, 400 * u64::from(ANSWER_BYTES));
        }
    }
}

#[test]
fn a_schedule_is_that_of_other_carriers() {
    let digest = |carrier| {
        let params = SenderParams { rate: Some(Rate::per_second(1000)), ..sender("receiver/main", 200) };
        let link = LinkSpec { carrier, ..link(Connection::KeepAlive, 8) };
        one_to_one(params, Temper::Prompt, link, 2).schedule_digest()
    };
    assert_eq!(digest(Carrier::Tcp), digest(Carrier::Http1));
}

#[test]
fn a_missing_answer_is_unacknowledged_and_tried_again() {
    let params = SenderParams { timeout: Span::from_millis(40), retries: 2, ..sender("receiver/main", 6) };
    let end = one_to_one(params, Temper::SilentEvery(3), link(Connection::KeepAlive, 4), 2);
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.success, sent.attempts, sent.unacknowledged, sent.lost), (6, 9, 3, 0));
    assert_eq!((got.received, got.served, got.unserved), (9, 6, 3));
}

#[test]
fn a_rejection_is_tried_again() {
    let params = SenderParams { retries: 3, streams: 4, ..sender("receiver/main", 5) };
    let end = one_to_one(params, Temper::RejectsEvery(2), link(Connection::KeepAlive, 8), 2);
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.success + sent.lost, sent.attempts), (20, sent.success + sent.rejected));
    assert_eq!(got.turned_away, sent.rejected);
    assert!(sent.rejected > 0);
}

#[test]
fn fewer_connections_than_exchanges_serve_them_one_after_the_other() {
    for (connection, pipeline) in [(Connection::KeepAlive, 1), (Connection::KeepAlive, 2), (Connection::PerRequest, 1)]
    {
        let params = SenderParams { streams: 20, ..sender("receiver/main", 5) };
        let nodes =
            vec![sensors("sensor", 1, params, 100), receivers("receiver", 1, Temper::Prompt), controller(1, None)];
        let options = EmuOptions { connections_max: 3, shards: Some(2), ..EmuOptions::default() };
        let end = emulate(over(link(connection, pipeline), nodes), options, &Records::default(), Control::new());
        check_identities(&end);
        assert_eq!(group(&end, 0).tally.success, 100, "{connection:?}, {pipeline}");
    }
}

/// The header of a frame as its page says, built by other hands than the emulator's.
fn frame(kind: u8, id: u64, status: u8, following: &[u8]) -> Vec<u8> {
    let mut all = vec![0x52, 0x48, 1, kind];
    all.extend((following.len() as u32).to_be_bytes());
    all.extend(id.to_be_bytes());
    all.extend([0; 16]);
    all.extend([0xFF; 4]);
    all.extend([0; 5]);
    all.push(status);
    all.extend([0; 6]);
    assert_eq!(all.len(), 48);
    all.extend(following);
    all
}

/// Reads a frame; its id, its sequence and what follows.
fn read_frame(stream: &mut TcpStream) -> Option<(u64, u64, Vec<u8>)> {
    let mut header = [0; 48];
    stream.read_exact(&mut header).ok()?;
    let long = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let mut following = vec![0; u32::from_be_bytes(header[4..8].try_into().expect("four bytes")) as usize];
    stream.read_exact(&mut following).ok()?;
    Some((long(8), long(16), following))
}

/// A server that does `each` with every connection.
fn server(each: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(&each));
    address
}

/// Runs `params` against a peer at `address`.
fn against(address: SocketAddr, params: SenderParams, pipeline: u32) -> RunEnd {
    let receiver = NodePlan { local: false, ..receivers_at("receiver", 1, Temper::Prompt, Some(address)) };
    let nodes = vec![sensors("sensor", 1, params, 10), receiver, controller(1, None)];
    let plan = over(link(Connection::KeepAlive, pipeline), nodes);
    let end = emulate(plan, EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    end
}

fn told(end: &RunEnd, address: SocketAddr) -> Vec<&str> {
    end.notes.iter().map(String::as_str).filter(|note| note.contains(&address.to_string())).collect()
}

#[test]
fn a_foreign_server_answers_in_any_order() {
    let address = server(|mut stream| {
        while let Some(first) = read_frame(&mut stream) {
            assert_eq!(first.2, *b"text/plainaaaaaaaaaa", "the media type and the payload");
            let second = read_frame(&mut stream).expect("two are under way");
            for (id, ..) in [second, first] {
                stream.write_all(&frame(2, id, 0, b"ok")).expect("the client reads");
            }
        }
    });
    let end = against(address, SenderParams { streams: 2, ..sender("receiver/main", 10) }, 2);
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.success, sent.attempts, sent.bytes_replied), (20, 20, 40));
}

#[test]
fn statuses_become_outcomes() {
    let address = server(|mut stream| {
        while let Some((id, seq, _)) = read_frame(&mut stream) {
            stream.write_all(&frame(2, id, seq as u8 % 4, b"")).expect("the client reads");
        }
    });
    let end = against(address, sender("receiver/main", 8), 1);
    let t = &group(&end, 0).tally;
    assert_eq!((t.success, t.invalid, t.rejected, t.failed), (2, 2, 2, 2));
}

#[test]
fn peers_that_break_off_are_named_and_nobody_waits_for_them() {
    let params = || sender("receiver/main", 3);
    let address = server(|mut stream| _ = read_frame(&mut stream));
    let end = against(address, params(), 4);
    assert_eq!(group(&end, 0).tally.unacknowledged, 3);
    assert_eq!(told(&end, address), [format!("{address} closed 3 connections without an answer")]);

    // closes before it has read anything: what was not read comes back as a reset, or the end is seen first
    let address = server(drop);
    let end = against(address, params(), 4);
    assert_eq!((group(&end, 0).tally.attempts, group(&end, 0).tally.unacknowledged), (3, 3));

    let address = server(|mut stream| {
        read_frame(&mut stream);
        let _ = stream.write_all(b"SSH-2.0-other\r\n");
    });
    let end = against(address, params(), 1);
    let text = format!("{address} answered 3 connections with something else than");
    assert!(told(&end, address)[0].starts_with(&text), "{:?}", end.notes);

    // half an answer, and one to a request that never was
    let address = server(|mut stream| {
        let (id, ..) = read_frame(&mut stream).expect("a request");
        let _ = stream.write_all(&frame(2, id ^ 77, 0, b"never asked"));
        let _ = stream.write_all(&frame(2, id, 0, b"answer")[..47]);
    });
    let end = against(address, params(), 1);
    assert_eq!((group(&end, 0).tally.unacknowledged, end.late_replies), (3, 3));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let end = against(address, SenderParams { retries: 1, ..params() }, 8);
    assert_eq!((group(&end, 0).tally.attempts, group(&end, 0).tally.lost), (6, 3));
    assert_eq!(told(&end, address), [format!("{address} refused 6 connections")]);
}

#[test]
fn a_peer_that_reads_nothing_or_closes_its_half_is_waited_for_no_longer_than_it_takes() {
    // more than sockets hold: the request is never written in full
    let address = server(|stream| _ = thread::spawn(move || (thread::sleep(Duration::from_secs(20)), stream)));
    let plan = |bytes: u32| {
        let receiver = NodePlan { local: false, ..receivers_at("receiver", 1, Temper::Prompt, Some(address)) };
        let params = SenderParams { timeout: Span::from_millis(200), ..sender("receiver/main", 3) };
        over(link(Connection::KeepAlive, 1), vec![sensors("sensor", 1, params, bytes), receiver, controller(1, None)])
    };
    let end = emulate(plan(16 << 20), EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.attempts, sent.unacknowledged, sent.lost), (3, 3, 3));

    // half-open: its end comes before any answer could, though it would still read
    let address = server(|mut stream| {
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let end = against(address, sender("receiver/main", 3), 1);
    assert_eq!((group(&end, 0).tally.attempts, group(&end, 0).tally.unacknowledged), (3, 3));
    assert_eq!(told(&end, address), [format!("{address} closed 3 connections without an answer")]);
}

#[test]
fn a_peer_that_never_answers_costs_a_deadline_and_its_connection() {
    let address = server(|mut stream| {
        thread::spawn(move || while read_frame(&mut stream).is_some() {});
    });
    let params = SenderParams { timeout: Span::from_millis(30), retries: 2, streams: 4, ..sender("receiver/main", 1) };
    let end = against(address, params, 4);
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.attempts, sent.unacknowledged, sent.lost), (12, 12, 4));
}

/// Garbage, a length that nobody could keep, an answer in place of a request, and a client that goes away.
#[test]
fn a_receiver_outlives_its_clients() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let control = Control::new();
    let stop = control.clone();
    let client = thread::spawn(move || {
        let connect = || {
            let tries = (0..200).find_map(|_| {
                thread::sleep(Duration::from_millis(10));
                TcpStream::connect(address).ok()
            });
            let stream = tries.expect("the receiver listens");
            stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
            stream
        };
        let mut long = frame(1, 5, 0, b"");
        long[4..8].copy_from_slice(&[0xFF; 4]);
        for bad in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), long, frame(2, 1, 0, b"")] {
            let mut stream = connect();
            stream.write_all(&bad).expect("the receiver reads");
            assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0, "closed without a word");
        }
        let mut gone = connect();
        gone.write_all(&frame(1, 8, 0, b"hi")).expect("the receiver reads");
        thread::sleep(Duration::from_millis(10));
        drop(gone);
        let mut good = connect();
        // a byte at a time
        for byte in frame(1, 9, 0, b"hello") {
            good.write_all(&[byte]).expect("the receiver reads");
        }
        let answer = read_frame(&mut good);
        stop.stop(StopReason::Interrupted);
        answer
    });
    let foreign = NodePlan { local: false, ..sensors("sensor", 1, sender("receiver/main", 1), 10) };
    let nodes = vec![receivers_at("receiver", 1, Temper::Paused(Span::from_millis(40)), Some(address)), foreign];
    let end = emulate(over(link(Connection::KeepAlive, 1), nodes), EmuOptions::default(), &Records::default(), control);
    let (id, _, body) = client.join().expect("the client is done").expect("an answer");
    assert_eq!((id, body.len()), (9, ANSWER_BYTES as usize));
    let got = end.groups.iter().find(|g| g.tally.received > 0).expect("the receiver").tally;
    assert_eq!((got.received, got.served, got.unserved), (2, 1, 1));
}
