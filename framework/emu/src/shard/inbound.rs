//! Exchanges at their receiver: what came in, and the answer it waits for.

use std::io;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::header::HeaderValue;
use rehearsal_core::{Event, ExchangeId, Head, Payload, Reply, Status, Time};

use super::{Shard, State};

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
    answer: Option<Rendered>,
    waker: Option<Waker>,
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
        let state = &mut self.state;
        let Arrival { actor: who, mut head, content_type, body, bytes } = arrival;
        head.from = head.from.filter(|from| state.world.knows(*from));
        let (row, _) = state.place(who);
        if state.closed {
            return state.turn_away(who, row);
        }
        let tally = &mut state.books[row].ledger.tally;
        tally.received += 1;
        tally.bytes_received += u64::from(bytes);
        let arrived = state.now();
        let slot = state.inbound.insert(Inbound { who, row, arrived, body, content_type, answer: None, waker: None });
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
        match inbound.answer.take() {
            Some(answer) => {
                self.state.inbound.remove(exchange.slot());
                Poll::Ready(answer)
            }
            None => {
                inbound.waker = Some(cx.waker().clone());
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
    }

    /// A connection was closed at once: too many are open.
    pub(crate) fn turned_connection_away(&mut self) {
        let limit = self.state.world.options.connections_max;
        self.state.notes.note(format!("connections beyond the limit of {limit} were closed"));
    }

    /// This host had no descriptor or port left for a connection.
    pub(crate) fn short_of_connections(&mut self) {
        self.state
            .notes
            .note("connections could not be opened: this host has no file descriptor or port left".to_owned());
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
        if let Some(waker) = inbound.waker.take() {
            waker.wake();
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
    fn turn_away(&mut self, who: u32, row: usize) -> ExchangeId {
        let (body, content_type) = self.render(Payload::EMPTY, 0);
        let answer = Some(Rendered { status: Status::Rejected, body, content_type });
        let arrived = self.now();
        let slot = self.inbound.insert(Inbound {
            who,
            row,
            arrived,
            body: Vec::new(),
            content_type: None,
            answer,
            waker: None,
        });
        ExchangeId::new(slot, self.inbound.generation(slot))
    }

    /// `node/actor` of an instance.
    pub(super) fn title(&self, who: u32) -> String {
        let (node, actor) = self.world.names(who);
        format!("{node}/{actor}")
    }
}
