//! A fleet of agents over NATS: their cards in a key-value bucket that forgets who is gone, requests to one of them, the
//! Services API by which the tools of NATS list them, and files in an object store, each under its digest.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::{self, kv};
use async_nats::service::endpoint::Endpoint;
use async_nats::service::{self, Service, ServiceExt as _};
use async_nats::{Client, Request, RequestErrorKind};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{StreamExt as _, TryStreamExt as _};
use rehearsal_core::fleet::{BUCKET, Card, ClockReading, FLEET, ReadClock, Refusal, SERVICE, Step};
use rehearsal_core::message::Header;
use rehearsal_core::{Body, Message};
use thiserror::Error;

use crate::clock::{BURST, Exchange, Offset, monotonic_ns};
use crate::nats::Nats;

mod files;

pub(crate) use files::Pieces;
pub use files::{Digest, FileError, Files};

/// How long a card is kept that is not renewed: an agent that is gone is not found after it.
pub const CARD_TTL: Duration = Duration::from_secs(5);
/// Between two times that an agent renews its card: two renewals may fail.
pub const CARD_RENEW: Duration = Duration::from_millis(1500);
/// How long one reading of a clock may take. A slower one would say nothing.
const CLOCK_PATIENCE: Duration = Duration::from_millis(500);
/// Readings that are waited for in vain, until a burst is given up.
const CLOCK_MISSES_MAX: u32 = 3;
/// Cards that are asked for at once.
const AT_ONCE: usize = 32;
/// How often the cards are asked for while the server does not have them, and the pause between.
const READS_MAX: u32 = 4;
const READ_PAUSE: Duration = Duration::from_millis(250);

/// Why something that concerns a fleet did not work.
#[derive(Debug, Error)]
pub enum FleetError {
    /// The server keeps nothing.
    #[error(
        "the NATS server has no bucket `{BUCKET}` and makes none; agents need JetStream: start it with `nats-server -js`"
    )]
    JetStream(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A card cannot be written or read.
    #[error("the bucket `{BUCKET}` does not answer")]
    Bucket(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The Services API is not to be had.
    #[error("cannot listen on the fleet's subjects")]
    Serve(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No agent of that name is connected.
    #[error("agent `{agent}` is not there")]
    Gone {
        /// Its name.
        agent: String,
    },
    /// It is there, or was a moment ago, and says nothing.
    #[error("agent `{agent}` does not answer to `{step}`", step = step.token())]
    Silent {
        /// Its name.
        agent: String,
        /// What it was asked for.
        step: Step,
        /// Why not.
        source: async_nats::RequestError,
    },
    /// It answers something else than was asked for.
    #[error("agent `{agent}` does not understand `{step}`: is it another version?", step = step.token())]
    Garbled {
        /// Its name.
        agent: String,
        /// What it was asked for.
        step: Step,
    },
    /// It has a reason not to.
    #[error("agent `{agent}` refuses: {reason}")]
    Refused {
        /// Its name.
        agent: String,
        /// Its reason.
        reason: String,
    },
}

/// A connection to a fleet. Clones share it.
#[derive(Clone)]
pub struct FleetBus {
    client: Client,
    context: jetstream::Context,
    cards: kv::Store,
    from: String,
}

impl FleetBus {
    /// Opens the bucket of cards over `nats`, and makes it where there is none. `from` names this end in messages.
    ///
    /// # Errors
    /// When the server has no JetStream, or this end may not use it.
    pub async fn open(nats: &Nats, from: &str) -> Result<FleetBus, FleetError> {
        let client = nats.client().clone();
        let context = jetstream::new(client.clone());
        let cards = match context.get_key_value(BUCKET).await {
            Ok(cards) => cards,
            Err(_) => create(&context).await?,
        };
        Ok(FleetBus { client, context, cards, from: from.to_owned() })
    }

    /// The files of the same server.
    ///
    /// # Errors
    /// When there is no bucket for them and none can be made.
    pub async fn files(&self) -> Result<Files, FileError> {
        Files::open(&self.client).await
    }

    /// Puts an agent's card into the bucket; it stays there for [`CARD_TTL`]. A bucket that went with a restart of the
    /// server is made again.
    ///
    /// # Errors
    /// When the bucket does not take it.
    pub async fn announce(&self, card: &Card) -> Result<(), FleetError> {
        let text = serde_json::to_vec(card).expect("a card is plain data");
        let text = bytes::Bytes::from(text);
        if self.cards.put(card.agent.as_str(), text.clone()).await.is_ok() {
            return Ok(());
        }
        create(&self.context).await?;
        let put = self.cards.put(card.agent.as_str(), text).await;
        put.map(|_| ()).map_err(|why| FleetError::Bucket(Box::new(why)))
    }

    /// Takes a card away: the agent leaves.
    ///
    /// # Errors
    /// When the bucket does not answer.
    pub async fn withdraw(&self, agent: &str) -> Result<(), FleetError> {
        self.cards.purge(agent).await.map_err(|why| FleetError::Bucket(Box::new(why)))
    }

    /// The cards in the bucket, by name. Entries that are none are left out. A server that is just starting is asked again.
    ///
    /// # Errors
    /// When the bucket does not answer.
    pub async fn cards(&self) -> Result<Vec<Card>, FleetError> {
        for _ in 1..READS_MAX {
            if let Ok(cards) = self.read_cards().await {
                return Ok(cards);
            }
            tokio::time::sleep(READ_PAUSE).await;
            create(&self.context).await?;
        }
        self.read_cards().await
    }

    async fn read_cards(&self) -> Result<Vec<Card>, FleetError> {
        let bucket = |why| FleetError::Bucket(why);
        let keys = self.cards.keys().await.map_err(|why| bucket(Box::new(why)))?;
        let mut names: Vec<String> = keys.try_collect().await.map_err(|why| bucket(Box::new(why)))?;
        names.sort();
        let read = stream::iter(names).map(|name| async { self.cards.get(name).await });
        let texts: Vec<_> = read.buffered(AT_ONCE).try_collect().await.map_err(|why| bucket(Box::new(why)))?;
        Ok(texts.iter().flatten().filter_map(|text| serde_json::from_slice(text).ok()).collect())
    }

    /// Asks `agent` for a step and waits for its answer.
    ///
    /// # Errors
    /// When it is not there, says nothing within `patience`, or refuses.
    pub async fn ask<A: Message>(
        &self,
        agent: &str,
        step: Step,
        question: &Body,
        patience: Duration,
    ) -> Result<A, FleetError> {
        let header = Header { run: FLEET, from: &self.from, seq: 0, t_ns: monotonic_ns() };
        let request = Request::new().payload(question.to_wire(&header)).timeout(Some(patience));
        let answered = self.client.send_request(step.subject(agent), request).await;
        let name = || agent.to_owned();
        let answer = answered.map_err(|source| match source.kind() {
            RequestErrorKind::NoResponders => FleetError::Gone { agent: name() },
            _ => FleetError::Silent { agent: name(), step, source },
        })?;
        let answer = Body::from_wire(answer.payload);
        if let Ok(refusal) = answer.get::<Refusal>() {
            return Err(FleetError::Refused { agent: name(), reason: refusal.into_owned().reason });
        }
        answer.get::<A>().map(std::borrow::Cow::into_owned).map_err(|_| FleetError::Garbled { agent: name(), step })
    }

    /// How far the clock of an agent's host is from ours, by a burst of readings.
    ///
    /// # Errors
    /// When too few answer.
    pub async fn offset(&self, agent: &str) -> Result<Offset, FleetError> {
        let question = Body::new(ReadClock {});
        let (mut burst, mut misses) = (Vec::new(), 0);
        for _ in 0..BURST {
            let asked_ns = monotonic_ns();
            match self.ask::<ClockReading>(agent, Step::Clock, &question, CLOCK_PATIENCE).await {
                Ok(reading) => {
                    burst.push(Exchange { asked_ns, theirs_ns: reading.monotonic_ns, answered_ns: monotonic_ns() });
                }
                Err(why) => {
                    misses += 1;
                    if misses > CLOCK_MISSES_MAX || matches!(why, FleetError::Gone { .. }) {
                        return Err(why);
                    }
                }
            }
        }
        Ok(Offset::of(&burst).expect("a burst of more than its misses"))
    }
}

/// Makes the bucket of cards. It is in memory: what it holds is worthless after seconds.
async fn create(context: &jetstream::Context) -> Result<kv::Store, FleetError> {
    let config = kv::Config {
        bucket: BUCKET.to_owned(),
        description: "Agents that run nodes of experiments".to_owned(),
        history: 1,
        max_age: CARD_TTL,
        storage: jetstream::stream::StorageType::Memory,
        ..kv::Config::default()
    };
    match context.create_key_value(config).await {
        Ok(cards) => Ok(cards),
        // somebody else was quicker
        Err(why) => context.get_key_value(BUCKET).await.map_err(|_| FleetError::JetStream(Box::new(why))),
    }
}

/// An agent's end: what it is asked for.
pub struct Desk {
    _service: Service,
    calls: SelectAll<BoxStream<'static, Call>>,
    from: String,
}

/// One request to an agent.
pub struct Call {
    /// What is asked for.
    pub step: Step,
    /// The question.
    pub question: Body,
    request: service::Request,
    from: String,
}

impl Desk {
    /// Listens for requests to `agent`, and answers the Services API with `metadata`.
    ///
    /// # Errors
    /// When the server does not let it.
    pub async fn open(
        nats: &Nats,
        agent: &str,
        version: &str,
        metadata: HashMap<String, String>,
    ) -> Result<Desk, FleetError> {
        let builder = nats.client().service_builder().description("Runs nodes of experiments").metadata(metadata);
        let service = builder.start(SERVICE, version).await.map_err(FleetError::Serve)?;
        let mut calls = SelectAll::new();
        for step in Step::ALL {
            let endpoint: Endpoint = service
                .endpoint_builder()
                .name(step.token())
                .add(step.subject(agent))
                .await
                .map_err(FleetError::Serve)?;
            let from = agent.to_owned();
            let call = move |request: service::Request| {
                let question = Body::from_wire(request.message.payload.clone());
                Call { step, question, request, from: from.clone() }
            };
            calls.push(endpoint.map(call).boxed());
        }
        Ok(Desk { _service: service, calls, from: agent.to_owned() })
    }

    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.from
    }

    /// The next request; `None` once the connection is closed. A reading of the clock is answered in here.
    pub async fn next(&mut self) -> Option<Call> {
        loop {
            let call = self.calls.next().await?;
            if call.step != Step::Clock {
                return Some(call);
            }
            call.answer(&Body::new(ClockReading { monotonic_ns: monotonic_ns() })).await;
        }
    }
}

impl Call {
    /// Answers it. An answer that cannot leave is missed by who waits for it, and asked for again.
    pub async fn answer(&self, answer: &Body) {
        let header = Header { run: FLEET, from: &self.from, seq: 0, t_ns: monotonic_ns() };
        let _ = self.request.respond(Ok(answer.to_wire(&header))).await;
    }
}
