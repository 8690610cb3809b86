//! What all members of a sending group share: the common sender keys, resolved and checked once.

use std::ops::Range;
use std::sync::Arc;

use rehearsal_core::arrivals::Course;
use rehearsal_core::kind::{Scatter, StreamSpec, Targets};
use rehearsal_core::plan::{Carrier, Stop};
use rehearsal_core::sender::{LimitReading, OnLate, SenderParams, Spread};
use rehearsal_core::subject::PREFIX;
use rehearsal_core::units::Rate;
use rehearsal_core::{BuildError, GroupContext, Outcome, RecipeId, Request, Span, Status, Time, Wiring};

use crate::arrivals::Pattern;
use crate::retry::Retry;
use crate::spread::fan;
use crate::wire::ECHO_BYTES;

/// Largest payload of one datagram in bytes: 65,535 less the headers of IPv4 and UDP (RFC 791, RFC 768).
pub const DATAGRAM_BYTES_MAX: u64 = 65_507;
/// Smallest payload of one datagram in bytes: the header that tells the receiver what it is.
pub const DATAGRAM_BYTES_MIN: u64 = 32;
/// Shortest time of a closed loop between two requests that got nowhere. Assumed: long enough to bound the loop.
const FRUITLESS_MIN: Span = Span::from_millis(1);

/// The common keys of one sending group, ready for use. Shared by its members.
#[derive(Debug)]
pub struct SourceSpec {
    /// The node instance and the actor of the group.
    pub(super) node: String,
    pub(super) actor: String,
    /// Numbers of the group's members in this node.
    pub(super) members: Range<u32>,
    pub(super) targets: Targets,
    pub(super) spread: Spread,
    pub(super) streams: u32,
    /// Exchanges that one request fans out into.
    pub(super) fan: u32,
    pub(super) in_flight: u32,
    pub(super) queue: u32,
    pub(super) skip: bool,
    /// Mean rate of a paced stream.
    pub(super) rate: Option<Rate>,
    /// Its arrivals, if they are not even.
    pub(super) pattern: Option<Arc<Pattern>>,
    pub(super) requests: Option<u64>,
    pub(super) deadline: Span,
    pub(super) limit: Span,
    pub(super) retry: Retry,
    pub(super) malformed: f64,
    pub(super) spoiled: RecipeId,
}

impl SourceSpec {
    /// Resolves the common keys of the group that `cx` describes, declares its streams and subscribes it to the start.
    /// `spoiled` is the recipe of payloads that a receiver must refuse.
    ///
    /// # Errors
    /// [`BuildError`] names the key that cannot be satisfied.
    pub fn new(cx: &GroupContext<'_>, wiring: &mut dyn Wiring, spoiled: RecipeId) -> Result<Arc<Self>, BuildError> {
        let params = cx.sender.ok_or_else(|| BuildError::of("to", "a sender needs to know where to"))?;
        let targets = wiring.target(&params.to)?;
        if targets.carrier == Carrier::Frames {
            return Err(BuildError::of(
                "to",
                "only a `replayer` has whole frames to send: take another `carrier` for the link",
            ));
        }
        // a node that runs in another process ends by what is said there
        let here = cx.run.nodes.iter().any(|node| node.name == cx.node);
        check(params, &targets, here.then_some(cx.run.stop))?;
        let course = params.arrivals.as_ref().map(|a| a.course()).transpose();
        let course = course.map_err(|why| BuildError::of("arrivals", why))?;
        let spec = SourceSpec::resolve(cx, params, course.as_ref(), targets, spoiled)?;
        wiring.streams(spec.declared(params, course.as_ref()));
        for verb in ["start", "steer"] {
            wiring.subscribe(&format!("{PREFIX}.{}.ctl.*.*.{verb}", cx.run.run))?;
        }
        Ok(Arc::new(spec))
    }

    /// Checks that payloads of `min` to `max` bytes, as told by `key`, can travel over the link.
    ///
    /// # Errors
    /// [`BuildError`] if a datagram would be too short or too long.
    pub fn check_bytes(&self, key: &'static str, min: u64, max: u64) -> Result<(), BuildError> {
        let least = match self.targets {
            Targets { stamps: false, .. } => 0,
            Targets { carrier: Carrier::Udp, exchange: true, .. } => u64::from(ECHO_BYTES),
            _ => DATAGRAM_BYTES_MIN,
        };
        let bounded = self.targets.stamps || self.targets.carrier == Carrier::Udp;
        if !bounded || (min >= least && max <= DATAGRAM_BYTES_MAX) {
            return Ok(());
        }
        let bounds = format!("a datagram carries {least}B to {DATAGRAM_BYTES_MAX}B");
        Err(BuildError::of(key, format!("{bounds}; change `{key}`, or use an exchange carrier such as `http1`")))
    }

    /// Requests that stream `stream` of `member` has no need to begin, of `generated` exchanges that the whole group had
    /// generated before: every stream has its even share.
    pub(super) fn share(&self, member: u32, stream: u32, generated: u64) -> u64 {
        let streams = u64::from(self.streams) * self.members.len() as u64;
        let requests = generated / u64::from(self.fan.max(1));
        let place = u64::from(member - self.members.start) * u64::from(self.streams) + u64::from(stream);
        requests / streams.max(1) + u64::from(place < requests % streams.max(1))
    }

    /// Streams of each member.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// When a closed loop begins its next request: when the last has ended. What could not leave, and what a dead
    /// target refused, may end at once: without a wait of one back-off the loop would turn without end.
    pub(super) fn next_intended(&self, request: &Request, outcome: &Outcome) -> Time {
        let (wait, done) = (self.retry.backoff.max(FRUITLESS_MIN), outcome.times.done);
        match outcome.status {
            Status::Unsent => done.saturating_add(wait),
            // one that was waited for has bounded the loop already
            Status::Unacknowledged => done.max(request.intended.saturating_add(wait)),
            _ => done,
        }
    }

    fn resolve(
        cx: &GroupContext<'_>,
        params: &SenderParams,
        course: Option<&Course>,
        targets: Targets,
        spoiled: RecipeId,
    ) -> Result<Self, BuildError> {
        let limit = |reading| params.limit.filter(|l| l.reading == reading).map(|l| l.deadline);
        let slow = || BuildError::of("arrivals", "its mean rate cannot be kept; it must be above one in 500 years");
        let rate = course.map(|course| course.rate().ok_or_else(slow)).transpose()?.or(params.rate);
        Ok(SourceSpec {
            node: cx.node.to_owned(),
            actor: cx.actor.to_owned(),
            members: cx.members.clone(),
            targets,
            spread: params.spread,
            streams: params.streams,
            fan: fan(params.spread, targets.len),
            in_flight: params.in_flight,
            queue: params.queue,
            skip: params.on_late == OnLate::Skip,
            rate,
            pattern: course.map(Pattern::new).transpose()?,
            requests: params.requests,
            deadline: limit(LimitReading::Timeout).map_or(params.timeout, |l| l.min(params.timeout)),
            limit: limit(LimitReading::ReceiverDeadline).unwrap_or(Span::ZERO),
            retry: Retry { retries: params.retries, backoff: params.backoff },
            malformed: params.malformed.0,
            spoiled,
        })
    }

    /// What the engine must know: a request to all instances is as many exchanges.
    fn declared(&self, params: &SenderParams, course: Option<&Course>) -> StreamSpec {
        let fan = self.fan;
        StreamSpec {
            per_member: self.streams,
            in_flight: self.in_flight.saturating_mul(fan),
            queue: self.queue.saturating_mul(fan),
            burst: params.on_late == OnLate::Burst,
            gap: self.rate.map(|rate| Span::from_nanos((rate.gap().as_nanos() / u64::from(fan)).max(1))),
            requests: self.requests.map(|n| n.saturating_mul(u64::from(fan))),
            threshold: params.limit.filter(|l| l.reading == LimitReading::Threshold).map(|l| l.deadline),
            scatter: course.map(|course| match course.dispersion() {
                Some(index) => Scatter::Dispersion((index * 1e3).round() as u64),
                None => Scatter::Unknown,
            }),
            offered: None,
            ports: 1,
        }
    }
}

fn check(params: &SenderParams, targets: &Targets, stop: Option<Stop>) -> Result<(), BuildError> {
    if params.streams == 0 {
        return Err(BuildError::of("streams", "a sender has at least one stream"));
    }
    if params.in_flight == 0 {
        return Err(BuildError::of("in_flight", "a stream has at least one exchange under way"));
    }
    if params.timeout.is_zero() {
        return Err(BuildError::of("timeout", "no answer comes in no time; write for instance `10s`"));
    }
    if params.retries > 255 {
        return Err(BuildError::of("retries", "at most 255 retries"));
    }
    if params.rate.is_some() && params.arrivals.is_some() {
        return Err(BuildError::of("arrivals", "`rate` and `arrivals` exclude each other; keep one of them"));
    }
    if !params.is_paced() && !targets.exchange {
        let reason = "a datagram has no outcome that a closed loop could wait for; give a `rate`, for instance `100/s`";
        return Err(BuildError::of("rate", reason));
    }
    if params.requests.is_none() && stop == Some(Stop::AllRequestsDone) {
        let reason = "the run stops when all requests are done: give `requests`, or give the experiment a `duration`";
        return Err(BuildError::of("requests", reason));
    }
    Ok(())
}
