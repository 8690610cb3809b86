//! The nodes of a run that other processes run: watched while it goes on, and brought to a common end.
//!
//! ```text
//! leader   StopRun ─────> everybody drains       waits      CloseBooks ──> waits for the ends, then closes its own
//! others             <─── NodeDrained                 <─── last reports, acknowledged, then NodeEnd
//! ```
//!
//! A receiver stays open until every sender has drained; each wait has a bound, and who lets it pass is lost.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rehearsal_core::messages::{CloseBooks, NodeDrained, StopReason, StopRun};
use rehearsal_core::plan::Carrier;
use rehearsal_core::run::{Fault, RunEnd};
use rehearsal_core::{Body, Time};
use tokio::time::Instant;

use super::finish::DATAGRAMS_QUIET;
use super::{HARD_STOP, Supervisor};
use crate::bridge::{Bridge, Heard};

/// Between two times that a node says it has drained, until it is told to close.
const REPEAT: Duration = Duration::from_millis(500);
/// Tries to hand over the end of a node, and how long each waits for an answer.
const TRIES: u32 = 15;
const ANSWER: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Somebody outside has something to say.
    pub(super) fn hear_control(&mut self) {
        if let Some(reason) = self.control.reason() {
            self.reason.get_or_insert(reason);
        }
        self.hear_asks();
        self.hear_lost();
    }

    /// Everybody must know that the run stops, whoever said so.
    pub(super) async fn tell_stop(&mut self) {
        let Some(bridge) = self.bridge.clone().filter(|_| !self.losses.leaderless) else { return };
        let reason = self.reason.unwrap_or(StopReason::Fault);
        if bridge.leads() && reason == StopReason::NotReady {
            self.name_the_unheard(&bridge);
        }
        if bridge.leads() || reason == StopReason::Fault {
            bridge.tell("stop", &Body::new(StopRun { reason })).await;
        }
    }

    /// Nodes that never said a word are lost: nobody waits for their end.
    fn name_the_unheard(&mut self, bridge: &Bridge) {
        let run = self.world.plan.info.run.clone();
        for node in bridge.others().iter().filter(|node| bridge.heard(|h| !h.last.contains_key(*node))) {
            let foreign = self.world.plan.nodes.iter().any(|n| n.foreign && n.name == *node);
            let why = match foreign {
                true => format!(
                    "was never heard: start its program before the run, or while it waits, with run {run} and node {node}"
                ),
                false => "was never heard".to_owned(),
            };
            self.lose(node, why, true);
        }
    }

    /// Waits until no receiver is needed any more; whether there was anybody to wait for.
    pub(super) async fn agree_to_close(&mut self) -> bool {
        // who stores alone was told to end when all others had
        let Some(bridge) = self.bridge.clone().filter(|b| !b.stores_alone()) else { return false };
        let grace = self.world.plan.info.grace.to_std();
        if bridge.leads() {
            self.others_have(&bridge, Instant::now() + grace + HARD_STOP, |h| h.drained.iter().collect()).await;
            bridge.tell("close", &Body::new(CloseBooks {})).await;
            self.others_have(&bridge, Instant::now() + 2 * HARD_STOP, |h| h.ends.keys().collect()).await;
            let missing: Vec<String> =
                bridge.others().iter().filter(|n| !bridge.heard(|h| h.ends.contains_key(*n))).cloned().collect();
            for node in missing {
                self.lose(&node, "did not tell how it ended".to_owned(), true);
            }
        } else {
            self.close_when_told(&bridge, Instant::now() + grace + 3 * HARD_STOP).await;
            self.last_datagrams().await;
        }
        true
    }

    /// Waits until all other nodes but the lost ones have done something.
    async fn others_have(&mut self, bridge: &Bridge, until: Instant, done: impl Fn(&Heard) -> BTreeSet<&String>) {
        while !self.hurried() && Instant::now() < until {
            let mut waited = bridge.others().difference(&self.lost);
            if bridge.heard(|h| waited.all(|node| done(h).contains(node))) {
                return;
            }
            self.pause().await;
        }
    }

    async fn close_when_told(&mut self, bridge: &Bridge, until: Instant) {
        let node = self.world.plan.nodes.iter().find(|n| n.local).map(|n| n.name.clone()).unwrap_or_default();
        let drained = Body::new(NodeDrained { node });
        let mut told = Instant::now() - REPEAT;
        while !self.hurried() && !self.losses.leaderless && Instant::now() < until && !bridge.heard(|h| h.close) {
            if told.elapsed() >= REPEAT {
                bridge.tell("drained", &drained).await;
                told = Instant::now();
            }
            self.pause().await;
        }
    }

    /// Datagrams of senders elsewhere that are on their way: until none came for a while.
    async fn last_datagrams(&mut self) {
        if self.world.plan.links.iter().all(|link| !matches!(link.carrier, Carrier::Udp | Carrier::Frames)) {
            return;
        }
        let until = Instant::now() + HARD_STOP;
        let (mut last, mut since) = (self.arrived(), Instant::now());
        while !self.hurried() && Instant::now() < until && since.elapsed() < DATAGRAMS_QUIET {
            self.pause().await;
            let arrived = self.arrived();
            if arrived != last {
                (last, since) = (arrived, Instant::now());
            }
        }
    }

    fn arrived(&self) -> u64 {
        self.arrivals().iter().map(|(_, n)| n).sum()
    }

    /// When each node here actually began; one that was started again did not begin with the others.
    pub(super) fn begun(&self) -> Vec<(String, Time)> {
        // one that was started again began late, and that is no skew
        let at = self.world.begun().filter(|_| self.world.incarnation() == 0);
        let here = self.world.plan.nodes.iter().filter(|n| n.local && n.measured);
        here.filter_map(|n| Some((n.name.clone(), at?))).collect()
    }

    /// Datagrams that arrived here from groups of other processes.
    pub(super) fn arrivals(&self) -> Vec<(usize, u64)> {
        let counts = self.world.shared.arrived.iter().enumerate();
        let elsewhere = counts.filter(|(row, _)| !self.world.is_local(*row));
        elsewhere.map(|(row, n)| (row, n.load(Ordering::Acquire))).filter(|(_, n)| *n > 0).collect()
    }
}

/// One end of all: the leader takes in how the others ended, the others tell it how they did.
pub(super) async fn join(bridge: &Bridge, lost: BTreeSet<String>, mut run: RunEnd, leaderless: bool) -> RunEnd {
    let (notes, missed) = bridge.close();
    run.notes.extend(notes);
    run.messages_dropped += missed;
    let refused = bridge.refused();
    run.faults.extend(refused.into_iter().map(|address| Fault {
        at: run.stop,
        node: String::new(),
        actor: String::new(),
        text: format!("a receiver listens on {address}, which is not allowed: nothing was sent there"),
    }));
    let (at, node) = (run.stop, bridge.node());
    let fault = |text| Fault { at, node: node.to_owned(), actor: String::new(), text };
    run.faults.extend(bridge.forbidden().into_iter().map(fault));
    if bridge.leads() {
        run.join(bridge.heard(|h| std::mem::take(&mut h.ends)));
        run.lost_nodes = lost.into_iter().collect();
        run.settle_datagrams();
        return run;
    }
    if bridge.stores_alone() {
        return run;
    }
    let mut tries = if leaderless { 1 } else { TRIES };
    for ending in bridge.endings(&run) {
        if !bridge.tell_ending(&ending, &mut tries, ANSWER).await {
            break;
        }
    }
    run
}
