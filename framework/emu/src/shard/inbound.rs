//! Exchanges at their receiver: what came in, and the answer it waits for.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::header::HeaderValue;
use rehearsal_bus::nats::ReplyTo;
use rehearsal_core::{ActorId, Event, ExchangeId, Head, Payload, Reply, Span, Status, Time};
use rehearsal_models::path::Direction;
use rehearsal_models::transport::Window;

use super::rides::{Cargo, Ride};
use super::{Shard, Shortage, State};
use crate::nats::Out;
use crate::tcp::server::Line;

/// A request as its connection read it.
pub(crate) struct Arrival {
    pub actor: u32,
    pub head: Head,
    pub content_type: Option<HeaderValue>,
    /// In the pieces it came in.
    pub body: Vec<Bytes>,
    pub bytes: u32,
}

/// A request that is not answered yet, or whose answer its connection has not fetched.
pub(super) struct Inbound {
    who: u32,
    row: usize,
    arrived: Time,
    pub(super) body: Vec<Bytes>,
    pub(super) content_type: Option<HeaderValue>,
    from: Option<ActorId>,
    answer: Option<Rendered>,
    /// An imposed link has the answer.
    held: bool,
    channel: Channel,
}

/// How an answer gets to who waits for it.
enum Channel {
    /// A connection's task fetches it.
    Http(Option<Waker>),
    /// It goes onto a connection of `tcp`, under the mark of its request.
    Framed(Rc<Line>, u64),
    /// It is sent.
    Nats(ReplyTo),
}

/// An answer, ready to send.
pub(crate) struct Rendered {
    pub status: Status,
    pub body: Bytes,
    pub content_type: HeaderValue,
}

impl Shard {
    /// A request came in.
    pub(crate) fn request_in(&mut self, arrival: Arrival) -> ExchangeId {
        self.take_in(arrival, Channel::Http(None))
    }

    /// A request came in over NATS.
    pub(crate) fn asked(&mut self, arrival: Arrival, reply: ReplyTo) {
        let (limit, full) = (self.state.world.options.connections_max, self.state.inbound.len());
        if full >= limit {
            self.state.notes.note(format!("requests beyond {limit} at once were rejected unseen"));
            self.state.reply_over_nats(reply, Status::Rejected, Bytes::new());
            return;
        }
        self.take_in(arrival, Channel::Nats(reply));
    }

    /// A request came in over a connection of `tcp`.
    pub(super) fn take_framed(&mut self, arrival: Arrival, line: &Rc<Line>, id: u64) -> ExchangeId {
        self.take_in(arrival, Channel::Framed(line.clone(), id))
    }

    fn take_in(&mut self, arrival: Arrival, channel: Channel) -> ExchangeId {
        let state = &mut self.state;
        let Arrival { actor: who, mut head, content_type, body, bytes } = arrival;
        head.from = head.from.filter(|from| state.world.knows(*from));
        let (row, _) = state.place(who);
        if state.closed {
            return state.turn_away(who, row, channel);
        }
        let tally = &mut state.books[row].ledger.tally;
        tally.received += 1;
        tally.bytes_received += u64::from(bytes);
        let arrived = state.now();
        let from = head.from;
        let inbound = Inbound { who, row, arrived, body, content_type, from, answer: None, held: false, channel };
        let slot = state.inbound.insert(inbound);
        let exchange = ExchangeId::new(slot, state.inbound.generation(slot));
        if state.dead.contains(&who) {
            state.respond(exchange, FAILURE);
        }
        let payload = Payload::new(bytes, Payload::RECEIVED, head.seq);
        self.handle(who, Event::Request { exchange, head: &head, payload: &payload });
        self.settle();
        exchange
    }

    /// The answer, once there is one.
    pub(crate) fn poll_reply(&mut self, exchange: ExchangeId, cx: &Context<'_>) -> Poll<Rendered> {
        let Some(inbound) = self.state.inbound.get_mut(exchange.slot(), exchange.generation()) else {
            // the run is over; so is the connection, soon
            return Poll::Pending;
        };
        match inbound.answer.take_if(|_| !inbound.held) {
            Some(answer) => {
                self.state.inbound.remove(exchange.slot());
                Poll::Ready(answer)
            }
            None => {
                inbound.channel = Channel::Http(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    /// The client went away before it had its answer.
    pub(crate) fn abandon(&mut self, exchange: ExchangeId) {
        let state = &mut self.state;
        let Some(inbound) = state.inbound.get(exchange.slot(), exchange.generation()) else { return };
        if inbound.answer.is_none() {
            let handling = state.now().since(inbound.arrived);
            state.books[inbound.row].ledger.answered(Status::Unacknowledged, handling);
        }
        state.inbound.remove(exchange.slot());
    }

    /// A connection could not be accepted.
    pub(crate) fn accept_failed(&mut self, actor: u32, why: &io::Error) {
        self.state.notes.note(format!("{}: connections could not be accepted: {why}", self.state.title(actor)));
        if let Some(what) = Shortage::of(why) {
            let world = self.state.world.clone();
            self.short_of(world.groups[world.group_of(actor)].node, what);
        }
    }

    /// A connection that came in did not come to terms on encryption.
    pub(crate) fn handshake_failed(&mut self, actor: u32, why: &str) {
        self.state.notes.note(format!("{}: a TLS handshake failed: {why}", self.state.title(actor)));
    }

    /// A connection was closed at once: too many are open.
    pub(crate) fn turned_connection_away(&mut self) {
        let limit = self.state.world.options.connections_max;
        self.state.notes.note(format!("connections beyond the limit of {limit} were closed"));
    }
}

/// The answer in place of an actor that has failed.
const FAILURE: Reply = Reply { status: Status::Failed, payload: Payload::EMPTY };

impl State {
    /// An actor answers. An exchange whose client is gone, or that was answered, is known by its generation.
    pub(super) fn respond(&mut self, exchange: ExchangeId, reply: Reply) {
        let now = self.now();
        let Some(inbound) = self.inbound.get(exchange.slot(), exchange.generation()) else { return };
        if inbound.answer.is_some() {
            return;
        }
        let (row, handling) = (inbound.row, now.since(inbound.arrived));
        let member = self.books[row].first + inbound.who - self.books[row].base;
        let (body, content_type) = self.render(reply.payload, member);
        self.books[row].ledger.answered(reply.status, handling);
        let inbound = self.inbound.at_mut(exchange.slot());
        inbound.answer = Some(Rendered { status: reply.status, body, content_type });
        inbound.body = Vec::new();
        let (from, who) = (inbound.from, inbound.who);
        match from.and_then(|from| self.way_back(who, from, reply.payload.bytes, exchange)) {
            None => self.release(exchange.slot(), exchange.generation()),
            Some(ride) => {
                self.inbound.at_mut(exchange.slot()).held = true;
                self.set_off(ride, Span::ZERO);
            }
        }
    }

    /// The path back from a receiver to the actor that asked, if its link is imposed.
    pub(super) fn way_home(&mut self, who: u32, from: ActorId) -> Option<u32> {
        if !self.rides.any {
            return None;
        }
        let node = |actor: u32| self.world.groups[self.world.group_of(actor)].node as u32;
        let path = self.rides.links.path(&self.world.plan, node(from.0), node(who));
        self.rides.links.at(path).down.map(|_| path)
    }

    /// The ride of an answer to the actor that asked, if its link is imposed.
    fn way_back(&mut self, who: u32, from: ActorId, bytes: u32, exchange: ExchangeId) -> Option<Ride> {
        let path = self.way_home(who, from)?;
        let (cargo, dscp) =
            (Cargo::Reply(exchange.slot(), exchange.generation()), self.world.groups[self.world.group_of(from.0)].dscp);
        Some(self.rides.ride(cargo, (path, Direction::Down), bytes, dscp, Window::default()))
    }

    /// An answer may go to who waits for it.
    pub(super) fn release(&mut self, slot: u32, generation: u32) {
        let Some(inbound) = self.inbound.get_mut(slot, generation) else { return };
        inbound.held = false;
        match &mut inbound.channel {
            Channel::Http(waker) => {
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
            }
            Channel::Nats(_) | Channel::Framed(..) => {
                let exchange = ExchangeId::new(slot, generation);
                let inbound = self.inbound.remove(slot);
                match (inbound.channel, inbound.answer) {
                    (Channel::Nats(to), Some(answer)) => self.reply_over_nats(to, answer.status, answer.body),
                    (Channel::Framed(line, id), Some(answer)) => line.answer(exchange, id, answer.status, &answer.body),
                    _ => {}
                }
            }
        }
    }

    fn reply_over_nats(&mut self, to: ReplyTo, status: Status, body: Bytes) {
        if !self.nats.as_ref().is_some_and(|nats| nats.put(Out::Answer { to, status, body })) {
            self.notes.note("answers found no room before the NATS server".to_owned());
        }
    }

    /// An answer got lost too often: a connection stays open until its client closes it.
    pub(super) fn reply_lost(&mut self, slot: u32, generation: u32) {
        if self.inbound.get(slot, generation).is_some_and(|i| matches!(i.channel, Channel::Nats(_))) {
            self.inbound.remove(slot);
        }
    }

    /// What an actor that failed has not answered is answered as failed.
    pub(super) fn fail_inbound(&mut self, who: u32) {
        let open: Vec<ExchangeId> = self
            .inbound
            .iter()
            .filter(|(_, i)| i.who == who && i.answer.is_none())
            .map(|(slot, _)| ExchangeId::new(slot, self.inbound.generation(slot)))
            .collect();
        for exchange in open {
            self.respond(exchange, FAILURE);
        }
    }

    /// At the end: what is in work is not served any more.
    pub(super) fn close_inbound(&mut self) {
        let now = self.now();
        let open: Vec<u32> = self.inbound.iter().filter(|(_, i)| i.answer.is_none()).map(|(slot, _)| slot).collect();
        for slot in open {
            let inbound = self.inbound.remove(slot);
            let handling = now.since(inbound.arrived);
            self.books[inbound.row].ledger.answered(Status::Unacknowledged, handling);
        }
    }

    /// A request that comes when the books are closed.
    fn turn_away(&mut self, who: u32, row: usize, channel: Channel) -> ExchangeId {
        let (body, content_type) = self.render(Payload::EMPTY, 0);
        let answer = Some(Rendered { status: Status::Rejected, body, content_type });
        let (arrived, from, content_type) = (self.now(), None, None);
        let inbound = Inbound { who, row, arrived, body: Vec::new(), content_type, from, answer, held: false, channel };
        let slot = self.inbound.insert(inbound);
        let exchange = ExchangeId::new(slot, self.inbound.generation(slot));
        self.release(slot, exchange.generation());
        exchange
    }

    /// `node/actor` of an instance.
    pub(super) fn title(&self, who: u32) -> String {
        let (node, actor) = self.world.names(who);
        format!("{node}/{actor}")
    }
}
