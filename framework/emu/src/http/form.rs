//! What requests to a target outside look like, and which of its answers are a success.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use rehearsal_core::Status;
use rehearsal_core::outside::template::{Item, Template};
use rehearsal_core::outside::{RequestSpec, Url};
use rehearsal_core::sender::SenderParams;

use super::status;

/// Bytes of an answer that are looked through for what it must hold.
const LOOKED_AT: usize = 64 << 10;

/// The requests of one group to a target outside.
#[derive(Debug)]
pub(crate) struct Form {
    /// `None`: GET where there is nothing to send, else POST.
    method: Option<Method>,
    pub(crate) path: Template,
    pub(crate) host: HeaderValue,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether `headers` say what a body is.
    pub(crate) typed: bool,
    expect: Vec<u16>,
    contains: Option<Box<[u8]>>,
}

/// A request to a target outside.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub form: Arc<Form>,
    pub item: Item,
}

impl Form {
    /// Of a sender, if its target is a URL. What cannot be sent has been refused with the file.
    pub(crate) fn of(sender: &SenderParams) -> Option<Form> {
        let url = Url::is(&sender.to).then(|| Url::read(&sender.to).ok()).flatten()?;
        let plain = RequestSpec::default();
        let spec = sender.request.as_deref().unwrap_or(&plain);
        let header = |(name, value): (&String, &String)| Some((name.parse().ok()?, HeaderValue::try_from(value).ok()?));
        let headers: Vec<(HeaderName, HeaderValue)> = spec.headers.iter().filter_map(header).collect();
        let expect = spec.expect.clone().unwrap_or_default();
        Some(Form {
            method: spec.method.as_ref().and_then(|method| method.parse().ok()),
            path: spec.path.as_deref().map_or_else(|| Template::read(&url.path), Template::read),
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

    /// What a code says: a code that is expected is a success, and no other is.
    fn status(&self, code: StatusCode) -> Status {
        match status(code) {
            usual if self.expect.is_empty() => usual,
            _ if self.expect.contains(&code.as_u16()) => Status::Success,
            Status::Success => Status::Failed,
            usual => usual,
        }
    }
}

/// What an answer comes to, while it comes in.
#[derive(Debug)]
pub(crate) struct Judge {
    status: Status,
    bytes: u32,
    /// What it must hold, and what there is of it so far.
    wanted: Option<(Arc<Form>, Vec<u8>)>,
}

impl Judge {
    /// Of an answer with this code.
    pub(crate) fn new(form: Option<&Arc<Form>>, code: StatusCode) -> Judge {
        let said = form.map_or_else(|| status(code), |form| form.status(code));
        let wanted = form.filter(|form| form.contains.is_some() && said == Status::Success);
        Judge { status: said, bytes: 0, wanted: wanted.map(|form| (form.clone(), Vec::new())) }
    }

    /// A piece of its body.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        self.bytes = self.bytes.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
        if let Some((_, kept)) = &mut self.wanted {
            let room = LOOKED_AT - kept.len();
            kept.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    }

    /// How it ended, and the bytes of its body.
    pub(crate) fn end(&self) -> (Status, u32) {
        let missing = self.wanted.as_ref().is_some_and(|(form, kept)| {
            let text = form.contains.as_deref().unwrap_or_default();
            !kept.windows(text.len().max(1)).any(|part| part == text)
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
        Arc::new(Form::of(&SenderParams { request: Some(Box::new(request)), ..sender }).expect("a form"))
    }

    fn judged(form: &Arc<Form>, code: u16, pieces: &[&str]) -> (Status, u32) {
        let mut judge = Judge::new(Some(form), StatusCode::from_u16(code).expect("a code"));
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
