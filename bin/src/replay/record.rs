//! What is written of a replay: one JSON object.

use std::collections::BTreeMap;

use rehearsal_replay::Editor;
use rehearsal_replay::judge::Judgement;
use rehearsal_replay::send::wire::Counters;
use rehearsal_replay::send::{Kind, Skipped};
use rehearsal_replay::timing::Schedule;
use rehearsal_replay::timing::wait::Ended;
use rehearsal_replay::worker::{Sent, Spread, Stall, WorkerSent};
use serde::Serialize;

use super::source::Source;
use super::verdict::{Verdict, verdict};

/// The version of this object: it grows when something is renamed or removed.
pub const VERSION: u32 = 1;

/// A replay.
#[derive(Debug, Serialize)]
pub struct Record {
    /// Version of this object.
    pub version: u32,
    /// Version of the program.
    pub program: &'static str,
    /// May it be trusted?
    pub verdict: Verdict,
    /// What was replayed.
    pub template: TemplateFacts,
    /// What was planned.
    pub plan: Schedule,
    /// The path that was got.
    pub path: PathFacts,
    /// What was sent.
    pub sent: SentFacts,
    /// Who sent it.
    pub workers: WorkerFacts,
    /// What the interface counted meanwhile; traffic of others too.
    pub wire: Option<Counters>,
    /// What arrived, if somebody listened.
    pub received: Option<Judgement>,
}

/// A template.
#[derive(Debug, Serialize)]
pub struct TemplateFacts {
    /// What it is called.
    pub name: String,
    /// Its packets.
    pub packets: u64,
    /// Its streams.
    pub streams: usize,
    /// Bytes of its frames.
    pub bytes: u64,
    /// From its first packet to its last, ns.
    pub duration_ns: u64,
    /// Whether edited copies of its packets were sent.
    pub edited: bool,
    /// What there is to know of that. The edit itself is not told: it may hold a key.
    pub edit_notes: Vec<String>,
}

/// A path.
#[derive(Debug, Serialize)]
pub struct PathFacts {
    /// Which.
    pub kind: Kind,
    /// Its interface.
    pub interface: Option<String>,
    /// The interface's MTU, bytes.
    pub mtu: Option<usize>,
    /// What it is in detail, and what was tried before.
    pub notes: Vec<String>,
}

/// What was sent.
#[derive(Debug, Serialize)]
pub struct SentFacts {
    /// Packets that the path took.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Packets that the path was not given, by reason.
    pub skipped: BTreeMap<Skipped, u64>,
    /// Packets that the path refused.
    pub refused: u64,
    /// Packets taken that had not left at the end.
    pub outstanding: u64,
    /// How often the path was full.
    pub full: u64,
    /// Why the path failed, or refused the first packet.
    pub why: Option<String>,
    /// Why it ended before its end.
    pub ended: Option<Ended>,
    /// From the first packet to the last, as the workers saw it, ns.
    pub elapsed_ns: u64,
    /// Packets per second of that.
    pub packets_per_second: Option<f64>,
    /// Bits of frames per second of that.
    pub bits_per_second: Option<f64>,
    /// How late packets were given to the path.
    pub lateness: Option<Lateness>,
    /// Times during which packets were more than 1 ms late.
    pub stalls: u64,
    /// The longest of them.
    pub longest_stalls: Vec<Stall>,
}

/// How late packets were given to the path, ns; to three digits.
#[derive(Debug, Serialize)]
pub struct Lateness {
    /// Mean.
    pub mean_ns: f64,
    /// Half were at most so late.
    pub p50_ns: u64,
    /// 99 % were at most so late.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

/// Who sent what.
#[derive(Debug, Serialize)]
pub struct WorkerFacts {
    /// How streams were spread.
    pub spread: Spread,
    /// Each of them.
    pub each: Vec<WorkerSent>,
}

impl Record {
    /// Of what was replayed, sent and received.
    pub fn of(source: &Source, editor: Option<&Editor>, sent: &Sent, received: Option<Judgement>) -> Self {
        Record {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION"),
            verdict: verdict(sent, received.as_ref()),
            template: TemplateFacts::of(source, editor),
            plan: sent.schedule,
            path: PathFacts {
                kind: sent.path,
                interface: sent.interface.as_ref().map(|interface| interface.name.clone()),
                mtu: sent.interface.as_ref().map(|interface| interface.mtu),
                notes: sent.notes.clone(),
            },
            sent: SentFacts::of(sent),
            workers: WorkerFacts { spread: sent.spread.clone(), each: sent.workers() },
            wire: sent.wire,
            received,
        }
    }
}

impl TemplateFacts {
    /// Of a template and the edit of its copies.
    pub fn of(source: &Source, editor: Option<&Editor>) -> Self {
        let template = &source.template;
        TemplateFacts {
            name: source.called.clone(),
            packets: template.len().into(),
            streams: template.streams().len(),
            bytes: template.bytes(),
            duration_ns: template.duration(),
            edited: editor.is_some(),
            edit_notes: editor.map(|editor| editor.notes().to_vec()).unwrap_or_default(),
        }
    }
}

impl SentFacts {
    fn of(sent: &Sent) -> Self {
        let elapsed_ns = sent.elapsed();
        let [packets, bytes] = [sent.sum(|tally| tally.submitted), sent.sum(|tally| tally.bytes)];
        let rate = |count: u64| (elapsed_ns > 0).then(|| count as f64 * 1e9 / elapsed_ns as f64);
        let late = sent.lateness();
        SentFacts {
            packets,
            bytes,
            skipped: sent.skipped(),
            refused: sent.sum(|tally| tally.refused),
            outstanding: sent.sum(|tally| tally.outstanding),
            full: sent.sum(|tally| tally.full),
            why: sent.tallies.iter().find_map(|tally| tally.why.clone()),
            ended: sent.ended,
            elapsed_ns,
            packets_per_second: rate(packets),
            bits_per_second: rate(bytes * 8),
            lateness: (!late.is_empty()).then(|| Lateness {
                mean_ns: late.mean(),
                p50_ns: late.value_at_quantile(0.5),
                p99_ns: late.value_at_quantile(0.99),
                max_ns: late.max(),
            }),
            stalls: sent.sum(|tally| tally.stalls),
            longest_stalls: sent.stalls(),
        }
    }
}
