//! One member of a population: its users' time, what they send, and what comes of it.
//!
//! Users have a time of their own, which stands still in a pause; `ahead` is what it is behind the run's. Everything happens at
//! the users' times, in their order, however late the actor is woken: where no answer is waited for, both engines send the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use rehearsal_core::life::{Rejoin, Word};
use rehearsal_core::messages::StartAt;
use rehearsal_core::script::Turn;
use rehearsal_core::steer::{Steer, Steering, Steers};
use rehearsal_core::{Actor, Datagram, Event, Outbox, Outcome, Payload, Request, RngStream, Span, Status, Time, Token};
use rehearsal_models::diagram::{Traffic, Wish};

use super::census::Asked;
use super::spec::{Route, Spec};
use crate::alarm::Alarm;

/// Things that happen to users in one event; the rest waits for the next, so that others have their turn.
const STEPS_MAX: u32 = 1024;
/// Bits of a token below the flow's number.
const FLOW_BITS: u32 = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Users {
    spec: Arc<Spec>,
    /// The instance's number in its group.
    member: u32,
    traffic: Traffic,
    backoff: RngStream,
    stage: Stage,
    start: Time,
    until: Time,
    /// How long users have stood still, and since when they do.
    ahead: Span,
    still: Option<Time>,
    /// Times `users`, by steers.
    factor: f64,
    /// Changes of the schedule that are made.
    changed: usize,
    steers: Steers,
    /// Numbers of what each stream sends next.
    seqs: Vec<u64>,
    /// The first such number; above zero if the node was lost before.
    first_seq: u64,
    /// How often each user was at each step.
    visits: Vec<u32>,
    /// Requests that are not settled.
    open: u64,
    tokens: u32,
    /// What is under way, by flow, for users who may give up.
    under_way: BTreeMap<u32, Vec<Token>>,
    counted: ([u64; 4], u64),
    asked: Asked,
    wishes: Vec<Wish>,
    /// What the timer is set for.
    alarm: Alarm,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    Running,
    Stopped,
    Finished,
}

impl Users {
    /// A member whose users have not come yet.
    pub fn new(spec: &Arc<Spec>, member: u32, traffic: Traffic, backoff: RngStream) -> Self {
        Users {
            spec: Arc::clone(spec),
            member,
            traffic,
            backoff,
            stage: Stage::Waiting,
            start: Time::ZERO,
            until: Time::MAX,
            ahead: Span::ZERO,
            still: None,
            factor: 1.0,
            changed: 0,
            steers: Steers::default(),
            seqs: Vec::new(),
            first_seq: 0,
            visits: Vec::new(),
            open: 0,
            tokens: 0,
            under_way: BTreeMap::new(),
            counted: ([0; 4], 0),
            asked: Asked::NONE,
            wishes: Vec::new(),
            alarm: Alarm::default(),
        }
    }

    fn begin(&mut self, now: Time, start: &StartAt, again: Option<&Rejoin>, out: &mut Outbox) {
        if self.stage != Stage::Waiting {
            return;
        }
        self.stage = Stage::Running;
        (self.start, self.until) = (start.at, start.until.unwrap_or(Time::MAX));
        let from = again.map_or(start.at, |again| again.from.max(start.at));
        if let Some(again) = again {
            // numbers of an earlier incarnation are not used again: no stream had more than all together
            self.first_seq = again.generated.get(&self.spec.actor).copied().unwrap_or(0);
        }
        // what was changed before is history: there are so many users from the beginning, or they stand still
        while let Some(at) = self.next_change().filter(|at| *at < from) {
            self.change(at, false, out);
        }
        self.still = self.still.map(|_| from);
        self.resize(from, out);
        self.advance(now, out);
    }

    /// The users' time at a time of the run.
    fn own(&self, at: Time) -> Time {
        let at = self.still.map_or(at, |still| still.min(at));
        Time::from_nanos(at.as_nanos().saturating_sub(self.ahead.as_nanos()))
    }

    /// When the next steer or change of the schedule takes effect.
    fn next_change(&self) -> Option<Time> {
        let steer = self.steers.next_at();
        let change = self.spec.schedule.get(self.changed).map(|change| self.start.saturating_add(change.at));
        steer.into_iter().chain(change).min()
    }

    /// When something is due next.
    fn next_due(&self) -> Option<Time> {
        let users = self.traffic.next().filter(|_| self.still.is_none()).map(|at| at.saturating_add(self.ahead));
        users.into_iter().chain(self.next_change()).min().filter(|at| *at < self.until)
    }

    /// Everything that is due up to `now` happens, in its order; then the timer is set.
    fn advance(&mut self, now: Time, out: &mut Outbox) {
        self.catch_up(now, out);
        self.tell(out);
        let next = self.next_due();
        self.alarm.set(next, out);
    }

    /// Everything that is due up to `now` happens, or a part of it that leaves others their turn.
    fn catch_up(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..STEPS_MAX {
            let Some(due) = self.next_due().filter(|due| *due <= now) else { break };
            if self.next_change() == Some(due) {
                self.change(due, true, out);
            } else {
                self.traffic.step(&mut self.wishes);
                self.grant(out);
            }
        }
    }

    /// A steer or a change of the schedule takes effect.
    fn change(&mut self, at: Time, live: bool, out: &mut Outbox) {
        match self.steers.take(at).map(|steer| steer.step) {
            None => self.changed += 1,
            Some(Steering::Pause) => self.still = self.still.or(Some(at)),
            Some(Steering::Resume) => {
                if let Some(still) = self.still.take().filter(|_| live) {
                    self.ahead = self.ahead + at.since(still);
                }
                return;
            }
            Some(Steering::Factor(factor)) => self.factor = factor,
            // there is no rate of streams
            Some(Steering::Rate(_)) => return,
            Some(Steering::Stop) => self.factor = 0.0,
        }
        if live {
            self.resize(at, out);
        }
    }

    /// Brings the number of users to what it should be.
    fn resize(&mut self, at: Time, out: &mut Outbox) {
        let scheduled = self.changed.checked_sub(1).map_or(self.spec.users, |row| self.spec.schedule[row].users);
        let users = (f64::from(scheduled) * self.factor).round().min(f64::from(self.spec.most)) as u32;
        let own = self.own(at);
        self.traffic.resize(own, users, &mut self.wishes);
        self.asked.change(own, users);
        out.record(self.spec.counters.users, u64::from(users));
        self.grant(out);
    }

    /// Sends what users want to be sent.
    fn grant(&mut self, out: &mut Outbox) {
        let mut wishes = std::mem::take(&mut self.wishes);
        for wish in wishes.drain(..) {
            match wish {
                Wish::Packet { at, user, module, bytes } => {
                    let route = self.spec.routes[usize::from(module)];
                    let at = at.saturating_add(self.ahead);
                    if route.asks {
                        self.ask(&route, at, (user, 0), bytes, out);
                    } else {
                        let bytes = Spec::datagram_bytes(bytes);
                        let seq = self.seq(user);
                        let payload = Payload::new(bytes, route.speech.unwrap_or(self.spec.content), seq);
                        let to = self.spec.to(&route, user, seq);
                        out.send(Datagram { to, stream: user, seq, intended: at, at, payload });
                    }
                }
                Wish::Load { at, user, module, flow, bytes } => {
                    let route = self.spec.routes[usize::from(module)];
                    self.ask(&route, at.saturating_add(self.ahead), (user, flow), bytes, out);
                }
                Wish::GiveUp { flow, .. } => {
                    for token in self.under_way.remove(&flow).unwrap_or_default() {
                        out.abort(token);
                    }
                }
            }
        }
        self.wishes = wishes;
    }

    /// Sends a request for a user; `flow` is 0 if nothing waits for its answer.
    fn ask(&mut self, route: &Route, at: Time, (user, flow): (u32, u32), bytes: u32, out: &mut Outbox) {
        let seq = self.seq(user);
        self.tokens = self.tokens.wrapping_add(1);
        let token = Token(u64::from(flow) << FLOW_BITS | u64::from(self.tokens));
        let (sent, wanted) = if route.down { (route.request_bytes, bytes) } else { (bytes, 0) };
        let payload = match route.step {
            Some((step, recipe)) => {
                let turn = self.turn(user, step);
                Payload::new(self.spec.script.begin(turn), recipe, turn.number())
            }
            None => Payload::new(sent, self.spec.content, seq),
        };
        if self.spec.aborts && flow > 0 {
            self.under_way.entry(flow).or_default().push(token);
        }
        self.open += 1;
        out.request(Request {
            to: self.spec.to(route, user, seq),
            token,
            stream: user,
            seq,
            attempt: 0,
            last: self.spec.retry.is_last(0),
            intended: at,
            at,
            deadline: self.spec.deadline,
            limit: self.spec.limit,
            reply_bytes: wanted,
            payload,
        });
    }

    /// The number of what a stream sends next.
    fn seq(&mut self, user: u32) -> u64 {
        let row = user as usize;
        if self.seqs.len() <= row {
            self.seqs.resize(row + 1, self.first_seq);
        }
        self.seqs[row] += 1;
        self.seqs[row] - 1
    }

    /// A user comes to a step.
    fn turn(&mut self, user: u32, step: u16) -> Turn {
        let row = user as usize * self.spec.steps + usize::from(step);
        if self.visits.len() <= row {
            self.visits.resize(row + 1, 0);
        }
        self.visits[row] += 1;
        Turn { member: self.member, user, step, count: self.visits[row] - 1 }
    }

    /// An attempt has ended.
    fn outcome(&mut self, now: Time, request: &Request, outcome: &Outcome, out: &mut Outbox) {
        let running = self.stage == Stage::Running;
        let flow = (request.token.0 >> FLOW_BITS) as u32;
        let waited = flow == 0 || !self.spec.aborts || self.under_way.contains_key(&flow);
        if running && waited && !request.last && outcome.status.retryable() {
            let attempt = request.attempt + 1;
            let at = self.spec.retry.at(outcome.times.done, attempt, &mut self.backoff);
            return out.request(Request { attempt, last: self.spec.retry.is_last(attempt), at, ..*request });
        }
        self.open -= 1;
        if let Some(tokens) = self.under_way.get_mut(&flow) {
            tokens.retain(|token| *token != request.token);
            if tokens.is_empty() {
                self.under_way.remove(&flow);
            }
        }
        if running && flow > 0 && now < self.until {
            self.catch_up(now, out);
            let fine = outcome.status == Status::Success;
            self.traffic.answered(self.own(now), request.stream, flow, fine, &mut self.wishes);
            self.grant(out);
            self.advance(now, out);
        }
        self.settle(out);
    }

    /// Hears of a steer: ahead of its time, when it is due, or late.
    fn steered(&mut self, now: Time, steer: &Steer, out: &mut Outbox) {
        let is_new = steer.is_for(&self.spec.node) && self.steers.learn(steer.clone());
        if is_new && self.stage == Stage::Running {
            self.advance(now, out);
        }
    }

    /// Counts what has happened since it was counted last.
    fn tell(&mut self, out: &mut Outbox) {
        let tally = self.traffic.tally();
        let flows = [tally.begun, tally.done, tally.failed, tally.impatient];
        let moves = self.traffic.crowd().moves();
        let (before, moved) = std::mem::replace(&mut self.counted, (flows, moves));
        let counters = self.spec.counters;
        let rows = counters.flows.into_iter().zip(flows).zip(before);
        let rows = rows.map(|((metric, now), before)| (metric, now - before)).chain([(counters.moves, moves - moved)]);
        rows.filter(|(_, by)| *by > 0).for_each(|(metric, by)| out.count(metric, by));
    }

    fn stop(&mut self, now: Time, out: &mut Outbox) {
        if matches!(self.stage, Stage::Waiting | Stage::Running) {
            if self.stage == Stage::Running {
                let end = self.own(now.min(self.until));
                self.spec.census.tell(self.traffic.crowd(), &self.asked, end, out);
            }
            self.stage = Stage::Stopped;
            self.alarm.set(None, out);
            self.tell(out);
            self.settle(out);
        }
    }

    /// Says that all is done, once it is.
    fn settle(&mut self, out: &mut Outbox) {
        if self.stage == Stage::Stopped && self.open == 0 {
            self.stage = Stage::Finished;
            out.finish();
        }
    }
}

impl Actor for Users {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Timer { .. } => {
                self.alarm.rang();
                if self.stage == Stage::Running {
                    self.advance(now, out);
                }
            }
            Event::Outcome { request, outcome } => self.outcome(now, request, outcome, out),
            Event::Message { body, .. } => match Word::read(body, &self.spec.node) {
                Some(Word::Begin(start, again)) => self.begin(now, &start, again.as_deref(), out),
                Some(Word::Steer(steer)) => self.steered(now, &steer, out),
                None => {}
            },
            Event::Stop => self.stop(now, out),
            _ => {}
        }
    }
}
