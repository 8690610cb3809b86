//! Messages between processes over a NATS server: at most once, in each publisher's order, every buffer bounded and its
//! overflow counted. Losses are silent in NATS itself; who must know counts the publishers' own numbers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{Client, PublishErrorKind, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

mod connect;
mod counts;
mod error;
mod requests;
mod settings;

use counts::Counts;
pub use counts::Traffic;
pub use error::{ConnectFailure, NatsError, Violation};
pub use requests::{Answered, Answers, Asked, ReplyTo, Requests, Service};
pub use settings::{Auth, ConnectSettings, Secret, SettingsError, Tls};

/// Messages that may wait to be handled: as many as a subscription of the client library holds.
pub const INCOMING_MAX: usize = 65_536;
/// The oldest server that has all that the project needs of one: what its key-value store tells is understood.
pub const SERVER_MIN: (u32, u32) = (2, 10);
/// How long a message may wait for room in the client's buffer while the server is away.
const AWAY: Duration = Duration::from_secs(1);
/// Where JetStream tells about itself.
const JETSTREAM: &str = "$JS.API.INFO";
/// How long a server may take to answer the first call.
const CONNECT: Duration = Duration::from_secs(5);

/// A message that came in.
#[derive(Debug)]
pub struct Incoming {
    /// Where it was published.
    pub subject: String,
    /// What it says, as it came.
    pub payload: Bytes,
    /// Where an answer is waited for.
    pub reply: Option<String>,
}

/// A connection. Clones share it.
#[derive(Clone)]
pub struct Nats {
    client: Client,
    counts: Arc<Counts>,
    queue: mpsc::Sender<Incoming>,
    url: Arc<str>,
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("traffic", &self.traffic()).finish_non_exhaustive()
    }
}

impl Nats {
    /// Connects as `settings` say, under a `name` that the server's tools show. What this connection publishes does not
    /// come back to it. Needs a tokio runtime, and lives as long as that does.
    ///
    /// # Errors
    /// When nobody answers, the server does not accept this client or the client does not trust the server, or the
    /// server is older than [`SERVER_MIN`]. Each says what to do; none holds a secret.
    pub async fn connect(
        settings: &ConnectSettings,
        name: &str,
    ) -> Result<(Nats, mpsc::Receiver<Incoming>), NatsError> {
        let counts = Arc::new(Counts::default());
        let (queue, received) = mpsc::channel(INCOMING_MAX);
        let client = connect::connect(settings, name, &counts).await?;
        Ok((Nats { client, counts, queue, url: settings.shown().into() }, received))
    }

    /// The same, and tries again for as long as `patience` while nobody listens there: who starts first does not matter.
    /// `waits` is told once, before the first wait.
    ///
    /// # Errors
    /// As [`Nats::connect`], once `patience` is over or there is something else than nobody.
    pub async fn connect_within(
        settings: &ConnectSettings,
        name: &str,
        patience: Duration,
        waits: impl FnOnce(&NatsError),
    ) -> Result<(Nats, mpsc::Receiver<Incoming>), NatsError> {
        let end = Instant::now() + patience;
        let mut waits = Some(waits);
        loop {
            let nobody = match Nats::connect(settings, name).await {
                Err(why @ NatsError::Connect { why: ConnectFailure::Nobody(_), .. }) => why,
                other => return other,
            };
            if Instant::now() >= end {
                return Err(nobody);
            }
            if let Some(waits) = waits.take() {
                waits(&nobody);
            }
            tokio::time::sleep(Duration::from_millis(connect::RECONNECT_MS_MAX)).await;
        }
    }

    /// The client library's connection, for what is not wrapped here. Its losses are counted in [`Nats::traffic`] too.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// Subscribes to a pattern; its messages come in each publisher's order. Where patterns overlap a message comes once
    /// for each.
    ///
    /// # Errors
    /// When the pattern breaks the grammar, the connection is closed, or the server has been away for long.
    pub async fn subscribe(&self, pattern: &str) -> Result<(), NatsError> {
        let refused = |source| NatsError::Subscribe { pattern: pattern.to_owned(), source };
        let subscription = timeout(AWAY, self.client.subscribe(pattern.to_owned())).await;
        let mut subscription = subscription.map_err(|_| self.away(pattern))?.map_err(refused)?;
        let (counts, queue) = (self.counts.clone(), self.queue.clone());
        tokio::spawn(async move {
            while let Some(message) = subscription.next().await {
                Counts::add(&counts.received, &counts.received_bytes, message.payload.len());
                let (subject, reply) = (message.subject.to_string(), message.reply.map(|r| r.to_string()));
                if queue.try_send(Incoming { subject, payload: message.payload, reply }).is_err() {
                    counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(())
    }

    /// Publishes. While the server is away the client keeps 2,048 messages, which leave when it is back; with more this
    /// waits for a second at most, and the message is lost and counted. That the server does not permit it is told later,
    /// by [`Nats::violations`].
    ///
    /// # Errors
    /// When the payload is larger than the server takes, the connection is closed, or the server has been away for long.
    pub async fn publish(&self, subject: &str, payload: Bytes) -> Result<(), NatsError> {
        let bytes = payload.len();
        let published = timeout(AWAY, self.client.publish(subject.to_owned(), payload)).await;
        if let Err(source) = published.map_err(|_| self.away(subject))? {
            let subject = subject.to_owned();
            return Err(match source.kind() {
                PublishErrorKind::MaxPayloadExceeded => {
                    NatsError::TooLarge { subject, bytes, bytes_max: self.client.max_payload() }
                }
                _ => NatsError::Publish { subject, source },
            });
        }
        Counts::add(&self.counts.sent, &self.counts.sent_bytes, bytes);
        Ok(())
    }

    /// Publishes, and waits for an answer.
    ///
    /// # Errors
    /// When nobody listens, or nobody answers within `patience`.
    pub async fn request(&self, subject: &str, payload: Bytes, patience: Duration) -> Result<Bytes, NatsError> {
        let request = Request::new().payload(payload).timeout(Some(patience));
        let refused = |source| NatsError::Request { subject: subject.to_owned(), source };
        // the client library waits for its own buffer first, and its patience begins after that
        let answer = timeout(patience + AWAY, self.client.send_request(subject.to_owned(), request)).await;
        Ok(answer.map_err(|_| self.away(subject))?.map_err(refused)?.payload)
    }

    fn away(&self, subject: &str) -> NatsError {
        self.counts.unsent.fetch_add(1, Ordering::Relaxed);
        NatsError::Away { subject: subject.to_owned() }
    }

    /// Waits until the server has handled all subscriptions and messages so far, or `patience` is over; whether it has.
    /// The client library's flush only empties its own buffer: what is asked here comes back from the server, be it that
    /// nobody listens, or that this user may not even ask.
    pub async fn settle(&self, patience: Duration) -> bool {
        settled(&self.client, &self.counts, patience).await
    }

    /// What the server did not permit so far. It says so after the call that it concerns has returned: wait for
    /// [`Nats::settle`] before looking.
    pub fn violations(&self) -> Vec<Violation> {
        self.counts.violations()
    }

    /// Waits as [`Nats::settle`], and looks at what the server did not permit.
    ///
    /// # Errors
    /// When it did not permit something.
    pub async fn permitted(&self, patience: Duration) -> Result<(), NatsError> {
        self.settle(patience).await;
        self.violations().into_iter().next().map_or(Ok(()), |violation| Err(NatsError::Forbidden(violation)))
    }

    /// Whether the server's JetStream serves this user.
    ///
    /// # Errors
    /// When it is off, this user's account has none, asking is not permitted, or nobody answers within `patience`.
    pub async fn jetstream_state(&self, patience: Duration) -> Result<(), NatsError> {
        let missing = |why| NatsError::JetStream { url: self.url.to_string(), why };
        // the client library goes on waiting after a refusal
        let refused = self.counts.refused(JETSTREAM);
        let asked = tokio::select! {
            answer = self.request(JETSTREAM, Bytes::new(), patience) => answer,
            violation = refused => return Err(NatsError::Forbidden(violation)),
        };
        let answer = match asked {
            Ok(answer) => answer,
            Err(NatsError::Request { source, .. }) if source.kind() == RequestErrorKind::NoResponders => {
                return Err(missing(
                    "has no JetStream; start it with `-js`, or write `jetstream {}` into its configuration",
                ));
            }
            Err(why) => return Err(why),
        };
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
        if answer["error"].is_null() {
            return Ok(());
        }
        Err(missing(
            "has no JetStream for this user's account; write `jetstream: enabled` into the account's configuration",
        ))
    }

    /// What happened so far.
    pub fn traffic(&self) -> Traffic {
        self.counts.traffic()
    }
}

/// See [`Nats::settle`].
async fn settled(client: &Client, counts: &Counts, patience: Duration) -> bool {
    let nobody = format!("{}.{}", client.new_inbox(), counts::QUESTION);
    let request = Request::new().payload(Bytes::new()).timeout(Some(patience));
    let forbidden = async {
        loop {
            let mut answered = std::pin::pin!(counts.answered.notified());
            answered.as_mut().enable();
            if counts.is_refused(&nobody) {
                return;
            }
            answered.await;
        }
    };
    tokio::select! {
        answer = client.send_request(nobody.clone(), request) => {
            answer.is_err_and(|why| why.kind() == RequestErrorKind::NoResponders)
        }
        () = forbidden => true,
    }
}

/// Whether a version such as `2.10.26` or `v2.15.1` is [`SERVER_MIN`] or newer.
pub(crate) fn is_new_enough(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= SERVER_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        for new in ["2.10.0", "v2.15.1", "2.10.26-beta", "3.0.0"] {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["2.9.10", "1.4.1", "", "two", "2"] {
            assert!(!is_new_enough(old), "{old}");
        }
    }
}
