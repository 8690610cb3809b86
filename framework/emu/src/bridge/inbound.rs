//! What other processes say: counted, heard by the engine itself where it concerns it, and handed to the shards.

use std::rc::Rc;

use bytes::Bytes;
use rehearsal_bus::Port;
use rehearsal_bus::nats::Incoming;
use rehearsal_core::messages::{Addresses, CloseBooks, NodeDrained, NodeEnd, ReportAck, StartAt, StopRun};
use rehearsal_core::{Body, Message};
use tokio::sync::mpsc;

use super::{Bridge, Heard, node_of};

impl Bridge {
    pub(super) async fn hear(self: Rc<Self>, mut queue: mpsc::Receiver<Incoming>, port: Port) {
        while let Some(Incoming { subject, payload, reply }) = queue.recv().await {
            let body = Body::from_wire(payload);
            if !self.is_new(&subject, &body) {
                continue;
            }
            let understood = self.listen(&subject, &body);
            if let Some(reply) = reply.filter(|_| understood) {
                // who asked asks again if the answer is lost
                let _ = self.nats.publish(&reply, Bytes::new()).await;
            }
            match self.world.subjects.find(&subject) {
                Some(id) => port.send(id, &body),
                None if understood => {}
                None => self.heard.borrow_mut().ignored += 1,
            }
        }
    }

    /// Whether this is a message of our run that has not come before; books what is missing before it.
    fn is_new(&self, subject: &str, body: &Body) -> bool {
        let mut heard = self.heard.borrow_mut();
        let sealed = body.sealed().ok().flatten().filter(|s| s.run == self.world.plan.info.run);
        let Some(sealed) = sealed else {
            heard.ignored += 1;
            return false;
        };
        let now = self.world.clock.now();
        if self.others.contains(node_of(subject)) {
            heard.last.insert(node_of(subject).to_owned(), now);
        }
        heard.is_next(subject, sealed.seq)
    }

    /// What concerns the engine itself; whether it understood.
    fn listen(&self, subject: &str, body: &Body) -> bool {
        let Ok(Some(sealed)) = body.sealed() else { return false };
        match sealed.kind.as_str() {
            Addresses::KIND => self.addresses(subject, body),
            StartAt::KIND => body.get::<StartAt>().is_ok_and(|start| {
                if self.world.begin(start.at) {
                    self.notes.start();
                }
                true
            }),
            StopRun::KIND => body.get::<StopRun>().is_ok_and(|stop| {
                self.notes.stop(stop.reason);
                true
            }),
            ReportAck::KIND => body.get::<ReportAck>().is_ok_and(|ack| {
                let ack = ack.into_owned();
                self.heard.borrow_mut().unacknowledged.remove(&(ack.node, ack.second))
            }),
            NodeDrained::KIND => body.get::<NodeDrained>().is_ok_and(|drained| {
                self.heard.borrow_mut().drained.insert(drained.into_owned().node);
                true
            }),
            CloseBooks::KIND => body.get::<CloseBooks>().is_ok_and(|_| {
                self.heard.borrow_mut().close = true;
                true
            }),
            NodeEnd::KIND => body.get::<NodeEnd>().is_ok_and(|end| {
                let NodeEnd { node, end } = end.into_owned();
                self.heard.borrow_mut().ends.entry(node).or_insert(end);
                true
            }),
            _ => false,
        }
    }

    /// Of one node, to the leader; of all, from it.
    fn addresses(&self, subject: &str, body: &Body) -> bool {
        let Ok(told) = body.get::<Addresses>() else { return false };
        if self.leads {
            self.heard.borrow_mut().listen.extend(told.into_owned().listen);
        } else if subject.ends_with(".addresses") {
            self.learn(told.into_owned());
        }
        true
    }
}

impl Heard {
    /// Whether a number of a subject was not seen before. Numbers before the first one seen were not meant for us.
    fn is_next(&mut self, subject: &str, seq: u64) -> bool {
        if seq == 0 {
            return true;
        }
        let last = self.received.entry(subject.to_owned()).or_insert(seq - 1);
        let new = seq > *last;
        if new {
            self.missed += seq - *last - 1;
            *last = seq;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_and_repeats_dropped() {
        let mut heard = Heard::default();
        let taken: Vec<bool> = [4, 5, 5, 8, 6, 9].map(|seq| heard.is_next("a", seq)).to_vec();
        assert_eq!(taken, [true, true, false, true, false, true]);
        assert_eq!(heard.missed, 2, "6 and 7");
        assert!(heard.is_next("b", 1) && heard.is_next("b", 0), "who does not count is heard");
        assert_eq!(heard.missed, 2);
    }
}
