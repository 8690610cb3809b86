//! Kinds of actor, and the wiring that a kind's constructor is given: nothing is looked up while the run goes on.

use core::net::SocketAddr;
use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::actor::Pool;
use crate::dialogue::{Casting, Conversations};
use crate::ids::{MediaId, MetricId, RecipeId, SubjectId};
use crate::payload::Recipe;
use crate::plan::{Carrier, RunInfo};
use crate::recording::{Recording, Side, TemplateRequest};
use crate::rng::RngStream;
use crate::sender::SenderParams;
use crate::subject::Plane;
use crate::time::Span;
use crate::units::ByteRange;

/// What a group calls one of its counters.
pub type MetricName = Cow<'static, str>;

/// What an actor of a kind does, as far as engines and reports care.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Generates traffic; takes the common sender keys.
    Sender,
    /// Answers traffic.
    Receiver,
    /// Runs the experiment: logger, aggregator, controller. Every experiment gets those it does not name.
    Service,
}

/// A kind of actor. One line in the binary's registry makes it known.
pub trait Kind: 'static {
    /// The word after `kind =`.
    const NAME: &'static str;
    /// One line for `rehearsal check` and the docs.
    const SUMMARY: &'static str;
    /// What it does.
    const ROLE: Role;
    /// Its own keys, beside the common sender keys if it is a sender.
    type Params: Serialize + DeserializeOwned + JsonSchema + Debug + Clone + Send + Sync + 'static;

    /// Builds the members of one group in one node.
    ///
    /// # Errors
    /// [`BuildError`] names the key that cannot be satisfied.
    fn build(
        params: &Self::Params,
        cx: &GroupContext<'_>,
        wiring: &mut dyn Wiring,
    ) -> Result<Box<dyn Pool>, BuildError>;

    /// What is wrong with its own keys that their types do not tell, each with the way to the key at fault.
    fn check(params: &Self::Params) -> Vec<Complaint> {
        let _ = params;
        Vec::new()
    }

    /// What one member offers, of a sender that paces itself by its own keys; `None` for one that the common keys pace.
    fn offers(params: &Self::Params) -> Option<Offer> {
        let _ = params;
        None
    }

    /// The template that one member replays, so often at most; `None` for a kind that replays none. `frames` is whether whole
    /// frames go over its link.
    fn template(params: &Self::Params, frames: bool) -> Option<(TemplateRequest, Option<u64>)> {
        let _ = (params, frames);
        None
    }

    /// What a sender has to agree on with the one that it converses with; `None` for one that only sends.
    fn meeting(params: &Self::Params) -> Option<Meeting> {
        let _ = params;
        None
    }
}

/// Two senders that converse: each is the other's `to`, and takes what it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Meeting {
    /// Which side it is.
    pub side: Side,
    /// What one instance plays beside the template.
    pub casting: Casting,
    /// What both have to have alike: a key, and its value in words.
    pub alike: Vec<(&'static str, String)>,
}

/// Something that is wrong with a kind's own keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Names of the keys on the way to the one at fault.
    pub path: Vec<String>,
    /// What is wrong and what to write instead.
    pub reason: String,
}

/// What a sender offers that paces itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// In words, `1000 users`.
    pub text: String,
    /// Exchanges or datagrams per second in the mean, if that can be told ahead.
    pub per_second: Option<f64>,
    /// Payload of one in the mean, bytes, whichever way it goes.
    pub bytes: Option<f64>,
    /// Exchanges or datagrams in all, if it ends by itself.
    pub total: Option<u64>,
}

/// Decoded parameters of some kind, ready to build.
pub trait Build: Debug + Send + Sync {
    /// See [`Kind::build`].
    ///
    /// # Errors
    /// [`BuildError`] names the key that cannot be satisfied.
    fn build(&self, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError>;

    /// See [`Kind::check`].
    fn check(&self) -> Vec<Complaint> {
        Vec::new()
    }

    /// See [`Kind::offers`].
    fn offers(&self) -> Option<Offer> {
        None
    }

    /// See [`Kind::template`].
    fn template(&self, frames: bool) -> Option<(TemplateRequest, Option<u64>)> {
        let _ = frames;
        None
    }

    /// See [`Kind::meeting`].
    fn meeting(&self) -> Option<Meeting> {
        None
    }
}

/// The parameters of kind `K`.
pub struct Decoded<K: Kind>(pub K::Params);

impl<K: Kind> Debug for Decoded<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", K::NAME, self.0)
    }
}

impl<K: Kind> Build for Decoded<K> {
    fn build(&self, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        K::build(&self.0, cx, wiring)
    }

    fn check(&self) -> Vec<Complaint> {
        K::check(&self.0)
    }

    fn offers(&self) -> Option<Offer> {
        K::offers(&self.0)
    }

    fn template(&self, frames: bool) -> Option<(TemplateRequest, Option<u64>)> {
        K::template(&self.0, frames)
    }

    fn meeting(&self) -> Option<Meeting> {
        K::meeting(&self.0)
    }
}

/// Which group is built, and what run it belongs to.
#[derive(Clone, Debug)]
pub struct GroupContext<'a> {
    /// The node instance, `camera-1`.
    pub node: &'a str,
    /// The actor as written in the experiment, `main`.
    pub actor: &'a str,
    /// The members to build, counted over all instances of the node.
    pub members: Range<u32>,
    /// The common sender keys, for a kind whose role is [`Role::Sender`].
    pub sender: Option<&'a SenderParams>,
    /// The run.
    pub run: &'a RunInfo,
}

/// Why a group cannot be built.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[error("{reason}")]
pub struct BuildError {
    /// The key at fault, if one is.
    pub key: Option<&'static str>,
    /// What is wrong and what to write instead.
    pub reason: String,
}

impl BuildError {
    /// `key` cannot be satisfied.
    pub fn of(key: &'static str, reason: impl Into<String>) -> Self {
        BuildError { key: Some(key), reason: reason.into() }
    }

    /// The group as a whole cannot be built.
    pub fn group(reason: impl Into<String>) -> Self {
        BuildError { key: None, reason: reason.into() }
    }
}

/// Where a group's requests go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Targets {
    /// The first instance's subject; instance `i` is `base.member(i)`.
    pub base: SubjectId,
    /// How many instances, at least one.
    pub len: u32,
    /// The carrier of the link to them.
    pub carrier: Carrier,
    /// Whether each request has an outcome; otherwise it is a datagram.
    pub exchange: bool,
    /// Whether our header takes the first bytes of each payload.
    pub stamps: bool,
}

/// What the engine must know of a sending group's streams: it owns `in_flight` and the bounded queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSpec {
    /// Streams of each member.
    pub per_member: u32,
    /// Exchanges under way per stream.
    pub in_flight: u32,
    /// Due exchanges that may wait per stream.
    pub queue: u32,
    /// Due exchanges leave at once, up to `in_flight + queue` under way.
    pub burst: bool,
    /// Mean gap of a paced stream; `None` for a closed loop.
    pub gap: Option<Span>,
    /// Mean gap of all that a member offers, by a model of its users. Nothing is held against it: what users wait for decides.
    pub offered: Option<Span>,
    /// Exchanges each stream will generate, if that is fixed.
    pub requests: Option<u64>,
    /// A success whose service time is above this counts as a deadline miss.
    pub threshold: Option<Span>,
    /// Whether gaps are drawn or follow a plan, and how much counts scatter: none at a constant pace.
    pub scatter: Option<Scatter>,
    /// Source ports of its datagrams in an emulation, at least 1: a stream has the one of its number modulo this.
    pub ports: u16,
}

/// How much the number of exchanges in a time scatters about its mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scatter {
    /// Variance by mean over a long time, in thousandths.
    Dispersion(u64),
    /// Not known, or the rate changes by plan: the mean rate says too little of a part of the run.
    Unknown,
}

impl StreamSpec {
    /// For a group that has declared no streams and sends all the same: nothing waits.
    pub const UNDECLARED: StreamSpec = StreamSpec {
        per_member: 1,
        in_flight: u32::MAX,
        queue: 0,
        burst: false,
        gap: None,
        offered: None,
        requests: None,
        threshold: None,
        scatter: None,
        ports: 1,
    };
}

/// What one exchange or datagram of a group weighs: checks before a run go by it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Weight {
    /// Payload in the mean, bytes: of what a sender sends, or of what a receiver answers.
    pub bytes: f64,
    /// The largest.
    pub bytes_max: u32,
    /// Core time that the experiment asks for, for each.
    pub compute: Span,
    /// Time that each takes without any core: what a receiver waits before it answers.
    pub pause: Span,
    /// How many are handled at the same time by one member, if there is a bound.
    pub at_once: Option<u32>,
    /// Whether a frame is encoded for each while the run goes on.
    pub encode: bool,
    /// Whether each is decoded.
    pub decode: bool,
}

impl Weight {
    /// Payloads of these sizes, and nothing else.
    pub fn of(bytes: f64, bytes_max: u64) -> Self {
        Weight { bytes, bytes_max: u32::try_from(bytes_max).unwrap_or(u32::MAX), ..Weight::default() }
    }
}

/// Frames of a clip, as an actor asks for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameRequest {
    /// The clip, relative to the experiment file.
    pub media: PathBuf,
    /// Bounds of an encoded frame.
    pub bytes: ByteRange,
    /// Encode while the run goes on, rather than before.
    pub live: bool,
}

/// Frames of a clip, as an actor gets them.
#[derive(Clone, Debug)]
pub struct Frames {
    /// Payloads name this recipe and the frame's number (taken modulo the clip's length).
    pub recipe: RecipeId,
    /// For [`crate::Work::Encode`].
    pub media: MediaId,
    /// Bytes of each prepared frame; never empty. A live clip is simulated from it too.
    pub sizes: Arc<[u32]>,
}

/// Given to a constructor. Names become ids here.
pub trait Wiring {
    /// The id of a subject by its full name.
    ///
    /// # Errors
    /// When the name breaks the grammar.
    fn subject(&mut self, name: &str) -> Result<SubjectId, BuildError>;
    /// The members' own subjects `lab.v1.<run>.<plane>.<node>.<actor>[.<verb>]`: the first member's; the others follow.
    fn own(&mut self, plane: Plane, verb: &str) -> SubjectId;
    /// Subscribes every member built to a pattern with `*` and `>`.
    ///
    /// # Errors
    /// When the pattern breaks the grammar.
    fn subscribe(&mut self, pattern: &str) -> Result<(), BuildError>;
    /// Resolves a `to`.
    ///
    /// # Errors
    /// When there is no such target.
    fn target(&mut self, to: &str) -> Result<Targets, BuildError>;
    /// The ids of an actor's instances over all nodes, as [`crate::Head::from`] tells who sent something: ranges in order.
    ///
    /// # Errors
    /// When there is no such actor.
    fn instances(&mut self, of: &str) -> Result<Vec<Range<u32>>, BuildError>;
    /// Declares the group's streams.
    fn streams(&mut self, spec: StreamSpec);
    /// Declares what its exchanges weigh; a group that does not is left out of what goes by it.
    fn weight(&mut self, weight: Weight) {
        let _ = weight;
    }
    /// Declares that the group receives, at a fixed address or at one of the engine's choice.
    fn serve(&mut self, listen: Option<SocketAddr>);
    /// Adds a row to the recipe table.
    fn recipe(&mut self, recipe: Arc<dyn Recipe>) -> RecipeId;
    /// The bytes of a file, relative to the experiment's.
    ///
    /// # Errors
    /// When it cannot be read.
    fn file(&mut self, path: &Path) -> Result<Bytes, BuildError>;
    /// Adds a clip's frames to the recipe table.
    ///
    /// # Errors
    /// When the clip cannot be read or brought within the bounds.
    fn frames(&mut self, request: &FrameRequest) -> Result<Frames, BuildError>;
    /// Reads a template, and adds how its packets are rendered to the recipe table.
    ///
    /// # Errors
    /// When it cannot be found or read, or its packets do not fit what is asked for.
    fn recording(&mut self, request: &TemplateRequest) -> Result<Recording, BuildError> {
        Err(BuildError::of("template", format!("`{}`: there are no templates here", request.template)))
    }
    /// Reads what one side of a template's conversations says, and adds how its packets are rendered to the recipe table.
    ///
    /// # Errors
    /// When it cannot be found or read, or holds no conversations.
    fn conversations(&mut self, request: &TemplateRequest, casting: &Casting) -> Result<Conversations, BuildError> {
        let _ = casting;
        Err(BuildError::of("template", format!("`{}`: there are no templates here", request.template)))
    }
    /// Names a counter or value of the group; one per group, never per member.
    fn metric(&mut self, name: &'static str) -> MetricId {
        self.metric_named(name.into())
    }
    /// The same, of a name that follows from the experiment.
    fn metric_named(&mut self, name: MetricName) -> MetricId;
    /// The random stream of a member's stream, for one purpose.
    fn rng(&self, member: u32, stream: u32, purpose: &str) -> RngStream;
}
