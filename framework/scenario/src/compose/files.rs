//! Files of certificates, keys and passwords: whether they are there and what they should be, told with the line that names them.

use std::ops::Range;
use std::path::Path;

use crate::draft::{Draft, LinkDraft};
use crate::error::{Problem, Problems};
use crate::load::read_file;

/// What begins a certificate, and what a key. Source: RFC 7468 §5, §10.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
const KEY: &str = "PRIVATE KEY-----";

/// Looks at every file that a draft names and that is read where a node runs.
pub(super) fn check(draft: &Draft, base: &Path, problems: &mut Problems<'_>) {
    let mut seen = Vec::new();
    for LinkDraft { link, keys, .. } in draft.links.iter().chain([&draft.link]) {
        let Some(tls) = &link.tls else { continue };
        for (name, wanted) in [(&tls.ca, CERTIFICATE), (&tls.certificate, CERTIFICATE), (&tls.key, KEY)] {
            let Some(name) = name else { continue };
            // other links take what they leave out from the default
            if !seen.contains(&(name, wanted)) {
                seen.push((name, wanted));
                look(&base.join(name), ("tls", name), wanted, keys.at("tls"), problems);
            }
        }
    }
    for actor in draft.nodes.iter().flat_map(|node| &node.actors) {
        let mqtt = actor.sender.as_ref().and_then(|sender| sender.request.as_ref()?.mqtt.as_ref());
        if let Some(path) = mqtt.and_then(|mqtt| mqtt.password_file.as_ref()) {
            let name = path.display().to_string();
            look(&base.join(path), ("request", &name), "", actor.actor.keys.at("request"), problems);
        }
    }
}

fn look(path: &Path, (key, name): (&str, &str), wanted: &str, at: &Range<usize>, problems: &mut Problems<'_>) {
    let reason = match read_file(path) {
        Err(Problem::Unreadable { reason }) => format!("`{name}`: {reason}"),
        Err(why) => format!("`{name}`: {why}"),
        Ok(bytes)
            if !bytes.windows(wanted.len().max(1)).any(|part| part == wanted.as_bytes()) && !wanted.is_empty() =>
        {
            format!("`{name}` holds no `{wanted}`")
        }
        Ok(_) => return,
    };
    let problem = Problem::Value { key: key.to_owned(), reason };
    problems.helped(at, problem, Some("files are named relative to the experiment's own".to_owned()));
}
