//! Targets outside of an experiment in every protocol: servers that are not ours, under the built program.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::errors::must_fail;
use crate::support::{Bundle, Done, Scratch, beside, free_port, until};

mod servers;

use servers::{certificates, nginx, server};

/// Whether a run came to its end: on a busy machine it may be late, and INVALID for that.
fn ran(done: &Done) {
    assert!(matches!(done.code, Some(0 | 20)), "{:?}: {}{}", done.code, done.stdout, done.stderr);
}

/// A load by `send` to a bundle of that name.
fn send(scratch: &Scratch, name: &str, args: &[&str]) -> Bundle {
    ran(&scratch.run(&[&["send", "-q", "--out", name], args].concat()));
    Bundle::read(&scratch.path(name))
}

fn notes(bundle: &Bundle) -> String {
    bundle.verdict.to_string()
}

/// What connections agreed on: their number, TLS, suite and protocol.
fn agreed(bundle: &Bundle) -> (u64, String, String, String) {
    let connection = &bundle.summary["connections"][0];
    let text = |key: &str| connection[key].as_str().unwrap_or_default().to_owned();
    (connection["opened"].as_u64().expect("a number"), text("tls"), text("cipher"), text("alpn"))
}

#[test]
fn https_is_spoken_in_every_version_and_tells_what_was_agreed_on() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(nginx) = nginx(&scratch) else { return };
    let url = format!("https://localhost:{}/x", nginx.https);
    let base = [url.as_str(), "--requests", "103", "--ca", "ca.pem"];
    let one = send(&scratch, "one", &[&base[..], &["--connections", "5"]].concat());
    assert_eq!((one.total("success"), one.total("attempts")), (103, 103));
    let (opened, tls, cipher, alpn) = agreed(&one);
    assert_eq!((tls.as_str(), alpn.as_str()), ("TLS 1.3", "http/1.1"));
    assert!((1..=5).contains(&opened) && cipher.starts_with("TLS_"), "{opened}, {cipher}");
    let two = send(&scratch, "two", &[&base[..], &["--http", "2", "--streams", "20"]].concat());
    assert_eq!(two.total("success"), 103);
    let (opened, tls, _, alpn) = agreed(&two);
    assert_eq!((opened, tls.as_str(), alpn.as_str()), (1, "TLS 1.3", "h2"));
    // prior knowledge, in clear
    let url = format!("http://127.0.0.1:{}/x", nginx.clear2);
    let clear = send(&scratch, "clear", &[&url, "--requests", "50", "--http", "2"]);
    assert_eq!((clear.total("success"), agreed(&clear).0, agreed(&clear).1.as_str()), (50, 1, ""));
    // a server without TLS 1.3
    let url = format!("https://127.0.0.1:{}/", nginx.old);
    let old = send(&scratch, "old", &[&url, "--requests", "5", "--ca", "ca.pem"]);
    assert_eq!((old.total("success"), agreed(&old).1.as_str()), (5, "TLS 1.2"));
    let shown = scratch.run(&["send", &url, "--once", "--ca", "ca.pem"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stdout.contains("HTTP/1.1 200 OK") && shown.stdout.contains("(TLS 1.2, "), "{}", shown.stdout);
}

#[test]
fn certificates_are_checked_shown_or_not_checked_and_that_is_said() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(nginx) = nginx(&scratch) else { return };
    let url = format!("https://localhost:{}/", nginx.https);
    let one = ["--requests", "4", "--connections", "1"];
    // not of the system's authorities, nor of that one
    for (name, more) in [("system", vec![]), ("other", vec!["--ca", "other.pem"])] {
        let bundle = send(&scratch, name, &[&[url.as_str()], &one[..], &more].concat());
        assert_eq!((bundle.total("success"), bundle.total("lost")), (0, 4));
        assert!(notes(&bundle).contains("of an authority that is not trusted"), "{}", notes(&bundle));
    }
    let bundle = send(
        &scratch,
        "name",
        &[&[url.as_str()], &one[..], &["--ca", "ca.pem", "--server-name", "else.example"]].concat(),
    );
    assert!(
        bundle.total("success") == 0 && notes(&bundle).contains("certificate of another name"),
        "{}",
        notes(&bundle)
    );
    let any = send(&scratch, "any", &[&[url.as_str()], &one[..], &["--insecure"]].concat());
    assert_eq!(any.total("success"), 4);
    assert!(notes(&any).contains("could show any certificate (`insecure`)"), "{}", notes(&any));
    let url = format!("https://127.0.0.1:{}/", nginx.mutual);
    let mutual = [url.as_str(), "--requests", "4", "--ca", "ca.pem"];
    let shown = send(&scratch, "shown", &[&mutual[..], &["--cert", "client.pem", "--key", "client.key"]].concat());
    let hidden = send(&scratch, "hidden", &mutual);
    // nginx answers 400 to those who show none
    assert_eq!((shown.total("success"), hidden.total("success"), hidden.total("invalid")), (4, 0, 4));
}

#[test]
fn answers_over_http2_are_judged_as_those_of_http1() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(nginx) = nginx(&scratch) else { return };
    for version in ["1.1", "2"] {
        let outcome = |path: &str, more: &[&str]| {
            let url = format!("https://localhost:{}{path}", nginx.https);
            let name = format!("{version}-{}-{}", &path[1..], more.len());
            let args = [&[url.as_str(), "--requests", "3", "--ca", "ca.pem", "--http", version], more].concat();
            let bundle = send(&scratch, &name, &args);
            ["success", "invalid", "failed", "unacknowledged"].map(|counter| bundle.total(counter))
        };
        assert_eq!(outcome("/gone", &[]), [0, 3, 0, 0], "404 over {version}");
        assert_eq!(outcome("/gone", &["--expect", "404", "--expect-body", "no"]), [3, 0, 0, 0]);
        assert_eq!(outcome("/moved", &[]), [0, 0, 3, 0], "a redirect over {version}");
        assert_eq!(outcome("/cut", &[])[3], 3, "closed without an answer over {version}");
    }
}

#[test]
fn https_over_quic_is_asked_too() {
    let _busy = beside();
    let scratch = Scratch::new();
    if certificates(&scratch).is_none() {
        return;
    }
    let port = free_port();
    scratch.write(
        "Caddyfile",
        format!(
            "{{\n admin off\n auto_https off\n servers {{\n  protocols h1 h2 h3\n }}\n}}\nhttps://localhost:{port}, \
             https://127.0.0.1:{port} {{\n bind 127.0.0.1\n tls server.pem server.key\n respond \"hello\"\n}}\n"
        ),
    );
    let args = ["run", "--config", "Caddyfile", "--adapter", "caddyfile"];
    let Some(_server) = server(&scratch, "caddy", &args, port) else { return };
    let url = format!("https://localhost:{port}/");
    let args = [url.as_str(), "--http", "3", "--requests", "77", "--ca", "ca.pem", "--expect-body", "hello"];
    let bundle = send(&scratch, "three", &args);
    assert_eq!(bundle.total("success"), 77);
    let (opened, tls, _, alpn) = agreed(&bundle);
    assert_eq!((opened, tls.as_str(), alpn.as_str()), (1, "TLS 1.3", "h3"));
}

/// A service of bare bytes; how many it was sent.
fn echoes() -> (SocketAddr, Arc<AtomicU64>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (address, count) = (socket.local_addr().expect("bound"), Arc::new(AtomicU64::new(0)));
    let seen = count.clone();
    thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((bytes, from)) = socket.recv_from(&mut room) {
            seen.fetch_add(1, Ordering::Relaxed);
            // it answers what asks it to, and to `spoil` with something else
            if room.starts_with(b"ask") {
                let _ = socket.send_to(&room[..bytes], from);
            } else if room.starts_with(b"spoil") {
                let _ = socket.send_to(b"spoilt", from);
            }
        }
    });
    (address, count)
}

#[test]
fn datagrams_go_as_they_are_and_may_have_an_answer() {
    let _busy = beside();
    let scratch = Scratch::new();
    let (address, seen) = echoes();
    let url = format!("udp://{address}");
    let args = [url.as_str(), "--body", "ask {seq}", "--answer", "echo", "--requests", "200", "--connections", "4"];
    let echoed = send(&scratch, "echoed", &args);
    let counts = ["success", "attempts", "lost"].map(|counter| echoed.total(counter));
    assert_eq!((counts, seen.swap(0, Ordering::Relaxed)), ([200, 200, 0], 200));
    let args = [url.as_str(), "--body", "spoil", "--answer", "echo", "--requests", "3"];
    assert_eq!(send(&scratch, "spoilt", &args).total("invalid"), 3);
    let args = [url.as_str(), "--body", "tell", "--answer", "any", "--requests", "2", "--timeout", "100ms"];
    assert_eq!(send(&scratch, "silent", &args).total("unacknowledged"), 2);
    seen.store(0, Ordering::Relaxed);
    let one_way =
        send(&scratch, "one-way", &[url.as_str(), "--body", "n{seq}", "--rate", "500/s", "--requests", "100"]);
    assert_eq!((one_way.total("datagrams_sent"), one_way.total("success")), (100, 100));
    assert!(notes(&one_way).contains("confirms nothing"), "{}", notes(&one_way));
    until("all datagrams came", || seen.load(Ordering::Relaxed) == 100);
    let shown = scratch.run(&["send", &url, "--once", "--body", "ask me", "--answer", "echo"]);
    assert!(shown.stdout.contains("\nask me\n"), "{}", shown.stdout);
    must_fail(&scratch.run(&["send", &url, "--body", "x"]), 2, &["sends datagrams without a `rate`"]);
    // nobody there: the kernel says so of all but the last
    let url = format!("udp://127.0.0.1:{}", free_port());
    let dead = send(&scratch, "dead", &[url.as_str(), "--body", "x", "--rate", "100/s", "--requests", "20"]);
    assert!(dead.total("lost") >= 10, "{}", dead.summary["total"]["totals"]);
    assert!(notes(&dead).contains("takes no datagrams"), "{}", notes(&dead));
}

/// A service that answers each line with `+OK` and the line; at `quit` it closes.
fn lines() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|read| read > 0) && line != "quit\n" {
                    if stream.get_mut().write_all(format!("+OK {line}").as_bytes()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

#[test]
fn bytes_over_tcp_are_answered_by_a_line_or_a_length_under_tls_too() {
    let _busy = beside();
    let scratch = Scratch::new();
    let url = format!("tcp://{}", lines());
    scratch.write("ping.txt", "ping\n");
    let args = [
        url.as_str(),
        "--body-file",
        "ping.txt",
        "--expect-body",
        "+OK ping",
        "--requests",
        "101",
        "--connections",
        "3",
    ];
    let line = send(&scratch, "line", &args);
    assert_eq!((line.total("success"), line.total("bytes_replied")), (101, 101 * 9));
    assert!((1..=3).contains(&agreed(&line).0), "connections are kept: {}", line.summary["connections"]);
    let args = [url.as_str(), "--body", "p{seq}\n", "--answer", "7B", "--requests", "9", "--connections", "1"];
    assert_eq!(send(&scratch, "length", &args).total("success"), 9);
    let args = [url.as_str(), "--body", "quit\n", "--requests", "3"];
    assert_eq!(send(&scratch, "closed", &args).total("unacknowledged"), 3);
    let shown = scratch.run(&["send", &url, "--once", "--body", "hi\n"]);
    assert!(shown.stdout.contains("+OK hi\n"), "{}", shown.stdout);
    let port = free_port().to_string();
    if certificates(&scratch).is_none() {
        return;
    }
    let args = ["s_server", "-accept", &port, "-cert", "server.pem", "-key", "server.key", "-rev", "-quiet"];
    let Some(_server) = server(&scratch, "openssl", &args, port.parse().expect("a port")) else { return };
    let url = format!("tls://localhost:{port}");
    let args = [
        url.as_str(),
        "--body",
        "abc\n",
        "--expect-body",
        "cba",
        "--ca",
        "ca.pem",
        "--requests",
        "5",
        "--connections",
        "1",
    ];
    let tls = send(&scratch, "tls", &args);
    assert_eq!((tls.total("success"), agreed(&tls).1.as_str()), (5, "TLS 1.3"));
}

#[test]
fn publications_go_to_a_broker_with_a_user_and_under_tls() {
    let _busy = beside();
    let scratch = Scratch::new();
    if certificates(&scratch).is_none() {
        return;
    }
    let [clear, tls] = [free_port(), free_port()];
    let Ok(made) = Command::new("mosquitto_passwd")
        .args(["-b", "-c", "users", "me", "s3cret"])
        .current_dir(scratch.path(""))
        .output()
    else {
        return eprintln!("skipped: no mosquitto was found");
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let at = |port: u16| format!("listener {port} 127.0.0.1\nallow_anonymous false\npassword_file users\n");
    let keys = "certfile server.pem\nkeyfile server.key\n";
    scratch.write("mosquitto.conf", format!("per_listener_settings true\nuser root\n{}{}{keys}", at(clear), at(tls)));
    let Some(_broker) = server(&scratch, "mosquitto", &["-c", "mosquitto.conf"], tls) else { return };
    scratch.write("word.txt", "s3cret\n");
    let login = ["--user", "me", "--password-file", "word.txt", "--body", "{\"n\":{seq}}"];
    let url = format!("mqtt://127.0.0.1:{clear}/a/{{node}}/{{seq}}");
    for qos in ["0", "1", "2"] {
        let args = [&[url.as_str(), "--qos", qos, "--rate", "200/s", "--requests", "50"], &login[..]].concat();
        let bundle = send(&scratch, &format!("qos-{qos}"), &args);
        assert_eq!((bundle.total("success"), bundle.total("lost")), (50, 0), "QoS {qos}");
        assert_eq!(notes(&bundle).contains("confirms nothing"), qos == "0");
    }
    let url = format!("mqtts://localhost:{tls}/a");
    let args = [&[url.as_str(), "--ca", "ca.pem", "--requests", "20"], &login[..]].concat();
    let bundle = send(&scratch, "tls", &args);
    assert_eq!((bundle.total("success"), agreed(&bundle).1.as_str()), (20, "TLS 1.3"));
    let refused = scratch.run(&["send", &format!("mqtt://127.0.0.1:{clear}/a"), "--requests", "1"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("the broker refuses the client"), "{}", refused.stderr);
    let kept = fs::read_to_string(scratch.path("tls/experiment.toml")).expect("what was run");
    assert!(kept.contains("password_file") && !kept.contains("s3cret"), "{kept}");
}

/// One client and its target, with `more` about both.
fn file(to: &str, actor: &str, more: &str) -> String {
    format!(
        "[experiment]\nname = \"target\"\nstop = \"all-requests-done\"\n\n[nodes.user.actors.main]\nkind = \"client\"\nto = \"{to}\"\n\
         requests = 40\nrate = \"200/s\"\nin_flight = 20\n{actor}\n{more}"
    )
}

#[test]
fn a_dry_run_of_every_protocol_counts_what_the_real_one_does() {
    let _busy = beside();
    let scratch = Scratch::new();
    let (datagrams, _) = echoes();
    let service = "service = { time = \"1ms\", bytes = \"5B\" }";
    for (name, to, request) in [
        ("tcp", format!("tcp://{}", lines()), "body = { text = \"\\n\" }, expect = { answer = \"5B\" }"),
        ("echo", format!("udp://{datagrams}"), "body = { text = \"ask 1\" }, expect = { answer = \"echo\" }"),
        ("one-way", format!("udp://{datagrams}"), "body = { text = \"x\" }"),
    ] {
        let file_name = format!("{name}.toml");
        scratch.write(&file_name, file(&to, &format!("request = {{ {request} }}\n{service}"), ""));
        let [dry, real] = scratch.both(&file_name, name, &[]);
        assert_eq!(dry.summary["schedule_digest"], real.summary["schedule_digest"], "{name}");
        for counter in ["generated", "success", "lost", "bytes_sent", "bytes_replied", "datagrams_sent"] {
            assert_eq!(dry.total(counter), real.total(counter), "{counter} of {name}");
        }
        assert_eq!(dry.total("success"), 40, "{name}");
        let service = &dry.summary["total"]["metrics"]["service"]["p50_ns"];
        let near = service.as_u64().map(|ns| ns.abs_diff(1_000_000) < 20_000);
        assert_eq!(near, (name != "one-way").then_some(true), "{name}: {service}");
    }
    // a dry run needs no broker and no server, and counts what they would
    for (name, to, link) in [
        ("mqtt", "mqtt://broker.example/t", ""),
        ("https", "https://service.example/", "[links.\"user->outside\"]\ncarrier = \"http2\"\n"),
    ] {
        let file_name = format!("{name}.toml");
        scratch.write(&file_name, file(to, service, link));
        let dry = scratch.simulate(&file_name, &format!("{name}-dry"), &[]);
        assert_eq!(dry.total("success"), 40, "{name}");
    }
}

#[test]
fn what_a_file_says_wrong_of_a_target_is_told_with_its_line() {
    let scratch = Scratch::new();
    let wrong = |to: &str, actor: &str, more: &str, parts: &[&str]| {
        scratch.write("wrong.toml", file(to, actor, more));
        for verb in ["check", "simulate"] {
            let done = scratch.run(&[verb, "wrong.toml"]);
            assert_eq!(done.code, Some(2), "{verb} {to} {actor} {more}: {}{}", done.stdout, done.stderr);
            for part in parts {
                assert!(done.stderr.contains(part), "`{part}` is not in\n{}", done.stderr);
            }
        }
    };
    let link = |tls: &str| format!("[links.\"user->outside\"]\ntls = {{ {tls} }}\n");
    let https = "https://127.0.0.1:1/";
    wrong(https, "", &link("ca = \"/nope.pem\""), &["wrong.toml:13:", "`/nope.pem`: No such file"]);
    wrong(https, "", &link("ca = \"wrong.toml\""), &["wrong.toml:13:", "holds no `-----BEGIN CERTIFICATE-----`"]);
    wrong(https, "", &link("mode = \"mutual\""), &["wrong.toml:13:", "has no certificate to show"]);
    wrong("http://127.0.0.1:1/{bad}", "", "", &["wrong.toml:7:", "`{bad}` is nothing that could be filled in"]);
    let body = "request = { body = { template = \"{seq} {bad}\" } }";
    wrong(https, body, "", &["wrong.toml:11:", "`body`: `{bad}`", "`{{bad}}` is sent as `{bad}`"]);
    wrong(https, "request = { headers = { a = \"{bad}\" } }", "", &["wrong.toml:11:", "the header `a`: `{bad}`"]);
    wrong("udp://127.0.0.1:1", "request = { method = \"PUT\" }", "", &["`method` means nothing to `udp://`"]);
    wrong("mqtt://127.0.0.1", "", "", &["wrong.toml:7:", "a topic is missing"]);
    wrong("mqtt://127.0.0.1/a/+/b", "", "", &["holds a wildcard"]);
    wrong(https, "request = { expect = { answer = \"echo\" } }", "", &["`expect.answer` means nothing to `https://`"]);
    wrong("http://127.0.0.1:1/", "", "[links.\"user->outside\"]\ncarrier = \"http3\"\n", &["write `https://`"]);
    let refused = |args: &[&str], part: &str| must_fail(&scratch.run(&[&["send"], args].concat()), 2, &[part]);
    refused(&["http://127.0.0.1:1/", "--insecure"], "which goes in clear");
    refused(&["http://127.0.0.1:1/", "--http", "3"], "always encrypted");
    refused(&["udp://127.0.0.1:1", "--qos", "1"], "--qos, --user and --password-file are of mqtt");
    refused(&["tcp://127.0.0.1:1", "--answer", "maybe"], "`maybe` is no answer");
    refused(&["mqtt://127.0.0.1/t", "--once"], "a broker has none");
}

#[test]
fn headers_and_names_are_filled_in_for_each_request() {
    let _busy = beside();
    let scratch = Scratch::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let heard = thread::spawn(move || {
        let mut heads: Vec<String> = Vec::new();
        // whoever looks whether somebody listens says nothing
        while heads.len() < 2 {
            let mut stream = BufReader::new(listener.accept().expect("a connection").0);
            let mut head = String::new();
            while stream.read_line(&mut head).is_ok_and(|read| read > 0) {
                if head.ends_with("\r\n\r\n") {
                    stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it is read");
                    heads.push(std::mem::take(&mut head));
                }
            }
        }
        heads
    });
    let url = format!("http://{address}/{{node}}/{{seq}}");
    let args = ["send", "-q", &url, "-H", "x-id: {actor}-{seq}-{{seq}}", "--requests", "2", "--connections", "1"];
    ran(&scratch.run(&args));
    let heads = heard.join().expect("it heard");
    assert!(
        heads[1].starts_with("GET /send/1 HTTP/1.1\r\n") && heads[1].contains("x-id: main-1-{seq}\r\n"),
        "{heads:?}"
    );
}
