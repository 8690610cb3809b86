//! Each second of the run: one snapshot per group, one sample per node, a report per flow.

use rehearsal_core::messages::{GroupSnapshot, HostSample, StopReason};
use rehearsal_core::run::Progress;
use rehearsal_core::{Body, Span, Time};

use super::class::Class;
use super::{Phase, What, World};

impl World {
    /// The controller has announced when traffic begins: seconds count from there. The first announcement counts.
    pub(super) fn begin(&mut self, at: Time) {
        if self.start.is_none() {
            let at = at.max(self.now);
            self.start = Some(at);
            self.push(at + Span::from_secs(1), Class::Sample, self.engine(), 0);
        }
    }

    /// A second is over.
    #[cold]
    pub(super) fn sample(&mut self) -> Option<(u32, What)> {
        if self.phase != Phase::Running && self.phase != Phase::Draining {
            return None;
        }
        // nothing else is pending: nothing will happen any more
        if self.queue.is_empty() && self.phase == Phase::Running {
            self.stop_wanted.get_or_insert(StopReason::Done);
        }
        self.publish_second();
        self.report_flows();
        self.sampled = true;
        let next = self.origin() + Span::from_secs(u64::from(self.second) + 1);
        self.push(next, Class::Sample, self.engine(), 0);
        None
    }

    /// Publishes what every group and node did up to now, as the next second of the run.
    pub(super) fn publish_second(&mut self) {
        let second = self.second;
        self.second += 1;
        for row in 0..self.groups.len() {
            let group = &mut self.groups[row];
            if !group.local {
                continue;
            }
            let snapshot = GroupSnapshot {
                node: self.nodes[group.node as usize].name.clone(),
                actor: group.actor.clone(),
                kind: group.kind.to_owned(),
                instances: group.count,
                second,
                totals: group.ledger.tally,
                queue_length: group.gates.waiting(),
                histograms: group.ledger.take_histograms(&mut self.scratch),
                counts: group.ledger.counts(&group.metrics),
            };
            let subject = group.snapshot;
            self.publish(self.engine(), subject, Body::new(snapshot));
        }
        for row in 0..self.nodes.len() {
            if self.nodes[row].local {
                // CPU and memory are unknown until costs have been measured on the real host
                let sample = HostSample { node: self.nodes[row].name.clone(), second, ..HostSample::default() };
                self.publish(self.engine(), self.subjects.sample(row), Body::new(sample));
            }
        }
    }

    /// How far the run is.
    pub(crate) fn progress(&self) -> Progress {
        let (mut generated, mut settled) = (0, 0);
        for group in &self.groups {
            let tally = &group.ledger.tally;
            generated += tally.generated;
            settled += tally.generated - tally.open();
        }
        let stopping = self.phase != Phase::Running;
        Progress { at: self.now, start: self.start, stopping, events: self.events, generated, settled }
    }
}
