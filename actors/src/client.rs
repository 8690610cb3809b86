//! The client: requests as they are written in the experiment, for services outside of it and for receivers.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use rehearsal_core::kind::Weight;
use rehearsal_core::outside::template::{Item, Template};
use rehearsal_core::outside::{BodySpec, Generator};
use rehearsal_core::payload::RenderContext;
use rehearsal_core::units::ByteSize;
use rehearsal_core::{BuildError, GroupContext, Kind, Payload, Pool, Recipe, RecipeId, Role, Wiring};
use rehearsal_models::{Next, Payloads, Source, SourceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest body, bytes: that of a sensor's reading.
const BYTES_MAX: u64 = 16 << 20;
/// Size of what a generator makes, if nothing is said: the sensor message of PL-5G.
const BYTES: u64 = 1000;
/// `{"member":4294967296,"seq":18446744073709551615,"data":""}`: room for all numbers, bytes.
const JSON_BYTES_MIN: u64 = 58;
/// What JSON is filled up with.
const DATA: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

/// Sends what `request` says.
pub struct Client;

/// A client has no keys but those of all senders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClientParams {}

impl Kind for Client {
    const NAME: &'static str = "client";
    const SUMMARY: &'static str = "sends requests as they are written under `request`";
    const ROLE: Role = Role::Sender;
    type Params = ClientParams;

    fn build(_: &ClientParams, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        let sender = cx.sender.ok_or_else(|| BuildError::of("to", "a sender needs to know where to"))?;
        if sender.malformed.0 > 0.0 {
            return Err(BuildError::of("malformed", "a client sends what is written; leave `malformed` out"));
        }
        let written = sender.request.as_ref().and_then(|request| request.body.as_ref());
        let body = Arc::new(Body::of(written, cx, wiring)?);
        let recipe = wiring.recipe(body.clone());
        let spec = SourceSpec::new(cx, wiring, recipe)?;
        let (least, most) = body.bounds(cx.members.end);
        spec.check_bytes("request", least, most)?;
        wiring.weight(Weight::of((least + most) as f64 / 2.0, most));
        let streams = u64::from(spec.streams());
        let member = |member| {
            let bodies = Bodies { body: body.clone(), recipe, streams, member };
            Source::new(&spec, wiring, member, bodies)
        };
        let members: Vec<_> = cx.members.clone().map(member).collect();
        Ok(Box::new(members))
    }
}

/// The bodies of one member.
#[derive(Clone, Debug)]
struct Bodies {
    body: Arc<Body>,
    recipe: RecipeId,
    streams: u64,
    member: u32,
}

impl Payloads for Bodies {
    fn payload(&mut self, stream: u32, seq: u64) -> Next {
        // no two streams of an instance have a number in common
        let number = seq.wrapping_mul(self.streams).wrapping_add(u64::from(stream));
        Next::Ready(Payload::new(self.body.length(number, self.member), self.recipe, number))
    }
}

/// What a client sends.
#[derive(Debug)]
enum Body {
    Fixed(Bytes, &'static str),
    Template(Template, &'static str),
    /// A document that begins so, and how long it is.
    Json(Template, u32),
    Random(u32),
}

impl Body {
    fn of(spec: Option<&BodySpec>, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Body, BuildError> {
        let Some(spec) = spec else { return Ok(Body::Fixed(Bytes::new(), "application/octet-stream")) };
        if spec.bytes.is_some() && spec.generator.is_none() {
            return Err(BuildError::of("request", "`bytes` says how much a `generator` makes; leave it out"));
        }
        let body = match (&spec.file, &spec.text, &spec.template, spec.generator) {
            (Some(path), None, None, None) => Body::Fixed(wiring.file(path)?, media_type(path)),
            (None, Some(text), None, None) => Body::Fixed(Bytes::from(text.clone()), type_of(text)),
            (None, None, Some(text), None) => Body::Template(Template::read(text).of(cx.node, cx.actor), type_of(text)),
            (None, None, None, Some(generator)) => generated(generator, spec.bytes.unwrap_or(ByteSize(BYTES)))?,
            _ => {
                let reason = "a body is one of `file`, `text`, `template` and `generator`";
                return Err(BuildError::of("request", reason));
            }
        };
        match body {
            Body::Fixed(bytes, _) if bytes.len() as u64 > BYTES_MAX => {
                Err(BuildError::of("request", format!("a body has at most {}", ByteSize(BYTES_MAX))))
            }
            body => Ok(body),
        }
    }

    fn length(&self, number: u64, member: u32) -> u32 {
        match self {
            Body::Fixed(bytes, _) => bytes.len() as u32,
            Body::Template(template, _) => template.length(number, member) as u32,
            Body::Json(_, bytes) | Body::Random(bytes) => *bytes,
        }
    }

    /// The shortest and the longest of all members.
    fn bounds(&self, members: u32) -> (u64, u64) {
        (u64::from(self.length(0, 0)), u64::from(self.length(u64::MAX, members)))
    }
}

fn generated(generator: Generator, ByteSize(bytes): ByteSize) -> Result<Body, BuildError> {
    let least = if generator == Generator::Json { JSON_BYTES_MIN } else { 1 };
    match u32::try_from(bytes) {
        Ok(size) if (least..=BYTES_MAX).contains(&bytes) => {
            let head = || Template::read(r#"{"member":{member},"seq":{seq},"data":""#);
            Ok(if generator == Generator::Json { Body::Json(head(), size) } else { Body::Random(size) })
        }
        _ => Err(BuildError::of("request", format!("this generator makes {least}B to {}", ByteSize(BYTES_MAX)))),
    }
}

/// The usual media type of a file, by its name.
fn media_type(path: &std::path::Path) -> &'static str {
    match path.extension().and_then(|e| e.to_str()) {
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("txt") => "text/plain",
        Some("html") => "text/html",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}

/// JSON if it begins like it.
fn type_of(text: &str) -> &'static str {
    if text.trim_start().starts_with(['{', '[']) { "application/json" } else { "text/plain" }
}

impl Recipe for Body {
    fn content_type(&self) -> &'static str {
        match self {
            Body::Fixed(_, media_type) | Body::Template(_, media_type) => media_type,
            Body::Json(..) => "application/json",
            Body::Random(_) => "application/octet-stream",
        }
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        let (start, length) = (out.len(), cx.bytes as usize);
        match self {
            Body::Fixed(bytes, _) => out.extend_from_slice(bytes),
            Body::Template(template, _) => template.render(item(cx), out),
            Body::Json(head, _) => json(head, cx, out),
            Body::Random(_) => random(cx, out),
        }
        debug_assert_eq!(out.len() - start, length, "as long as was announced");
    }

    fn shared(&self, _: u64) -> Option<Bytes> {
        match self {
            Body::Fixed(bytes, _) => Some(bytes.clone()),
            _ => None,
        }
    }
}

fn item(cx: RenderContext) -> Item {
    Item { seq: cx.seq, member: cx.member, epoch_ns: cx.epoch_ns }
}

/// `{"member":1,"seq":7,"data":"…"}`, filled up to its length.
fn json(head: &Template, cx: RenderContext, out: &mut BytesMut) {
    let start = out.len();
    head.render(item(cx), out);
    let end = br#""}"#;
    let mut left = (cx.bytes as usize).saturating_sub(out.len() - start + end.len());
    let mut from = (cx.seq % DATA.len() as u64) as usize;
    while left > 0 {
        let count = left.min(DATA.len() - from);
        out.extend_from_slice(&DATA[from..from + count]);
        (from, left) = (0, left - count);
    }
    out.extend_from_slice(end);
}

/// Bytes that follow from the member and the number (splitmix64).
fn random(cx: RenderContext, out: &mut BytesMut) {
    let end = out.len() + cx.bytes as usize;
    let mut state = cx.seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(cx.member).rotate_left(40);
    while out.len() < end {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = state;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        out.put_slice(&(x ^ x >> 31).to_le_bytes()[..8.min(end - out.len())]);
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::outside::RequestSpec;
    use rehearsal_core::sender::SenderParams;
    use rehearsal_core::units::Fraction;
    use rehearsal_core::{Command, Event};

    use super::*;
    use crate::testing::{Experiment, Stage, at, sender};
    use rehearsal_core::messages::StartAt;

    fn asking(body: BodySpec) -> SenderParams {
        let request = RequestSpec { body: Some(body), ..RequestSpec::default() };
        SenderParams { request: Some(Box::new(request)), streams: 2, in_flight: 1, ..sender() }
    }

    fn stage(body: BodySpec) -> Stage {
        let experiment = Experiment { sender: Some(asking(body)), ..Experiment::default() };
        experiment.build::<Client>(&ClientParams::default()).expect("it builds")
    }

    /// The payloads of both streams, the first three of each.
    fn payloads(stage: &mut Stage) -> Vec<Payload> {
        let mut wishes = stage.say(at(0), StartAt { at: at(1000), until: None });
        let mut found = Vec::new();
        while found.len() < 6 {
            let due = wishes.iter().find_map(|w| match w {
                Command::SetTimer { key, at } => Some((*key, *at)),
                _ => None,
            });
            let (key, due) = due.expect("a timer");
            wishes.remove(0);
            wishes.extend(stage.tell(due, Event::Timer { key, due }));
            wishes.retain(|w| match w {
                Command::Request(request) => {
                    found.push(request.payload);
                    false
                }
                Command::SetTimer { .. } => true,
                _ => false,
            });
        }
        found
    }

    #[test]
    fn every_body_is_as_long_as_announced_and_no_two_are_alike() {
        let template = r#"{"id":"{uuid}","n":{seq},"of":{member},"at":{time}}"#;
        for body in [
            BodySpec { template: Some(template.into()), ..BodySpec::default() },
            BodySpec { generator: Some(Generator::Json), bytes: Some(ByteSize(300)), ..BodySpec::default() },
            BodySpec { generator: Some(Generator::Random), bytes: Some(ByteSize(61)), ..BodySpec::default() },
        ] {
            let json = body.generator != Some(Generator::Random);
            let mut stage = stage(body);
            let payloads = payloads(&mut stage);
            let texts: std::collections::BTreeSet<_> = payloads.iter().map(|p| stage.render(*p)).collect();
            assert_eq!(texts.len(), payloads.len());
            for payload in payloads {
                let text = stage.render(payload);
                assert_eq!(text.len(), payload.bytes as usize);
                assert_eq!(serde_json::from_slice::<serde_json::Value>(&text).is_ok(), json, "{text:?}");
                let expected = if json { "application/json" } else { "application/octet-stream" };
                assert_eq!(stage.recipe(payload).content_type(), expected);
            }
        }
    }

    #[test]
    fn a_text_is_sent_as_it_is() {
        let mut stage = stage(BodySpec { text: Some("{seq} stands".into()), ..BodySpec::default() });
        let payload = payloads(&mut stage)[0];
        assert_eq!(&stage.render(payload)[..], b"{seq} stands");
        assert_eq!(stage.recipe(payload).content_type(), "application/json", "it begins like it");
    }

    #[test]
    fn bodies_that_cannot_be_are_refused() {
        let refusal = |sender| {
            let experiment = Experiment { sender: Some(sender), ..Experiment::default() };
            experiment.refusal::<Client>(&ClientParams::default())
        };
        let two = BodySpec { text: Some("a".into()), template: Some("b".into()), ..BodySpec::default() };
        assert!(refusal(asking(two)).1.contains("one of `file`, `text`"));
        let small = BodySpec { generator: Some(Generator::Json), bytes: Some(ByteSize(57)), ..BodySpec::default() };
        assert!(refusal(asking(small)).1.contains("makes 58B to 16MiB"));
        let sized = BodySpec { text: Some("a".into()), bytes: Some(ByteSize(5)), ..BodySpec::default() };
        assert!(refusal(asking(sized)).1.contains("`bytes` says how much"));
        let text = BodySpec { text: Some("a".into()), ..BodySpec::default() };
        let spoiled = SenderParams { malformed: Fraction(0.5), ..asking(text) };
        assert_eq!(refusal(spoiled).0, Some("malformed"));
    }
}
