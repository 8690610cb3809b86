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

use rehearsal_core::Body;
use rehearsal_core::messages::{CloseBooks, NodeDrained, NodeEnd, StopReason, StopRun};
use rehearsal_core::plan::Carrier;
use rehearsal_core::run::{Fault, RunEnd};
use tokio::time::Instant;

use super::finish::DATAGRAMS_QUIET;
use super::{HARD_STOP, LOOK, Supervisor};
use crate::bridge::{Bridge, Heard};

/// Between two times that a node says it has drained, until it is told to close.
const REPEAT: Duration = Duration::from_millis(500);
/// Tries to hand over the end of a node, and how long each waits for an answer.
const TRIES: u32 = 5;
const ANSWER: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Somebody outside has something to say.
    pub(super) fn hear_control(&mut self) {
        if let Some(reason) = self.control.reason() {
            self.reason.get_or_insert(reason);
        }
        self.hear_lost();
    }

    pub(super) fn hear_lost(&mut self) {
        for (node, why) in self.control.lost() {
            self.lose(&node, why);
        }
    }

    /// A node that was heard last too long ago is lost.
    pub(super) fn watch_others(&mut self) {
        let (Some(bridge), Some(start)) = (self.bridge.clone().filter(|b| b.leads()), self.world.start()) else {
            return;
        };
        let (now, patience) = (self.world.clock.now(), self.world.options.stuck_after);
        for node in bridge.others() {
            let last = bridge.heard(|h| h.last.get(node).copied()).unwrap_or(start).max(start);
            if now.since(last) > patience {
                self.lose(node, format!("was not heard for {} s", patience.as_secs_f64()));
            }
        }
    }

    /// A node is gone: the run stops, and its verdict names it.
    fn lose(&mut self, node: &str, why: String) {
        let told = self.bridge.as_ref().is_some_and(|b| b.heard(|h| h.ends.contains_key(node)));
        if told || !self.lost.insert(node.to_owned()) {
            return;
        }
        let at = self.world.clock.now();
        self.faults.push(Fault { at, node: node.to_owned(), actor: String::new(), text: why });
        self.reason.get_or_insert(StopReason::Fault);
    }

    /// Everybody must know that the run stops, whoever said so.
    pub(super) async fn tell_stop(&self) {
        let Some(bridge) = &self.bridge else { return };
        let reason = self.reason.unwrap_or(StopReason::Fault);
        if bridge.leads() || reason == StopReason::Fault {
            bridge.tell("stop", &Body::new(StopRun { reason })).await;
        }
    }

    /// Waits until no receiver is needed any more; whether there was anybody to wait for.
    pub(super) async fn agree_to_close(&mut self) -> bool {
        let Some(bridge) = self.bridge.clone() else { return false };
        let grace = self.world.plan.info.grace.to_std();
        if bridge.leads() {
            self.others_have(&bridge, Instant::now() + grace + HARD_STOP, |h| h.drained.iter().collect()).await;
            bridge.tell("close", &Body::new(CloseBooks {})).await;
            self.others_have(&bridge, Instant::now() + 2 * HARD_STOP, |h| h.ends.keys().collect()).await;
            let missing: Vec<String> =
                bridge.others().iter().filter(|n| !bridge.heard(|h| h.ends.contains_key(*n))).cloned().collect();
            for node in missing {
                self.lose(&node, "did not tell how it ended".to_owned());
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
        while !self.hurried() && Instant::now() < until && !bridge.heard(|h| h.close) {
            if told.elapsed() >= REPEAT {
                bridge.tell("drained", &drained).await;
                told = Instant::now();
            }
            self.pause().await;
        }
    }

    /// Datagrams of senders elsewhere that are on their way: until none came for a while.
    async fn last_datagrams(&mut self) {
        if self.world.plan.links.iter().all(|link| link.carrier != Carrier::Udp) {
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

    /// Datagrams that arrived here from groups of other processes.
    pub(super) fn arrivals(&self) -> Vec<(usize, u64)> {
        let counts = self.world.shared.arrived.iter().enumerate();
        let elsewhere = counts.filter(|(row, _)| !self.world.is_local(*row));
        elsewhere.map(|(row, n)| (row, n.load(Ordering::Acquire))).filter(|(_, n)| *n > 0).collect()
    }
}

/// One end of all: the leader takes in how the others ended, the others tell it how they did.
pub(super) async fn join(bridge: &Bridge, lost: BTreeSet<String>, mut run: RunEnd) -> RunEnd {
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
    if bridge.leads() {
        run.join(bridge.heard(|h| std::mem::take(&mut h.ends)));
        run.lost_nodes = lost.into_iter().collect();
        run.settle_datagrams();
        return run;
    }
    let end = Body::new(NodeEnd { node: bridge.node().to_owned(), end: run.clone() });
    for _ in 0..TRIES {
        if bridge.ask("end", &end, ANSWER).await {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    run
}
