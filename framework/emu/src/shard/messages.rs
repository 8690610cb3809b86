//! Messages: to actors of this shard at once, to other shards over the bus; and what the engine itself hears.

use bytes::Bytes;
use rehearsal_bus::Delivery;
use rehearsal_core::message::Header;
use rehearsal_core::messages::{NodeDone, StartAt, StopRun};
use rehearsal_core::steer::{Answer, Steer};
use rehearsal_core::{ActorId, Body, Message, SubjectId};

use super::{Local, MESSAGES_MAX, Shard, State};

impl Shard {
    /// A message from another shard.
    pub(crate) fn deliver(&mut self, delivery: &Delivery) {
        self.state.hand_over(delivery.subject, &delivery.body);
        self.settle();
    }
}

impl Shard {
    /// The engine says something to actors, from outside of a shard.
    pub(crate) fn say(&mut self, subject: SubjectId, body: Body) {
        self.state.publish(None, subject, body);
        self.settle();
    }
}

impl State {
    /// Publishes a message of an actor, or of the engine.
    pub(super) fn publish(&mut self, from: Option<ActorId>, subject: SubjectId, body: Body) {
        self.listen(&body);
        let body = if self.world.options.wire { self.wired(from, &body) } else { body };
        self.hand_over(subject, &body);
        self.bus.send(subject, &body);
    }

    /// The life cycle concerns the engine too.
    fn listen(&mut self, body: &Body) {
        match body.typed_kind() {
            Some(StartAt::KIND) => {
                if let Ok(start) = body.get::<StartAt>()
                    && self.world.begin(start.at)
                {
                    self.notes.start();
                }
            }
            Some(StopRun::KIND) => {
                if let Ok(stop) = body.get::<StopRun>() {
                    self.notes.stop(stop.reason);
                }
            }
            Some(Steer::KIND) => {
                if let Ok(steer) = body.get::<Steer>() {
                    self.notes.steer(steer.into_owned());
                }
            }
            Some(Answer::KIND) => {
                if let Ok(answer) = body.get::<Answer>() {
                    self.notes.answer(answer.into_owned());
                }
            }
            _ => {}
        }
    }

    fn wired(&self, from: Option<ActorId>, body: &Body) -> Body {
        let from = from.map_or(String::new(), |actor| {
            let (node, name) = self.world.names(actor.0);
            format!("{node}.{name}")
        });
        let t_ns = self.now().as_nanos();
        let header = Header { run: &self.world.plan.info.run, from: &from, seq: self.events, t_ns };
        let bytes: Bytes = body.to_wire(&header);
        Body::from_wire(bytes)
    }

    fn hand_over(&mut self, subject: SubjectId, body: &Body) {
        let hearers = self.bus.here(subject).len();
        if hearers == 0 {
            return;
        }
        if self.messages_waiting >= MESSAGES_MAX {
            self.messages_dropped += hearers as u64;
            return;
        }
        self.messages_waiting += 1;
        // one entry, however many hear it: a start that a hundred thousand wait for is one message
        self.queue.push_back(Local::Message { next: 0, subject, body: body.clone() });
    }

    pub(super) fn node_done(&mut self, node: usize) {
        let subject = self.world.subjects.done(node);
        let done = NodeDone { node: self.world.plan.nodes[node].name.clone() };
        self.publish(None, subject, Body::new(done));
    }
}
