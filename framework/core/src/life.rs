//! Losing a node, and what is done about it.
//!
//! Every process of a run says each second that it is there ([`Beat`], apart from the traffic). A node whose process has
//! ended, or that was silent for [`SILENT_AFTER`], is lost; the experiment says what follows ([`OnLoss`]). The controller's
//! engine tells the controller ([`NodeLost`], [`NodeBack`]), which counts without it, or brings a new incarnation to the
//! start line and lets it join ([`Rejoin`]).

use core::net::SocketAddr;
use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::message::Body;
use crate::messages::StartAt;
use crate::steer::Steer;
use crate::time::{Span, Time};

/// What a sender hears of its run.
#[derive(Debug)]
pub enum Word<'a> {
    /// Traffic begins, or has begun; the second if this is a new incarnation of the sender's node.
    Begin(Cow<'a, StartAt>, Option<Cow<'a, Rejoin>>),
    /// Its load changes.
    Steer(Cow<'a, Steer>),
}

impl<'a> Word<'a> {
    /// Reads a message to a sender on `node`; `None` if it is another one.
    pub fn read(body: &'a Body, node: &str) -> Option<Word<'a>> {
        if let Ok(start) = body.get::<StartAt>() {
            return Some(Word::Begin(start, None));
        }
        if let Ok(steer) = body.get::<Steer>() {
            return Some(Word::Steer(steer));
        }
        let again = body.get::<Rejoin>().ok()?;
        let start = StartAt { at: again.at, until: again.until };
        Some(Word::Begin(Cow::Owned(start), Some(again).filter(|again| again.node == node)))
    }
}

/// Between two beats.
pub const BEAT_EVERY: Span = Span::from_secs(1);
/// Silence after which a node is lost: five beats.
pub const SILENT_AFTER: Span = Span::from_secs(5);
/// Incarnations that a node may have after its first; then the run is aborted.
pub const RESTARTS_MAX: u32 = 3;

/// What follows when a node is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// The run stops, and is INVALID.
    #[default]
    Abort,
    /// The run goes on without it, and is DEGRADED. One that was only silent takes part again.
    Continue,
    /// The node is started again, three times at most, and the run is DEGRADED.
    RestartNode,
}

impl OnLoss {
    /// Whether a run outlives the loss of a node.
    pub const fn is_tolerant(self) -> bool {
        matches!(self, OnLoss::Continue | OnLoss::RestartNode)
    }

    /// Silence of the controller's engine after which a node ends by itself. Where a lost node may come back it waits
    /// for longer than any outage that it could come back from.
    pub const fn leader_silent_after(self) -> Span {
        match self {
            OnLoss::Abort | OnLoss::RestartNode => Span::from_secs(10),
            OnLoss::Continue => Span::from_secs(60),
        }
    }
}

/// How far a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It does not know when traffic begins.
    #[default]
    Waiting,
    /// It does.
    Running,
    /// It was told to stop.
    Stopping,
    /// It was told to close its books.
    Closing,
}

/// An engine to all, on `ctl.<node>.host.beat`, each second: it is there. Who is behind is told again what it missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// The node instance.
    pub node: String,
    /// Which process of this node it is, from 0.
    #[serde(default)]
    pub incarnation: u32,
    /// How far it is.
    #[serde(default)]
    pub stage: Stage,
    /// Whether all its senders have finished.
    #[serde(default)]
    pub done: bool,
    /// The last second of the run that it has reported, if it has reported any.
    #[serde(default)]
    pub second: Option<u32>,
    /// Exchanges that had come due by the end of that second, by actor.
    #[serde(default)]
    pub generated: BTreeMap<String, u64>,
}

/// The controller's engine to the controller, on `ctl.<node>.host.lost`: a node is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLost {
    /// The node instance.
    pub node: String,
    /// Whether it is being started again.
    pub again: bool,
    /// The end of the last second of the run that is known of it: what was due later is lost with it.
    pub known_until: Time,
    /// Exchanges that had come due by then, by actor.
    pub generated: BTreeMap<String, u64>,
}

/// The controller's engine to the controller, on `ctl.<node>.host.lost`: a lost node was heard again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBack {
    /// The node instance.
    pub node: String,
}

/// The controller to one node, on `ctl.<node>.<controller>.start`: a new incarnation takes up a run that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejoin {
    /// The node instance.
    pub node: String,
    /// When traffic began.
    pub at: Time,
    /// No exchange is due at or after this time; `None` for a count-driven run.
    pub until: Option<Time>,
    /// The end of the last second that is known of the earlier incarnation. Slots since then, up to `from`, are lost.
    pub known_until: Time,
    /// The new incarnation sends from this time on.
    pub from: Time,
    /// Exchanges that had come due by `known_until`, by actor: a closed loop begins so many fewer.
    pub generated: BTreeMap<String, u64>,
}

/// What a process of a node knows of those that ran it before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Succession {
    /// Which one it is, from 0.
    pub incarnation: u32,
    /// Where the receivers of the one before listened, by their subjects on the traffic plane: it listens there too if it
    /// can, so that senders find it again at once.
    pub listen: BTreeMap<String, SocketAddr>,
}

/// A time in which nobody knew of a node, as a run's end tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossWindow {
    /// The node instance.
    pub node: String,
    /// When it was heard last.
    pub from: Time,
    /// When it, or its next incarnation, was heard again; `None` if never.
    pub to: Option<Time>,
    /// Whether a new incarnation took its place.
    pub restarted: bool,
    /// What was seen of it.
    pub why: String,
}
