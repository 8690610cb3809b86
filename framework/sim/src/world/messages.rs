//! Messages on the control and telemetry planes: one copy for all readers, a latency, bounded inboxes. The
//! engine listens too: it learns from them when traffic begins and when the run stops.

use rehearsal_core::message::Header;
use rehearsal_core::messages::{LifeEvent, NodeDone, StartAt, StopRun};
use rehearsal_core::steer::{Steer, learn};
use rehearsal_core::subject::HOST;
use rehearsal_core::{Body, Message, Span, SubjectId};

use super::class::{Class, words};
use super::{What, World};

/// From publisher to reader, where no calibration says it. Assumed: a local network and a message server, below what any decision depends on; the
/// control plane is apart from the links under test.
pub(super) const CONTROL_LATENCY: Span = Span::from_micros(100);
/// Messages that may be on their way to one actor; the next ones are dropped and counted. Source: the default bound of
/// a NATS client's subscription, 65,536 messages.
const INBOX_MAX: u32 = 65_536;

/// One published message, until the last reader has read it.
#[derive(Debug)]
pub(super) struct Letter {
    pub subject: SubjectId,
    pub body: Body,
    readers: u32,
}

impl World {
    /// An actor publishes.
    #[inline]
    pub(super) fn say(&mut self, actor: u32, subject: SubjectId, body: Body) {
        self.listen(&body);
        self.publish(actor, subject, body);
    }

    /// Sends a message to everyone who hears its subject.
    pub(super) fn publish(&mut self, source: u32, subject: SubjectId, body: Body) {
        let said = &mut self.seats[source as usize].said;
        *said = said.wrapping_add(1);
        let readers = self.routes.hearers(subject).len();
        if readers == 0 {
            return;
        }
        let body = if self.wire { self.serialise(source, &body) } else { body };
        let slot = self.letters.insert(Letter { subject, body, readers: readers as u32 });
        for reader in 0..readers {
            let to = self.routes.hearers(subject)[reader].0;
            let inbox = &mut self.seats[to as usize].inbox;
            if *inbox >= INBOX_MAX {
                self.messages_dropped += 1;
                self.discard(slot);
            } else {
                *inbox += 1;
                self.push(self.now + self.control, Class::Message, source, words(to, slot));
            }
        }
    }

    /// A message comes up at a reader.
    #[inline]
    pub(super) fn read(&mut self, actor: u32, slot: u32) -> (u32, What) {
        self.seats[actor as usize].inbox -= 1;
        (actor, What::Message { slot })
    }

    /// One reader less.
    #[inline]
    pub(super) fn discard(&mut self, slot: u32) {
        let letter = self.letters.at_mut(slot);
        letter.readers -= 1;
        if letter.readers == 0 {
            self.letters.remove(slot);
        }
    }

    #[inline]
    fn listen(&mut self, body: &Body) {
        let kind = body.typed_kind();
        if kind.is_none_or(|kind| kind == StartAt::KIND)
            && let Ok(start) = body.get::<StartAt>()
        {
            self.begin(start.at);
        }
        if kind.is_none_or(|kind| kind == StopRun::KIND)
            && let Ok(stop) = body.get::<StopRun>()
        {
            self.stop_wanted.get_or_insert(stop.reason);
        }
        if kind.is_none_or(|kind| kind == Steer::KIND)
            && let Ok(steer) = body.get::<Steer>()
        {
            learn(&mut self.steers, steer.into_owned(), 0);
        }
    }

    fn serialise(&self, source: u32, body: &Body) -> Body {
        let from = if source == self.engine() {
            HOST.to_owned()
        } else {
            let (node, actor) = self.name(source);
            format!("{node}.{actor}")
        };
        let seq = u64::from(self.seats[source as usize].said);
        let header = Header { run: &self.plan.info.run, from: &from, seq, t_ns: self.now.as_nanos() };
        Body::from_wire(body.to_wire(&header))
    }

    /// Tells the controller that a node's senders have finished and nothing of theirs is under way.
    #[cold]
    pub(super) fn announce_done(&mut self, node: usize) {
        let body = Body::new(NodeDone { node: self.nodes[node].name.clone() });
        self.publish(self.engine(), self.subjects.done(node), body);
    }

    /// Tells of a fault.
    #[cold]
    pub(super) fn announce_fault(&mut self, actor: u32, node: &str, name: &str, text: &str) {
        let (group, _) = self.place(actor);
        let row = self.groups[group].node as usize;
        let event = LifeEvent {
            at: self.now,
            kind: "fault".to_owned(),
            node: node.to_owned(),
            actor: name.to_owned(),
            text: text.to_owned(),
            ..LifeEvent::default()
        };
        self.publish(self.engine(), self.subjects.event(row), Body::new(event));
    }
}
