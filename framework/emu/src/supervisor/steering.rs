//! Somebody who watches asks for something: the controller decides, and its answer goes back to whoever asked.

use std::collections::BTreeMap;
use std::sync::mpsc;

use rehearsal_core::steer::{Answer, Ask, Steer, learn};
use rehearsal_core::subject::{HOST, PREFIX, Pattern};
use rehearsal_core::{Body, Message};

use super::Supervisor;
use crate::host::Step;

/// Questions that may wait for their answer; the oldest is given up.
const OPEN_MAX: usize = 256;

/// What was asked, and what was done.
#[derive(Default)]
pub(super) struct Helm {
    asked: BTreeMap<u64, Asker>,
    next: u64,
    /// What was done to the load, in the order of time.
    pub steers: Vec<Steer>,
}

/// Who waits for an answer.
enum Asker {
    /// A thread of this process.
    Here(mpsc::SyncSender<Answer>),
    /// Somebody on the bus.
    There(String),
}

impl Helm {
    /// A steer is said, ahead of its time or once more when it is due.
    pub(super) fn learn(&mut self, steer: Steer) {
        learn(&mut self.steers, steer, 0);
    }
}

impl Supervisor {
    /// Questions of threads of this process.
    pub(super) fn hear_asks(&mut self) {
        for (ask, reply) in self.control.asks() {
            self.question(ask, Asker::Here(reply));
        }
    }

    /// A question that came over the bus.
    pub(super) fn ask_from_afar(&mut self, ask: Ask, reply: String) {
        self.question(ask, Asker::There(reply));
    }

    fn question(&mut self, ask: Ask, asker: Asker) {
        let id = self.helm.next;
        self.helm.next += 1;
        if self.helm.asked.len() >= OPEN_MAX {
            self.helm.asked.pop_first();
        }
        self.helm.asked.insert(id, asker);
        if !self.tell_controller("ask", Ask { id, ..ask }) {
            let text = "the controller of this run runs in another process".to_owned();
            self.answered(Answer { id, accepted: false, text });
        }
    }

    /// The controller has decided.
    pub(super) fn answered(&mut self, answer: Answer) {
        match self.helm.asked.remove(&answer.id) {
            // who no longer waits does not want to know
            Some(Asker::Here(reply)) => _ = reply.try_send(answer),
            Some(Asker::There(reply)) => {
                if let Some(bridge) = self.bridge.clone() {
                    tokio::task::spawn_local(async move { bridge.reply(&reply, &Body::new(answer)).await });
                }
            }
            None => {}
        }
    }

    /// Says something to the controller, if it runs here; whether it does.
    pub(super) fn tell_controller<M: Message>(&self, verb: &str, message: M) -> bool {
        let pattern = format!("{PREFIX}.{}.ctl.*.{HOST}.{verb}", self.world.plan.info.run);
        let pattern = Pattern::new(&pattern).expect("a run's token is one");
        let names = self.world.subjects.names();
        let found = names.zip(0..).find_map(|(name, id)| {
            let node = name.split('.').nth(4).filter(|_| pattern.matches(&name))?;
            let row = self.world.plan.nodes.iter().position(|n| n.local && n.name == node)?;
            Some((rehearsal_core::SubjectId(id), row))
        });
        if let Some((subject, row)) = found {
            self.hosts[self.world.shard_of[row]].do_send(Step::Say(subject, Body::new(message)));
        }
        found.is_some()
    }
}
