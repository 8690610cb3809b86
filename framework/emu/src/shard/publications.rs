//! Publications over `mqtt`: attempts as their connection fetches them, and what became of them.

use bytes::BytesMut;
use rehearsal_core::outside::template::Item;
use rehearsal_core::plan::{MqttVersion, Qos};
use rehearsal_core::{ActorId, Head, Status};

use super::requests::Stage;
use super::{Local, Shard, State};
use crate::clock::unix_ns;
use crate::losses::{Loss, Peer};
use crate::mqtt;
use crate::mqtt::write_publish;
use crate::udp::{HEADER_BYTES, Sort, Stamp};

impl Shard {
    /// Appends an attempt that a connection is to publish under a number; false if it was given up meanwhile, or is longer
    /// than the broker takes.
    pub(crate) fn publish(
        &mut self,
        (slot, generation): (u32, u32),
        id: u16,
        version: MqttVersion,
        most: usize,
        out: &mut BytesMut,
    ) -> bool {
        let state = &mut self.state;
        let Some(live) = state.live.get(slot, generation).filter(|live| live.stage == Stage::Publishing) else {
            return false;
        };
        let (request, times, who) = (live.request, live.times, live.who);
        let books = &state.books[live.row];
        let member = books.first + who - books.base;
        let (before, form) = (out.len(), state.world.groups[books.group].form.clone());
        let Some((topic, qos)) = state.topic_of(state.world.groups[books.group].node, request.to) else { return false };
        let least = if form.is_some() { 0 } else { HEADER_BYTES };
        let bytes = (request.payload.bytes as usize).max(least);
        match &form {
            Some(form) => {
                let mut topic = BytesMut::new();
                form.topic(Item { seq: request.payload.seq, member, epoch_ns: unix_ns() }, &mut topic);
                write_publish(out, version, qos, id, &topic, bytes);
            }
            None => write_publish(out, version, qos, id, &*topic, bytes),
        }
        let body = out.len();
        state.render_into(request.payload, member, out);
        out.resize(body + bytes, 0);
        if out.len() - before > most {
            out.truncate(before);
            state.notes.note(format!("publications of more than {most} bytes are not taken by the broker"));
            state.queue.push_back(Local::End { slot, generation, status: Status::Invalid });
            state.timers.nudge();
            return false;
        }
        if form.is_some() {
            // a broker outside is told nothing of ours
            return true;
        }
        let head = Head { from: Some(ActorId(who)), stream: request.stream, seq: request.seq, ..Head::default() };
        let (run, sort) = (state.world.run_hash, Sort::OneWay);
        Stamp { run, sort, head, intended: times.intended, sent: times.sent }.write(&mut out[body..]);
        true
    }

    /// A publication is acknowledged, or refused.
    pub(crate) fn published(&mut self, (slot, generation): (u32, u32), status: Status) {
        let state = &mut self.state;
        match state.live.get_mut(slot, generation).filter(|live| live.stage == Stage::Publishing) {
            Some(live) => {
                live.stage = Stage::Answered;
                let (row, here) = (live.row, live.way.is_some_and(|way| way.delivers_here()));
                state.books[row].acknowledged += u64::from(here && status == Status::Success);
                self.outcome(slot, status, 0);
            }
            None => state.late_replies += 1,
        }
        self.settle();
    }

    /// The connection to a broker is lost, and with it what was under way.
    pub(crate) fn broker_lost(&mut self, node: usize, peer: Peer, loss: Loss, lost: Vec<(u32, u32)>) {
        for (slot, generation) in lost {
            if let Some(live) = self.state.live.get_mut(slot, generation) {
                live.stage = Stage::Answered;
                self.state.queue.push_back(Local::End { slot, generation, status: Status::Unacknowledged });
            }
        }
        self.connection_lost(node, peer, loss);
        self.settle();
    }

    /// A receiving actor's connection to a broker is lost: what is published meanwhile does not reach it.
    pub(crate) fn subscription_lost(&mut self, actor: u32, peer: Peer, loss: Loss) {
        let node = self.state.world.groups[self.state.world.group_of(actor)].node;
        self.connection_lost(node, peer, loss);
    }
}

impl State {
    /// The topic of a receiver, and how sure the delivery there is.
    pub(super) fn topic_of(&mut self, node: usize, to: rehearsal_core::SubjectId) -> Option<(std::rc::Rc<str>, Qos)> {
        let owner = self.world.subjects.owner(to)?;
        let there = self.world.groups[self.world.group_of(owner.0)].node;
        let qos = self.world.plan.link(node, there).qos();
        let world = &self.world;
        let topic = self.topics.entry(to).or_insert_with(|| mqtt::topic(world, owner.0).into());
        Some((topic.clone(), qos))
    }
}
