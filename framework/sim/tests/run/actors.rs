//! Small actors for tests: a sender, a receiver, a controller and a recorder.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use rehearsal_core::kind::{StreamSpec, Targets};
use rehearsal_core::messages::{NodeDone, StartAt, StopReason, StopRun};
use rehearsal_core::payload::{Recipe, RenderContext};
use rehearsal_core::plan::{GroupPlan, NodePlan};
use rehearsal_core::subject::Plane;
use rehearsal_core::{
    Actor, Event, ExchangeId, Outbox, Outcome, Payload, RecipeId, Reply, Request, RngStream, Role, Span, Status,
    SubjectId, Time, TimerKey, Token, Work, WorkKey, WorkResult,
};

use crate::lab::{group, node};

/// A payload that is never rendered.
#[derive(Debug)]
pub struct Plain {
    pub malformed: bool,
}

impl Recipe for Plain {
    fn content_type(&self) -> &'static str {
        "text/plain"
    }
    fn malformed(&self) -> bool {
        self.malformed
    }
    fn render(&self, _: RenderContext, _: &mut BytesMut) {
        unreachable!("a simulation renders nothing")
    }
}

/// Outcomes in the order in which senders were told them.
pub type Outcomes = Arc<Mutex<Vec<(Request, Outcome)>>>;

/// What a sender does, per stream.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Mean gap and whether it is exponential; `None` for a closed loop.
    pub gap: Option<(Span, bool)>,
    pub requests: u64,
    pub streams: u32,
    pub in_flight: u32,
    pub queue: u32,
    pub bytes: u32,
    pub deadline: Span,
    pub retries: u32,
    pub backoff: Span,
    pub malformed: bool,
    /// Panics at this outcome.
    pub panic_at: Option<u64>,
    /// Every outcome, in order; `None` keeps none.
    pub log: Option<Outcomes>,
    /// Counts the attempts that were asked for.
    pub asked: Arc<AtomicU64>,
}

impl Sending {
    /// The outcomes of a run that is over.
    pub fn outcomes(&self) -> Vec<(Request, Outcome)> {
        let log = self.log.as_ref().expect("outcomes were asked for");
        log.lock().expect("no test panics with it").clone()
    }
}

impl Default for Sending {
    fn default() -> Self {
        Sending {
            gap: Some((Span::from_millis(10), false)),
            requests: 100,
            streams: 1,
            in_flight: 1,
            queue: 1000,
            bytes: 1000,
            deadline: Span::from_secs(3),
            retries: 2,
            backoff: Span::from_millis(5),
            malformed: false,
            panic_at: None,
            log: Some(Arc::default()),
            asked: Arc::default(),
        }
    }
}

struct Sender {
    is: Sending,
    to: Targets,
    recipe: RecipeId,
    rngs: Vec<RngStream>,
    sent: Vec<u64>,
    settled: u64,
    outcomes: u64,
    stopped: bool,
}

impl Sender {
    fn first(&mut self, stream: u32, due: Time, out: &mut Outbox) {
        let seq = self.sent[stream as usize];
        self.sent[stream as usize] += 1;
        self.is.asked.fetch_add(1, Ordering::Relaxed);
        out.request(Request {
            to: self.to.base.member(seq as u32 % self.to.len),
            token: Token(seq),
            stream,
            seq,
            attempt: 0,
            last: self.is.retries == 0,
            intended: due,
            at: due,
            deadline: self.is.deadline,
            limit: Span::ZERO,
            reply_bytes: 0,
            payload: Payload::new(self.is.bytes, self.recipe, seq),
        });
    }

    fn gap(&mut self, stream: u32) -> Option<Span> {
        let (mean, random) = self.is.gap?;
        Some(if random { self.rngs[stream as usize].exponential(mean) } else { mean })
    }

    fn begin(&mut self, at: Time, out: &mut Outbox) {
        for stream in 0..self.is.streams {
            let first = self.gap(stream).filter(|_| self.is.gap.is_some_and(|g| g.1)).unwrap_or(Span::ZERO);
            out.set_timer(TimerKey(stream), at + first);
        }
    }
}

impl Actor for Sender {
    fn timers(&self) -> u32 {
        self.is.streams
    }

    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Message { body, .. } => {
                if let Ok(start) = body.get::<StartAt>() {
                    self.begin(start.at, out);
                }
            }
            Event::Timer { key, due } if !self.stopped => {
                self.first(key.0, due, out);
                if self.sent[key.0 as usize] < self.is.requests
                    && let Some(gap) = self.gap(key.0)
                {
                    out.set_timer(key, due + gap);
                }
            }
            Event::Outcome { request, outcome } => {
                self.outcomes += 1;
                assert_eq!(outcome.times.done, now);
                if let Some(log) = &self.is.log {
                    log.lock().expect("one thread").push((*request, *outcome));
                }
                assert_ne!(Some(self.outcomes), self.is.panic_at, "told to");
                if outcome.status.retryable() && !request.last {
                    let attempt = request.attempt + 1;
                    self.is.asked.fetch_add(1, Ordering::Relaxed);
                    let at = now + self.is.backoff * u64::from(attempt);
                    out.request(Request { attempt, last: attempt == self.is.retries, at, ..*request });
                    return;
                }
                self.settled += 1;
                if self.settled == self.is.requests * u64::from(self.is.streams) {
                    out.finish();
                }
                if self.is.gap.is_none() && !self.stopped && self.sent[request.stream as usize] < self.is.requests {
                    self.first(request.stream, now, out);
                }
            }
            Event::Stop => self.stopped = true,
            _ => {}
        }
    }
}

/// `count` senders in a node of their own.
pub fn senders(name: &str, count: u32, is: Sending) -> NodePlan {
    node(name, vec![sending(count, is)])
}

/// `count` senders.
pub fn sending(count: u32, is: Sending) -> GroupPlan {
    group("main", Role::Sender, count, move |cx, wiring| {
        wiring.subscribe("lab.v1.t.ctl.*.*.start")?;
        wiring.streams(StreamSpec {
            per_member: is.streams,
            in_flight: is.in_flight,
            queue: is.queue,
            burst: false,
            gap: is.gap.map(|g| g.0),
            requests: Some(is.requests),
            threshold: None,
            scatter: None,
            offered: None,
            ports: 1,
        });
        let to = wiring.target("receiver/main")?;
        let recipe = wiring.recipe(Arc::new(Plain { malformed: is.malformed }));
        let pool: Vec<Sender> = cx
            .members
            .clone()
            .map(|member| Sender {
                is: is.clone(),
                to,
                recipe,
                rngs: (0..is.streams).map(|stream| wiring.rng(member, stream, "arrivals")).collect(),
                sent: vec![0; is.streams as usize],
                settled: 0,
                outcomes: 0,
                stopped: false,
            })
            .collect();
        Ok(Box::new(pool))
    })
}

/// How a receiver serves.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    pub workers: usize,
    pub backlog: usize,
    pub pause: Span,
    pub spin: Span,
    /// The pause is the mean of an exponential law.
    pub random: bool,
    /// Takes requests and never answers.
    pub mute: bool,
    /// Panics at this request.
    pub panic_at: Option<u64>,
}

impl Default for Serving {
    fn default() -> Self {
        let pause = Span::from_millis(1);
        Serving { workers: 16, backlog: 64, pause, spin: Span::ZERO, random: false, mute: false, panic_at: None }
    }
}

struct Receiver {
    is: Serving,
    busy: usize,
    seen: u64,
    backlog: VecDeque<ExchangeId>,
    rng: RngStream,
}

impl Receiver {
    fn work(&mut self, exchange: ExchangeId, out: &mut Outbox) {
        let pause = if self.is.random { self.rng.exponential(self.is.pause) } else { self.is.pause };
        out.work(WorkKey(exchange.0), Work::Analyze { exchange, decode: false, pause, spin: self.is.spin });
    }
}

impl Actor for Receiver {
    fn timers(&self) -> u32 {
        0
    }

    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Request { exchange, .. } => {
                self.seen += 1;
                assert_ne!(Some(self.seen), self.is.panic_at, "told to");
                if self.is.mute {
                } else if self.busy < self.is.workers {
                    self.busy += 1;
                    self.work(exchange, out);
                } else if self.backlog.len() < self.is.backlog {
                    self.backlog.push_back(exchange);
                } else {
                    out.respond(exchange, Reply { status: Status::Rejected, payload: Payload::EMPTY });
                }
            }
            Event::WorkDone { key, result } => {
                let status = if *result == WorkResult::Invalid { Status::Invalid } else { Status::Success };
                out.respond(ExchangeId(key.0), Reply { status, payload: Payload::new(64, RecipeId(0), 0) });
                match self.backlog.pop_front() {
                    Some(next) => self.work(next, out),
                    None => self.busy -= 1,
                }
            }
            _ => {}
        }
    }
}

/// A node `receiver` with one receiver.
pub fn receiver(is: Serving) -> NodePlan {
    let serving = group("main", Role::Receiver, 1, move |cx, wiring| {
        wiring.serve(None);
        let pool: Vec<Receiver> = cx
            .members
            .clone()
            .map(|member| Receiver {
                is,
                busy: 0,
                seen: 0,
                backlog: VecDeque::new(),
                rng: wiring.rng(member, 0, "service"),
            })
            .collect();
        Ok(Box::new(pool))
    });
    node("receiver", vec![serving])
}

/// Starts at 1 ms; stops when so many nodes are done, or after a span.
struct Controller {
    start: SubjectId,
    stop: SubjectId,
    nodes: usize,
    after: Option<Span>,
}

/// When the tests' controller starts traffic.
pub const START: Time = Time::from_nanos(1_000_000);

impl Actor for Controller {
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Start => {
                out.publish(self.start, StartAt { at: START, until: None });
                if let Some(after) = self.after {
                    out.set_timer(TimerKey(0), START + after);
                }
            }
            Event::Timer { .. } => out.publish(self.stop, StopRun { reason: StopReason::Duration }),
            Event::Message { body, .. } if body.get::<NodeDone>().is_ok() => {
                self.nodes = self.nodes.saturating_sub(1);
                if self.nodes == 0 {
                    out.publish(self.stop, StopRun { reason: StopReason::Done });
                }
            }
            _ => {}
        }
    }
}

/// Stores every snapshot and host sample.
struct Recorder;

impl Actor for Recorder {
    fn timers(&self) -> u32 {
        0
    }
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        if let Event::Message { body, .. } = event {
            out.work(WorkKey(1), Work::Store(body.clone()));
        }
    }
}

/// A node `services`: a controller that waits for `nodes` nodes or for the end of `after`, and a recorder.
pub fn services(nodes: usize, after: Option<Span>) -> NodePlan {
    let controller = group("controller", Role::Service, 1, move |_, wiring| {
        wiring.subscribe("lab.v1.t.ctl.*.host.done")?;
        let (start, stop) = (wiring.own(Plane::Control, "start"), wiring.own(Plane::Control, "stop"));
        Ok(Box::new(vec![Controller { start, stop, nodes, after }]))
    });
    let recorder = group("recorder", Role::Service, 1, |_, wiring| {
        wiring.subscribe("lab.v1.t.tel.*.*.snapshot")?;
        wiring.subscribe("lab.v1.t.tel.*.host")?;
        Ok(Box::new(vec![Recorder]))
    });
    node("services", vec![controller, recorder])
}
