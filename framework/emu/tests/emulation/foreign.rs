//! Peers that are not ours: a client of the plainest sort, and servers that break off.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use rehearsal_core::Span;
use rehearsal_core::messages::{LifeEvent, StopReason};
use rehearsal_core::plan::{Carrier, Connection, NodePlan, Plan, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sender::SenderParams;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{Temper, controller, logger, receivers_at, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

/// Sensors here, their receiver at `address` elsewhere.
fn towards(address: SocketAddr, params: SenderParams) -> Plan {
    let receiver = NodePlan { local: false, ..receivers_at("receiver", 1, Temper::Prompt, Some(address)) };
    let nodes = vec![sensors("sensor", 1, params, 10), receiver, controller(1, None)];
    plan(nodes, Carrier::Http1, Connection::KeepAlive, Stop::AllRequestsDone)
}

/// Reads one request; false at the end of the connection.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    stream.read_exact(&mut vec![0; length]).ok()?;
    Some(head)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// A server that does `each` with every connection, and tells how many it had and what it read on each.
fn server(each: impl Fn(BufReader<TcpStream>) -> usize + Send + 'static) -> (SocketAddr, Receiver<usize>) {
    let (listener, address) = listener();
    let (told, heard) = sync_channel(1000);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let requests = each(BufReader::new(stream));
            if told.send(requests).is_err() {
                return;
            }
        }
    });
    (address, heard)
}

#[test]
fn a_request_carries_what_the_page_says() {
    let (head_told, head_heard) = sync_channel(10);
    let (address, _) = server(move |mut stream| {
        while let Some(head) = read_request(&mut stream) {
            head_told.send(head).expect("the test listens");
            stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("the client listens");
        }
        0
    });
    let end = emulate(
        towards(address, sender("receiver/main", 2)),
        EmuOptions::default(),
        &Records::default(),
        Control::new(),
    );
    check_identities(&end);
    assert_eq!(group(&end, 0).tally.success, 2);
    let heads: Vec<String> = head_heard.try_iter().collect();
    assert!(heads[1].starts_with("POST / HTTP/1.1\r\n"));
    for line in [&format!("host: {address}"), "content-type: text/plain", "content-length: 10", "rehearsal: 0.0.0.1.0"]
    {
        assert!(heads[1].contains(&format!("{line}\r\n")), "{line} in {}", heads[1]);
    }
}

#[test]
fn a_connection_that_was_closed_while_idle_is_no_failed_attempt() {
    // answers, says nothing of closing, closes
    let (address, connections) = server(|mut stream| {
        read_request(&mut stream).map_or(0, |_| {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            usize::from(stream.get_mut().write_all(answer).is_ok())
        })
    });
    // between two requests there is time to notice
    let params =
        SenderParams { rate: Some(rehearsal_core::units::Rate::per_second(50)), ..sender("receiver/main", 10) };
    let end = emulate(towards(address, params), EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.success, sent.attempts, sent.unacknowledged), (10, 10, 0));
    assert_eq!(connections.try_iter().sum::<usize>(), 10);
}

#[test]
fn a_deadline_closes_the_connection() {
    // never answers; returns when the client closes
    let (address, ended) = server(|mut stream| {
        let requests = usize::from(read_request(&mut stream).is_some());
        let mut rest = [0];
        assert_eq!(stream.read(&mut rest).unwrap_or(0), 0, "the client says no more");
        requests
    });
    let params = SenderParams { timeout: Span::from_millis(30), retries: 2, ..sender("receiver/main", 1) };
    let end = emulate(towards(address, params), EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.unacknowledged, sent.lost), (3, 1));
    let seen: Vec<usize> = (0..3).map(|_| ended.recv_timeout(Duration::from_secs(5)).expect("closed")).collect();
    assert_eq!(seen, [1, 1, 1], "a connection for each attempt, and each was closed");
}

/// Runs `params` against `address`: the notes about it, and the texts of the events that its node published.
fn told_of(address: SocketAddr, params: SenderParams) -> (RunEnd, Vec<String>, Vec<String>) {
    let mut plan = towards(address, params);
    plan.nodes.push(logger());
    let records = Records::default();
    let end = emulate(plan, EmuOptions::default(), &records, Control::new());
    check_identities(&end);
    let notes = end.notes.iter().filter(|n| n.contains(&address.to_string())).cloned().collect();
    let all = records.all();
    let events = all.iter().filter_map(|b| b.get::<LifeEvent>().ok()).filter(|e| e.kind == "target");
    let events = events.inspect(|e| assert_eq!((e.node.as_str(), e.actor.as_str()), ("sensor", "")));
    let events = events.map(|e| e.text.clone()).collect();
    (end, notes, events)
}

#[test]
fn a_target_that_closes_resets_or_refuses_is_named() {
    let (address, _heard) = server(|mut stream| usize::from(read_request(&mut stream).is_some()));
    let (end, notes, events) = told_of(address, sender("receiver/main", 3));
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.attempts, sent.unacknowledged, sent.lost), (3, 3, 3), "closed without an answer");
    assert_eq!(notes, [format!("{address} closed 3 connections without an answer")]);
    assert_eq!(events, [format!("{address} closed a connection without an answer")], "once");

    // what was not read when the server closes comes back as a reset
    let (address, _heard) = server(|mut stream| usize::from(stream.get_mut().read(&mut [0; 16]).is_ok()));
    let (end, notes, _) = told_of(address, sender("receiver/main", 3));
    assert_eq!(group(&end, 0).tally.unacknowledged, 3);
    assert_eq!(notes, [format!("{address} reset 3 connections")]);

    let (listener, address) = listener();
    drop(listener);
    let retried = SenderParams { retries: 2, ..sender("receiver/main", 3) };
    let (end, notes, events) = told_of(address, retried);
    assert_eq!((group(&end, 0).tally.attempts, group(&end, 0).tally.lost), (9, 3), "nobody listens");
    assert_eq!(notes, [format!("{address} refused 9 connections")]);
    assert_eq!(events, [format!("{address} refused a connection")]);
}

#[test]
fn a_target_that_accepts_nothing_and_one_that_speaks_otherwise_are_named() {
    let (listener, address) = listener();
    // until the listener's queue is full, and the next connection hangs
    let wait = Duration::from_millis(50);
    let queued: Vec<TcpStream> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, wait).ok()).collect();
    let params = SenderParams { timeout: Span::from_millis(40), ..sender("receiver/main", 2) };
    let (end, notes, events) = told_of(address, params);
    assert_eq!(group(&end, 0).tally.unacknowledged, 2);
    assert_eq!(notes, [format!("{address} did not accept 2 connections in time")]);
    assert_eq!(events.len(), 1);
    drop((queued, listener));

    let (address, _) = server(|mut stream| {
        read_request(&mut stream);
        usize::from(stream.get_mut().write_all(b"SSH-2.0-other\r\n").is_ok())
    });
    let (_, notes, _) = told_of(address, sender("receiver/main", 1));
    assert_eq!(notes, [format!("{address} answered 1 connection with something else than HTTP")]);
}

#[test]
fn codes_become_outcomes() {
    let (address, _) = server(|mut stream| {
        let codes = ["302 Found", "404 Not Found", "429 Too Many Requests", "500 Internal Server Error", "201 Created"];
        for code in codes {
            if read_request(&mut stream).is_none() {
                break;
            }
            let answer = format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).expect("the client listens");
        }
        0
    });
    let end = emulate(
        towards(address, sender("receiver/main", 5)),
        EmuOptions::default(),
        &Records::default(),
        Control::new(),
    );
    check_identities(&end);
    let t = &group(&end, 0).tally;
    assert_eq!((t.failed, t.invalid, t.rejected, t.lost, t.success), (2, 1, 1, 1, 1));
}

#[test]
fn a_foreign_client_is_served_and_may_go_away() {
    let (listener, address) = listener();
    drop(listener);
    let control = Control::new();
    let stop = control.clone();
    let client = thread::spawn(move || {
        let connect = || {
            (0..200)
                .find_map(|_| {
                    thread::sleep(Duration::from_millis(10));
                    TcpStream::connect(address).ok()
                })
                .expect("the receiver listens")
        };
        let ask = |text: &str| {
            let mut stream = connect();
            stream.write_all(text.as_bytes()).expect("the receiver reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer.lines().next().unwrap_or_default().to_owned()
        };
        let answers = [
            ask("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"),
            ask("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
            ask("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 99999999999\r\n\r\n"),
            ask("nonsense\r\n\r\n"),
        ];
        // goes away while the receiver pauses
        let mut gone = connect();
        gone.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi").expect("the receiver reads");
        thread::sleep(Duration::from_millis(10));
        drop(gone);
        thread::sleep(Duration::from_millis(100));
        stop.stop(StopReason::Interrupted);
        answers
    });
    let nodes = vec![receivers_at("receiver", 1, Temper::Paused(Span::from_millis(40)), Some(address))];
    let plan = plan(nodes, Carrier::Http1, Connection::KeepAlive, Stop::AllRequestsDone);
    let end = emulate(plan, EmuOptions::default(), &Records::default(), control);
    let answers = client.join().expect("the client is done");
    assert_eq!(
        answers,
        [
            "HTTP/1.1 200 OK",
            "HTTP/1.1 405 Method Not Allowed",
            "HTTP/1.1 413 Payload Too Large",
            "HTTP/1.1 400 Bad Request"
        ]
    );
    let got = &group(&end, 0).tally;
    assert_eq!((got.received, got.served, got.unserved), (2, 1, 1));
}
