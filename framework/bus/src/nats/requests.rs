//! Traffic over a NATS server: what an exchange of the carrier `nats` looks like on the wire, for both ends.
//!
//! ```text
//! request   subject   lab.v1.<run>.trf.<node>.<actor>
//!           reply     <inbox>.<id>.<from>-<stream>-<class>-<seq>-<limit in ns>.<media type>
//!           payload   what the experiment says, to the byte
//! answer    subject   the request's reply subject
//!           headers   none on success, else `Nats-Service-Error-Code: <code>`, a code of HTTP
//!           payload   the answer's body
//! ```
//!
//! The payload is the whole message, so it may have as many bytes as the server takes; who sent what stands in the reply
//! subject, which a responder returns as it came. A foreign client may write it into the headers `Rehearsal`, with dots
//! between the five numbers, and `Content-Type`; without either it is served all the same. A responder of the Services
//! API, or one that only answers, is understood as it is. A request that nobody subscribes to is answered by the server.

use std::sync::Arc;
use std::time::Duration;

use async_nats::header::HeaderMap;
use async_nats::{Client, Message, PublishErrorKind, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use rehearsal_core::Head;
use tokio::sync::watch;

use super::counts::Counts;
use super::{ConnectSettings, NatsError, Traffic, connect, settled};

/// Messages that a subscription of traffic holds before the client library drops one. Assumed: more than a receiver's
/// requests under way; at 100 kB each they are 0.8 GB.
const WAITING_MAX: usize = 8192;
/// The header of the Services API (ADR-32) that tells a failure.
const CODE: &str = "Nats-Service-Error-Code";
/// The head in a foreign client's request.
const HEAD: &str = "Rehearsal";
/// The media type in a foreign client's request.
const TYPE: &str = "Content-Type";
/// The media type of bytes that are nothing in particular (RFC 2046 §4.5.1).
const BYTES: &str = "application/octet-stream";
/// The code of success.
const OK: u16 = 200;

/// A connection for traffic. What it publishes may come back to it: both ends of an exchange may share it.
pub struct Requests {
    client: Client,
    counts: Arc<Counts>,
    inbox: String,
}

/// A request that came in.
#[derive(Debug)]
pub struct Asked {
    /// Who sent what, as far as the request tells.
    pub head: Head,
    /// Its media type, if it tells.
    pub media_type: Option<String>,
    /// What came.
    pub payload: Bytes,
    /// Where the answer goes; `None` if none is waited for.
    pub reply: Option<ReplyTo>,
}

/// Where an answer goes.
#[derive(Clone, Debug)]
pub struct ReplyTo(Subject);

/// An answer that came in.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered {
    /// The slot and generation of the request, as they were given.
    pub id: (u32, u32),
    /// A code of HTTP; `None` if nobody subscribes to the request's subject.
    pub code: Option<u16>,
    /// Bytes of its body.
    pub bytes: usize,
}

/// Requests on one subject.
pub struct Service(Subscriber);

/// Answers to this connection's requests.
pub struct Answers {
    answers: Subscriber,
    inbox: usize,
}

impl Requests {
    /// Connects as `settings` say, under a `name` that the server's tools show. Lives as long as the present runtime.
    ///
    /// # Errors
    /// Those of [`super::Nats::connect`].
    pub async fn connect(settings: &ConnectSettings, name: &str) -> Result<Requests, NatsError> {
        let counts = Arc::new(Counts::default());
        let client =
            connect::connect_with(settings, name, &counts, |options| options.subscription_capacity(WAITING_MAX))
                .await?;
        let inbox = client.new_inbox();
        Ok(Requests { client, counts, inbox })
    }

    /// Largest payload that the server takes, bytes.
    pub fn payload_max(&self) -> usize {
        self.client.max_payload()
    }

    /// Takes in requests on `subject`.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn serve(&self, subject: &str) -> Result<Service, NatsError> {
        Ok(Service(self.subscribe(subject.to_owned()).await?))
    }

    /// Takes in the answers to what is asked here. To be called once, before anything is asked.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn answers(&self) -> Result<Answers, NatsError> {
        Ok(Answers { answers: self.subscribe(format!("{}.>", self.inbox)).await?, inbox: self.inbox.len() })
    }

    async fn subscribe(&self, pattern: String) -> Result<Subscriber, NatsError> {
        let subscription = self.client.subscribe(pattern.clone()).await;
        subscription.map_err(|source| NatsError::Subscribe { pattern, source })
    }

    /// Waits until the server knows of all subscriptions so far, or `patience` is over.
    ///
    /// # Errors
    /// When the server does not permit one.
    pub async fn ready(&self, patience: Duration) -> Result<(), NatsError> {
        settled(&self.client, &self.counts, patience).await;
        self.counts.violations().into_iter().next().map_or(Ok(()), |violation| Err(NatsError::Forbidden(violation)))
    }

    /// Sends a request whose answer comes back with `id`. Waits where the client's buffer of 2,048 messages is full.
    ///
    /// # Errors
    /// When the payload is larger than the server takes, or the connection is closed.
    pub async fn ask(
        &self,
        subject: &str,
        id: (u32, u32),
        head: &Head,
        media_type: &str,
        payload: Bytes,
    ) -> Result<(), NatsError> {
        let (bytes, reply) = (payload.len(), reply_subject(&self.inbox, id, head, media_type));
        let sent = self.client.publish_with_reply(subject.to_owned(), reply, payload).await;
        sent.map_err(|why| refused(&self.client, subject, bytes, why))?;
        Counts::add(&self.counts.sent, &self.counts.sent_bytes, bytes);
        Ok(())
    }

    /// Sends an answer with a code of HTTP.
    ///
    /// # Errors
    /// Those of [`Requests::ask`].
    pub async fn answer(&self, to: ReplyTo, code: u16, body: Bytes) -> Result<(), NatsError> {
        let (subject, bytes) = (to.0, body.len());
        let sent = if (OK..300).contains(&code) {
            self.client.publish(subject.clone(), body).await
        } else {
            let mut headers = HeaderMap::new();
            headers.insert(CODE, code.to_string());
            self.client.publish_with_headers(subject.clone(), headers, body).await
        };
        sent.map_err(|why| refused(&self.client, &subject, bytes, why))
    }

    /// Counts the times that the connection was lost.
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.counts.lost.subscribe()
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// What happened so far.
    pub fn traffic(&self) -> Traffic {
        self.counts.traffic()
    }
}

impl Service {
    /// The next request; `None` when the connection is closed.
    pub async fn next(&mut self) -> Option<Asked> {
        let message = self.0.next().await?;
        let (head, media_type) = read_head(&message);
        Some(Asked { head, media_type, payload: message.payload, reply: message.reply.map(ReplyTo) })
    }
}

impl Answers {
    /// The next answer that is one; `None` when the connection is closed.
    pub async fn next(&mut self) -> Option<Answered> {
        loop {
            let message = self.answers.next().await?;
            let Some(id) = message.subject.get(self.inbox + 1..).and_then(read_id) else { continue };
            return Some(Answered { id, code: code(&message), bytes: message.payload.len() });
        }
    }
}

fn refused(client: &Client, subject: &str, bytes: usize, source: async_nats::PublishError) -> NatsError {
    let subject = subject.to_owned();
    match source.kind() {
        PublishErrorKind::MaxPayloadExceeded => NatsError::TooLarge { subject, bytes, bytes_max: client.max_payload() },
        _ => NatsError::Publish { subject, source },
    }
}

fn reply_subject(inbox: &str, (slot, generation): (u32, u32), head: &Head, media_type: &str) -> String {
    let numbers: Vec<String> = head.numbers().map(|number| number.to_string()).collect();
    // a token of a subject has neither dots nor blanks
    let plain = !media_type.is_empty() && !media_type.contains(|c: char| c.is_whitespace() || ".*>".contains(c));
    let media_type = if plain { media_type } else { BYTES };
    format!("{inbox}.{slot:x}-{generation:x}.{}.{media_type}", numbers.join("-"))
}

/// What a request tells of itself: a foreign client in its headers, one of ours in its reply subject.
fn read_head(message: &Message) -> (Head, Option<String>) {
    let header = |name: &str| message.headers.as_ref().and_then(|h| h.get(name)).map(|value| value.as_str());
    let tokens = message.reply.as_ref().map_or("", |reply| reply.as_str());
    let mut tokens = tokens.rsplit('.');
    let (media_type, numbers) = (tokens.next(), tokens.next());
    let of_ours = numbers.and_then(|numbers| Head::from_numbers(numbers, '-'));
    if let (None, Some(head)) = (header(HEAD), of_ours) {
        return (head, media_type.map(str::to_owned));
    }
    let head = header(HEAD).and_then(|numbers| Head::from_numbers(numbers, '.')).unwrap_or_default();
    (head, header(TYPE).map(str::to_owned))
}

fn read_id(rest: &str) -> Option<(u32, u32)> {
    let (slot, generation) = rest.split('.').next()?.split_once('-')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some((number(slot)?, number(generation)?))
}

fn code(message: &Message) -> Option<u16> {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return None;
    }
    let told = message.headers.as_ref().and_then(|h| h.get(CODE));
    // a code that is no number is no success either
    Some(told.map_or(OK, |code| code.as_str().parse().unwrap_or(500)))
}

#[cfg(test)]
mod tests {
    use rehearsal_core::{ActorId, Span};

    use super::*;

    fn message(reply: Option<&str>, headers: &[(&'static str, &str)]) -> Message {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| map.insert(*name, *value));
        Message {
            subject: "_INBOX.abc.1f-2.0-0-0-0-0.text/plain".into(),
            reply: reply.map(Subject::from),
            payload: Bytes::new(),
            headers: (!headers.is_empty()).then_some(map),
            status: None,
            description: None,
            length: 0,
        }
    }

    #[test]
    fn a_request_tells_who_sent_it_without_touching_its_payload() {
        let limit = Span::from_millis(100);
        let head = Head { from: Some(ActorId(70_000)), stream: 3, class: 46, seq: u64::MAX, limit, reply_bytes: 77 };
        let reply = reply_subject("_INBOX.ann.abc", (31, 2), &head, "image/jpeg");
        assert_eq!(read_id(&reply["_INBOX.ann.abc.".len()..]), Some((31, 2)));
        assert_eq!(read_head(&message(Some(&reply), &[])), (head, Some("image/jpeg".to_owned())));
        let odd = reply_subject("_INBOX", (0, 0), &head, "text/x; charset=a.b");
        assert_eq!(read_head(&message(Some(&odd), &[])).1.as_deref(), Some(BYTES));
    }

    #[test]
    fn foreign_clients_may_tell_in_headers_or_not_at_all() {
        let told = message(Some("_INBOX.x.y"), &[(HEAD, "7.1.0.9.0"), (TYPE, "text/plain")]);
        let head = Head { from: Some(ActorId(7)), stream: 1, seq: 9, ..Head::default() };
        assert_eq!(read_head(&told), (head, Some("text/plain".to_owned())));
        for silent in [None, Some("_INBOX.x.y"), Some("a"), Some("x.1-2-3-4.t")] {
            assert_eq!(read_head(&message(silent, &[])), (Head::default(), None), "{silent:?}");
        }
    }

    #[test]
    fn answers_have_a_code() {
        assert_eq!(code(&message(None, &[])), Some(200));
        assert_eq!(code(&message(None, &[(CODE, "503")])), Some(503));
        assert_eq!(code(&message(None, &[(CODE, "what")])), Some(500));
        let nobody = Message { status: Some(StatusCode::NO_RESPONDERS), ..message(None, &[]) };
        assert_eq!(code(&nobody), None);
        for bad in ["", "1", "g-1.", "1-"] {
            assert_eq!(read_id(bad), None, "{bad}");
        }
    }
}
