//! The end of a second: one snapshot of each group, then one sample of each node, in this order.
//!
//! Counters are read on the spot. Histograms are encoded, and the kernel's files read, on another thread: traffic is
//! due at the turn of a second like at any other time, and would wait. Seconds are told one after the other.

use std::collections::VecDeque;

use rehearsal_core::messages::{GroupSnapshot, HostSample};
use rehearsal_core::parts::ledger::{Scratch, SecondTimes};
use rehearsal_core::{Body, Span, SubjectId, Time};

use super::timers::class;
use super::{Shard, State};
use crate::sample::{Cost, Pulse, Sampler};

/// Seconds that are not told yet.
pub(super) struct Seconds {
    queue: VecDeque<Second>,
    /// `None` while another thread has them.
    tools: Option<Tools>,
    close_wanted: bool,
}

/// What it takes to complete a second.
#[derive(Default)]
struct Tools {
    scratch: Scratch,
    sampler: Option<Sampler>,
    /// `None` with busy waiting: the thread has no rest then, whatever there is to do.
    pulse: Option<Pulse>,
}

/// A second of all groups and nodes of a shard.
#[derive(Default)]
struct Second {
    groups: Vec<(SubjectId, GroupSnapshot, SecondTimes)>,
    /// Of the process and the machine, told before the node that speaks for them.
    around: Vec<(SubjectId, HostSample)>,
    nodes: Vec<(usize, SubjectId, HostSample)>,
}

/// Seconds that may wait: ten minutes, as for reports of loggers.
const SECONDS_MAX: usize = 600;

impl Seconds {
    /// Nothing to tell yet. `sampler` measures this process and its machine, if that is for this shard to tell.
    /// The present thread is the shard's; `spins` if it waits busily.
    pub(super) fn new(sampler: Option<Sampler>, spins: bool) -> Self {
        let pulse = (!spins).then(Pulse::of_this_thread);
        let tools = Some(Tools { sampler, pulse, ..Tools::default() });
        Seconds { queue: VecDeque::new(), tools, close_wanted: false }
    }

    /// Traffic begins now: what the thread did before counts for no second.
    pub(super) fn traffic_begins(&mut self) {
        if let Some(pulse) = self.tools.as_mut().and_then(|tools| tools.pulse.as_mut()) {
            *pulse = Pulse::of_this_thread();
        }
    }

    /// Whether every second that is over was told.
    pub(super) fn is_told(&self) -> bool {
        self.tools.is_some() && self.queue.is_empty()
    }
}

impl Tools {
    fn complete(&mut self, second: &mut Second) {
        let begun = Cost::now();
        for (_, snapshot, times) in &mut second.groups {
            snapshot.histograms = times.encode(&mut self.scratch);
        }
        if let Some(percent) = self.pulse.as_mut().and_then(Pulse::busy_percent) {
            second.nodes.iter_mut().for_each(|(.., sample)| sample.thread_busy_percent = Some(percent));
        }
        if let Some(sampler) = &mut self.sampler
            && let Some((_, subject, sample)) = second.nodes.iter_mut().find(|(node, ..)| *node == sampler.row())
        {
            second.around = sampler.fill(sample).into_iter().map(|around| (*subject, around)).collect();
        }
        if let Some((_, _, sample)) = second.nodes.first_mut() {
            begun.since().tell(sample);
        }
    }
}

impl Shard {
    /// Traffic begins at `at`: each second from then on is told.
    pub(crate) fn begin(&mut self, at: Time) {
        let state = &mut self.state;
        if !std::mem::replace(&mut state.sampling, true) {
            if let Some(sampler) = state.seconds.tools.as_mut().and_then(|t| t.sampler.as_mut()) {
                sampler.begin();
            }
            if state.world.incarnation() > 0 {
                // the seconds before belong to an earlier process of this node
                let elapsed = state.now().since(at).as_nanos() / rehearsal_core::time::NANOS_PER_SECOND;
                state.second = u32::try_from(elapsed).unwrap_or(u32::MAX);
            }
            state.timers.align(at);
            state.timers.push(at, class::BEGIN, 0, 0);
            state.plan_sample(at);
        }
        self.settle();
    }

    /// A second is over.
    pub(super) fn sample(&mut self) {
        if self.state.closed {
            return;
        }
        // what was due in this second is of this second
        self.state.send_waiting();
        self.report_flows();
        self.state.look_at_clock();
        if self.state.world.options.telemetry {
            self.state.read_second();
        }
        self.state.second += 1;
        if let Some(start) = self.state.world.start() {
            self.state.plan_sample(start);
        }
        self.state.tell_elsewhere();
    }

    /// Closes the books and tells the last, partial second, once those before it are told.
    pub(crate) fn close(&mut self) {
        if self.state.seconds.is_told() {
            self.close_now();
        } else {
            self.state.seconds.close_wanted = true;
        }
    }

    pub(super) fn close_now(&mut self) {
        if std::mem::replace(&mut self.state.closed, true) {
            return;
        }
        self.state.close_books();
        if self.state.sampling && self.state.world.options.telemetry {
            self.state.read_second();
            self.state.tell_here();
        }
        self.settle();
    }
}

impl State {
    fn plan_sample(&mut self, start: Time) {
        let at = start.saturating_add(Span::from_secs(u64::from(self.second) + 1));
        self.timers.push(at, class::SAMPLE, 0, 0);
    }

    /// Reads the counters of the second that ends now.
    fn read_second(&mut self) {
        if self.seconds.queue.len() >= SECONDS_MAX {
            self.seconds.queue.pop_front();
            self.notes.note("snapshots were dropped: they could not be encoded in time".to_owned());
        }
        let groups = (0..self.books.len()).map(|row| self.snapshot(row)).collect();
        let (world, incarnation) = (&self.world, self.world.incarnation());
        let sample = |node: usize| {
            let name = world.plan.nodes[node].name.clone();
            let sample = HostSample { node: name, second: self.second, incarnation, ..HostSample::default() };
            (node, world.subjects.sample(node), sample)
        };
        let nodes = self.nodes.iter().map(|n| sample(n.node)).collect();
        self.seconds.queue.push_back(Second { groups, around: Vec::new(), nodes });
    }

    /// Completes what waits on another thread, one second after the other, and publishes it.
    fn tell_elsewhere(&mut self) {
        let Some(mut tools) = self.seconds.tools.take() else { return };
        let me = self.me.clone();
        tokio::task::spawn_local(async move {
            while let Some(shard) = me.upgrade() {
                let Some(mut second) = shard.borrow_mut().state.seconds.queue.pop_front() else {
                    let mut shard = shard.borrow_mut();
                    shard.state.seconds.tools = Some(tools);
                    if shard.state.seconds.close_wanted {
                        shard.close_now();
                    }
                    return;
                };
                let complete = move || {
                    tools.complete(&mut second);
                    (tools, second)
                };
                let completed = tokio::task::spawn_blocking(complete).await;
                // only a bug can make it panic: then a second is lost, not the run
                (tools, second) = completed.unwrap_or_default();
                let mut shard = shard.borrow_mut();
                shard.state.publish_second(second);
                shard.settle();
            }
        });
    }

    /// The same here and now, at the end of the run.
    fn tell_here(&mut self) {
        let mut tools = self.seconds.tools.take().unwrap_or_default();
        while let Some(mut second) = self.seconds.queue.pop_front() {
            tools.complete(&mut second);
            self.publish_second(second);
        }
        self.seconds.tools = Some(tools);
    }

    fn publish_second(&mut self, second: Second) {
        for (row, (subject, snapshot, times)) in second.groups.into_iter().enumerate() {
            self.books[row].ledger.give_back(times);
            self.publish(None, subject, Body::new(snapshot));
        }
        for (subject, sample) in second.around {
            self.publish(None, subject, Body::new(sample));
        }
        for (_, subject, sample) in second.nodes {
            self.publish(None, subject, Body::new(sample));
        }
    }

    fn snapshot(&mut self, row: usize) -> (SubjectId, GroupSnapshot, SecondTimes) {
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
            histograms: Vec::new(),
            counts: books.ledger.counts(&info.metrics),
            requests: books.ledger.take_requests(self.world.start().unwrap_or(Time::ZERO)),
        };
        (info.snapshot, snapshot, books.ledger.take_times())
    }
}
