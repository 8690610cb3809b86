//! What other processes say: counted, heard by the engine itself where it concerns it, and handed to the shards.

use std::rc::Rc;

use bytes::Bytes;
use rehearsal_bus::Port;
use rehearsal_bus::nats::Incoming;
use rehearsal_core::fleet::{ClockReading, ReadClock};
use rehearsal_core::life::{Beat, Rejoin, Stage};
use rehearsal_core::messages::{
    Addresses, CloseBooks, NodeDrained, NodeEnd, ReportAck, ReportsStored, StartAt, StopRun,
};
use rehearsal_core::steer::Ask;
use rehearsal_core::{Body, Message};
use tokio::sync::mpsc;

use super::screen::SUBJECTS_MAX;
use super::{Bridge, Heard, node_of};

impl Bridge {
    pub(super) async fn hear(self: Rc<Self>, mut queue: mpsc::Receiver<Incoming>, port: Rc<Port>) {
        while let Some(Incoming { subject, payload, reply }) = queue.recv().await {
            let body = Body::from_wire(payload);
            if self.is_clock_asked(&subject, &body) {
                self.tell_clock(&subject, reply).await;
                continue;
            }
            if let (Some(ask), Some(reply)) = (self.asked(&subject, &body), &reply) {
                self.notes.ask(ask, reply.clone());
                continue;
            }
            if !self.is_new(&subject, &body) {
                self.answer_again(&subject, &body, reply).await;
                continue;
            }
            if self.is_past(&body) {
                continue;
            }
            let understood = self.listen(&subject, &body);
            // everybody hears it, but who asks wants to know that the leader has
            if let Some(reply) = reply.filter(|_| understood && self.leads) {
                // who asked asks again if the answer is lost
                let _ = self.nats.publish(&reply, Bytes::new()).await;
            }
            self.hear_stored(&subject, &body, &port);
            match self.world.subjects.find(&subject) {
                Some(id) => port.send(id, &body),
                None if understood => {}
                None => self.heard.borrow_mut().ignored += 1,
            }
        }
    }

    /// Whether somebody who does not share this clock asks for the run's time.
    fn is_clock_asked(&self, subject: &str, body: &Body) -> bool {
        let of_run = || body.sealed().ok().flatten().is_some_and(|s| s.run == self.world.plan.info.run);
        subject.ends_with(".host.clock") && body.get::<ReadClock>().is_ok() && of_run()
    }

    /// An end that was understood comes again if its answer was lost.
    async fn answer_again(&self, subject: &str, body: &Body, reply: Option<String>) {
        let seen = |seq: u64| self.heard.borrow().received.get(subject).is_some_and(|last| (1..=*last).contains(&seq));
        let known = self.leads && body.get::<NodeEnd>().is_ok();
        let known = known && self.let_in(subject, body).is_some_and(|sealed| seen(sealed.seq));
        if let Some(reply) = reply.filter(|_| known) {
            let _ = self.nats.publish(&reply, Bytes::new()).await;
        }
    }

    /// Whether this is the start of a run that has begun without this process, which takes the place of another: how it
    /// joins is said in a message of its own.
    fn is_past(&self, body: &Body) -> bool {
        self.world.incarnation() > 0
            && self.world.start().is_none()
            && body.get::<StartAt>().is_ok_and(|start| start.at <= self.world.clock.now())
    }

    /// What somebody who watches asks of the controller here.
    fn asked(&self, subject: &str, body: &Body) -> Option<Ask> {
        // a server's permissions say who may speak there
        if !self.leads || !subject.ends_with(".control.ask") {
            return None;
        }
        let sealed = body.sealed().ok().flatten()?;
        let ask = body.get::<Ask>().ok().filter(|_| sealed.run == self.world.plan.info.run)?;
        Some(ask.into_owned())
    }

    /// The leader's answer: its header holds the run's time, its body this host's clock.
    async fn tell_clock(&self, subject: &str, reply: Option<String>) {
        let here = self.world.plan.nodes.iter().any(|n| n.local && n.name == node_of(subject));
        let Some(reply) = reply.filter(|_| self.leads && here) else { return };
        let name = self.own("clock");
        let reading = Body::new(ClockReading { monotonic_ns: crate::clock::monotonic_ns() });
        let payload = reading.to_wire(&self.header(&name));
        // who asked asks again if the answer is lost
        let _ = self.nats.publish(&reply, payload).await;
    }

    /// Whether this is a message of our run that has not come before; books what is missing before it.
    fn is_new(&self, subject: &str, body: &Body) -> bool {
        let sealed = self.let_in(subject, body);
        let mut heard = self.heard.borrow_mut();
        let full = heard.received.len() >= SUBJECTS_MAX && !heard.received.contains_key(subject);
        let Some(sealed) = sealed.filter(|_| !full) else {
            heard.ignored += 1;
            return false;
        };
        if !self.pulse.is_present(node_of(subject), sealed.seq) {
            // the last words of a process that another has taken the place of
            return false;
        }
        let new = heard.is_next(subject, sealed.seq);
        drop(heard);
        self.hear_leader(subject);
        self.alive(subject);
        new
    }

    /// The publisher of a subject was heard.
    pub(super) fn alive(&self, subject: &str) {
        let (node, now) = (node_of(subject), self.world.clock.now());
        if self.others.contains(node) {
            let mut heard = self.heard.borrow_mut();
            let last = heard.last.entry(node.to_owned()).or_default();
            *last = now.max(*last);
        }
    }

    /// What concerns the engine itself; whether it understood.
    fn listen(&self, subject: &str, body: &Body) -> bool {
        let Ok(Some(sealed)) = body.sealed() else { return false };
        match sealed.kind.as_str() {
            Addresses::KIND => self.addresses(subject, body),
            StartAt::KIND => body.get::<StartAt>().is_ok_and(|start| {
                self.pulse.is(Stage::Running);
                if self.world.begin(start.at) {
                    self.notes.start();
                }
                true
            }),
            // who stores goes on until the others have told how they ended
            StopRun::KIND if self.stores_alone() => true,
            StopRun::KIND => body.get::<StopRun>().is_ok_and(|stop| {
                self.repeat.end("done");
                self.pulse.is(Stage::Stopping);
                self.notes.stop(stop.reason);
                true
            }),
            Rejoin::KIND => body.get::<Rejoin>().is_ok_and(|again| {
                self.rejoin(&again);
                true
            }),
            Beat::KIND => body.get::<Beat>().is_ok_and(|beat| {
                self.others.contains(&beat.node) && {
                    self.hear_beat(beat.into_owned());
                    true
                }
            }),
            ReportAck::KIND => {
                self.pulse.stored(body);
                body.get::<ReportAck>().is_ok()
            }
            ReportsStored::KIND => body.get::<ReportsStored>().is_ok(),
            NodeDrained::KIND => body.get::<NodeDrained>().is_ok_and(|drained| {
                let NodeDrained { node } = drained.into_owned();
                self.others.contains(&node) && {
                    self.heard.borrow_mut().drained.insert(node);
                    true
                }
            }),
            CloseBooks::KIND => body.get::<CloseBooks>().is_ok_and(|_| {
                self.pulse.is(Stage::Closing);
                self.heard.borrow_mut().close = true;
                true
            }),
            NodeEnd::KIND => body.get::<NodeEnd>().is_ok_and(|end| {
                let mut told = end.into_owned();
                let node = told.node.clone();
                // nobody closes the books of somebody else
                told.end.groups.retain(|group| self.is_of(group.group, &node));
                told.end.arrivals.retain(|(row, _)| *row < self.world.groups.len());
                self.others.contains(&node) && {
                    let mut heard = self.heard.borrow_mut();
                    if let Some(end) = heard.endings.add(told) {
                        heard.ends.entry(node).or_insert(end);
                    }
                    true
                }
            }),
            _ => false,
        }
    }

    /// Whether a row of the assembly is a group of this node.
    fn is_of(&self, row: usize, node: &str) -> bool {
        self.world.groups.get(row).is_some_and(|group| self.world.plan.nodes[group.node].name == node)
    }

    /// Of one node, to the leader; of all, from it.
    fn addresses(&self, subject: &str, body: &Body) -> bool {
        let Ok(told) = body.get::<Addresses>() else { return false };
        if self.leads {
            let Addresses { mut listen, authorities } = told.into_owned();
            listen.retain(|name, _| {
                self.world.subjects.find(name).is_some_and(|id| self.world.subjects.owner(id).is_some())
            });
            let mut heard = self.heard.borrow_mut();
            heard.listen.extend(listen);
            let room = crate::tls::AUTHORITIES_MAX.saturating_sub(heard.authorities.len());
            heard.authorities.extend(authorities.into_iter().take(room));
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
            // another process of the node counts anew, from the upper half on
            let successor = seq >> 32 != *last >> 32;
            self.missed += if successor { 0 } else { seq - *last - 1 };
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
        assert!(heard.is_next("a", (1 << 32) | 2) && !heard.is_next("a", 11), "another process has taken its place");
        assert!(heard.is_next("b", 1) && heard.is_next("b", 0), "who does not count is heard");
        assert_eq!(heard.missed, 2);
    }
}
