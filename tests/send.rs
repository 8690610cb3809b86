//! `rehearsal send`, and targets outside of an experiment: a service that is not ours, asked by the built program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::errors::must_fail;
use crate::support::{Bundle, Scratch};

/// A service that answers each request after `pause` with 50 bytes, and closes when it is told to.
fn service(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || serve(stream, pause));
        }
    });
    address
}

fn serve(stream: TcpStream, pause: Duration) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut close) = (0, false);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap_or(0);
            }
            close |= line == "connection: close";
            if line.is_empty() {
                break;
            }
        }
        if stream.read_exact(&mut vec![0; length]).is_err() {
            return;
        }
        thread::sleep(pause);
        let answer = format!("HTTP/1.1 200 OK\r\nserver: test\r\ncontent-length: 50\r\n\r\n{:<50}", "hello");
        if stream.get_mut().write_all(answer.as_bytes()).is_err() || close {
            return;
        }
    }
}

/// Whether a run came to its end: on a busy machine it may be late, and INVALID for that.
fn ran(code: Option<i32>) -> bool {
    matches!(code, Some(0 | 20))
}

#[test]
fn one_request_is_shown_with_its_answer() {
    let scratch = Scratch::new();
    let url = format!("http://{}/x", service(Duration::ZERO));
    let done = scratch.run(&["send", &url, "--once"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for part in ["HTTP/1.1 200 OK\nserver: test\n", "\nhello ", "connected after ", "first byte after ", "all after "] {
        assert!(done.stdout.contains(part), "{part} in {}", done.stdout);
    }
    let done = scratch.run(&["send", &url, "--once", "--format", "json", "--body", "{\"n\":{seq}}"]);
    let said: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!((&said["status"], &said["body_bytes"]), (&Value::from(200), &Value::from(50)));
    assert_eq!(scratch.listing(), Vec::<String>::new());
}

#[test]
fn a_load_in_one_line_has_a_verdict_and_leaves_what_it_is_told_to() {
    let scratch = Scratch::new();
    let url = format!("http://{}/items/{{seq}}", service(Duration::from_millis(1)));
    let done = scratch.run(&["send", &url, "--rate", "100/s", "--requests", "50", "--connections", "5", "-q"]);
    assert!(ran(done.code), "{}", done.stderr);
    assert!(done.stdout.contains("send/main") && !done.stdout.contains("results:"), "{}", done.stdout);
    // the folder of the socket that `rehearsal control` would find
    assert_eq!(scratch.listing().iter().filter(|name| *name != "rehearsal").count(), 0, "nothing is kept");
    let args = ["send", &url, "--requests", "60", "--connections", "3", "--body-bytes", "200B", "-q", "--out", "kept"];
    let done = scratch.run(&args);
    assert!(ran(done.code), "{}", done.stderr);
    assert!(done.stdout.contains("results: kept"), "{}", done.stdout);
    let bundle = Bundle::read(&scratch.path("kept"));
    assert_eq!(bundle.summary["total"]["totals"]["success"], 60);
    assert_eq!(bundle.summary["total"]["totals"]["bytes_sent"], 12_000);
    let target = &bundle.manifest["targets"][0];
    assert!(url.starts_with(target["target"].as_str().expect("a target")), "{target}");
    assert_eq!(format!("http://{}", target["used"].as_str().expect("an address")), target["target"]);
    let failed = scratch.run(&["send", &url, "--requests", "5", "-q", "--threshold", "response.p50<1ns"]);
    // a run that was disturbed is INVALID, which outranks what failed
    assert!(matches!(failed.code, Some(10 | 20)) && failed.stdout.contains("FAIL"), "{}", failed.stdout);
}

#[test]
fn what_cannot_be_sent_to_is_refused_before_the_start() {
    let scratch = Scratch::new();
    let far = scratch.run(&["send", "http://192.0.2.1/"]);
    must_fail(&far, 3, &["192.0.2.1:80, which is not allowed", "--allow 192.0.2.1/32"]);
    must_fail(&scratch.run(&["send", "http://192.0.2.1/", "--once"]), 3, &["--allow 192.0.2.1"]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    drop(listener);
    let dead = scratch.run(&["send", &url, "--requests", "2"]);
    must_fail(&dead, 3, &["does not accept a connection", "start it first", "--force"]);
    let forced =
        scratch.run(&["send", &url, "--requests", "2", "--connections", "1", "--force", "-q", "--out", "forced"]);
    assert!(forced.stdout.contains("started with --force although"), "{}", forced.stdout);
    let manifest = Bundle::read(&scratch.path("forced")).manifest;
    assert!(manifest["forced"][0].as_str().expect("a reason").contains("does not accept"), "{manifest}");
    must_fail(&scratch.run(&["send", "gopher://a/"]), 2, &["`gopher://` cannot be sent to"]);
    must_fail(&scratch.run(&["send", &url, "--header", "x"]), 2, &["--header: `x` has no colon"]);
    must_fail(&scratch.run(&["send", &url, "--threshold", "p99"]), 2, &["compares nothing"]);
}

/// A client that asks a service outside, of which `more` is known.
fn client(address: SocketAddr, more: &str) -> String {
    format!(
        "[experiment]\nname = \"outside\"\nduration = \"1s\"\n\n[nodes.user.actors.main]\nkind = \"client\"\n\
         to = \"http://{address}/x\"\nrate = \"200/s\"\nin_flight = 20\n{more}\n"
    )
}

#[test]
fn a_dry_run_tells_times_of_a_service_only_if_they_are_known() {
    let scratch = Scratch::new();
    let address = service(Duration::from_millis(2));
    scratch.write("known.toml", client(address, "service = { time = \"2ms\", workers = 16, bytes = \"50B\" }"));
    scratch.write("unknown.toml", client(address, ""));
    let run = |verb: &str, file: &str, out: &str| {
        let done = scratch.run(&[verb, file, "-q", "--out", out]);
        assert!(ran(done.code), "{}", done.stderr);
        Bundle::read(&scratch.path(out))
    };
    let (dry, real, blind) = (
        run("simulate", "known.toml", "dry"),
        run("emulate", "known.toml", "real"),
        run("simulate", "unknown.toml", "blind"),
    );
    for bundle in [&real, &blind] {
        assert_eq!(bundle.summary["schedule_digest"], dry.summary["schedule_digest"]);
        assert_eq!(bundle.summary["total"]["totals"]["success"], dry.summary["total"]["totals"]["success"]);
    }
    let replied = |bundle: &Bundle| bundle.summary["total"]["totals"]["bytes_replied"].clone();
    assert_eq!(replied(&dry), replied(&real));
    let response = |bundle: &Bundle| bundle.summary["total"]["metrics"]["response"]["p50_ns"].clone();
    assert!(response(&dry).as_u64().is_some_and(|ns| ns.abs_diff(2_000_000) < 20_000), "{}", response(&dry));
    assert!(response(&real).as_u64().is_some_and(|ns| ns >= 2_000_000), "{}", response(&real));
    assert_eq!(response(&blind), Value::Null);
    let notes = |bundle: &Bundle| bundle.verdict.to_string();
    assert!(notes(&dry).contains("was taken to serve 16 requests at a time in 2ms each"), "{}", notes(&dry));
    assert!(notes(&blind).contains("times of exchanges with it are not told"), "{}", notes(&blind));
}
