//! What a sweep has done so far: a line of JSON for each dry run, added as soon as it is over.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rehearsal_export::{Finished, Judgement};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The journal's file in the sweep's folder.
const FILE: &str = "points.jsonl";

/// What one dry run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it was: program, experiment with every default, media, calibration, repetition.
    pub key: String,
    /// `VALID`, `DEGRADED` or `INVALID`.
    pub status: String,
    /// Codes of the verdict's reasons, each once.
    pub reasons: Vec<String>,
    /// Thresholds of the experiment that hold, and all of them.
    pub thresholds: (u64, u64),
    /// Seconds of traffic.
    pub seconds: f64,
    /// Counters of the measured seconds, by name.
    pub counts: BTreeMap<String, u64>,
    /// Rates per second, by name.
    pub rates: BTreeMap<String, f64>,
    /// Times in ms, by `metric_statistic`.
    pub times: BTreeMap<String, f64>,
    /// Events that actors handled.
    pub events: u64,
    /// Fingerprint of the event trace.
    pub fingerprint: String,
    /// Digest of the schedule.
    pub schedule: String,
}

/// Statistics of a time that are kept.
pub const STATISTICS: [&str; 6] = ["mean", "p50", "p90", "p99", "p999", "max"];
/// Times that are kept.
pub const TIMES: [&str; 4] = ["response", "service", "blocked", "handling"];

impl Entry {
    /// The figures of a run.
    pub fn of(key: String, finished: &Finished) -> Self {
        let total = &finished.summary.total;
        let tally = total.judged();
        let counts = [
            ("generated", tally.generated),
            ("success", tally.success),
            ("lost", tally.lost),
            ("failed", tally.failed),
            ("invalid", tally.invalid),
            ("rejected", tally.rejected),
            ("unacknowledged", tally.unacknowledged),
            ("deadline_missed", tally.deadline_missed),
            ("skipped", tally.skipped),
        ];
        let rates = [
            ("generated", total.per_second.generated),
            ("success", total.per_second.success),
            ("bytes_sent", total.per_second.bytes_sent),
        ];
        let mut times = BTreeMap::new();
        for metric in TIMES {
            let Some(percentiles) = total.metrics.get(metric) else { continue };
            for statistic in STATISTICS {
                let ms = percentiles.stat(statistic).map(|ns| ns / 1e6);
                times.extend(ms.map(|ms| (format!("{metric}_{statistic}"), ms)));
            }
        }
        let mut reasons: Vec<String> = Vec::new();
        for code in finished.verdict.reasons.iter().map(|reason| reason.code.word()) {
            if !reasons.iter().any(|known| known == code) {
                reasons.push(code.to_owned());
            }
        }
        let held = finished.thresholds.iter().filter(|t| t.result == Judgement::Pass).count() as u64;
        Entry {
            key,
            status: finished.verdict.status.word().to_owned(),
            reasons,
            thresholds: (held, finished.thresholds.len() as u64),
            seconds: finished.summary.duration_seconds,
            counts: counts.into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
            rates: rates.into_iter().map(|(name, r)| (name.to_owned(), r)).collect(),
            times,
            events: finished.summary.events,
            fingerprint: finished.summary.fingerprint.clone().unwrap_or_default(),
            schedule: finished.summary.schedule_digest.clone().unwrap_or_default(),
        }
    }
}

/// What a dry run is known by: SHA-256 over the program's version, the resolved experiment, what its media files hold, its
/// calibration and the repetition.
pub fn key(resolved: &str, media: &str, calibration: &str, repetition: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    hash.update([0]);
    for text in [resolved, media, calibration] {
        hash.update(text);
        hash.update([0]);
    }
    hash.update(repetition.to_le_bytes());
    hex(&hash.finalize()[..16])
}

/// One digest over all runs, in the order of the points: equal for equal results.
pub fn digest<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let mut hash = Sha256::new();
    for entry in entries {
        hash.update(&entry.key);
        hash.update(&entry.fingerprint);
        hash.update(&entry.schedule);
    }
    hex(&hash.finalize()[..8])
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The journal on disk.
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal in `folder`; also gives what it holds. A line that is not whole, because the program ended while
    /// it was written, is left aside: its run is done again.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn open(folder: &Path) -> Result<(Self, BTreeMap<String, Entry>)> {
        let path = folder.join(FILE);
        let unusable = || format!("{} cannot be used", path.display());
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).with_context(unusable)?;
        let mut known = BTreeMap::new();
        let mut whole = true;
        for line in BufReader::new(&file).split(b'\n') {
            let line = line.with_context(unusable)?;
            whole = line.is_empty();
            if let Ok(entry) = serde_json::from_slice::<Entry>(&line) {
                whole = true;
                known.insert(entry.key.clone(), entry);
            }
        }
        if !whole {
            // the next line must not begin behind half of another
            file.write_all(b"\n").with_context(unusable)?;
        }
        Ok((Journal { path, file }, known))
    }

    /// Adds a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, entry: &Entry) -> Result<()> {
        let line = serde_json::to_string(entry)? + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.flush());
        written.with_context(|| format!("{} cannot be written", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str) -> Entry {
        Entry {
            key: key.to_owned(),
            status: "VALID".to_owned(),
            reasons: Vec::new(),
            thresholds: (1, 1),
            seconds: 1.0,
            counts: BTreeMap::from([("success".to_owned(), 7)]),
            rates: BTreeMap::new(),
            times: BTreeMap::new(),
            events: 3,
            fingerprint: "f".to_owned(),
            schedule: "s".to_owned(),
        }
    }

    #[test]
    fn a_torn_line_costs_only_its_own_run() {
        let folder = std::env::temp_dir().join(format!("rehearsal-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (mut journal, known) = Journal::open(&folder).expect("opens");
        assert!(known.is_empty());
        journal.add(&entry("a")).expect("adds");
        journal.add(&entry("b")).expect("adds");
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::write(&path, &text[..text.len() - 10]).expect("torn");
        let (mut journal, known) = Journal::open(&folder).expect("opens");
        assert_eq!(known.keys().collect::<Vec<_>>(), ["a"]);
        journal.add(&entry("b")).expect("adds");
        let (_, known) = Journal::open(&folder).expect("opens");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(known.into_values().collect::<Vec<_>>(), [entry("a"), entry("b")]);
    }

    #[test]
    fn keys_and_digests_tell_runs_apart() {
        let one = key("x", "m", "c", 0);
        assert_eq!(one, key("x", "m", "c", 0));
        let others = [
            key("x", "m", "c", 1),
            key("y", "m", "c", 0),
            key("x", "", "c", 0),
            key("x", "m", "", 0),
            key("x", "", "mc", 0),
        ];
        assert!(others.iter().all(|other| *other != one));
        let [a, b] = [entry("a"), entry("b")];
        assert_ne!(digest([&a, &b].into_iter()), digest([&b, &a].into_iter()));
    }
}
