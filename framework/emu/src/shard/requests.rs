//! Exchanges at their sender: gates, attempts, deadlines, outcomes.

use rehearsal_core::messages::LifeEvent;
use rehearsal_core::parts::deadlines::Expiry;
use rehearsal_core::parts::gates::Admission;
use rehearsal_core::{Event, Outcome, Request, Status, Time, Times, Token};
use rehearsal_models::transport::Window;

use super::carriers::{Answer, Way};
use super::timers::class;
use super::{Local, Shard, State};
use crate::http::client::ConnectionId;
use crate::losses::{Loss, Peer};
use crate::tcp::client::LineId;

/// An attempt that is not over.
pub(crate) struct Live {
    pub(super) who: u32,
    pub(super) row: usize,
    gate: usize,
    pub(super) request: Request,
    pub(super) times: Times,
    pub(super) stage: Stage,
    pub(super) way: Option<Way>,
    /// What its connection over an imposed link has learnt.
    pub(super) window: Window,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Its time has not come.
    Later,
    /// `in_flight` is full.
    Gated,
    /// It may go; no connection has taken it yet.
    Ready,
    /// It is sent, and on an imposed link.
    Riding,
    /// It is sent, and its link has carried it; no connection has taken it yet.
    Carried,
    /// A connection has it.
    Sent(ConnectionId),
    /// A connection to a broker has it, or will.
    Publishing,
    /// It left as a datagram, and waits for its echo.
    Echoing,
    /// A connection of `tcp` has it.
    Framed(LineId),
    /// It goes over the NATS server: whether the client library has it.
    Asked { gone: bool },
    /// Its connection is done with it.
    Answered,
    /// It could not enter, or not leave; its outcome is on its way.
    Refused { entered: bool },
}

impl Stage {
    /// Whether it has left, and is not answered.
    fn is_sent(self) -> bool {
        matches!(
            self,
            Stage::Riding
                | Stage::Carried
                | Stage::Sent(_)
                | Stage::Echoing
                | Stage::Publishing
                | Stage::Framed(_)
                | Stage::Asked { .. }
        )
    }
}

impl State {
    pub(super) fn request(&mut self, who: u32, row: usize, request: Request) {
        let books = &self.books[row];
        let gate = books.gates.index(who - books.base, request.stream);
        let times = Times { intended: request.intended, ready: request.at, ..Times::default() };
        let (stage, way) = (Stage::Later, None);
        let window = Window::default();
        let slot = self.live.insert(Live { who, row, gate, request, times, stage, way, window });
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
    pub(super) fn refuse(&mut self, slot: u32, entered: bool) {
        let generation = self.live.generation(slot);
        self.live.at_mut(slot).stage = Stage::Refused { entered };
        self.queue.push_back(Local::End { slot, generation, status: Status::Unsent });
    }

    /// Gives up an actor's attempt, if it is under way. Looks through all of them: giving up is rare.
    pub(super) fn abort(&mut self, who: u32, token: Token) {
        let wanted = |l: &Live| l.who == who && l.request.token == token && l.stage.is_sent();
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
        for (slot, generation) in self.client.forget_waiting().into_iter().chain(self.lanes.forget_waiting()) {
            // it was sent, and will not get any further
            if self.live.get(slot, generation).is_some_and(|l| l.stage == Stage::Carried) {
                self.queue.push_back(Local::End { slot, generation, status: Status::Aborted });
            }
        }
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
                stage if stage.is_sent() && sent_too => {
                    self.queue.push_back(Local::End { slot, generation, status: Status::Aborted });
                }
                _ => {}
            }
        }
    }
}

impl Shard {
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
    pub(crate) fn connection_lost(&mut self, node: usize, peer: Peer, loss: Loss) {
        if self.state.target_lost(node, peer, loss) {
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
        let (now, generation) = (state.now(), state.live.generation(slot));
        let mut live = state.live.remove(slot);
        live.times.done = now;
        match live.stage {
            Stage::Answered => {
                if let Some(path) = live.way.and_then(|way| way.path) {
                    let path = state.rides.links.at(path);
                    if status == Status::Unacknowledged { path.left(live.window) } else { path.answered(live.window) }
                }
            }
            Stage::Sent(id) => state.client.cut(id, status),
            Stage::Framed(id) => state.lanes.cut(id, (slot, generation), status == Status::Unacknowledged),
            stage if stage.is_sent() => {}
            // it never left: it has no moments but this one
            _ => (live.times.ready, live.times.sent) = (now, now),
        }
        if live.stage.is_sent()
            && let Some(path) = live.way.and_then(|way| way.path)
        {
            state.rides.links.at(path).left(live.window);
        }
        let outcome = Outcome { status, times: live.times, reply_bytes };
        let books = &mut state.books[live.row];
        let member = books.first + live.who - books.base;
        let settled = books.ledger.outcome(&live.request, member, &outcome, state.stopping, &books.spec);
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
            _ => true,
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

    /// Something from `node` to a target came to nothing; whether that was told as an event.
    pub(super) fn target_lost(&mut self, node: usize, peer: Peer, loss: Loss) -> bool {
        let text = loss.says(&peer, &loss.one());
        let told = self.losses.add(peer, loss) && !self.closed;
        if told {
            let name = self.world.plan.nodes[node].name.clone();
            let (at, kind) = (self.now(), "target".to_owned());
            self.tell_event(node, LifeEvent { at, kind, node: name, text, ..LifeEvent::default() });
        }
        told
    }

    fn waits(&self, slot: u32, before: &Live) -> bool {
        let live = self.live.get(slot, self.live.generation(slot));
        live.is_some_and(|l| l.stage == Stage::Gated && l.row == before.row && l.gate == before.gate)
    }
}
