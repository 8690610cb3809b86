//! Exchanges: one request and its outcome, in one or more attempts; and datagrams, which have none.
//!
//! Times of an exchange: *response* = done − intended, *service* = done − sent, *lag* = sent − ready (late by the
//! generator's own fault), *blocked* = ready − at (waiting because the stream's `in_flight` is full).

use serde::{Deserialize, Serialize};

use crate::ids::{SubjectId, Token};
use crate::payload::Payload;
use crate::time::{Span, Time};

/// One attempt of an exchange. Exactly one [`Outcome`] comes back for each, whatever the peer, the link or the end of the run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Subject of the receiving actor, from [`crate::kind::Targets`].
    pub to: SubjectId,
    /// Returned with the outcome.
    pub token: Token,
    /// Which of the actor's concurrent sources, `0..streams`.
    pub stream: u32,
    /// The exchange's number within its stream, from 0.
    pub seq: u64,
    /// 0 for the first attempt of an exchange; the engine counts `generated` by it.
    pub attempt: u32,
    /// Whether the exchange is lost if this attempt is rejected or unacknowledged.
    pub last: bool,
    /// Latency counts from here, also for later attempts.
    pub intended: Time,
    /// When to leave; the past means at once. Pacing, back-off and replay plan ahead with it.
    pub at: Time,
    /// Counted from the moment it is sent; then the outcome is [`Status::Unacknowledged`].
    pub deadline: Span,
    /// The receiver should reject it if it waited longer than this for a worker; [`Span::ZERO`] means no such limit.
    pub limit: Span,
    /// Length of the answer that is wanted, bytes: a file that is loaded down. 0 leaves it to the receiver.
    pub reply_bytes: u32,
    /// What to send.
    pub payload: Payload,
}

/// One way: no reply and no outcome. The receiver's counts settle it at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Subject of the receiving actor.
    pub to: SubjectId,
    /// Which of the actor's concurrent sources.
    pub stream: u32,
    /// Its number within the stream, from 0.
    pub seq: u64,
    /// When the schedule wanted it to leave.
    pub intended: Time,
    /// When to leave; the past means at once.
    pub at: Time,
    /// What to send.
    pub payload: Payload,
}

/// How one attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// 2xx.
    Success,
    /// The receiver refused what it got: 4xx other than 429. Not retried.
    Invalid,
    /// Another answer than expected: 3xx, or 5xx other than 503. Not retried.
    Failed,
    /// The receiver is overloaded: 429 or 503. Retried.
    Rejected,
    /// No answer in time, connection reset or refused. Retried.
    Unacknowledged,
    /// Stopped by us.
    Aborted,
    /// It never left (queue full, no route, target refused, draining): no attempt. The exchange settles as lost, or as aborted after the stop.
    Unsent,
}

impl Status {
    /// Whether another attempt makes sense.
    #[inline]
    pub const fn retryable(self) -> bool {
        matches!(self, Status::Rejected | Status::Unacknowledged)
    }
}

/// The moments of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// When the schedule wanted the exchange to begin.
    pub intended: Time,
    /// When the attempt was allowed to leave: `at`, or when `in_flight` last had room.
    pub ready: Time,
    /// When it was handed to the carrier.
    pub sent: Time,
    /// When its outcome was known.
    pub done: Time,
}

/// What became of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Its moments.
    pub times: Times,
    /// Length of the reply in bytes.
    pub reply_bytes: u32,
}

/// What a receiver answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// `Success`, `Invalid`, `Failed` or `Rejected`.
    pub status: Status,
    /// The body.
    pub payload: Payload,
}
