//! Beats: each second a process says that it is there, how far it is, and what it has reported. They leave from the thread
//! of the life cycle, apart from the traffic.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rehearsal_core::life::{BEAT_EVERY, Beat, LossWindow, NodeLost, Rejoin, Stage, Succession};
use rehearsal_core::messages::{NodeReport, ReportAck};
use rehearsal_core::subject::{HOST, PREFIX, Pattern};
use rehearsal_core::time::NANOS_PER_SECOND;
use rehearsal_core::{Body, Span, Time};

use super::{Bridge, node_of};

/// Nodes whose stored seconds are known.
const NODES_MAX: usize = 65_536;

/// How this process is, and what it knows of the others' lives.
#[derive(Default)]
pub(super) struct Pulse(RefCell<Known>);

#[derive(Default)]
struct Known {
    stage: Stage,
    done: bool,
    second: Option<u32>,
    generated: BTreeMap<String, u64>,
    /// When this process said that it is there.
    said: Option<Time>,
    /// When the controller's process was heard last, by its own beats or any other word.
    leader: Option<Time>,
    /// The last beat of each node.
    beats: BTreeMap<String, Beat>,
    /// The last second of each node that is stored.
    stored: BTreeMap<String, u32>,
    /// Which process of a node is the present one; only those that were started again.
    incarnations: BTreeMap<String, u32>,
}

impl Pulse {
    /// This process is so far now.
    pub(super) fn is(&self, stage: Stage) {
        let mut known = self.0.borrow_mut();
        known.stage = known.stage.max(stage);
    }

    /// All senders here have finished.
    pub(super) fn done(&self) {
        self.0.borrow_mut().done = true;
    }

    /// A report of this process leaves.
    fn reported(&self, report: &NodeReport) {
        let mut known = self.0.borrow_mut();
        let sends = report.groups.iter().filter(|group| group.totals.generated > 0);
        known.second = Some(report.second);
        known.generated = sends.map(|group| (group.actor.clone(), group.totals.generated)).collect();
    }

    /// A node's report is stored.
    pub(super) fn stored(&self, body: &Body) {
        if let Ok(ack) = body.get::<ReportAck>() {
            let mut known = self.0.borrow_mut();
            if known.stored.len() >= NODES_MAX && !known.stored.contains_key(&ack.node) {
                return;
            }
            let last = known.stored.entry(ack.node.clone()).or_default();
            *last = (*last).max(ack.second);
        }
    }

    /// Whether a message with this number is of the present process of its node: the upper half tells which one.
    pub(super) fn is_present(&self, node: &str, seq: u64) -> bool {
        seq == 0 || (seq >> 32) as u32 >= self.0.borrow().incarnations.get(node).copied().unwrap_or(0)
    }
}

impl Bridge {
    /// Says each second that this process is there, until the runtime ends.
    pub(super) async fn beat(self: Rc<Self>) {
        loop {
            // a report that left a moment ago took one along
            let said = self.pulse.0.borrow().said;
            if said.is_none_or(|at| self.world.clock.now().since(at) > BEAT_EVERY / 2) {
                self.say_beat().await;
            }
            tokio::time::sleep(BEAT_EVERY.to_std()).await;
        }
    }

    async fn say_beat(&self) {
        let (node, incarnation) = (self.node.clone(), self.world.incarnation());
        let beat = {
            let mut known = self.pulse.0.borrow_mut();
            known.said = Some(self.world.clock.now());
            let (second, generated) = (known.second, known.generated.clone());
            Beat { node, incarnation, stage: known.stage, done: known.done, second, generated }
        };
        if self.nats.is_connected() {
            self.tell("beat", &Body::new(beat)).await;
        }
    }

    /// A report of this process leaves; the others learn of it at once.
    pub(super) async fn report_leaves(&self, report: &NodeReport) {
        self.pulse.reported(report);
        self.say_beat().await;
    }

    /// A process tells how it is.
    pub(super) fn hear_beat(&self, beat: Beat) {
        self.pulse.0.borrow_mut().beats.insert(beat.node.clone(), beat);
    }

    /// The controller's process was heard.
    pub(super) fn hear_leader(&self, subject: &str) {
        if !self.leads && self.leader.as_deref() == Some(node_of(subject)) {
            self.pulse.0.borrow_mut().leader = Some(self.world.clock.now());
        }
    }

    /// A new incarnation of a node takes up the run; whether it is this one.
    pub(super) fn rejoin(&self, again: &Rejoin) {
        if again.node == self.node && self.world.incarnation() > 0 {
            self.pulse.is(Stage::Running);
            if self.world.begin(again.at) {
                self.notes.start();
            }
        }
    }

    /// How long the controller's process is silent; zero for itself.
    pub(crate) fn leader_silent(&self) -> Span {
        let now = self.world.clock.now();
        let mut known = self.pulse.0.borrow_mut();
        let last = *known.leader.get_or_insert(now);
        if self.leads { Span::ZERO } else { now.since(last) }
    }

    /// Whether the server answers: one that stands still keeps its connections.
    pub(crate) async fn server_answers(&self) -> bool {
        self.nats.is_connected() && self.nats.settle(super::LEAVE).await
    }

    /// Nobody can be heard: every node's silence counts from now.
    pub(crate) fn excuse_all(&self) {
        let now = self.world.clock.now();
        self.heard(|heard| heard.last.values_mut().for_each(|last| *last = now.max(*last)));
    }

    /// What is known of a node that is lost now.
    pub(crate) fn obituary(&self, node: &str, again: bool) -> NodeLost {
        let known = self.pulse.0.borrow();
        let beat = known.beats.get(node);
        let second = known.stored.get(node).copied().into_iter().chain(beat.and_then(|b| b.second)).max();
        let start = self.world.start().unwrap_or(Time::ZERO);
        let length = Span::from_nanos(second.map_or(0, |s| (u64::from(s) + 1) * NANOS_PER_SECOND));
        let generated = beat.map(|beat| beat.generated.clone()).unwrap_or_default();
        NodeLost { node: node.to_owned(), again, known_until: start.saturating_add(length), generated }
    }

    /// Whether a node was heard since its loss at `window.from`, or its new process takes part in the run.
    pub(crate) fn is_back(&self, window: &LossWindow, since: Time) -> bool {
        if !window.restarted {
            return self.heard(|h| h.last.get(&window.node).is_some_and(|last| *last > since));
        }
        let known = self.pulse.0.borrow();
        let present = known.incarnations.get(&window.node).copied().unwrap_or(0);
        known.beats.get(&window.node).is_some_and(|beat| beat.incarnation == present && beat.stage >= Stage::Running)
    }

    /// The next process of a node is about to be started; it counts as heard in `grace`.
    pub(crate) fn succeed(&self, node: &str, grace: Span) -> Succession {
        let mut known = self.pulse.0.borrow_mut();
        let incarnation = known.incarnations.entry(node.to_owned()).or_default();
        *incarnation += 1;
        let incarnation = *incarnation;
        drop(known);
        let later = self.world.clock.now().saturating_add(grace);
        self.heard(|heard| {
            heard.last.insert(node.to_owned(), later);
            let own = |name: &str| node_of(name) == node;
            let listen = heard.listen.iter().filter(|(name, _)| own(name)).map(|(n, a)| (n.clone(), *a)).collect();
            Succession { incarnation, listen }
        })
    }
}

/// The node that the controller runs in: there questions are asked.
pub(super) fn leader<'a>(run: &str, mut names: impl Iterator<Item = Cow<'a, str>>) -> Option<String> {
    let pattern = Pattern::new(&format!("{PREFIX}.{run}.ctl.*.{HOST}.ask")).expect("a run's token is one");
    names.find(|name| pattern.matches(name)).map(|name| node_of(&name).to_owned())
}
