//! Rules for targets outside of the experiment: URLs, the requests to them, and what is known of their services.

use std::ops::Range;

use rehearsal_core::outside::template::Template;
use rehearsal_core::outside::{Expect, HEADERS_MAX, OUTSIDE, RequestSpec, Scheme, Url, check_path};

use crate::draft::{ActorDraft, Draft, NodeDraft};
use crate::error::{Problem, Problems};

/// The kind whose body is written under `request`.
const CLIENT: &str = "client";
/// Headers that follow from the target, the body and the connection.
const OURS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "upgrade"];

/// Stands for a URL that is not written yet.
static ANYWHERE: std::sync::LazyLock<Url> =
    std::sync::LazyLock::new(|| Url { scheme: Scheme::Http, host: "host".to_owned(), port: 80, path: "/".to_owned() });

/// What a sender says of a target outside, and whether it has one.
pub(super) fn sender(actor: &ActorDraft, problems: &mut Problems<'_>) {
    let Some(sender) = &actor.sender else { return };
    let keys = &actor.actor.keys;
    let mut wrong = |key: &str, reason: String, help: Option<&str>| {
        problems.helped(keys.at(key), Problem::Value { key: key.to_owned(), reason }, help.map(str::to_owned));
    };
    if sender.request.as_ref().is_some_and(|request| request.body.is_some()) && actor.kind != CLIENT {
        let reason = format!("a `{}` has a payload of its own, so `body` means nothing", actor.kind);
        wrong("request", reason, Some("write `kind = \"client\"` to send a body of your own"));
    }
    let url = match Url::is(&sender.to) {
        true => match Url::read(&sender.to) {
            Ok(url) => url,
            Err(why) => return wrong("to", why, Some("write for instance `http://127.0.0.1:8080/path`")),
        },
        // what it says is looked at all the same, so that it can be aimed elsewhere
        false => ANYWHERE.clone(),
    };
    if let Some(request) = &sender.request
        && let Err(reason) = request_spec(request, &url)
    {
        wrong("request", reason, None);
    }
}

/// What is wrong with a request.
fn request_spec(request: &RequestSpec, url: &Url) -> Result<(), String> {
    let token = |text: &str| !text.is_empty() && text.bytes().all(is_token);
    if let Some(method) = request.method.as_ref().filter(|method| !token(method)) {
        return Err(format!("`{method}` is no method; write for instance `GET`"));
    }
    if request.method.as_deref() == Some("CONNECT") {
        return Err("CONNECT opens a tunnel, which is not supported".to_owned());
    }
    if let Some(path) = &request.path {
        if url.path != "/" {
            return Err(format!("the URL has the path `{}` already; keep one of the two", url.path));
        }
        if !path.starts_with('/') {
            return Err(format!("the path `{path}` does not begin with `/`"));
        }
        check_path(path)?;
        // a path that is filled in is longer than it is written
        if Template::read(path).length(u64::MAX, u32::MAX - 1) > 8000 {
            return Err("a path has at most 8,000 characters (RFC 9110 §4.1)".to_owned());
        }
    }
    if request.headers.len() > HEADERS_MAX {
        return Err(format!("at most {HEADERS_MAX} headers"));
    }
    for (name, value) in &request.headers {
        if !token(name) {
            return Err(format!("`{name}` is no header"));
        }
        if OURS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("the header `{name}` follows from the rest; leave it out"));
        }
        if value.bytes().any(|b| (b < 0x20 && b != b'\t') || b == 0x7F) {
            return Err(format!("the header `{name}` holds a control character"));
        }
    }
    request.expect.as_ref().map_or(Ok(()), expect)
}

fn expect(expect: &Expect) -> Result<(), String> {
    if let Some(code) = expect.status.iter().find(|code| !(200..=599).contains(*code)) {
        return Err(format!("{code} is no status of an answer; they are 200 to 599"));
    }
    match expect.body_contains.as_deref() {
        Some("") => Err("every body contains nothing; leave `body_contains` out".to_owned()),
        _ => Ok(()),
    }
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What several senders say of the same target must agree, and its name is kept.
pub(super) fn targets(draft: &Draft, problems: &mut Problems<'_>) {
    let mut known: Vec<(String, Option<rehearsal_core::outside::ServiceSpec>)> = Vec::new();
    for (node, actor) in draft.nodes.iter().flat_map(|node| node.actors.iter().map(move |actor| (node, actor))) {
        let Some(sender) = actor.sender.as_ref().filter(|sender| Url::is(&sender.to)) else { continue };
        let Ok(url) = Url::read(&sender.to) else { continue };
        let origin = url.origin();
        match known.iter().find(|(other, _)| *other == origin) {
            Some((_, service)) if *service != sender.service => {
                let reason = format!("`{}/{}` says another `service` of {origin}", node.node.name, actor.actor.name);
                let help = "say the same of it in every actor that aims there: it is one service";
                problems.rule(at(actor), reason, Some(help));
            }
            Some(_) => {}
            None => known.push((origin, sender.service)),
        }
    }
    if let Some(node) = draft.nodes.iter().find(|node| !known.is_empty() && is_kept(node)) {
        let name = node.node.name.clone();
        let reason = "targets outside of the experiment stand under that name".to_owned();
        let problem = Problem::Reserved { what: "a node", name, reason };
        problems.helped(&node.node.span, problem, Some("choose another name".to_owned()));
    }
}

fn at(actor: &ActorDraft) -> &Range<usize> {
    actor.actor.keys.at(if actor.actor.keys.has("service") { "service" } else { "to" })
}

fn is_kept(node: &NodeDraft) -> bool {
    node.node.name.strip_prefix(OUTSIDE).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
