//! The program under test: experiments written for it, runs of it, and what their bundles say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::lab::Lab;
use super::process::Running;

/// Exit codes of a run that is over: it passed, a threshold failed, the verdict is INVALID, it was interrupted.
const OVER: [i32; 4] = [0, 10, 20, 130];

/// What a run came to.
pub struct Outcome {
    /// `summary.json`.
    pub summary: Value,
    /// VALID, DEGRADED or INVALID.
    pub verdict: String,
    /// The codes of the reasons that lower the verdict.
    pub reasons: Vec<String>,
    /// The bundle's folder.
    pub bundle: PathBuf,
    /// CPU time of the process, seconds.
    pub cpu_seconds: f64,
    /// Most memory of the process, bytes.
    pub peak_bytes: f64,
    /// From start to end of the process, seconds.
    pub wall_seconds: f64,
}

impl Outcome {
    /// A number in `summary.json`, by its path; 0 where there is none.
    pub fn number(&self, path: &str) -> f64 {
        self.summary.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// The verdict and why, in a few words.
    pub fn judged(&self) -> String {
        if self.reasons.is_empty() {
            return self.verdict.clone();
        }
        format!("{} ({})", self.verdict, self.reasons.join(", "))
    }
}

/// Writes an experiment file into the bench's folder.
pub fn experiment(lab: &Lab, name: &str, text: &str) -> Result<PathBuf> {
    let path = lab.folder.join(name).with_extension("toml");
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A command of the program, with the bundle's folder emptied.
pub fn command(lab: &Lab, name: &str, verb: &str, file: &Path, core: Option<usize>) -> Result<Command> {
    let bundle = bundle(lab, name);
    for old in [bundle.clone(), bundle.with_extension("partial")] {
        if old.exists() {
            fs::remove_dir_all(&old)?;
        }
    }
    let mut command = lab.command(lab.rehearsal(), core);
    command.arg(verb).arg(file).arg("--quiet").arg("--out").arg(bundle);
    Ok(command)
}

/// Runs a command made by [`command`] to its end.
pub fn run(lab: &mut Lab, name: &str, command: &mut Command, within: Duration) -> Result<Outcome> {
    let running = lab.start(name, command)?;
    finish(lab, name, running, within)
}

/// Waits for the end of a run that was started by a command of [`command`].
pub fn finish(lab: &Lab, name: &str, running: Running, within: Duration) -> Result<Outcome> {
    let done = running.finish(within, &OVER)?;
    let bundle = bundle(lab, name);
    let read = |file: &str| -> Result<Value> {
        let path = bundle.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("{name}: {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    };
    let verdict = read("verdict.json")?;
    let lowers = |reason: &&Value| reason["severity"] != "note";
    let reasons = verdict["reasons"].as_array().into_iter().flatten().filter(lowers);
    Ok(Outcome {
        summary: read("summary.json")?,
        verdict: verdict["status"].as_str().unwrap_or("unknown").to_owned(),
        reasons: reasons.filter_map(|reason| reason["code"].as_str().map(str::to_owned)).collect(),
        bundle: bundle.clone(),
        cpu_seconds: done.cpu_seconds,
        peak_bytes: done.peak_bytes,
        wall_seconds: done.wall_seconds,
    })
}

fn bundle(lab: &Lab, name: &str) -> PathBuf {
    lab.folder.join("bundles").join(name)
}
