//! Exchanges over `tcp`: attempts as their connections fetch them, answers as they come in, and requests at their receiver.

use std::rc::Rc;

use bytes::BytesMut;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::{ActorId, ExchangeId, Head, Request};

use super::carriers::Answer;
use super::inbound::Arrival;
use super::requests::Stage;
use super::{Local, Shard, State};
use crate::tcp::client::{LineId, mark};
use crate::tcp::server::Line;
use crate::tcp::write_request;

impl Shard {
    /// Appends attempts that a connection is to write, up to `limit` bytes and one more.
    pub(crate) fn fill(&mut self, id: LineId, out: &mut BytesMut, limit: usize) {
        let state = &mut self.state;
        while out.len() < limit {
            let Some((slot, generation)) = state.lanes.next(id) else { return };
            if state.claim(id, (slot, generation)) {
                state.lanes.written(id, (slot, generation));
                state.frame(slot, generation, out);
            } else {
                // given up while it waited
                state.lanes.free(id, None);
            }
        }
    }

    /// A connection has what was given to it: that is sent now.
    pub(crate) fn claim(&mut self, id: LineId) {
        for job in self.state.lanes.given(id) {
            self.state.claim(id, job);
        }
    }

    /// An answer came in.
    pub(crate) fn framed(&mut self, id: LineId, (slot, generation): (u32, u32), answer: Answer) {
        if self.state.lanes.free(id, Some((slot, generation))) {
            if let Some(live) = self.state.live.get_mut(slot, generation) {
                live.stage = Stage::Answered;
                self.outcome(slot, answer.status, answer.bytes);
            }
        } else {
            self.state.late_replies += 1;
        }
        self.settle();
    }

    /// A connection has ended, and these are lost with it.
    pub(crate) fn line_closed(&mut self, id: LineId, lost: Vec<(u32, u32)>) {
        let state = &mut self.state;
        let me = state.me.clone();
        let (lane, unwritten) = state.lanes.closed(id, &me);
        for (slot, generation) in lost {
            state.lose(slot, generation);
        }
        for (slot, generation) in unwritten {
            if let Some(live) = state.live.get_mut(slot, generation) {
                if live.stage == Stage::Framed(id) {
                    live.stage = Stage::Carried;
                }
                state.lanes.dispatch(lane, (slot, generation), &me);
            }
        }
        self.settle();
    }

    /// A request came in on a connection; the class of what goes back.
    pub(crate) fn framed_in(&mut self, arrival: Arrival, line: &Rc<Line>, id: u64) -> Dscp {
        let world = &self.state.world;
        let from = arrival.head.from.filter(|from| world.knows(*from));
        let dscp = from.map_or(Dscp::DF, |from| world.groups[world.group_of(from.0)].dscp);
        let exchange: ExchangeId = self.take_framed(arrival, line, id);
        if self.state.inbound.get(exchange.slot(), exchange.generation()).is_some() {
            line.opened(exchange);
        }
        dscp
    }
}

impl State {
    /// A connection has an attempt, which is booked if it was not; false if it was given up.
    fn claim(&mut self, id: LineId, (slot, generation): (u32, u32)) -> bool {
        let Some(live) = self.live.get(slot, generation) else { return false };
        match live.stage {
            Stage::Ready => self.book(slot),
            Stage::Carried => {}
            stage => return stage == Stage::Framed(id),
        }
        self.live.at_mut(slot).stage = Stage::Framed(id);
        true
    }

    /// Appends an attempt's frame.
    fn frame(&mut self, slot: u32, generation: u32, out: &mut BytesMut) {
        let live = self.live.at(slot);
        let (request, who, books) = (live.request, live.who, &self.books[live.row]);
        let Request { stream, seq, limit, reply_bytes, .. } = request;
        let head = Head { from: Some(ActorId(who)), stream, class: 0, seq, limit, reply_bytes };
        let payload = request.payload;
        let recipe = self.world.recipes.get(usize::from(payload.recipe.0));
        let (media, bytes) = recipe.map_or(("", 0), |recipe| (recipe.content_type(), payload.bytes));
        write_request(out, mark((slot, generation)), &head, media, bytes);
        self.render_into(payload, books.first + who - books.base, out);
    }

    /// An attempt's connection is gone.
    fn lose(&mut self, slot: u32, generation: u32) {
        if let Some(live) = self.live.get_mut(slot, generation) {
            live.stage = Stage::Answered;
            let status = rehearsal_core::Status::Unacknowledged;
            self.queue.push_back(Local::End { slot, generation, status });
        }
    }
}
