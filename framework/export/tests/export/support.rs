//! A camera and a receiver that report as an engine would, and a folder that goes away.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hdrhistogram::serialization::{Serializer, V2Serializer};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rehearsal_core::kind::Role;
use rehearsal_core::message::Body;
use rehearsal_core::messages::{GroupSnapshot, HistogramPart, HostSample, Metric, NodeReport};
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::time::{Span, Time};
use rehearsal_export::{BundleMeta, BundleWriter, GroupFacts, RunFacts, Target};
use serde_bytes::ByteBuf;

/// A folder below the system's temporary one, removed when it goes out of scope.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("rehearsal-{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One metric of one second.
pub fn part(metric: Metric, values_ns: &[u64]) -> HistogramPart {
    let mut h = histogram();
    for value in values_ns {
        h.record(*value).unwrap();
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&h, &mut bytes).unwrap();
    HistogramPart { metric, v2: ByteBuf::from(bytes) }
}

/// A node with one group, as its engine and logger see it.
#[derive(Clone)]
pub struct Node {
    pub name: String,
    pub sends: bool,
    pub totals: Tally,
    pub second: u32,
}

impl Node {
    pub fn camera(name: &str) -> Self {
        Node { name: name.to_owned(), sends: true, totals: Tally::default(), second: 0 }
    }

    pub fn receiver(name: &str) -> Self {
        Node { sends: false, ..Node::camera(name) }
    }

    /// The next second: `count` exchanges that all succeed after `ns`.
    pub fn second(&mut self, count: u64, ns: u64) -> NodeReport {
        let values = vec![ns; usize::try_from(count).unwrap()];
        let t = &mut self.totals;
        let histograms = if self.sends {
            *t = Tally {
                generated: t.generated + count,
                attempts: t.attempts + count,
                success: t.success + count,
                bytes_sent: t.bytes_sent + count * 150_000,
                ..*t
            };
            let none = vec![0; values.len()];
            let all = [
                (Metric::Response, &values),
                (Metric::Service, &values),
                (Metric::Lag, &none),
                (Metric::Blocked, &none),
            ];
            all.iter().filter(|_| count > 0).map(|(metric, values)| part(*metric, values)).collect()
        } else {
            t.received += count;
            t.served += count;
            t.bytes_received += count * 150_000;
            if count > 0 { vec![part(Metric::Handling, &values)] } else { Vec::new() }
        };
        let report = self.report(histograms);
        self.second += 1;
        report
    }

    /// A report of the totals as they are.
    pub fn report(&self, histograms: Vec<HistogramPart>) -> NodeReport {
        let snapshot = GroupSnapshot {
            node: self.name.clone(),
            actor: "main".to_owned(),
            kind: self.kind().to_owned(),
            instances: 1,
            second: self.second,
            totals: self.totals,
            queue_length: 0,
            histograms,
            counts: vec![("frames".to_owned(), self.totals.generated)],
            requests: None,
        };
        let host = HostSample {
            node: self.name.clone(),
            second: self.second,
            cpu_percent: Some(12.5),
            memory_bytes: Some(64 << 20),
            ..HostSample::default()
        };
        NodeReport {
            node: self.name.clone(),
            second: self.second,
            host: Some(host),
            groups: vec![snapshot],
            ..NodeReport::default()
        }
    }

    pub fn facts(&self) -> GroupFacts {
        let target = Target {
            streams: 1,
            gap_ns: Some(40_000_000),
            offered_per_second: None,
            in_flight: 1,
            requests: None,
            stochastic: false,
            dispersion: None,
        };
        GroupFacts {
            node: self.name.clone(),
            template: self.name.split('-').next().unwrap().to_owned(),
            actor: "main".to_owned(),
            kind: self.kind().to_owned(),
            role: if self.sends { Role::Sender } else { Role::Receiver },
            instances: 1,
            target: self.sends.then_some(target),
            tally: Some(self.totals),
            counts: Vec::new(),
        }
    }

    fn kind(&self) -> &'static str {
        if self.sends { "camera" } else { "receiver" }
    }
}

pub fn meta() -> BundleMeta {
    BundleMeta {
        experiment: "pl5g".to_owned(),
        resolved: "[experiment]\nname = \"pl5g\"\n".to_owned(),
        seed: 7,
        ..BundleMeta::default()
    }
}

/// A run that began one second after its creation and went on for `seconds`.
pub fn facts(seconds: u64, nodes: &[&Node]) -> RunFacts {
    RunFacts {
        started: Time::from_nanos(1_000_000_000),
        stopped: Time::from_nanos(1_000_000_000) + Span::from_secs(seconds),
        ended: Time::from_nanos(1_000_000_000) + Span::from_secs(seconds),
        groups: nodes.iter().map(|node| node.facts()).collect(),
        ..RunFacts::default()
    }
}

pub fn store(writer: &mut BundleWriter, report: NodeReport) {
    try_store(writer, report).unwrap();
}

pub fn try_store(writer: &mut BundleWriter, report: NodeReport) -> Result<(), SinkError> {
    writer.store(&Body::new(report))
}

/// Two cameras and a receiver at 25/s for `seconds`; gives the bundle's folder.
pub fn usual_run(scratch: &Scratch, name: &str, seconds: u64, meta: BundleMeta) -> rehearsal_export::Finished {
    let mut writer = BundleWriter::create(&scratch.join(name), meta).unwrap();
    let mut nodes = [Node::camera("camera-1"), Node::camera("camera-2"), Node::receiver("receiver")];
    for second in 0..seconds {
        for (at, node) in nodes.iter_mut().enumerate() {
            let count = if node.sends { 25 } else { 50 };
            store(&mut writer, node.second(count, 20_000_000 + 1_000_000 * at as u64 + second * 100_000));
        }
    }
    let [a, b, c] = &nodes;
    writer.finish(facts(seconds, &[a, b, c])).unwrap()
}

/// The rows of a table, each as its named fields.
pub fn rows(path: &Path) -> Vec<Vec<(String, Field)>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().into_columns()).collect()
}

/// One field of a row.
pub fn field<'a>(row: &'a [(String, Field)], name: &str) -> &'a Field {
    &row.iter().find(|(column, _)| column == name).unwrap_or_else(|| panic!("no column {name}")).1
}

/// A text field of a row.
pub fn text<'a>(row: &'a [(String, Field)], name: &str) -> &'a str {
    match field(row, name) {
        Field::Str(text) => text,
        other => panic!("{name} is {other:?}"),
    }
}

/// A whole number of a row, or `None` if it is null.
pub fn whole(row: &[(String, Field)], name: &str) -> Option<i64> {
    match field(row, name) {
        Field::Null => None,
        Field::Int(value) => Some((*value).into()),
        Field::Long(value) => Some(*value),
        other => panic!("{name} is {other:?}"),
    }
}
