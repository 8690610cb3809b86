//! What requests to a target outside look like, and which of its answers are a success.

use std::sync::Arc;

use bytes::BytesMut;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use rehearsal_core::Status;
use rehearsal_core::outside::template::{Item, Template};
use rehearsal_core::outside::{AnswerSpec, MqttRequest, RequestSpec, Scheme, Url};
use rehearsal_core::sender::SenderParams;

use super::status;
use super::step::Stepped;
use crate::shard::Outgoing;

/// Bytes of an answer that are looked through for what it must hold.
const LOOKED_AT: usize = 64 << 10;

/// The requests of one group to a target outside.
#[derive(Debug)]
pub(crate) struct Form {
    /// `None`: GET where there is nothing to send, else POST.
    method: Option<Method>,
    pub(crate) path: Template,
    pub(crate) host: HeaderValue,
    pub(crate) headers: Vec<(HeaderName, Value)>,
    /// Whether `headers` say what a body is.
    pub(crate) typed: bool,
    expect: Vec<u16>,
    contains: Option<Box<[u8]>>,
    /// What ends an exchange of bare bytes.
    pub(crate) ending: AnswerSpec,
    /// What a broker must know of the client.
    pub(crate) mqtt: MqttRequest,
}

/// A header's value.
#[derive(Debug)]
pub(crate) enum Value {
    /// The same each time.
    Plain(HeaderValue),
    Filled(Template),
}

impl Value {
    fn of(template: Template) -> Option<Value> {
        match template.plain() {
            Some(text) => HeaderValue::try_from(text).ok().map(Value::Plain),
            None => Some(Value::Filled(template)),
        }
    }

    /// The value of one request.
    pub(crate) fn filled(&self, item: Item) -> HeaderValue {
        match self {
            Value::Plain(value) => value.clone(),
            Value::Filled(template) => {
                let mut text = BytesMut::new();
                template.render(item, &mut text);
                // numbers and what was checked with the file
                HeaderValue::from_maybe_shared(text.freeze()).unwrap_or_else(|_| HeaderValue::from_static(""))
            }
        }
    }
}

/// A request to a target outside.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub form: Arc<Form>,
    pub item: Item,
}

impl Form {
    /// Of a sender, if its target is a URL. What cannot be sent has been refused with the file.
    pub(crate) fn of(sender: &SenderParams, node: &str, actor: &str) -> Option<Form> {
        let url = Url::is(&sender.to).then(|| Url::read(&sender.to).ok()).flatten()?;
        let plain = RequestSpec::default();
        let spec = sender.request.as_deref().unwrap_or(&plain);
        let read = |text: &str| Template::read(text).of(node, actor);
        let header = |(name, value): (&String, &String)| Some((name.parse().ok()?, Value::of(read(value))?));
        let headers: Vec<(HeaderName, Value)> = spec.headers.iter().filter_map(header).collect();
        let path = read(spec.path.as_deref().unwrap_or(&url.path));
        let usual = if url.scheme == Scheme::Udp { AnswerSpec::Nothing } else { AnswerSpec::Line };
        let expect = spec.expect.clone().unwrap_or_default();
        Some(Form {
            method: spec.method.as_ref().and_then(|method| method.parse().ok()),
            path,
            ending: spec.answer().unwrap_or(usual),
            mqtt: spec.mqtt.clone().unwrap_or_default(),
            host: HeaderValue::try_from(url.authority()).ok()?,
            typed: headers.iter().any(|(name, _)| *name == CONTENT_TYPE),
            headers,
            expect: expect.status,
            contains: expect.body_contains.map(|text| text.into_bytes().into()),
        })
    }

    /// The method of a request with a body of so many bytes.
    pub(crate) fn method(&self, bytes: usize) -> &Method {
        self.method.as_ref().unwrap_or(if bytes == 0 { &Method::GET } else { &Method::POST })
    }

    /// The topic of a publication.
    pub(crate) fn topic(&self, item: Item, out: &mut BytesMut) {
        self.path.render(item, out);
        // the slash between a broker and a topic
        let _ = out.split_to(1.min(out.len()));
    }
}

/// What is wanted of an answer: by the step that asked, else by its sender's `request`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    form: Option<Arc<Form>>,
    step: Option<Arc<Stepped>>,
}

impl Wanted {
    /// Of an attempt's answer.
    pub(crate) fn of(job: &Outgoing) -> Wanted {
        Wanted { form: job.asked.as_ref().map(|asked| Arc::clone(&asked.form)), step: job.step.clone() }
    }

    /// By the sender's request alone: other protocols than HTTP have no steps.
    pub(crate) fn by(form: &Arc<Form>) -> Wanted {
        Wanted { form: Some(Arc::clone(form)), step: None }
    }

    /// What a code says: a code that is expected is a success, and no other is.
    fn status(&self, code: StatusCode) -> Status {
        let own = self.step.as_ref().map_or(&[][..], |step| step.status());
        let all = self.form.as_ref().map_or(&[][..], |form| &form.expect);
        let expect = if own.is_empty() { all } else { own };
        match status(code) {
            usual if expect.is_empty() => usual,
            _ if expect.contains(&code.as_u16()) => Status::Success,
            Status::Success => Status::Failed,
            usual => usual,
        }
    }

    /// Text that a success must hold.
    fn contains(&self) -> Option<&[u8]> {
        let own = self.step.as_ref().and_then(|step| step.contains.as_deref());
        own.or_else(|| self.form.as_ref().and_then(|form| form.contains.as_deref()))
    }

    fn looks(&self) -> bool {
        self.contains().is_some() || self.step.as_ref().is_some_and(|step| step.looks())
    }
}

/// What an answer comes to, while it comes in.
#[derive(Debug)]
pub(crate) struct Judge {
    status: Status,
    bytes: u32,
    /// What it must hold, and what there is of it so far.
    wanted: Option<(Wanted, Heard)>,
}

/// What is kept of an answer.
#[derive(Debug, Default)]
struct Heard {
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
}

impl Judge {
    /// Of an answer with this code.
    pub(crate) fn new(wanted: Wanted, code: StatusCode) -> Judge {
        let said = wanted.status(code);
        let looks = said == Status::Success && wanted.looks();
        Judge { status: said, bytes: 0, wanted: looks.then(|| (wanted, Heard::default())) }
    }

    /// A header of it.
    pub(crate) fn header(&mut self, name: &[u8], value: &[u8]) {
        if let Some((wanted, heard)) = &mut self.wanted
            && wanted.step.as_ref().is_some_and(|step| step.wants(name))
            && let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            heard.headers.push((name, value));
        }
    }

    /// All headers of it.
    pub(crate) fn headers(&mut self, headers: &HeaderMap) {
        if self.wanted.is_some() {
            headers.iter().for_each(|(name, value)| self.header(name.as_str().as_bytes(), value.as_bytes()));
        }
    }

    /// A piece of its body.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        self.bytes = self.bytes.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
        if let Some((_, heard)) = &mut self.wanted {
            let room = LOOKED_AT - heard.body.len();
            heard.body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    }

    /// How it ended, and the bytes of its body. What a step takes from it is kept then.
    pub(crate) fn end(&self) -> (Status, u32) {
        let missing = self.wanted.as_ref().is_some_and(|(wanted, heard)| {
            let text = wanted.contains().unwrap_or_default();
            let holds = text.is_empty() || heard.body.windows(text.len()).any(|part| part == text);
            !holds || wanted.step.as_ref().is_some_and(|step| !step.hear(&heard.headers, &heard.body))
        });
        (if missing { Status::Invalid } else { self.status }, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(request: RequestSpec) -> Arc<Form> {
        let text = r#"{"to":"http://127.0.0.1:8080/x"}"#;
        let sender: SenderParams = serde_json::from_str(text).expect("a sender");
        Arc::new(Form::of(&SenderParams { request: Some(Box::new(request)), ..sender }, "n", "a").expect("a form"))
    }

    fn judged(form: &Arc<Form>, code: u16, pieces: &[&str]) -> (Status, u32) {
        let wanted = Wanted { form: Some(form.clone()), step: None };
        let mut judge = Judge::new(wanted, StatusCode::from_u16(code).expect("a code"));
        pieces.iter().for_each(|piece| judge.piece(piece.as_bytes()));
        judge.end()
    }

    #[test]
    fn expected_codes_are_successes_and_others_are_not() {
        let expect: RequestSpec = serde_json::from_str(r#"{"expect":{"status":[404,302]}}"#).expect("a request");
        let form = form(expect);
        let of = |code| judged(&form, code, &[]).0;
        assert_eq!([404, 302].map(of), [Status::Success; 2]);
        assert_eq!([200, 500].map(of), [Status::Failed; 2]);
        assert_eq!([400, 503].map(of), [Status::Invalid, Status::Rejected]);
    }

    #[test]
    fn a_success_must_hold_its_text_in_one_piece_or_several() {
        let expect = r#"{"expect":{"body_contains":"\"ok\":true"}}"#;
        let form = form(serde_json::from_str(expect).expect("a request"));
        assert_eq!(judged(&form, 200, &["{\"o", "k\":true}"]), (Status::Success, 11));
        assert_eq!(judged(&form, 200, &["{\"ok\":false}"]), (Status::Invalid, 12));
        assert_eq!(judged(&form, 503, &[]).0, Status::Rejected, "it is no success before");
        let far = "x".repeat(LOOKED_AT);
        assert_eq!(judged(&form, 200, &[&far, "\"ok\":true"]).0, Status::Invalid, "beyond what is looked at");
    }
}
