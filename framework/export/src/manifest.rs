//! `manifest.json`: where a bundle comes from, and the SHA-256 of everything else in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rehearsal_core::plan::{Impose, LatencyInterval};
use rehearsal_core::time::Span;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::ExportError;
use crate::meta::{BundleMeta, Clock, Engine, HostFacts, RunFacts, TargetAddresses};
use crate::summary::{HostClock, SCHEMA_VERSION};
use crate::verdict::{Bounds, Change, Rule};

/// The manifest's own name.
pub(crate) const FILE: &str = "manifest.json";

/// Where a bundle comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// SHA-256 of `experiment.toml`, in hexadecimal digits.
    pub experiment_sha256: String,
    /// The experiment's seed.
    pub seed: u64,
    /// The repetition, from 1, as in the name of its folder.
    pub repetition: u32,
    /// Which engine ran.
    pub engine: Engine,
    /// Version of the program.
    pub tool_version: String,
    /// Where the nodes ran.
    pub placement: String,
    /// Who makes each link of the experiment file what it says in emulation, by its name there: `none`, `userspace` or
    /// `kernel`.
    #[serde(default)]
    pub impose: BTreeMap<String, Impose>,
    /// Whether vCPU and memory limits were enforced; `None` when there were none.
    #[serde(default)]
    pub limits_enforced: Option<bool>,
    /// What the verdict was measured by, by the words of its reasons; bounds in the unit that each stands for.
    #[serde(default)]
    pub verdict_limits: BTreeMap<Rule, Bounds>,
    /// Limits that are not the usual ones, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdict_limits_changed: Vec<String>,
    /// The experiment's machines.
    pub hosts: Vec<HostFacts>,
    /// How far the hosts' clocks are known.
    pub clock: Clock,
    /// The hosts that agents spoke for, and their clocks; times of all of them are translated to the leader's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<HostClock>,
    /// When traffic began, ns since the run's creation; second 0 of the series, and time 0 of the events, begin here.
    /// In an emulation the Unix time is `created_unix_ns + started_ns`, to the time it takes to build the run.
    pub started_ns: u64,
    /// When traffic ended and the drain began, ns since the run's creation, like `started_ns`.
    pub stopped_ns: u64,
    /// Left out of the summary at the beginning, ns.
    pub warmup_ns: u64,
    /// Left out of the summary at the end, ns.
    pub cooldown_ns: u64,
    /// How long traffic was to run, ns; `None` for a count-driven run.
    pub planned_ns: Option<u64>,
    /// Seconds that share an interval of `latency.hlog`.
    #[serde(default)]
    pub latency_interval: LatencyInterval,
    /// When the run was created, ns since the Unix epoch: the origin of `started_ns` and `stopped_ns`. `None` in a
    /// simulated bundle, whose origin is virtual time 0.
    pub created_unix_ns: Option<u64>,
    /// The machine the program ran on; `None` in a simulated bundle.
    pub machine: Option<String>,
    /// Targets outside of the experiment, and where they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetAddresses>,
    /// Reasons not to start that somebody overrode with `--force`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<String>,
    /// What the user said of the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Every other file and its SHA-256, in hexadecimal digits.
    pub files: BTreeMap<String, String>,
}

impl Manifest {
    /// That of a folder whose other files are all written.
    pub(crate) fn of(meta: &BundleMeta, facts: &RunFacts, folder: &Path) -> Result<Self, ExportError> {
        let real = meta.engine == Engine::Emulate;
        Ok(Manifest {
            schema_version: SCHEMA_VERSION,
            experiment: meta.experiment.clone(),
            experiment_sha256: hex(&Sha256::digest(meta.resolved.as_bytes())),
            seed: meta.seed,
            repetition: meta.repetition_number(),
            engine: meta.engine,
            tool_version: meta.tool_version.clone(),
            placement: facts.placement.clone(),
            impose: facts.impose.clone(),
            limits_enforced: facts.limits_enforced,
            verdict_limits: meta.limits.all(),
            verdict_limits_changed: meta.limits.changes().iter().map(Change::text).collect(),
            hosts: meta.hosts.clone(),
            clock: facts.clock,
            clocks: facts.clocks.clone(),
            started_ns: facts.started.as_nanos(),
            stopped_ns: facts.stopped.as_nanos(),
            warmup_ns: meta.warmup.as_nanos(),
            cooldown_ns: meta.cooldown.as_nanos(),
            planned_ns: meta.planned.map(Span::as_nanos),
            latency_interval: meta.latency_interval,
            created_unix_ns: meta.created_unix_ns.filter(|_| real),
            machine: meta.machine.clone().filter(|_| real),
            targets: meta.targets.clone(),
            forced: meta.forced.clone(),
            tags: meta.tags.clone(),
            files: files(folder)?,
        })
    }
}

/// Folders in each other that are looked through.
const DEPTH_MAX: usize = 16;

/// Every file of a folder and of those in it, and its SHA-256.
pub(crate) fn files(folder: &Path) -> Result<BTreeMap<String, String>, ExportError> {
    let read_error = |path: &Path, source| ExportError::Read { path: path.to_owned(), source };
    let mut files = BTreeMap::new();
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((inside, before)) = open.pop() {
        for entry in fs::read_dir(&inside).map_err(|source| read_error(&inside, source))? {
            let path = entry.map_err(|source| read_error(&inside, source))?.path();
            let name = format!("{before}{}", path.file_name().unwrap_or_default().to_string_lossy());
            if path.is_dir() && name.split('/').count() < DEPTH_MAX {
                open.push((path, format!("{name}/")));
            } else if name != FILE && path.is_file() {
                let sum = sha256(&path).map_err(|source| read_error(&path, source))?;
                files.insert(name, sum);
            }
        }
    }
    Ok(files)
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}
