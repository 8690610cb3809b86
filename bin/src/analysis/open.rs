//! From paths to repetitions: finds bundles, and puts together only what is the same experiment on the same engine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rehearsal_export::{Bundle, Engine, Status};

use crate::exit::UsageError;
use crate::report::chain;
use crate::tags::{self, Tag};

/// Folders below a path in which bundles are looked for: `results/RUN/rep-01` is two below `results`.
const DEPTH: usize = 2;
/// Bundles that one call reads. Assumed: a hundred times a campaign of nine experiments with ten repetitions.
const BUNDLES_MAX: usize = 10_000;
/// Values of one difference that are told.
const DIFFERENT_TOLD: usize = 4;

/// Repetitions of one experiment on one engine.
pub struct Group {
    /// The experiment's name.
    pub experiment: String,
    /// Which engine ran.
    pub engine: Engine,
    /// Those that statistics are made of, in the order of the repetitions.
    pub repetitions: Vec<Bundle>,
    /// INVALID ones, which are left out of the statistics; empty when there are no others, and then they are in.
    pub left_out: Vec<Bundle>,
    /// What a reader should know of how they were put together.
    pub notes: Vec<String>,
    /// What does not hold what the run wrote, one line for each result.
    pub changed: Vec<String>,
}

/// Every bundle at or below `path`, in the order of names.
///
/// # Errors
/// When a folder cannot be listed, or there are too many.
pub fn find(path: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    descend(path, DEPTH, &mut found)?;
    Ok(found)
}

fn descend(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if path.join("manifest.json").is_file() {
        found.push(path.to_owned());
        if found.len() > BUNDLES_MAX {
            return Err(UsageError(format!("there are more than {BUNDLES_MAX} results; name fewer")).into());
        }
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let unreadable = |why: std::io::Error| UsageError(format!("{} cannot be listed: {why}", path.display()));
    let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(unreadable)?.collect();
    let mut folders: Vec<PathBuf> = entries.map_err(unreadable)?.into_iter().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.is_dir() && folder.extension().is_none_or(|end| end != "partial"));
    folders.sort();
    folders.iter().try_for_each(|folder| descend(folder, depth - 1, found))
}

/// Opens what lies at and below the paths and has all of the tags.
///
/// # Errors
/// When a path holds no bundle, or one cannot be read.
pub fn groups(paths: &[PathBuf], tagged: &[Tag]) -> Result<Vec<Group>> {
    let mut bundles = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        let found = find(path)?;
        if found.is_empty() {
            let text = "holds no results; name a result folder, or one that holds repetitions";
            return Err(UsageError(format!("{} {text}", path.display())).into());
        }
        for folder in found {
            if seen.insert(fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone())) {
                bundles.push(Bundle::open(&folder).map_err(|why| UsageError(chain(&why)))?);
            }
        }
    }
    let all = bundles.len();
    bundles.retain(|bundle| tags::has(bundle, tagged));
    if bundles.is_empty() {
        let wanted: Vec<String> = tagged.iter().map(|tag| format!("{}={}", tag.key, tag.value)).collect();
        return Err(UsageError(format!("none of {all} results is tagged {}", wanted.join(" "))).into());
    }
    Ok(gather(bundles))
}

/// What makes repetitions one measurement: name, engine, place of the nodes, resolved file and format of the results.
/// The file holds seed and rates, the format the units.
type Kind = (String, &'static str, String, String, u32);

fn kind(b: &Bundle) -> Kind {
    let m = &b.manifest;
    (m.experiment.clone(), engine_word(m.engine), m.placement.clone(), m.experiment_sha256.clone(), m.schema_version)
}

/// Anything of another kind is another measurement: it is reported apart, and never merged.
fn gather(bundles: Vec<Bundle>) -> Vec<Group> {
    let mut sorted = bundles;
    sorted.sort_by_cached_key(|b| (kind(b), b.manifest.repetition, b.path.clone()));
    let chunks: Vec<&[Bundle]> = sorted.chunk_by(|a, b| kind(a) == kind(b)).collect();
    let mut groups: Vec<Group> = chunks.iter().map(|bundles| group(bundles)).collect();
    for (group, own) in groups.iter_mut().zip(&chunks) {
        group.notes.extend(apart(&own[0], chunks.iter().map(|bundles| &bundles[0])));
    }
    groups
}

/// Why results of the same name and engine are not merged with these.
fn apart<'a>(own: &Bundle, all: impl Iterator<Item = &'a Bundle>) -> Option<String> {
    let same =
        |b: &&Bundle| b.manifest.experiment == own.manifest.experiment && b.manifest.engine == own.manifest.engine;
    let others: Vec<&Bundle> = all.filter(same).filter(|b| kind(b) != kind(own)).collect();
    if others.is_empty() {
        return None;
    }
    let mut differ = Vec::new();
    let mut unless_equal = |what: &str, of: &dyn Fn(&Bundle) -> String| {
        let values: BTreeSet<String> = others.iter().map(|b| of(b)).chain([of(own)]).collect();
        if values.len() > 1 {
            let known: Vec<String> = values.into_iter().take(DIFFERENT_TOLD).collect();
            differ.push(format!("{what} ({})", known.join(", ")));
        }
    };
    unless_equal("seed", &|b| b.manifest.seed.to_string());
    unless_equal("placement", &|b| b.manifest.placement.clone());
    unless_equal("version of the format", &|b| b.manifest.schema_version.to_string());
    Some(match differ.is_empty() {
        true => "results of the same name have other settings; they are reported apart".to_owned(),
        false => format!("results of the same name differ in {}; they are reported apart", differ.join(" and ")),
    })
}

fn group(bundles: &[Bundle]) -> Group {
    let first = &bundles[0];
    let mut notes = Vec::new();
    let (mut once, mut altered): (Vec<Bundle>, Vec<String>) = (Vec::new(), Vec::new());
    for bundle in bundles {
        // what is counted twice only narrows the intervals
        let path = bundle.path.display();
        if once.iter().any(|b| repeats(b, bundle)) {
            notes.push(format!("{path} repeats another dry run to the last event and is left out"));
        } else if let Some(first) = once.iter().find(|b| is_copy(b, bundle)) {
            notes.push(format!("{path} holds the same run as {} and is left out", first.path.display()));
        } else {
            once.push(bundle.clone());
        }
        if let Ok(changed) = bundle.changed()
            && !changed.is_empty()
        {
            altered.push(format!("{}: changed since the run: {}", bundle.path.display(), changed.join(", ")));
        }
    }
    for (what, of) in [("versions of the program", tool as fn(&Bundle) -> String), ("machines", machine)] {
        let known: BTreeSet<String> = once.iter().map(of).collect();
        if known.len() > 1 {
            let told: Vec<String> = known.into_iter().take(DIFFERENT_TOLD).collect();
            notes.push(format!("these repetitions come from different {what}: {}", told.join("; ")));
        }
    }
    let (left_out, kept): (Vec<_>, Vec<_>) =
        once.into_iter().partition(|b| b.verdict.verdict.status == Status::Invalid);
    let (repetitions, left_out) = if kept.is_empty() { (left_out, kept) } else { (kept, left_out) };
    if !left_out.is_empty() {
        notes.push(format!(
            "{} of {} repetitions are INVALID and left out of the statistics",
            left_out.len(),
            left_out.len() + repetitions.len()
        ));
    }
    Group {
        experiment: first.manifest.experiment.clone(),
        engine: first.manifest.engine,
        repetitions,
        left_out,
        notes,
        changed: altered,
    }
}

/// A dry run repeats itself to the last bit.
fn repeats(one: &Bundle, other: &Bundle) -> bool {
    one.summary.fingerprint.is_some() && one.summary.fingerprint == other.summary.fingerprint
}

/// A real run does not: where the series are the same to the last byte and began at the same time, it is one run.
fn is_copy(one: &Bundle, other: &Bundle) -> bool {
    let told = |b: &Bundle| (b.manifest.created_unix_ns, b.manifest.files.get("series.parquet").cloned());
    one.manifest.created_unix_ns.is_some() && told(one) == told(other)
}

fn tool(bundle: &Bundle) -> String {
    bundle.manifest.tool_version.clone()
}

fn machine(bundle: &Bundle) -> String {
    bundle.manifest.machine.clone().unwrap_or_else(|| "none".to_owned())
}

/// As it is printed.
pub const fn engine_word(engine: Engine) -> &'static str {
    match engine {
        Engine::Simulate => "simulated",
        Engine::Emulate => "emulated",
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Recipe, Scratch, wave, write};
    use super::*;

    fn bundle(folder: &Path, settings: &str, repetition: u32, fault: bool) {
        let seconds = wave(0.5);
        write(folder, &Recipe { experiment: "e", settings, repetition, seconds: &seconds[..3], fault });
    }

    #[test]
    fn repetitions_are_put_together_and_other_settings_are_not() {
        let scratch = Scratch::new();
        for repetition in [1, 0] {
            bundle(&scratch.path().join(format!("run/rep-0{}", repetition + 1)), "a = 1", repetition, false);
        }
        bundle(&scratch.path().join("other"), "a = 2", 0, false);
        let found = groups(&[scratch.path().to_owned(), scratch.path().join("run")], &[]).unwrap();
        let mut sizes: Vec<usize> = found.iter().map(|g| g.repetitions.len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 2], "named twice, counted once");
        for group in &found {
            assert_eq!(group.notes, ["results of the same name have other settings; they are reported apart"]);
            assert!(group.repetitions.is_sorted_by_key(|b| b.manifest.repetition));
        }
    }

    #[test]
    fn invalid_repetitions_are_left_out_unless_there_are_no_others() {
        let scratch = Scratch::new();
        bundle(&scratch.path().join("rep-01"), "", 0, false);
        bundle(&scratch.path().join("rep-02"), "", 1, true);
        let all = groups(&[scratch.path().to_owned()], &[]).unwrap();
        assert_eq!((all[0].repetitions.len(), all[0].left_out.len()), (1, 1));
        assert_eq!(all[0].notes, ["1 of 2 repetitions are INVALID and left out of the statistics"]);
        let bad = groups(&[scratch.path().join("rep-02")], &[]).unwrap();
        assert_eq!((bad[0].repetitions.len(), bad[0].left_out.len()), (1, 0));
    }

    #[test]
    fn what_was_changed_is_told() {
        let scratch = Scratch::new();
        bundle(&scratch.path().join("run"), "", 0, false);
        fs::write(scratch.path().join("run/experiment.toml"), "seed = 2").unwrap();
        let changed = &groups(&[scratch.path().join("run")], &[]).unwrap()[0].changed;
        assert!(changed[0].ends_with("changed since the run: experiment.toml"), "{changed:?}");
    }

    #[test]
    fn a_copy_of_a_run_is_no_repetition() {
        let scratch = Scratch::new();
        bundle(&scratch.path().join("rep-01"), "", 0, false);
        bundle(&scratch.path().join("rep-02"), "", 1, false);
        let copy = scratch.path().join("saved");
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(scratch.path().join("rep-01")).unwrap() {
            let from = entry.unwrap().path();
            fs::copy(&from, copy.join(from.file_name().unwrap())).unwrap();
        }
        let found = groups(&[scratch.path().to_owned()], &[]).unwrap();
        assert_eq!((found.len(), found[0].repetitions.len()), (1, 2));
        let first = scratch.path().join("rep-01");
        let note = format!("{} holds the same run as {} and is left out", copy.display(), first.display());
        assert_eq!(found[0].notes, [note]);
    }

    #[test]
    fn a_folder_without_results_is_refused() {
        let scratch = Scratch::new();
        let error = groups(&[scratch.path().to_owned()], &[]).err().unwrap().to_string();
        assert!(error.ends_with("holds no results; name a result folder, or one that holds repetitions"), "{error}");
        assert!(groups(&[scratch.path().join("nowhere")], &[]).err().unwrap().to_string().contains("cannot be listed"));
    }
}
