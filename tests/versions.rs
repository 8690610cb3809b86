//! HTTP/2, HTTP/3 and TLS through the program: the same scenarios on both engines and both placements, and what the bundle
//! says of their connections.

use crate::support::family::server;
use crate::support::{Bundle, Scenario, Scratch, beside};

/// Counters that follow from the experiment.
const COUNTS: [&str; 9] =
    ["generated", "success", "attempts", "lost", "bytes_sent", "bytes_replied", "received", "served", "bytes_received"];

/// Opened, full and resumed handshakes, version of TLS and protocol of the one row of connections.
fn connections(bundle: &Bundle) -> (u64, u64, u64, String, String) {
    let rows = bundle.summary["connections"].as_array().expect("connections");
    let [row] = &rows[..] else { panic!("one row, not {rows:?}") };
    let count = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
    let text = |name: &str| row[name].as_str().unwrap_or_else(|| panic!("{name}: {row}")).to_owned();
    (count("opened"), count("full"), count("resumed"), text("tls"), text("alpn"))
}

fn scenario(link: &str, streams: u32) -> Scenario {
    let lines = format!("requests = 40\nstreams = {streams}\nbytes = \"2kB\"");
    Scenario { link: link.to_owned(), senders: 2, ..Scenario::sensor(&lines) }
}

#[test]
fn both_engines_count_the_same_over_every_version() {
    let _busy = beside();
    let scratch = Scratch::new();
    let links = [
        ("carrier = \"http2\"", 4, (2, 0, 0), ["", ""]),
        ("carrier = \"http2\"\ntls = {}", 4, (2, 2, 0), ["TLS 1.3", "h2"]),
        ("carrier = \"http3\"", 4, (2, 2, 0), ["TLS 1.3", "h3"]),
        ("carrier = \"http1\"\ntls = { mode = \"mutual\" }", 1, (2, 2, 0), ["TLS 1.3", "http/1.1"]),
        (
            "carrier = \"http1\"\nconnection = \"per-request\"\ntls = { handshake = \"resumed\" }",
            1,
            (80, 2, 78),
            ["TLS 1.3", "http/1.1"],
        ),
    ];
    for (n, (link, streams, (opened, full, resumed), [tls, alpn])) in links.into_iter().enumerate() {
        scratch.write("trial.toml", scenario(link, streams).toml());
        let pair = scratch.both("trial.toml", &format!("b{n}"), &[]);
        assert_eq!(pair[0].schedule(), pair[1].schedule(), "{link}");
        for bundle in &pair {
            let counts = COUNTS.map(|name| bundle.total(name));
            assert_eq!(counts, COUNTS.map(|name| pair[0].total(name)), "{link}");
            assert_eq!(bundle.total("success"), 80 * u64::from(streams), "{link}");
            let expected = (opened, full, resumed, tls.to_owned(), alpn.to_owned());
            assert_eq!(connections(bundle), expected, "{link}");
        }
        let ciphers = pair.each_ref().map(|b| b.summary["connections"][0]["cipher"].as_str().unwrap_or("?").to_owned());
        let real = if tls.is_empty() { "" } else { "TLS_AES_128_GCM_SHA256" };
        assert_eq!(ciphers, ["", real], "a dry run chooses no suite");
    }
}

/// Each process makes an authority of its own, and trusts those of the others.
#[test]
fn processes_trust_each_other_and_nobody_else() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    for (n, carrier) in ["http1", "http3"].into_iter().enumerate() {
        let link = format!("carrier = \"{carrier}\"\ntls = {{ mode = \"mutual\" }}");
        scratch.write("trial.toml", scenario(&link, 1).toml());
        let bundle = scratch.emulate("trial.toml", &format!("p{n}"), &["--placement", "processes"]);
        assert_eq!((bundle.total("success"), bundle.total("served")), (80, 80), "{carrier}");
        let (opened, full, ..) = connections(&bundle);
        assert_eq!((opened, full), (2, 2), "{carrier}");
    }
}

/// Losses over one connection of HTTP/2 hold up all of its streams; over HTTP/3 each holds up its own.
#[test]
fn a_loss_holds_up_one_stream_of_http3_and_all_of_http2() {
    let scratch = Scratch::new();
    let slow = |carrier: &str| {
        let link = format!("carrier = \"{carrier}\"\ndelay = \"10ms\"\nloss = \"2%\"");
        let lines = "requests = 500\nstreams = 8\nrate = \"50/s\"\nin_flight = 4\nbytes = \"1kB\"";
        scratch.write("trial.toml", Scenario { link, ..Scenario::sensor(lines) }.toml());
        let bundle = scratch.bundle("simulate", "trial.toml", carrier, &["--csv"], &[0]);
        assert_eq!(bundle.total("success"), 4000, "{carrier}");
        let service = &bundle.summary["total"]["metrics"]["service"];
        (service["p50_ns"].as_u64().expect("a median"), service["mean_ns"].as_f64().expect("a mean"))
    };
    let ([p50_two, p50_three], [mean_two, mean_three]): ([u64; 2], [f64; 2]) = {
        let (two, three) = (slow("http2"), slow("http3"));
        ([two.0, three.0], [two.1, three.1])
    };
    // half of all requests lose nothing: over QUIC they take two ways of 10 ms, and so they do over TCP unless they wait
    assert!(p50_three < 21_000_000, "{p50_three}");
    assert!(mean_two > 1.5 * mean_three, "{mean_two} and {mean_three}, medians {p50_two} and {p50_three}");
}

#[test]
fn a_file_that_is_missing_is_refused_before_anything_begins() {
    let scratch = Scratch::new();
    let link = "carrier = \"http2\"\ntls = { certificate = \"no.pem\", key = \"no.key\" }";
    scratch.write("trial.toml", scenario(link, 1).toml());
    for verb in ["check", "simulate", "emulate"] {
        let more: &[&str] = if verb == "check" { &[] } else { &["--out", "b"] };
        let done = scratch.run(&[&[verb, "trial.toml"], more].concat());
        assert!(done.code == Some(2) && done.stderr.contains("`tls`: `no.pem`: No such file"), "{}", done.stderr);
    }
    assert!(!scratch.path("b").exists());
}
