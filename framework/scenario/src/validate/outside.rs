//! Rules for targets outside of the experiment: URLs, the requests to them, and what is known of their services.

use std::ops::Range;

use rehearsal_core::outside::http::{PATH_BYTES_MAX, check_headers, check_method};
use rehearsal_core::outside::template::Template;
use rehearsal_core::outside::{Expect, OUTSIDE, RequestSpec, Scheme, ServiceSpec, Url, check_path};
use rehearsal_core::plan::{Carrier, LinkSpec};

use crate::draft::{ActorDraft, Draft, NodeDraft};
use crate::error::{Problem, Problems};

/// The kind whose body is written under `request`.
const CLIENT: &str = "client";

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
    let plain = RequestSpec::default();
    if let Err(reason) = Template::check(&url.path) {
        wrong("to", reason, None);
    }
    let request = sender.request.as_deref().unwrap_or(&plain);
    if let Err(reason) = request_spec(request, &url, Url::is(&sender.to)) {
        wrong(if sender.request.is_some() { "request" } else { "to" }, reason, None);
    }
}

/// What is wrong with a request; `aimed` if its URL is written.
fn request_spec(request: &RequestSpec, url: &Url, aimed: bool) -> Result<(), String> {
    if aimed {
        fits(request, url)?;
    }
    if let Some(text) = request.body.as_ref().and_then(|body| body.template.as_ref()) {
        Template::check(text).map_err(|why| format!("`body`: {why}"))?;
    }
    request.method.as_deref().map_or(Ok(()), check_method)?;
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
        Template::check(path)?;
    }
    // a path that is filled in is longer than it is written
    if Template::read(request.path.as_deref().unwrap_or(&url.path)).length(u64::MAX, u32::MAX - 1) > PATH_BYTES_MAX {
        return Err("a path has at most 8,000 characters (RFC 9110 §4.1)".to_owned());
    }
    check_headers(&request.headers)?;
    for (name, value) in &request.headers {
        Template::check(value).map_err(|why| format!("the header `{name}`: {why}"))?;
    }
    request.expect.as_ref().map_or(Ok(()), Expect::check)
}

/// What means nothing to a scheme, and what it needs.
fn fits(request: &RequestSpec, url: &Url) -> Result<(), String> {
    let (scheme, name) = (url.scheme, url.scheme.name());
    let plain = Expect::default();
    let expect = request.expect.as_ref().unwrap_or(&plain);
    let http = [
        ("method", request.method.is_some()),
        ("headers", !request.headers.is_empty()),
        ("expect.status", !expect.status.is_empty()),
    ];
    let other = [
        ("path", request.path.is_some() && scheme.is_bare()),
        ("expect.body_contains", expect.body_contains.is_some() && scheme.is_mqtt()),
        ("expect.answer", expect.answer.is_some() && !scheme.is_bare()),
        ("mqtt", request.mqtt.is_some() && !scheme.is_mqtt()),
    ];
    let idle =
        http.into_iter().filter(|(_, there)| *there && !scheme.is_http()).chain(other.into_iter().filter(|o| o.1));
    if let Some((key, _)) = idle.into_iter().next() {
        return Err(format!("`{key}` means nothing to `{name}://`; leave it out"));
    }
    if scheme == Scheme::Udp && expect.body_contains.is_some() && !request.is_answered() {
        return Err(
            "`expect.body_contains` needs an answer; write for instance `answer = \"any\"` beside it".to_owned()
        );
    }
    if scheme.is_mqtt() {
        let topic = request.path.as_deref().unwrap_or(&url.path);
        if topic == "/" {
            return Err(format!("a topic is missing; write for instance `{}/sensors/1`", url.origin()));
        }
        if topic.contains(['+', '#']) {
            return Err(format!("`{topic}` holds a wildcard, and nothing is published to those (MQTT 5.0 §4.7.1)"));
        }
        let said = request.mqtt.as_ref();
        if said.is_some_and(|said| said.password_file.is_some() && said.user.is_none()) {
            return Err("`mqtt`: `password_file` is of a `user`; name it".to_owned());
        }
    }
    Ok(())
}

/// What several senders say of the same target must agree, and its name is kept.
pub(super) fn targets(draft: &Draft, problems: &mut Problems<'_>) {
    let mut known: Vec<(String, Option<ServiceSpec>, LinkSpec)> = Vec::new();
    for (node, actor) in draft.nodes.iter().flat_map(|node| node.actors.iter().map(move |actor| (node, actor))) {
        let Some(sender) = actor.sender.as_ref().filter(|sender| Url::is(&sender.to)) else { continue };
        let Ok(url) = Url::read(&sender.to) else { continue };
        let origin = url.origin();
        let written = draft.link_to(&node.node.name, OUTSIDE);
        if url.scheme == Scheme::Http && written.carrier == Carrier::Http3 && written.name.ends_with(OUTSIDE) {
            let help = Some("write `https://`, or choose `carrier = \"http2\"` or `\"http1\"`");
            problems.rule(actor.actor.keys.at("to"), "`http3` is always encrypted, and `http://` never", help);
        }
        let how = LinkSpec { carrier: written.carrier, ..url.link(&LinkSpec::default(), sender.request.as_deref()) };
        let said = known.iter().find(|(other, ..)| *other == origin);
        if said.is_some_and(|(.., other)| other.mqtt != how.mqtt || other.mode != how.mode) {
            let reason =
                format!("`{}/{}` speaks otherwise to {origin} than another actor", node.node.name, actor.actor.name);
            let help = "say the same of `answer` and `mqtt` in every actor that aims there";
            problems.rule(actor.actor.keys.at("request"), reason, Some(help));
        }
        match said {
            Some((_, service, _)) if *service != sender.service => {
                let reason = format!("`{}/{}` says another `service` of {origin}", node.node.name, actor.actor.name);
                let help = "say the same of it in every actor that aims there: it is one service";
                problems.rule(at(actor), reason, Some(help));
            }
            Some(_) => {}
            None => known.push((origin, sender.service, how)),
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
