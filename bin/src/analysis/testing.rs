//! What the tests of this folder share: bundles whose CPU load and rate are chosen second by second.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hdrhistogram::serialization::{Serializer, V2Serializer};
use rehearsal_core::kind::Role;
use rehearsal_core::message::Body;
use rehearsal_core::messages::{GroupSnapshot, HistogramPart, HostSample, Metric, NodeReport};
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::sink::Sink;
use rehearsal_core::time::{Span, Time};
use rehearsal_export::{BundleMeta, BundleWriter, Fault, GroupFacts, RunFacts, Status};
use serde_bytes::ByteBuf;

/// A folder below the system's temporary one, removed when it goes out of scope.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("rehearsal-analysis-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One second of the receiver: what it served, its CPU load in % and its memory in MB.
pub type Second = (u64, Option<f64>, u64);

/// What is written.
pub struct Recipe<'a> {
    pub experiment: &'a str,
    pub settings: &'a str,
    pub repetition: u32,
    pub seconds: &'a [Second],
    /// Makes the verdict INVALID.
    pub fault: bool,
}

/// Writes one bundle of a receiver; gives its folder.
pub fn write(folder: &Path, recipe: &Recipe<'_>) -> PathBuf {
    let meta = BundleMeta {
        experiment: recipe.experiment.to_owned(),
        resolved: recipe.settings.to_owned(),
        repetition: recipe.repetition,
        engine: rehearsal_export::Engine::Emulate,
        created_unix_ns: Some(u64::from(recipe.repetition)),
        ..BundleMeta::default()
    };
    let mut writer = BundleWriter::create(folder, meta).expect("a new folder");
    let mut totals = Tally::default();
    for (second, (served, cpu_percent, memory)) in (0..).zip(recipe.seconds) {
        totals = Tally { received: totals.received + served, served: totals.served + served, ..totals };
        let report = NodeReport {
            node: "receiver".to_owned(),
            second,
            host: Some(HostSample {
                node: "receiver".to_owned(),
                second,
                cpu_percent: *cpu_percent,
                memory_bytes: Some(memory * 1_000_000),
                ..HostSample::default()
            }),
            groups: vec![snapshot(second, totals, *served)],
            ..NodeReport::default()
        };
        writer.store(&Body::new(report)).expect("room on the disk");
    }
    let end = Time::from_nanos(0) + Span::from_secs(recipe.seconds.len() as u64);
    let fault = Fault { node: "receiver".to_owned(), actor: "main".to_owned(), text: "it broke".to_owned() };
    let facts = RunFacts {
        stopped: end,
        ended: end,
        groups: vec![facts(totals)],
        faults: if recipe.fault { vec![fault] } else { Vec::new() },
        ..RunFacts::default()
    };
    let finished = writer.finish(facts).expect("room on the disk");
    assert_eq!(finished.verdict.status == Status::Invalid, recipe.fault, "{}", finished.text());
    finished.path
}

/// Every request was handled in 20 ms.
fn snapshot(second: u32, totals: Tally, served: u64) -> GroupSnapshot {
    let (mut handling, mut bytes) = (histogram(), Vec::new());
    handling.saturating_record_n(20_000_000, served);
    V2Serializer::new().serialize(&handling, &mut bytes).expect("memory is the only limit");
    GroupSnapshot {
        node: "receiver".to_owned(),
        actor: "main".to_owned(),
        kind: "receiver".to_owned(),
        instances: 1,
        second,
        totals,
        queue_length: 0,
        histograms: vec![HistogramPart { metric: Metric::Handling, v2: ByteBuf::from(bytes) }],
        counts: Vec::new(),
        requests: None,
    }
}

fn facts(totals: Tally) -> GroupFacts {
    GroupFacts {
        node: "receiver".to_owned(),
        template: "receiver".to_owned(),
        actor: "main".to_owned(),
        kind: "receiver".to_owned(),
        role: Role::Receiver,
        instances: 1,
        target: None,
        tally: Some(totals),
        counts: Vec::new(),
    }
}

/// 60 seconds whose CPU load is `percent` of the rate, more or less, in a slow wave.
pub fn wave(percent: f64) -> Vec<Second> {
    let at = |i: u64| {
        let served = 100 + (i * 7) % 40 + 20 * u64::from(i % 20 > 9);
        let odd = (i * 13 % 17) as f64 - 8.0;
        (served, Some(served as f64 * percent + odd * 0.3), 64 + i % 2)
    };
    (0..60).map(at).collect()
}
