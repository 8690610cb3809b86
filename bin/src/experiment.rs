//! From the command line to an experiment, and from an experiment to a run that is ready to be driven.

use std::io::{IsTerminal, Write, stderr};
use std::path::Path;

use anyhow::Result;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::plan::Plan;
use rehearsal_scenario::{Experiment, LoadOptions, load as load_file};

use crate::cli::{Overrides, Part};
use crate::clips::{Clips, Use};
use crate::recordings;
use crate::registry::registry;

/// Loads `file` with what the command line changes in it.
///
/// # Errors
/// Everything that is wrong with the file or with a change, each with its place.
pub fn load(file: &Path, overrides: &Overrides, part: &Part) -> Result<Experiment> {
    load_with(file, overrides, part, true)
}

/// The same; `files` if those of certificates, keys and passwords are read on this host.
///
/// # Errors
/// As of [`load`].
pub fn load_with(file: &Path, overrides: &Overrides, part: &Part, files: bool) -> Result<Experiment> {
    let mut sets = overrides.set.clone();
    let mut set = |path: &str, value: Option<String>| sets.extend(value.map(|v| format!("experiment.{path}={v}")));
    set("seed", overrides.seed.map(|s| s.to_string()));
    set("repetitions", overrides.repetitions.map(|r| r.to_string()));
    set("duration", overrides.duration.clone());
    let options = LoadOptions {
        base: overrides.base.clone(),
        sets,
        scale: overrides.scale,
        only: part.only.clone(),
        without: part.without.clone(),
        files,
    };
    let mut experiment = load_file(file, &registry(), &options)?;
    experiment.offer_templates(recordings::offered)?;
    Ok(experiment)
}

/// Builds `plan`; clips that are prepared on the way are told on stderr unless `quiet`. Also gives what the media
/// library noted.
///
/// # Errors
/// What a group cannot be built from, with its place in the file.
pub fn assemble(experiment: &Experiment, plan: Plan, purpose: Use, quiet: bool) -> Result<(Assembly, Vec<String>)> {
    let mut told = false;
    let mut tell = |path: &Path, done: u32, total: u32| {
        // a clip that comes out of the cache is done at its first word
        if quiet || (!told && done == total) {
            return;
        }
        told = true;
        preparing(path, done, total);
    };
    let mut clips = Clips::new(purpose, &mut tell);
    let assembly = Assembly::build(plan, &mut clips).map_err(|why| experiment.explain_build(&why))?;
    Ok((assembly, clips.into_notes()))
}

fn preparing(path: &Path, done: u32, total: u32) {
    let text = format!("preparing {}: {done} of {total} frames (once; kept for later runs)", path.display());
    let mut out = stderr().lock();
    let last = done == total;
    // progress is a courtesy: a closed stderr must not end the run
    let _ = if out.is_terminal() {
        write!(out, "\r\x1b[2K{text}{}", if last { "\n" } else { "" })
    } else if last {
        writeln!(out, "{text}")
    } else {
        Ok(())
    };
    let _ = out.flush();
}
