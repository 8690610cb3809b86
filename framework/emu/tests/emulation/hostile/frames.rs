//! HTTP/2 (RFC 9113) by hand: a server that does with each stream what a test says.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use rehearsal_core::Span;
use rehearsal_core::plan::{Carrier, LinkSpec};

use super::Trial;
use crate::lab::group;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` in HPACK (RFC 7541, appendix A).
const OK: &[u8] = &[0x88];

/// One connection, seen from the server, and how long the fields of its last request were.
struct Wire(TcpStream, usize);

impl Wire {
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        // whoever has gone does not mind
        let _ = self.0.write_all(&frame);
    }

    /// Kind, flags and stream of the next frame; `None` at the end of the connection.
    fn read(&mut self) -> Option<(u8, u8, u32)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        self.0.read_exact(&mut vec![0; length as usize]).ok()?;
        if head[3] == HEADERS {
            self.1 = length as usize;
        }
        Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
    }

    /// The next stream whose request is here in full.
    fn request(&mut self) -> Option<u32> {
        loop {
            let (kind, flags, stream) = self.read()?;
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                return Some(stream);
            }
        }
    }

    /// The next stream that begins.
    fn begun(&mut self) -> Option<u32> {
        loop {
            let (kind, _, stream) = self.read()?;
            if kind == HEADERS {
                return Some(stream);
            }
        }
    }
}

/// A server that greets with `settings` and then does `each` with every connection, by its number from 0; when one has ended
/// it tells how long the fields of its last request were.
fn server(settings: &'static [u8], each: fn(usize, &mut Wire)) -> (SocketAddr, Receiver<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (told, ended) = sync_channel(10_000);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let told = told.clone();
            thread::spawn(move || {
                let mut wire = Wire(stream, 0);
                let mut preface = [0; 24];
                if wire.0.read_exact(&mut preface).is_ok() {
                    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                    wire.send(SETTINGS, 0, 0, settings);
                    each(number, &mut wire);
                }
                let _ = told.send(wire.1);
            });
        }
    });
    (address, ended)
}

fn trial(address: SocketAddr) -> Trial {
    Trial::of(LinkSpec { carrier: Carrier::Http2, ..LinkSpec::default() }, address)
}

/// Answers every request with these fields and this body.
fn answer(wire: &mut Wire, fields: &[u8], body: &[u8]) {
    while let Some(stream) = wire.request() {
        wire.send(HEADERS, END_HEADERS, stream, fields);
        wire.send(DATA, END_STREAM, stream, body);
    }
}

#[test]
fn interim_answers_trailers_and_redirects_are_understood() {
    let (address, ended) = server(&[], |_, wire| {
        while let Some(stream) = wire.request() {
            // 103, then 200, a body, and trailers `x: 1`
            wire.send(HEADERS, END_HEADERS, stream, &[0x48, 3, b'1', b'0', b'3']);
            wire.send(HEADERS, END_HEADERS, stream, OK);
            wire.send(DATA, 0, stream, b"four");
            wire.send(HEADERS, END_HEADERS | END_STREAM, stream, &[0, 1, b'x', 1, b'1']);
        }
    });
    let (end, notes) = trial(address).run();
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.success, sent.bytes_replied, notes), (3, 12, vec![]));
    assert_eq!(end.connections[0].opened, 1, "all went over one connection");
    ended.recv_timeout(Duration::from_secs(5)).expect("the connection was closed");

    let (address, _) = server(&[], |_, wire| answer(wire, &[0x48, 3, b'3', b'0', b'2'], b""));
    let (end, notes) = trial(address).run();
    assert_eq!((group(&end, 0).tally.failed, notes), (3, vec![]), "redirects are not followed");
}

#[test]
fn fields_are_as_long_as_links_take_them_to_be() {
    let (address, ended) = server(&[], |_, wire| answer(wire, OK, b""));
    Trial { requests: 50, ..trial(address) }.run();
    let fields = ended.recv_timeout(Duration::from_secs(5)).expect("the connection was closed") as u64;
    let taken = rehearsal_models::wire::HTTP2_REQUEST_FIELDS_BYTES;
    assert!(fields.abs_diff(taken) <= 5, "{fields} bytes, taken to be {taken}");
}

#[test]
fn streams_that_are_reset_leave_their_connection_alone() {
    let (address, ended) = server(&[], |_, wire| {
        while let Some(stream) = wire.begun() {
            // INTERNAL_ERROR
            wire.send(RST_STREAM, 0, stream, &2_u32.to_be_bytes());
        }
    });
    Trial { requests: 300, ..trial(address) }.must_be_told("reset 300 streams");
    ended.recv_timeout(Duration::from_secs(5)).expect("the connection was closed");
    assert_eq!(ended.try_recv().ok(), None, "there was no other");
}

#[test]
fn what_a_peer_has_not_begun_goes_to_another_connection() {
    // GOAWAY with nothing processed, and no error: only the second connection serves
    let (address, _) = server(&[], |number, wire| {
        if number == 0 {
            wire.begun();
            wire.send(GOAWAY, 0, 0, &[0; 8]);
            while wire.read().is_some() {}
        } else {
            answer(wire, OK, b"done");
        }
    });
    let (end, notes) = trial(address).run();
    assert_eq!((group(&end, 0).tally.success, notes), (3, vec![]));

    // REFUSED_STREAM on every connection: at last the attempt is lost
    let (address, _) = server(&[], |_, wire| {
        while let Some(stream) = wire.begun() {
            wire.send(RST_STREAM, 0, stream, &7_u32.to_be_bytes());
        }
    });
    trial(address).must_be_told("reset 3 streams");
}

#[test]
fn connections_that_are_ended_are_named() {
    // ENHANCE_YOUR_CALM
    let (address, _) = server(&[], |_, wire| {
        wire.begun();
        wire.send(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]);
        while wire.read().is_some() {}
    });
    trial(address).must_be_told("ended 3 connections with a reason of its own (GOAWAY)");
    let (address, _) = server(&[], |_, wire| {
        wire.request();
        // what was not read would make a reset of it
        let _ = wire.0.shutdown(std::net::Shutdown::Write);
        while wire.read().is_some() {}
    });
    trial(address).must_be_told("closed 3 connections without an answer");
}

#[test]
fn silence_and_stalls_end_with_the_deadline_and_leave_nothing_behind() {
    let (address, ended) = server(&[], |_, wire| while wire.read().is_some() {});
    let silent = Trial { requests: 40, timeout: Span::from_millis(10), ..trial(address) };
    let (end, notes) = silent.run();
    assert_eq!((group(&end, 0).tally.unacknowledged, notes), (40, vec![]));
    let opened = end.connections[0].opened;
    assert_eq!(opened, 40, "a connection that is silent past a deadline may be dead: the next attempt has its own");
    for _ in 0..opened {
        ended.recv_timeout(Duration::from_secs(5)).expect("every one was closed");
    }

    // 65,535 bytes may be sent before any is allowed; with SETTINGS_INITIAL_WINDOW_SIZE 0 none once that is known
    for settings in [&[][..], &[0, 4, 0, 0, 0, 0]] {
        let (address, ended) = server(settings, |_, wire| while wire.read().is_some() {});
        let stalled = Trial { bytes: 100_000, timeout: Span::from_millis(30), ..trial(address) };
        stalled.must_be_told("let the rest of 3 requests not through in time (flow control)");
        for _ in 0..3 {
            ended.recv_timeout(Duration::from_secs(5)).expect("every one was closed");
        }
    }
}

#[test]
fn what_is_against_the_protocol_is_told() {
    // content-length 10, three bytes
    let (address, _) = server(&[], |_, wire| answer(wire, &[0x88, 0x5c, 2, b'1', b'0'], b"abc"));
    trial(address).must_be_told("answered 3 connections with something else than HTTP");
    // another protocol
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
    });
    trial(address).must_be_told("answered 3 connections with something else than HTTP");
    // 40 kB of fields
    let (address, _) = server(&[], |_, wire| {
        let mut fields = OK.to_vec();
        for _ in 0..40 {
            // a literal that is not indexed: `x`, and 1000 times `a`
            fields.extend([0, 1, b'x', 0x7f, 0xe9, 0x06]);
            fields.extend([b'a'; 1000]);
        }
        while let Some(stream) = wire.request() {
            for (i, part) in fields.chunks(16_000).enumerate() {
                let last = if (i + 1) * 16_000 >= fields.len() { END_HEADERS } else { 0 };
                let end = if i == 0 { END_STREAM } else { 0 };
                wire.send(if i == 0 { HEADERS } else { 9 }, last | end, stream, part);
            }
        }
    });
    trial(address).must_be_told("answered 3 connections with something else than HTTP");
}
