//! The end of a second: one snapshot of each group, then one sample of each node, in this order.

use rehearsal_core::messages::{GroupSnapshot, HostSample};
use rehearsal_core::{Body, Span, Time};

use super::timers::class;
use super::{Shard, State};
use crate::sample::Sampler;

impl Shard {
    /// Traffic begins at `at`: each second from then on is told.
    pub(crate) fn begin(&mut self, at: Time) {
        if !std::mem::replace(&mut self.state.sampling, true) {
            if let Some((_, sampler)) = &mut self.state.sampler {
                sampler.begin();
            }
            self.state.plan_sample(at);
        }
        self.settle();
    }

    /// A second is over.
    pub(super) fn sample(&mut self) {
        if self.state.closed {
            return;
        }
        self.report_flows();
        self.state.tell_second();
        self.state.second += 1;
        if let Some(start) = self.state.world.start() {
            self.state.plan_sample(start);
        }
    }
}

impl State {
    fn plan_sample(&mut self, start: Time) {
        let at = start.saturating_add(Span::from_secs(u64::from(self.second) + 1));
        self.timers.push(at, class::SAMPLE, 0, 0);
    }

    /// Publishes this second's snapshots and samples.
    pub(super) fn tell_second(&mut self) {
        for row in 0..self.books.len() {
            let (subject, snapshot) = self.snapshot(row);
            self.publish(None, subject, Body::new(snapshot));
        }
        for at in 0..self.nodes.len() {
            let node = self.nodes[at].node;
            let sample = HostSample {
                node: self.world.plan.nodes[node].name.clone(),
                second: self.second,
                ..HostSample::default()
            };
            match self.sampler.take_if(|(measured, _)| *measured == node) {
                Some(sampler) => self.measure(sampler, sample),
                None => self.tell_sample(node, sample),
            }
        }
    }

    /// Reads the kernel's files on another thread, so that pacing does not wait; at the end of the run here.
    fn measure(&mut self, (node, mut sampler): (usize, Sampler), mut sample: HostSample) {
        if self.closed {
            sampler.fill(&mut sample);
            return self.tell_sample(node, sample);
        }
        let me = self.me.clone();
        tokio::task::spawn_local(async move {
            let read = move || {
                sampler.fill(&mut sample);
                (sampler, sample)
            };
            if let (Ok((sampler, sample)), Some(shard)) = (tokio::task::spawn_blocking(read).await, me.upgrade()) {
                let mut shard = shard.borrow_mut();
                shard.state.sampler = Some((node, sampler));
                if !shard.state.closed {
                    shard.state.tell_sample(node, sample);
                    shard.settle();
                }
            }
        });
    }

    fn tell_sample(&mut self, node: usize, sample: HostSample) {
        let subject = self.world.subjects.sample(node);
        self.publish(None, subject, Body::new(sample));
    }

    fn snapshot(&mut self, row: usize) -> (rehearsal_core::SubjectId, GroupSnapshot) {
        let books = &mut self.books[row];
        let info = &self.world.groups[books.group];
        let snapshot = GroupSnapshot {
            node: self.world.plan.nodes[info.node].name.clone(),
            actor: info.actor.clone(),
            kind: info.kind.to_owned(),
            instances: info.members.end - info.members.start,
            second: self.second,
            totals: books.ledger.tally,
            queue_length: books.gates.waiting(),
            histograms: books.ledger.take_histograms(&mut self.scratch),
            counts: books.ledger.counts(&info.metrics),
        };
        (info.snapshot, snapshot)
    }
}
