//! Actors of the laboratory: a sensor, a receiver of many tempers, a controller and a logger.

use bytes::BytesMut;
use rehearsal_core::kind::Targets;
use rehearsal_core::messages::{GroupSnapshot, HostSample, NodeDone, StartAt, StopReason, StopRun};
use rehearsal_core::payload::{Recipe, RenderContext};
use rehearsal_core::plan::NodePlan;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::subject::Plane;
use rehearsal_core::{
    Actor, Event, ExchangeId, Outbox, Outcome, Payload, RecipeId, Reply, Request, Role, Span, Status, SubjectId, Time,
    TimerKey, Token, Work, WorkKey, WorkResult,
};

use crate::lab::{built, node, streams};

/// Text that is one letter.
#[derive(Debug)]
pub struct Letters(pub &'static str);

impl Recipe for Letters {
    fn content_type(&self) -> &'static str {
        self.0
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        out.resize(out.len() + cx.bytes as usize, b'a');
    }
}

/// Sends `requests` exchanges on each stream, the next when the last has ended, or at its rate.
pub struct Sensor {
    params: SenderParams,
    target: Targets,
    recipe: RecipeId,
    start: Option<Time>,
    until: Option<Time>,
    sent: Vec<u64>,
    open: u64,
    finished: bool,
    bytes: u32,
}

/// A node of one group of sensors.
pub fn sensors(name: &str, count: u32, params: SenderParams, bytes: u32) -> NodePlan {
    let told = params.clone();
    let build = built(move |cx, wiring| {
        wiring.streams(streams(&params));
        wiring.subscribe("lab.v1.test.ctl.*.*.start")?;
        let target = wiring.target(&params.to)?;
        let recipe = wiring.recipe(std::sync::Arc::new(Letters("text/plain")));
        let sensor = |_| Sensor {
            params: params.clone(),
            target,
            recipe,
            start: None,
            until: None,
            sent: vec![0; params.streams as usize],
            open: 0,
            finished: false,
            bytes,
        };
        Ok(Box::new(cx.members.clone().map(sensor).collect::<Vec<_>>()))
    });
    node(name, Role::Sender, count, Some(told), build)
}

impl Sensor {
    fn next(&mut self, stream: u32, now: Time, out: &mut Outbox) {
        let Some(start) = self.start else { return };
        let seq = self.sent[stream as usize];
        let at = match self.params.rate {
            Some(rate) => start + rate.offset(seq),
            None => now.max(start),
        };
        if self.params.requests.is_some_and(|n| seq >= n) || self.until.is_some_and(|until| at >= until) {
            return self.check_finished(out);
        }
        self.sent[stream as usize] += 1;
        self.open += 1;
        if self.params.rate.is_some() {
            out.set_timer(TimerKey(stream), at);
        }
        let payload = Payload::new(self.bytes, self.recipe, seq);
        out.request(Request {
            to: self.target.base.member(stream % self.target.len),
            token: Token(u64::from(stream)),
            stream,
            seq,
            attempt: 0,
            last: self.params.retries == 0,
            intended: at,
            at,
            deadline: self.params.timeout,
            limit: Span::ZERO,
            reply_bytes: 0,
            payload,
        });
    }

    fn ended(&mut self, request: &Request, outcome: &Outcome, now: Time, out: &mut Outbox) {
        if outcome.status.retryable() && !request.last {
            let attempt = request.attempt + 1;
            let at = now + self.params.backoff;
            out.request(Request { attempt, last: attempt == self.params.retries, at, ..*request });
            return;
        }
        self.open -= 1;
        if self.params.rate.is_none() {
            self.next(request.stream, now, out);
        }
        self.check_finished(out);
    }

    fn check_finished(&mut self, out: &mut Outbox) {
        let all = self.params.requests.is_some_and(|n| self.sent.iter().all(|s| *s >= n));
        if all && self.open == 0 && !std::mem::replace(&mut self.finished, true) {
            out.finish();
        }
    }
}

impl Actor for Sensor {
    fn timers(&self) -> u32 {
        self.params.streams
    }

    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Message { body, .. } => {
                if let Ok(start) = body.get::<StartAt>() {
                    (self.start, self.until) = (Some(start.at), start.until);
                    for stream in 0..self.params.streams {
                        self.next(stream, now, out);
                    }
                }
            }
            Event::Timer { key, .. } => self.next(key.0, now, out),
            Event::Outcome { request, outcome } => self.ended(request, outcome, now, out),
            Event::Stop => self.start = None,
            _ => {}
        }
    }
}

/// What a receiver does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Temper {
    /// Answers at once.
    Prompt,
    /// Answers after a pause.
    Paused(Span),
    /// Checks first, then answers after a pause.
    Analyzing(Span),
    /// Never answers.
    Silent,
    /// Does not answer every so many requests, beginning with the first.
    SilentEvery(u64),
    /// Rejects every so many requests, beginning with the first.
    RejectsEvery(u64),
    /// Panics at this request, from 0.
    Panics(u64),
    /// Blocks its thread at this request, which an actor must never do.
    Blocks(u64),
}

/// Answers by its temper.
pub struct Receiver {
    temper: Temper,
    recipe: RecipeId,
    seen: u64,
}

/// A node of one group of receivers.
pub fn receivers(name: &str, count: u32, temper: Temper) -> NodePlan {
    receivers_at(name, count, temper, None)
}

/// The same, at a fixed address.
pub fn receivers_at(name: &str, count: u32, temper: Temper, listen: Option<std::net::SocketAddr>) -> NodePlan {
    let build = built(move |cx, wiring| {
        wiring.serve(listen);
        let recipe = wiring.recipe(std::sync::Arc::new(Letters("text/plain")));
        let receiver = |_| Receiver { temper, recipe, seen: 0 };
        Ok(Box::new(cx.members.clone().map(receiver).collect::<Vec<_>>()))
    });
    node(name, Role::Receiver, count, None, build)
}

/// Bytes of every answer.
pub const ANSWER_BYTES: u32 = 16;

impl Receiver {
    fn answer(&self, exchange: ExchangeId, status: Status, out: &mut Outbox) {
        out.respond(exchange, Reply { status, payload: Payload::new(ANSWER_BYTES, self.recipe, 0) });
    }
}

impl Actor for Receiver {
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Request { exchange, .. } => {
                let number = self.seen;
                self.seen += 1;
                let key = WorkKey(exchange.0);
                match self.temper {
                    Temper::Prompt => self.answer(exchange, Status::Success, out),
                    Temper::Paused(pause) => out.work(key, Work::Pause(pause)),
                    Temper::Analyzing(pause) => {
                        out.work(key, Work::Analyze { exchange, decode: false, pause, spin: Span::from_micros(50) });
                    }
                    Temper::Silent => {}
                    Temper::SilentEvery(n) if number.is_multiple_of(n) => {}
                    Temper::RejectsEvery(n) if number.is_multiple_of(n) => self.answer(exchange, Status::Rejected, out),
                    Temper::Panics(n) if number == n => panic!("request {n} is one too many"),
                    Temper::Blocks(n) if number == n => std::thread::sleep(std::time::Duration::from_secs(6)),
                    Temper::SilentEvery(_) | Temper::RejectsEvery(_) | Temper::Panics(_) | Temper::Blocks(_) => {
                        self.answer(exchange, Status::Success, out);
                    }
                }
            }
            Event::WorkDone { key, result } => {
                let status = if *result == WorkResult::Done { Status::Success } else { Status::Invalid };
                self.answer(ExchangeId(key.0), status, out);
            }
            _ => {}
        }
    }
}

/// Starts the run, and stops it when every sending node is done, or after a time.
pub struct Controller {
    start: SubjectId,
    stop: SubjectId,
    waits_for: usize,
    lead: Span,
    after: Option<Span>,
}

/// The controller's node. It waits for `senders` nodes, or stops `after` the start.
pub fn controller(senders: usize, after: Option<Span>) -> NodePlan {
    let build = built(move |cx, wiring| {
        wiring.subscribe("lab.v1.test.ctl.*.host.done")?;
        let (start, stop) = (wiring.own(Plane::Control, "start"), wiring.own(Plane::Control, "stop"));
        Ok(Box::new(vec![Controller { start, stop, waits_for: senders, lead: cx.run.lead, after }]))
    });
    node("control", Role::Service, 1, None, build)
}

impl Actor for Controller {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Start => {
                let at = now + self.lead;
                out.publish(self.start, StartAt { at, until: self.after.map(|span| at + span) });
                if let Some(span) = self.after {
                    out.set_timer(TimerKey(0), at + span);
                }
            }
            Event::Timer { .. } => out.publish(self.stop, StopRun { reason: StopReason::Duration }),
            Event::Message { body, .. } if body.get::<NodeDone>().is_ok() => {
                self.waits_for = self.waits_for.saturating_sub(1);
                if self.waits_for == 0 && self.after.is_none() {
                    out.publish(self.stop, StopRun { reason: StopReason::Done });
                }
            }
            _ => {}
        }
    }
}

/// Stores every snapshot and sample.
pub struct Logger;

/// The logger's node.
pub fn logger() -> NodePlan {
    let build = built(|_, wiring| {
        wiring.subscribe("lab.v1.test.tel.>")?;
        Ok(Box::new(vec![Logger]))
    });
    node("logger", Role::Service, 1, None, build)
}

impl Actor for Logger {
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        if let Event::Message { body, .. } = event {
            let known = body.get::<GroupSnapshot>().is_ok() || body.get::<HostSample>().is_ok();
            if known || body.typed_kind() == Some("life-event") {
                out.work(WorkKey(0), Work::Store(body.clone()));
            }
        }
    }
}
