//! Bundles that are written by hand: one second of one sender, with times, resources and events of our choice.

use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use rehearsal_core::kind::Role;
use rehearsal_core::message::Body;
use rehearsal_core::messages::{GroupSnapshot, HistogramPart, HostSample, LifeEvent, Metric, NodeReport};
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::sink::Sink;
use rehearsal_core::time::{Span, Time};
use rehearsal_export::{BundleMeta, BundleWriter, Clock, Engine, GroupFacts, RunFacts};
use serde_bytes::ByteBuf;

/// What a bundle holds.
#[derive(Default)]
pub struct Hand {
    /// Response times, ns, and how often.
    pub response: Vec<(u64, u64)>,
    /// Whether the same are its one-way delays.
    pub one_way: bool,
    pub repetition: u32,
    pub host: Option<HostSample>,
    pub events: Vec<LifeEvent>,
    pub clock: Clock,
}

impl Hand {
    /// Response times and nothing else.
    pub fn of(response: &[(u64, u64)], repetition: u32) -> Self {
        Hand { response: response.to_vec(), repetition, ..Hand::default() }
    }

    /// Writes the bundle.
    pub fn write(&self, folder: &Path) {
        let meta = BundleMeta {
            engine: Engine::Emulate,
            experiment: "trial".to_owned(),
            repetition: self.repetition,
            ..BundleMeta::default()
        };
        let mut writer = BundleWriter::create(folder, meta).expect("a new folder");
        for event in &self.events {
            writer.store(&Body::new(event.clone())).expect("room on the disk");
        }
        let group = self.group();
        let totals = group.totals;
        let node = group.node.clone();
        let facts = GroupFacts {
            node: node.clone(),
            template: node.clone(),
            actor: group.actor.clone(),
            kind: group.kind.clone(),
            role: Role::Sender,
            instances: 1,
            target: None,
            tally: Some(totals),
            counts: Vec::new(),
        };
        let report = NodeReport { node, host: self.host.clone(), groups: vec![group], ..NodeReport::default() };
        writer.store(&Body::new(report)).expect("room on the disk");
        let end = Time::from_nanos(0) + Span::from_secs(1);
        let (groups, clock) = (vec![facts], self.clock);
        let facts = RunFacts { stopped: end, ended: end, groups, clock, ..RunFacts::default() };
        writer.finish(facts).expect("room on the disk");
    }

    fn group(&self) -> GroupSnapshot {
        let (mut times, mut lag) = (histogram(), histogram());
        self.response.iter().for_each(|(ns, count)| times.saturating_record_n(*ns, *count));
        let n = times.len();
        lag.saturating_record_n(1, n);
        let mut histograms =
            vec![part(Metric::Response, &times), part(Metric::Service, &times), part(Metric::Lag, &lag)];
        histograms.extend(self.one_way.then(|| part(Metric::OneWay, &times)));
        GroupSnapshot {
            node: "sender".to_owned(),
            actor: "main".to_owned(),
            kind: "sensor".to_owned(),
            instances: 1,
            second: 0,
            totals: Tally { generated: n, attempts: n, success: n, ..Tally::default() },
            queue_length: 0,
            histograms,
            counts: Vec::new(),
            requests: None,
        }
    }
}

fn part(metric: Metric, values: &Histogram<u64>) -> HistogramPart {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(values, &mut bytes).expect("memory is the only limit");
    HistogramPart { metric, v2: ByteBuf::from(bytes) }
}
