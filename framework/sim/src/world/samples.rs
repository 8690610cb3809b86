//! Each second of the run: one snapshot per group, one sample per node, a report per flow.

use rehearsal_core::messages::{GroupSnapshot, HostSample, StopReason};
use rehearsal_core::run::Progress;
use rehearsal_core::{Body, Span, Time};

use super::class::Class;
use super::{Phase, What, World};

/// Shortest time over which a use of cores is told: half a second, as in an emulation.
const WALL_NS_MIN: f64 = 5e8;

impl World {
    /// The controller has announced when traffic begins: seconds count from there. The first announcement counts.
    pub(super) fn begin(&mut self, at: Time) {
        if self.start.is_none() {
            let at = at.max(self.now);
            self.start = Some(at);
            self.until = self.until_span.map_or(Time::MAX, |span| at.saturating_add(span));
            for node in &mut self.nodes {
                node.store.seen.2 = at;
            }
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
        let origin = self.origin();
        for row in 0..self.groups.len() {
            let group = &mut self.groups[row];
            if !group.local {
                continue;
            }
            if self.routes.hearers(group.snapshot).is_empty() {
                group.ledger.forget_second();
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
                requests: group.ledger.take_requests(origin),
            };
            let subject = group.snapshot;
            self.publish(self.engine(), subject, Body::new(snapshot));
        }
        for row in 0..self.nodes.len() {
            if self.nodes[row].local {
                let sample = self.host_sample(row, second);
                self.publish(self.engine(), self.subjects.sample(row), Body::new(sample));
            }
        }
    }

    /// What a node used since the last sample. Without a calibration nobody knows.
    fn host_sample(&mut self, row: usize, second: u32) -> HostSample {
        let now = self.now;
        let state = &mut self.nodes[row];
        let sample = HostSample { node: state.name.clone(), second, ..HostSample::default() };
        let Some(costs) = &mut self.costs else { return sample };
        let seen = (state.desk.cores.busy(now) + state.desk.asleep, state.desk.cores.throttled(now).as_nanos(), now);
        let (busy, held, since) = std::mem::replace(&mut state.store.seen, seen);
        let wall = now.since(since).as_nanos() as f64;
        let used = state.desk.allowed.filter(|_| wall >= WALL_NS_MIN);
        let rest = costs.calibration.cpu.rest_cores * wall;
        let cpu_percent = used.map(|allowed| (seen.0 - busy + rest) / (wall * allowed) * 100.0);
        if let Some(percent) = cpu_percent.filter(|percent| *percent > costs.cpu_percent.0) {
            costs.cpu_percent = (percent, row as u32);
        }
        let memory = &mut state.store.memory;
        let (bytes, limit) = (memory.highest(), memory.limit());
        HostSample {
            cpu_percent,
            memory_bytes: Some(bytes),
            memory_percent: limit.map(|limit| bytes as f64 * 100.0 / limit as f64),
            throttled_ns: Some(seen.1 - held),
            voluntary_switches: Some(std::mem::take(&mut state.desk.woken)),
            ..sample
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
