//! What is said of encrypted links, and of links whose requests share connections.

use std::collections::BTreeMap;

use rehearsal_core::outside::OUTSIDE;
use rehearsal_core::plan::{Carrier, Handshake, LinkSpec, TlsMode};
use rehearsal_core::units::ByteSize;

use crate::draft::{Draft, LinkDraft};
use crate::error::Problems;

/// Connections and streams, as the schema says.
const SHARED_MAX: u32 = 10_000;
/// Widest window. Source: RFC 9113 §6.9.1.
const WINDOW_MAX: u64 = (1 << 31) - 1;

/// Notes what makes no sense about encryption and shared connections.
pub(super) fn check(draft: &Draft, problems: &mut Problems<'_>) {
    for link in draft.links.iter().chain([&draft.link]) {
        encryption(link, problems);
        shared(link, problems);
    }
    for link in &draft.links {
        // what the default link says, others may ignore; the carrier to what is outside follows from its URL
        if link.link.tls != draft.link.link.tls && !is_outside(link) {
            in_clear(link, problems);
        }
    }
    in_clear(&draft.link, problems);
    ports(draft, problems);
}

/// A receiver has one port for datagrams and one for connections.
fn ports(draft: &Draft, problems: &mut Problems<'_>) {
    let mut taken: BTreeMap<&str, Carrier> = BTreeMap::new();
    for node in &draft.nodes {
        for actor in &node.actors {
            let Some(sender) = &actor.sender else { continue };
            let carrier = draft.link_to(&node.node.name, &sender.to).carrier;
            if !matches!(carrier, Carrier::Udp | Carrier::Http3) {
                continue;
            }
            let other = *taken.entry(&sender.to).or_insert(carrier);
            if other != carrier {
                let reason =
                    format!("`{}` cannot be reached by `udp` and by `http3` at once: they share its port", sender.to);
                problems.rule(actor.actor.keys.at("to"), reason, Some("give each of them a receiver of its own"));
            }
        }
    }
}

/// Whether it leads to targets outside.
fn is_outside(link: &LinkDraft) -> bool {
    !link.pairs.is_empty() && link.pairs.iter().all(|(from, to)| from == OUTSIDE || to == OUTSIDE)
}

fn in_clear(LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    if link.tls.is_some() && !matches!(link.carrier, Carrier::Http1 | Carrier::Http2 | Carrier::Http3) {
        let help = "leave `tls` out, or choose `carrier = \"http1\"`, `\"http2\"` or `\"http3\"`";
        problems.rule(keys.at("tls"), "this carrier goes in clear: `tls` is for HTTP", Some(help));
    }
}

fn encryption(draft: &LinkDraft, problems: &mut Problems<'_>) {
    let LinkDraft { link, keys, pairs, .. } = draft;
    if link.handshake != Handshake::default() && link.is_encrypted() {
        let help = "leave `handshake` out; `tls = { handshake = \"resumed\" }` says how keys are agreed on";
        problems.rule(keys.at("handshake"), "`handshake` follows from how this link is encrypted", Some(help));
    }
    let Some(tls) = &link.tls else { return };
    if tls.certificate.is_some() != tls.key.is_some() {
        let (there, missing) = if tls.key.is_some() { ("key", "certificate") } else { ("certificate", "key") };
        let help = "name both files, or neither: then a certificate is made for the run";
        problems.rule(keys.at("tls"), format!("`{there}` without `{missing}`"), Some(help));
    }
    if is_outside(draft) && tls.mode == TlsMode::Mutual && tls.certificate.is_none() {
        let help = "name `certificate` and `key`: who is outside does not trust what is made for a run";
        problems.rule(keys.at("tls"), "`mode = \"mutual\"` has no certificate to show", Some(help));
    }
    if tls.insecure && tls.ca.is_some() {
        let help = "leave `insecure` out, or `ca`";
        problems.rule(keys.at("tls"), "`ca` trusts some certificates, `insecure` any", Some(help));
    }
    let names_outside = tls.insecure || tls.server_name.is_some();
    if names_outside && !pairs.is_empty() && !is_outside(draft) {
        let key = if tls.insecure { "insecure" } else { "server_name" };
        let help = "actors are known by the certificates of their run; write it into `[links.\"node->outside\"]`";
        problems.rule(keys.at("tls"), format!("`{key}` is of targets outside"), Some(help));
    }
}

fn shared(LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    for (key, value) in [("connections", link.connections), ("streams", link.streams)] {
        if let Some(value) = value.filter(|value| !(1..=SHARED_MAX).contains(value)) {
            let reason = format!("`{key}`: {value} is out of range: it must be from 1 to {SHARED_MAX}");
            problems.rule(keys.at(key), reason, None);
        }
    }
    for (key, value) in [("stream_window", link.stream_window), ("connection_window", link.connection_window)] {
        if let Some(value) = value.filter(|value| !(1..=WINDOW_MAX).contains(&value.0)) {
            let reason = format!("`{key}`: {value} is out of range: it must be from 1 B to {}", ByteSize(WINDOW_MAX));
            problems.rule(keys.at(key), reason, Some("write for instance `\"65535B\"` or `\"1MB\"`"));
        }
    }
    if link.connection_window.is_some_and(|window| window.0 < 65_535) && link.carrier == Carrier::Http2 {
        let help = "only streams may have less: `stream_window`";
        let reason = "a connection of HTTP/2 begins with a window of 65,535 bytes, which cannot be lowered";
        problems.rule(keys.at("connection_window"), reason, Some(help));
    }
}

/// Keys of a link that mean nothing there, for its notes.
pub(crate) fn idle(link: &LinkSpec) -> Vec<&'static str> {
    if matches!(link.carrier, Carrier::Http2 | Carrier::Http3) {
        return Vec::new();
    }
    let keys = [
        ("connections", link.connections.is_some()),
        ("streams", link.streams.is_some()),
        ("stream_window", link.stream_window.is_some()),
        ("connection_window", link.connection_window.is_some()),
    ];
    keys.into_iter().filter(|(_, there)| *there).map(|(key, _)| key).collect()
}
