//! The model of the benchmark: sensors that send and count, one worker that serves, one actor that gathers counters.
//!
//! Each sensor sends 1 kB after exponential gaps of a second over a link of 5 ms, and publishes its counters each second.
//! One worker serves for an exponential time at 0.8 of its capacity and holds up to 100,000 requests back. That is six
//! events for a device and second: two timers, a request, its work, its outcome, and a message.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;
use rehearsal_core::assembly::{Assembly, NoMedia};
use rehearsal_core::kind::{BuildError, GroupContext, StreamSpec, Wiring};
use rehearsal_core::messages::{StartAt, StopReason, StopRun};
use rehearsal_core::payload::{Recipe, RenderContext};
use rehearsal_core::plan::by_hand::built;
use rehearsal_core::plan::{GroupPlan, LinkSpec, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::subject::Plane;
use rehearsal_core::{
    Actor, Body, Event, ExchangeId, Message, Outbox, Payload, Pool, RecipeId, Reply, Request, RngStream, Role, Span,
    Status, SubjectId, Time, TimerKey, Token, Work, WorkKey,
};
use rehearsal_sim::{SimOptions, Simulation};
use serde::{Deserialize, Serialize};

/// Length of a request, bytes.
const BYTES: u32 = 1000;
/// Longest wait for an answer.
const DEADLINE: Span = Span::from_secs(3);
/// Attempts after the first.
const RETRIES: u32 = 2;
/// Before the first of them.
const BACKOFF: Span = Span::from_millis(5);
/// Requests that may wait for the worker.
const BACKLOG: usize = 100_000;
/// Share of its time that the worker is busy.
const LOAD: f64 = 0.8;
const ARRIVAL: TimerKey = TimerKey(0);
const TICK: TimerKey = TimerKey(1);

/// What a sensor says each second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// When.
    pub at: Time,
    /// Exchanges begun.
    pub generated: u64,
    /// Exchanges that succeeded.
    pub success: u64,
    /// Exchanges that did not.
    pub lost: u64,
}

impl Message for Counters {
    const KIND: &'static str = "crowd-counters";
}

/// What all sensors have in common.
struct Common {
    to: SubjectId,
    recipe: RecipeId,
    gap: Span,
}

struct Sensor {
    common: Arc<Common>,
    rng: RngStream,
    counters: SubjectId,
    success: u32,
    lost: u32,
    sent: u64,
}

impl Sensor {
    fn send(&mut self, due: Time, out: &mut Outbox) {
        let seq = self.sent;
        self.sent += 1;
        out.request(Request {
            to: self.common.to,
            token: Token(seq),
            stream: 0,
            seq,
            attempt: 0,
            last: RETRIES == 0,
            intended: due,
            at: due,
            deadline: DEADLINE,
            limit: Span::ZERO,
            reply_bytes: 0,
            payload: Payload::new(BYTES, self.common.recipe, seq),
        });
    }
}

impl Actor for Sensor {
    fn timers(&self) -> u32 {
        2
    }

    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Start => {
                out.set_timer(ARRIVAL, now + self.rng.exponential(self.common.gap));
                out.set_timer(TICK, now + Span::from_nanos(self.rng.below(1_000_000_000)));
            }
            Event::Timer { key: ARRIVAL, due } => {
                self.send(due, out);
                out.set_timer(ARRIVAL, due + self.rng.exponential(self.common.gap));
            }
            Event::Timer { due, .. } => {
                let (success, lost) = (u64::from(self.success), u64::from(self.lost));
                out.publish(self.counters, Counters { at: due, generated: self.sent, success, lost });
                out.set_timer(TICK, due + Span::from_secs(1));
            }
            Event::Outcome { request, outcome } => match outcome.status {
                Status::Success => self.success += 1,
                status if status.retryable() && !request.last => {
                    let attempt = request.attempt + 1;
                    let at = now + BACKOFF * u64::from(attempt);
                    out.request(Request { attempt, last: attempt == RETRIES, at, ..*request });
                }
                _ => self.lost += 1,
            },
            _ => {}
        }
    }
}

struct Receiver {
    mean: Span,
    busy: bool,
    backlog: VecDeque<ExchangeId>,
    rng: RngStream,
}

impl Receiver {
    fn begin(&mut self, exchange: ExchangeId, out: &mut Outbox) {
        out.work(WorkKey(exchange.0), Work::Pause(self.rng.exponential(self.mean)));
    }
}

impl Actor for Receiver {
    fn timers(&self) -> u32 {
        0
    }

    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Request { exchange, .. } => {
                if !std::mem::replace(&mut self.busy, true) {
                    self.begin(exchange, out);
                } else if self.backlog.len() < BACKLOG {
                    self.backlog.push_back(exchange);
                } else {
                    out.respond(exchange, Reply { status: Status::Rejected, payload: Payload::EMPTY });
                }
            }
            Event::WorkDone { key, .. } => {
                let payload = Payload::new(64, RecipeId(0), 0);
                out.respond(ExchangeId(key.0), Reply { status: Status::Success, payload });
                match self.backlog.pop_front() {
                    Some(next) => self.begin(next, out),
                    None => self.busy = false,
                }
            }
            _ => {}
        }
    }
}

#[derive(Default)]
struct Gatherer {
    generated: u64,
}

impl Actor for Gatherer {
    fn timers(&self) -> u32 {
        0
    }

    fn handle(&mut self, _: Time, event: Event<'_>, _: &mut Outbox) {
        if let Event::Message { body, .. } = event
            && let Ok(counters) = body.get::<Counters>()
        {
            self.generated += counters.generated;
        }
    }
}

/// Begins at zero and stops after a span.
struct Controller {
    start: SubjectId,
    stop: SubjectId,
    until: Time,
}

impl Actor for Controller {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Start => {
                out.publish(self.start, StartAt { at: now, until: None });
                out.set_timer(ARRIVAL, self.until);
            }
            Event::Timer { .. } => out.publish(self.stop, StopRun { reason: StopReason::Duration }),
            _ => {}
        }
    }
}

/// A payload that is never rendered.
#[derive(Debug)]
struct Plain;

impl Recipe for Plain {
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
    }

    fn render(&self, _: RenderContext, _: &mut BytesMut) {
        unreachable!("a simulation renders nothing")
    }
}

fn node(
    name: &str,
    role: Role,
    count: u32,
    build: impl Fn(&GroupContext<'_>, &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> + Send + Sync + 'static,
) -> NodePlan {
    NodePlan::by_hand(name, vec![GroupPlan::by_hand("main", role, count, built(build))])
}

fn sensors(count: u32) -> NodePlan {
    node("sensor", Role::Sender, count, |cx, wiring| {
        let gap = Span::from_secs(1);
        wiring.streams(StreamSpec { gap: Some(gap), in_flight: 1000, ..StreamSpec::UNDECLARED });
        let counters = wiring.own(Plane::Telemetry, "counters");
        let to = wiring.target("receiver/main")?.base;
        let recipe = wiring.recipe(Arc::new(Plain));
        let common = Arc::new(Common { to, recipe, gap });
        let sensor = |member: u32| Sensor {
            common: common.clone(),
            rng: wiring.rng(member, 0, "arrivals"),
            counters: counters.member(member),
            success: 0,
            lost: 0,
            sent: 0,
        };
        Ok(Box::new(cx.members.clone().map(sensor).collect::<Vec<_>>()))
    })
}

/// The experiment with so many sensors, for so long.
pub fn plan(sensors_count: u32, length: Span) -> Plan {
    let receiver = node("receiver", Role::Receiver, 1, move |_, wiring| {
        wiring.serve(None);
        let mean = Span::from_nanos((1e9 * LOAD / f64::from(sensors_count)) as u64);
        let (busy, backlog) = (false, VecDeque::with_capacity(1024));
        Ok(Box::new(vec![Receiver { mean, busy, backlog, rng: wiring.rng(0, 0, "service") }]))
    });
    let gatherer = node("gatherer", Role::Service, 1, |_, wiring| {
        wiring.subscribe("lab.v1.crowd.tel.sensor.*.counters")?;
        Ok(Box::new(vec![Gatherer::default()]))
    });
    let controller = node("controller", Role::Service, 1, move |_, wiring| {
        let (start, stop) = (wiring.own(Plane::Control, "start"), wiring.own(Plane::Control, "stop"));
        Ok(Box::new(vec![Controller { start, stop, until: Time::ZERO + length }]))
    });
    let info = RunInfo { grace: Span::from_secs(5), ..RunInfo::by_hand("crowd", Stop::After(length)) };
    let link = LinkSpec { delay: Span::from_millis(5), ..LinkSpec::default() };
    Plan::by_hand(info, vec![sensors(sensors_count), receiver, gatherer, controller], link)
}

/// Nobody stores anything here.
pub struct Nothing;

impl Sink for Nothing {
    fn store(&mut self, _: &Body) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A simulation of it, ready to go.
pub fn simulation(sensors: u32, length: Span, options: SimOptions) -> Simulation {
    let assembly = Assembly::build(plan(sensors, length), &mut NoMedia).expect("a plan of ours can be built");
    Simulation::new(assembly, options)
}
