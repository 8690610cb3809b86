//! Encrypted links, and links whose requests share connections: what is understood, and what nonsense is answered with.

use rehearsal_core::plan::{Carrier, TlsHandshake, TlsMode};
use rehearsal_scenario::LoadOptions;

use super::support::{GOOD, bad, good, load_with, tells};

/// The good experiment with other lines for its link.
fn link(lines: &str) -> String {
    GOOD.replace("delay = \"1ms\"", lines)
}

#[test]
fn a_link_says_how_it_is_encrypted_and_shared() {
    let experiment = good(&link(
        "carrier = \"http2\"\nstreams = 8\nconnections = 2\nstream_window = \"1MB\"\n\
         tls = { mode = \"mutual\", handshake = \"resumed\", ca = \"ca.pem\", certificate = \"a.pem\", key = \"a.key\" }",
    ));
    let link = &experiment.plan(0).links[1];
    let tls = link.security().expect("it is encrypted");
    assert_eq!((tls.mode, tls.handshake, tls.ca.as_deref()), (TlsMode::Mutual, TlsHandshake::Resumed, Some("ca.pem")));
    assert_eq!((link.streams(), link.connections(), link.round_trips()), (8, 2, 2));
    assert_eq!((link.windows().0.0, link.windows().1.0), (1_000_000, 65_535));
}

#[test]
fn another_carrier_may_ignore_what_the_default_link_says() {
    let text = format!("{}\n[links.default]\ncarrier = \"http1\"\ntls = {{}}\n", link("carrier = \"udp\""));
    let plan = good(&text).plan(0);
    assert_eq!(plan.links[1].carrier, Carrier::Udp);
    assert!(!plan.links[1].is_encrypted() && plan.links[0].is_encrypted());
}

#[test]
fn nonsense_about_encryption_and_streams_is_told() {
    let told = |lines: &str, parts: &[&str]| tells(&bad(&link(lines)), parts);
    told("carrier = \"udp\"\ntls = {}", &["x.toml:26:7:", "`tls` is for HTTP"]);
    told("tls = { mode = \"both\" }", &["x.toml:25:", "both"]);
    told("tls = { versoin = \"1.3\" }", &["versoin"]);
    let looking = LoadOptions { files: true, ..LoadOptions::default() };
    let missing = load_with(&link("tls = { ca = \"/no.pem\" }"), &looking).expect_err("there is no such file");
    tells(&missing.to_string(), &["x.toml:25:7:", "`/no.pem`: No such file"]);
    told("tls = { insecure = true }", &["x.toml:25:", "`insecure` is of targets outside"]);
    told("tls = { key = \"a.key\" }", &["`key` without `certificate`", "name both files, or neither"]);
    told("handshake = \"tls\"\ntls = {}", &["x.toml:25:13:", "`handshake` follows from how this link is encrypted"]);
    told("carrier = \"http3\"\nhandshake = \"quic\"", &["`handshake` follows"]);
    told("carrier = \"http2\"\nstreams = 0", &["`streams`: 0 is out of range", "at least 1"]);
    told("carrier = \"http3\"\nconnections = 10001", &["`connections`: 10001 is out of range"]);
    told("carrier = \"http2\"\nstream_window = \"3GB\"", &["`stream_window`: 3GB is out of range"]);
    told("carrier = \"http2\"\nconnection_window = \"1kB\"", &["cannot be lowered", "`stream_window`"]);
}

#[test]
fn keys_that_mean_nothing_are_noted() {
    let experiment = good(&link("streams = 5\nconnection_window = \"1MB\""));
    let notes = experiment.notes.join("\n");
    tells(&notes, &["`streams` means nothing here", "`connection_window` means nothing here"]);
}
