//! Exchanges at their sender: gates, attempts, deadlines, outcomes.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::header::HeaderValue;
use rehearsal_core::messages::LifeEvent;
use rehearsal_core::parts::deadlines::Expiry;
use rehearsal_core::parts::gates::Admission;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::plan::Carrier;
use rehearsal_core::{Event, Head, Outcome, Payload, Request, Status, Time, Times, Token};

use super::timers::class;
use super::{Local, Shard, State};
use crate::clock::unix_ns;
use crate::http::client::{ConnectionId, Route};
use crate::losses::Loss;

/// An attempt that is not over.
pub(crate) struct Live {
    who: u32,
    row: usize,
    gate: usize,
    request: Request,
    times: Times,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Its time has not come.
    Later,
    /// `in_flight` is full.
    Gated,
    /// It may go; no connection has taken it yet.
    Ready,
    /// A connection has it.
    Sent(ConnectionId),
    /// Its connection is done with it.
    Answered,
    /// It could not enter, or not leave; its outcome is on its way.
    Refused { entered: bool },
}

/// An attempt that a connection is to send.
pub(crate) struct Outgoing {
    /// Its slot and generation, which come back with the answer.
    pub id: (u32, u32),
    pub head: Head,
    pub body: Bytes,
    pub content_type: HeaderValue,
}

/// How an attempt ended, as its connection saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub status: Status,
    pub bytes: u32,
}

impl State {
    pub(super) fn request(&mut self, who: u32, row: usize, request: Request) {
        let books = &self.books[row];
        let gate = books.gates.index(who - books.base, request.stream);
        let times = Times { intended: request.intended, ready: request.at, ..Times::default() };
        let stage = Stage::Later;
        let slot = self.live.insert(Live { who, row, gate, request, times, stage });
        if self.closed {
            self.queue.push_back(Local::Unplanned { slot });
        } else if request.at <= self.now() {
            self.due(slot);
        } else if self.stopping {
            self.queue.push_back(Local::Unplanned { slot });
        } else {
            let payload = u64::from(self.live.generation(slot)) << 32 | u64::from(slot);
            self.timers.push(request.at, class::SEND, who, payload);
        }
    }

    pub(super) fn came_due(&mut self, slot: u32, generation: u32) {
        if self.live.live(slot, generation) {
            self.due(slot);
        }
    }

    /// The time of an attempt has come: the first of an exchange goes to the gate, a later one holds its place.
    fn due(&mut self, slot: u32) {
        let start = self.world.start().unwrap_or(Time::ZERO);
        let live = self.live.at_mut(slot);
        let books = &mut self.books[live.row];
        let first = live.request.attempt == 0;
        if first {
            books.ledger.generated(&live.request, books.first + live.who - books.base, start, &books.spec);
        }
        if self.stopping {
            return self.refuse(slot, !first);
        }
        if !first {
            return self.transmit(slot);
        }
        match books.gates.enter(live.gate, slot) {
            Admission::Go => self.transmit(slot),
            Admission::Wait => live.stage = Stage::Gated,
            Admission::Full => {
                books.ledger.tally.queue_full += 1;
                self.refuse(slot, false);
            }
        }
    }

    /// It stays unsent; `entered` tells whether it holds a place in its gate.
    fn refuse(&mut self, slot: u32, entered: bool) {
        let generation = self.live.generation(slot);
        self.live.at_mut(slot).stage = Stage::Refused { entered };
        self.queue.push_back(Local::End { slot, generation, status: Status::Unsent });
    }

    /// Gives an attempt to a connection, or lets it wait for one.
    fn transmit(&mut self, slot: u32) {
        let generation = self.live.generation(slot);
        let live = self.live.at_mut(slot);
        live.stage = Stage::Ready;
        let node = self.world.groups[self.books[live.row].group].node;
        match self.client.route(node, live.request.to).copied().or_else(|| self.resolve(node, slot)) {
            Some(route) => self.client.dispatch(route, (slot, generation), &self.me),
            None => self.refuse(slot, true),
        }
    }

    /// The way from a node to an attempt's target, found once for each pair.
    fn resolve(&mut self, node: usize, slot: u32) -> Option<Route> {
        let to = self.live.at(slot).request.to;
        let owner = self.world.subjects.owner(to)?;
        let address = self.world.address(owner)?;
        let link = self.world.plan.link(node, self.world.groups[self.world.group_of(owner.0)].node);
        (link.carrier == Carrier::Http1).then(|| self.client.open_route(node, to, address, link.connection))
    }

    /// The next attempt for a connection, or `None` if it is to close.
    pub(crate) fn poll_job(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<Option<Outgoing>> {
        loop {
            match self.client.next(id, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some((slot, generation))) => {
                    if self.live.get(slot, generation).is_some_and(|l| l.stage == Stage::Ready) {
                        return Poll::Ready(Some(self.send(id, slot, generation)));
                    }
                }
            }
        }
    }

    fn send(&mut self, id: ConnectionId, slot: u32, generation: u32) -> Outgoing {
        let now = self.now();
        let live = self.live.at_mut(slot);
        live.stage = Stage::Sent(id);
        live.times.sent = now;
        let (request, who, row) = (live.request, live.who, live.row);
        let books = &mut self.books[row];
        books.ledger.sent(&request, &live.times, &books.spec);
        let member = books.first + who - books.base;
        let (ring, first) = self.deadlines.set(now, request.deadline, slot, generation);
        if first {
            self.timers.push(now.saturating_add(request.deadline), class::DEADLINE, 0, ring as u64);
        }
        let table = &self.live;
        self.deadlines.trim(ring, 2, |s, g| !table.live(s, g));
        let head = Head {
            from: Some(rehearsal_core::ActorId(who)),
            stream: request.stream,
            class: 0,
            seq: request.seq,
            limit: request.limit,
        };
        let (body, content_type) = self.render(request.payload, member);
        Outgoing { id: (slot, generation), head, body, content_type }
    }

    /// The bytes of a payload and its media type.
    pub(super) fn render(&self, payload: Payload, member: u32) -> (Bytes, HeaderValue) {
        let Some(recipe) = self.world.recipes.get(usize::from(payload.recipe.0)) else {
            return (Bytes::new(), HeaderValue::from_static("application/octet-stream"));
        };
        let content_type = HeaderValue::from_static(recipe.content_type());
        if let Some(bytes) = recipe.shared(payload.seq) {
            return (bytes, content_type);
        }
        let mut bytes = BytesMut::with_capacity(payload.bytes as usize);
        self.render_into(payload, member, &mut bytes);
        (bytes.freeze(), content_type)
    }

    /// Appends the bytes of a payload.
    pub(super) fn render_into(&self, payload: Payload, member: u32, out: &mut BytesMut) {
        let Some(recipe) = self.world.recipes.get(usize::from(payload.recipe.0)) else { return };
        match recipe.shared(payload.seq) {
            Some(bytes) => out.extend_from_slice(&bytes),
            None => {
                let cx = RenderContext { seq: payload.seq, member, epoch_ns: unix_ns(), bytes: payload.bytes };
                recipe.render(cx, out);
            }
        }
        debug_assert_eq!(out.len(), payload.bytes as usize, "a recipe renders what it announced");
    }

    /// Gives up an actor's attempt, if it is under way. Looks through all of them: giving up is rare.
    pub(super) fn abort(&mut self, who: u32, token: Token) {
        let wanted = |l: &Live| l.who == who && l.request.token == token && matches!(l.stage, Stage::Sent(_));
        let found = self.live.iter().find(|(_, l)| wanted(l)).map(|(slot, _)| slot);
        if let Some(slot) = found {
            let generation = self.live.generation(slot);
            self.queue.push_back(Local::End { slot, generation, status: Status::Aborted });
        }
    }

    /// Attempts that are not over.
    pub(super) fn under_way(&self) -> usize {
        self.live.len()
    }

    /// At the stop: what has not left will not leave. At the end of grace, what is under way is aborted.
    pub(super) fn give_up(&mut self, sent_too: bool) {
        for books in &mut self.books {
            books.gates.flush();
        }
        self.client.forget_waiting();
        let now = self.now();
        let ends: Vec<(u32, Stage, Request)> = self.live.iter().map(|(slot, l)| (slot, l.stage, l.request)).collect();
        for (slot, stage, request) in ends {
            let generation = self.live.generation(slot);
            match stage {
                Stage::Later if request.attempt == 0 && request.at > now => {
                    self.queue.push_back(Local::Unplanned { slot });
                }
                Stage::Later if request.attempt == 0 => self.due(slot),
                Stage::Later | Stage::Ready => self.refuse(slot, true),
                Stage::Gated => self.refuse(slot, false),
                Stage::Sent(_) if sent_too => {
                    self.queue.push_back(Local::End { slot, generation, status: Status::Aborted });
                }
                Stage::Sent(_) | Stage::Answered | Stage::Refused { .. } => {}
            }
        }
    }
}

impl Shard {
    /// The next attempt for a connection; see [`State::poll_job`].
    pub(crate) fn poll_job(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<Option<Outgoing>> {
        self.state.poll_job(id, cx)
    }

    /// A connection is done with an attempt.
    pub(crate) fn complete(&mut self, id: ConnectionId, (slot, generation): (u32, u32), answer: Answer) {
        self.state.client.free(id);
        if let Some(live) = self.state.live.get_mut(slot, generation) {
            live.stage = Stage::Answered;
            self.outcome(slot, answer.status, answer.bytes);
        } else {
            self.state.late_replies += 1;
        }
        self.settle();
    }

    /// A connection from `node` came to nothing. The first of its target and kind is an event of that node.
    pub(crate) fn connection_lost(&mut self, node: usize, address: SocketAddr, loss: Loss) {
        let state = &mut self.state;
        if state.losses.add(address, loss) && !state.closed {
            let name = state.world.plan.nodes[node].name.clone();
            let (at, kind, text) = (state.now(), "target".to_owned(), loss.says(address, "a connection"));
            state.tell_event(node, LifeEvent { at, kind, node: name, actor: String::new(), text });
            self.settle();
        }
    }

    /// A connection has ended.
    pub(crate) fn closed(&mut self, id: ConnectionId) {
        let me = self.state.me.clone();
        self.state.client.closed(id, &me);
    }

    pub(super) fn expire(&mut self, ring: usize, now: Time) {
        loop {
            let table = &self.state.live;
            match self.state.deadlines.expire(ring, now, |s, g| !table.live(s, g)) {
                Expiry::Passed { slot, .. } => self.outcome(slot, Status::Unacknowledged, 0),
                Expiry::Next(at) => return self.state.timers.push(at, class::DEADLINE, 0, ring as u64),
                Expiry::Empty => return,
            }
        }
    }

    /// An attempt has ended: books, gate, then the actor.
    pub(super) fn outcome(&mut self, slot: u32, status: Status, reply_bytes: u32) {
        let state = &mut self.state;
        let now = state.now();
        let mut live = state.live.remove(slot);
        live.times.done = now;
        match live.stage {
            Stage::Answered => {}
            Stage::Sent(id) => state.client.cut(id, status),
            // it never left: it has no moments but this one
            _ => (live.times.ready, live.times.sent) = (now, now),
        }
        let outcome = Outcome { status, times: live.times, reply_bytes };
        let books = &mut state.books[live.row];
        let settled = books.ledger.outcome(&outcome, live.request.last, state.stopping, &books.spec);
        if settled {
            state.leave(&live);
        }
        self.handle(live.who, Event::Outcome { request: &live.request, outcome: &outcome });
        if settled {
            let state = &mut self.state;
            let node = state.world.groups[state.books[live.row].group].node;
            state.check_done(node);
        }
    }

    /// An attempt that the stop came before: it was never due, so it is in no book; its actor is told all the same.
    pub(super) fn unplanned(&mut self, slot: u32) {
        let live = self.state.live.remove(slot);
        let outcome = Outcome { status: Status::Unsent, times: live.times, reply_bytes: 0 };
        self.handle(live.who, Event::Outcome { request: &live.request, outcome: &outcome });
    }
}

impl State {
    /// A settled exchange makes room for the next.
    fn leave(&mut self, live: &Live) {
        let holds = match live.stage {
            Stage::Refused { entered } => entered,
            Stage::Later => live.request.attempt > 0,
            Stage::Gated => false,
            Stage::Ready | Stage::Sent(_) | Stage::Answered => true,
        };
        if holds {
            while let Some(next) = self.books[live.row].gates.leave(live.gate) {
                // one that was given up while it waited leaves its number behind
                if self.waits(next, live) {
                    let now = self.now();
                    self.live.at_mut(next).times.ready = now;
                    self.transmit(next);
                    break;
                }
            }
        }
    }

    fn waits(&self, slot: u32, before: &Live) -> bool {
        let live = self.live.get(slot, self.live.generation(slot));
        live.is_some_and(|l| l.stage == Stage::Gated && l.row == before.row && l.gate == before.gate)
    }
}
