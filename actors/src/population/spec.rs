//! What all members of a population share: where each module sends, and the common sender keys that mean something here.

use std::path::Path;
use std::sync::Arc;

use rehearsal_core::kind::{StreamSpec, Targets};
use rehearsal_core::plan::{Carrier, Stop};
use rehearsal_core::script::{Script, StepBody};
use rehearsal_core::sender::{LimitReading, OnLate, SenderParams, Spread};
use rehearsal_core::subject::PREFIX;
use rehearsal_core::{BuildError, GroupContext, Kind as _, MetricId, RecipeId, Span, SubjectId, Wiring};
use rehearsal_models::diagram::module::Direction;
use rehearsal_models::diagram::{Chain, Diagram};
use rehearsal_models::retry::Retry;
use rehearsal_models::source::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN};
use rehearsal_models::spread::instance;

use super::census::Census;
use super::content::Content;
use super::{Change, Population, PopulationParams};

/// Most streams of a population over all its instances. Assumed: as of other senders.
const STREAMS_MAX: u64 = 10_000_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Spec {
    pub node: String,
    pub actor: String,
    pub users: u32,
    pub most: u32,
    pub schedule: Vec<Change>,
    /// By module.
    pub routes: Vec<Route>,
    pub spread: Spread,
    pub deadline: Span,
    pub limit: Span,
    pub retry: Retry,
    pub content: RecipeId,
    /// What the steps say; without steps it is empty.
    pub script: Arc<Script>,
    /// Steps of the diagram.
    pub steps: usize,
    /// Whether tokens of what is under way are kept, for users who give up.
    pub aborts: bool,
    pub counters: Counters,
    pub census: Census,
}

/// Where a module sends, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub targets: Targets,
    /// Requests with answers rather than datagrams.
    pub asks: bool,
    pub down: bool,
    /// Payload of a request for what is loaded down.
    pub request_bytes: u32,
    /// The recipe of a codec's packets.
    pub speech: Option<RecipeId>,
    /// The step that it is, and the recipe of its bodies.
    pub step: Option<(u16, RecipeId)>,
}

/// Counters of a population.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    /// Flows that began, came to their end, failed, and whose users gave up.
    pub flows: [MetricId; 4],
    /// Transitions of users.
    pub moves: MetricId,
    /// Users, recorded with each change.
    pub users: MetricId,
}

impl Spec {
    /// Resolves everything, declares the streams and subscribes the group to the start and to steers.
    pub fn new(
        params: &PopulationParams,
        mut chain: Chain,
        cx: &GroupContext<'_>,
        wiring: &mut dyn Wiring,
    ) -> Result<(Arc<Spec>, Arc<Chain>), BuildError> {
        let sender = cx.sender.ok_or_else(|| BuildError::of("to", "a sender needs to know where to"))?;
        let here = cx.run.nodes.iter().any(|node| node.name == cx.node);
        check(sender, here && cx.run.stop == Stop::AllRequestsDone)?;
        let streams = u64::from(params.most()) * cx.members.len() as u64;
        if streams > STREAMS_MAX {
            let reason = format!("{streams} users of all instances together are more than {STREAMS_MAX}");
            return Err(BuildError::of("users", reason));
        }
        let script = script(params, wiring)?;
        let routes = routes(params, &sender.to, &script, &mut chain, wiring)?;
        let parallel = chain.modules.iter().map(|works| works.module.parallel()).max().unwrap_or(1);
        wiring.streams(StreamSpec {
            per_member: params.most(),
            in_flight: sender.in_flight.max(parallel),
            queue: sender.queue,
            ports: params.ports,
            offered: offered(params),
            threshold: sender.limit.filter(|l| l.reading == LimitReading::Threshold).map(|l| l.deadline),
            ..StreamSpec::UNDECLARED
        });
        for verb in ["start", "steer"] {
            wiring.subscribe(&format!("{PREFIX}.{}.ctl.*.*.{verb}", cx.run.run))?;
        }
        let limit = |reading| sender.limit.filter(|l| l.reading == reading).map(|l| l.deadline);
        let flows = ["flows", "flows_done", "flows_failed", "flows_given_up"].map(|name| wiring.metric(name));
        let spec = Spec {
            node: cx.node.to_owned(),
            actor: cx.actor.to_owned(),
            users: params.users,
            most: params.most(),
            schedule: params.schedule.clone(),
            spread: sender.spread,
            deadline: limit(LimitReading::Timeout).map_or(sender.timeout, |l| l.min(sender.timeout)),
            limit: limit(LimitReading::ReceiverDeadline).unwrap_or(Span::ZERO),
            retry: Retry { retries: sender.retries, backoff: sender.backoff },
            content: wiring.recipe(Arc::new(Content(None))),
            steps: routes.iter().filter(|route| route.step.is_some()).count(),
            script,
            routes,
            aborts: chain.has_impatience(),
            census: Census::new(&chain, wiring),
            counters: Counters { flows, moves: wiring.metric("transitions"), users: wiring.metric("users") },
        };
        Ok((Arc::new(spec), Arc::new(chain)))
    }

    /// The instance of a module's target that a user's item goes to.
    pub fn to(&self, route: &Route, user: u32, seq: u64) -> SubjectId {
        route.targets.base.member(instance(self.spread, u64::from(user), seq, route.targets.len))
    }

    /// The largest payload that its users send as a datagram, bytes; 0 if they send none.
    pub fn datagram_max(&self, chain: &Chain) -> u64 {
        let sent = self.routes.iter().zip(&chain.modules).filter(|(route, _)| !route.asks && !route.down);
        sent.map(|(_, works)| u64::from(works.module.packet_bytes())).max().unwrap_or(0)
    }

    /// Payload of a datagram, bytes: it holds the carrier's header, whatever the model says.
    pub fn datagram_bytes(bytes: u32) -> u32 {
        bytes.clamp(DATAGRAM_BYTES_MIN as u32, DATAGRAM_BYTES_MAX as u32)
    }
}

/// Where each module and each step goes.
fn routes(
    params: &PopulationParams,
    to: &str,
    script: &Arc<Script>,
    chain: &mut Chain,
    wiring: &mut dyn Wiring,
) -> Result<Vec<Route>, BuildError> {
    let mut routes = Vec::with_capacity(chain.modules.len());
    for works in &mut chain.modules {
        let of = params.targets.get(&works.name);
        let key = if of.is_some() { "targets" } else { "to" };
        let targets = wiring.target(of.map_or(to, String::as_str)).map_err(|why| BuildError::of(key, why.reason))?;
        takes_payloads(targets.carrier, key)?;
        let route = Route {
            targets,
            asks: targets.exchange,
            down: works.module.way() == Direction::Down,
            request_bytes: works.module.request_bytes(),
            speech: works.module.codec.map(|codec| wiring.recipe(Arc::new(Content(Some(codec))))),
            step: works.step.map(|step| {
                let body = StepBody { script: Arc::clone(script), step };
                (step, wiring.recipe(Arc::new(body)))
            }),
        };
        check_step(&works.name, &route)?;
        let answered = route.asks && !targets.stamps;
        if !answered && (route.down || works.module.kind.waits()) {
            let name = &works.name;
            let reason = format!(
                "module `{name}` waits for answers of its receiver, and gets none over the carrier to its target: it needs one such as `http1`"
            );
            return Err(BuildError::of(key, reason));
        }
        if route.asks && works.module.packet.is_none() {
            works.cut = u32::MAX;
        }
        routes.push(route);
    }
    Ok(routes)
}

/// The steps of the diagram, with their files.
fn script(params: &PopulationParams, wiring: &mut dyn Wiring) -> Result<Arc<Script>, BuildError> {
    let steps: Vec<_> = params.diagram.iter().flat_map(Diagram::steps).collect();
    let script = Script::new(&steps, params.most(), &mut |path| wiring.file(Path::new(path)))?;
    Ok(Arc::new(script))
}

/// Mean gap of what one instance offers in the long run.
fn offered(params: &PopulationParams) -> Option<Span> {
    let rate = Population::offers(params)?.per_second.filter(|rate| *rate > 0.0)?;
    Some(Span::from_secs_f64(1.0 / rate))
}

/// A step is a request of HTTP.
fn check_step(name: &str, route: &Route) -> Result<(), BuildError> {
    let http = matches!(route.targets.carrier, Carrier::Http1 | Carrier::Http2 | Carrier::Http3);
    if route.step.is_none() || http {
        return Ok(());
    }
    let reason = format!(
        "the step of state `{name}` has a path, headers and answers, which its target's carrier has not: it needs `http1`, `http2` or `http3`"
    );
    Err(BuildError::of("to", reason))
}

/// Whether a carrier takes payloads, and not whole frames.
fn takes_payloads(carrier: Carrier, key: &'static str) -> Result<(), BuildError> {
    let reason = "only a `replayer` has whole frames to send: take another `carrier` for the link";
    if carrier == Carrier::Frames { Err(BuildError::of(key, reason)) } else { Ok(()) }
}

/// Common sender keys that mean nothing for a population: its diagram tells when something is sent.
fn check(sender: &SenderParams, counted: bool) -> Result<(), BuildError> {
    let paced = "the diagram tells when users send: take this key away";
    if counted {
        return Err(BuildError::of("users", "a population does not end by itself: give the experiment a `duration`"));
    }
    for (key, there) in [
        ("rate", sender.rate.is_some()),
        ("arrivals", sender.arrivals.is_some()),
        ("requests", sender.requests.is_some()),
        ("streams", sender.streams != 1),
        ("on_late", sender.on_late != OnLate::Queue),
        ("malformed", sender.malformed.0 > 0.0),
    ] {
        if there {
            return Err(BuildError::of(key, paced));
        }
    }
    if sender.spread == Spread::All {
        return Err(BuildError::of("spread", "a user talks to one instance at a time: `round-robin` or `hash`"));
    }
    if sender.timeout.is_zero() {
        return Err(BuildError::of("timeout", "no answer comes in no time; write for instance `10s`"));
    }
    if sender.retries > 255 || sender.in_flight == 0 {
        return Err(BuildError::of("retries", "at most 255 retries, and at least 1 in flight"));
    }
    Ok(())
}
