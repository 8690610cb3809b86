//! Nodes that are lost: the run does without them, or waits for a new incarnation and brings it to where the run is.

use std::collections::BTreeMap;

use rehearsal_core::life::{Beat, NodeLost, OnLoss, Rejoin};
use rehearsal_core::messages::Prepare;
use rehearsal_core::{Outbox, Span, Time};

use super::{Conductor, NodeState, ROUND, ROUNDS_MAX, Stage};

/// From the readiness of a new incarnation to its traffic. Assumed: far more than a message takes to it.
const REJOIN_LEAD: Span = Span::from_millis(200);

/// A node that is lost.
#[derive(Debug)]
pub(super) struct Absent {
    /// What is known of it.
    lost: NodeLost,
}

impl Conductor {
    /// Whether the run does not wait for a node.
    pub(super) fn does_without(&self, node: &NodeState) -> bool {
        self.on_loss == OnLoss::Continue && node.absent.is_some()
    }

    /// A node is lost.
    pub(super) fn lost(&mut self, lost: NodeLost, now: Time, out: &mut Outbox) {
        let Some(node) = self.nodes.get_mut(&lost.node) else { return };
        node.rejoin = None;
        if lost.again {
            (node.ready, node.done) = (false, !node.sends);
            if matches!(self.stage, Stage::Ready { .. } | Stage::Running) {
                self.round = Some((0, now));
            }
        }
        node.absent = Some(Absent { lost });
        self.prepare_absent(now, out);
        self.ready(now, out);
        self.done(now, out);
    }

    /// A node that was only silent was heard again.
    pub(super) fn back(&mut self, node: &str) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.absent = None;
        }
    }

    /// Asks whether new incarnations are there, if it is time to.
    pub(super) fn prepare_absent(&mut self, now: Time, out: &mut Outbox) {
        let Some((round, _)) = self.round.filter(|(_, at)| *at <= now) else { return };
        let waits = self.nodes.values().any(|n| n.absent.as_ref().is_some_and(|a| a.lost.again));
        self.round = (waits && round < ROUNDS_MAX).then(|| (round + 1, now.saturating_add(ROUND)));
        if self.round.is_some() {
            out.publish(self.prepare, Prepare { round: round + 1 });
        }
    }

    /// A node is ready; if it is a new incarnation of a lost one, it is told to take part.
    pub(super) fn welcome(&mut self, name: &str, now: Time, out: &mut Outbox) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(absent) = node.absent.as_ref().filter(|absent| absent.lost.again) else {
            return;
        };
        let running = matches!(self.stage, Stage::Ready { .. } | Stage::Running);
        let Some(start) = self.begun.as_ref().filter(|_| running) else {
            // it takes part from the start, like everybody
            node.absent = None;
            return;
        };
        let lost = &absent.lost;
        let rejoin = Rejoin {
            node: name.to_owned(),
            at: start.at,
            until: start.until,
            known_until: lost.known_until.max(start.at),
            from: now.saturating_add(REJOIN_LEAD).max(start.at),
            generated: lost.generated.clone(),
        };
        // what was said of the load comes first: it walks along it
        self.helm.repeat(out);
        out.publish(self.start, rejoin.clone());
        node.rejoin = Some(rejoin);
        node.absent = None;
    }

    /// Says to a node that has not heard it when traffic begins, or began. A new process of it joins what has begun.
    pub(super) fn start_again(&mut self, beat: &Beat, now: Time, out: &mut Outbox) {
        let (Some(start), Some(node)) = (self.begun.clone(), self.nodes.get_mut(&beat.node)) else { return };
        if beat.incarnation == 0 {
            self.helm.repeat(out);
            return out.publish(self.start, start);
        }
        let late = || Rejoin {
            node: beat.node.clone(),
            at: start.at,
            until: start.until,
            known_until: start.at,
            from: now.saturating_add(REJOIN_LEAD).max(start.at),
            generated: BTreeMap::new(),
        };
        let rejoin = node.rejoin.get_or_insert_with(late).clone();
        self.helm.repeat(out);
        out.publish(self.start, rejoin);
    }
}
