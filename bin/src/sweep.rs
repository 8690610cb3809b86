//! `rehearsal sweep`: many dry runs over parameters, on all cores, into one table; what is done is not done again.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stderr};
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use rehearsal_export::write_columns;
use rehearsal_scenario::Experiment;

use crate::calibration;
use crate::cli::{Overrides, Part, Sweep as Args};
use crate::clips::Use;
use crate::exit::UsageError;
use crate::experiment::{assemble, load};
use crate::report::print;
use crate::trial::Trials;

mod file;
mod journal;
mod knee;
mod media;
mod points;
mod table;

use file::Sweep;
use journal::{Entry, Journal, digest, key};
use media::Media;
use points::{Point, paths, points};
use table::{Row, columns};

/// Dry runs of a sweep, at most. Assumed: more than a table can be looked at.
const RUNS_MAX: usize = 1_000_000;
/// The table's file in the sweep's folder.
const TABLE: &str = "sweep.parquet";
/// Where it saturates.
const KNEES: &str = "knees.json";

/// Runs the verb.
///
/// # Errors
/// What is wrong with the sweep, with a point of it, or with the folder.
pub fn sweep(args: &Args) -> Result<ExitCode> {
    let sweep = Sweep::load(&args.file)?;
    let all = points(&sweep)?;
    let runner = Runner { args, paths: paths(&sweep), sweep: &sweep };
    let experiment = runner.check(&all)?;
    let repetitions = args.overrides.repetitions.or(sweep.repetitions).unwrap_or(experiment.repetitions);
    let runs = all.len().saturating_mul(repetitions as usize);
    if runs > RUNS_MAX {
        return Err(UsageError(format!("the sweep has {runs} runs, at most {RUNS_MAX} are possible")).into());
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("{} cannot be made", args.out.display()))?;
    // the clips are prepared once, with progress; the points then find them in the cache
    assemble(&experiment, experiment.plan(0), Use::Simulation, args.quiet)?;
    let (journal, known) = Journal::open(&args.out)?;
    let done = runner.all(&all, repetitions, journal, known)?;
    let rows: Vec<Row<'_>> =
        done.entries.iter().enumerate().map(|(at, entry)| row(at, entry, &all, repetitions)).collect();
    write_columns(&args.out.join(TABLE), &columns(&runner.paths, &rows))?;
    let knees = knee::lines(&runner.paths, &rows);
    let file = args.out.join(KNEES);
    std::fs::write(&file, serde_json::to_string_pretty(&knees)? + "\n")
        .with_context(|| format!("{} cannot be written", file.display()))?;
    print(&(told(&args.out, &done, all.len()) + &knee::told(&knees)))?;
    Ok(ExitCode::SUCCESS)
}

fn row<'a>(at: usize, entry: &'a Entry, all: &'a [Point], repetitions: u32) -> Row<'a> {
    let point = at / repetitions as usize;
    Row { point, values: &all[point], repetition: (at % repetitions as usize) as u32 + 1, entry }
}

/// The results in the order of points and repetitions.
struct Done {
    entries: Vec<Entry>,
    fresh: usize,
}

fn told(out: &Path, done: &Done, points: usize) -> String {
    let mut statuses: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &done.entries {
        *statuses.entry(&entry.status).or_default() += 1;
    }
    let statuses: Vec<String> = statuses.into_iter().map(|(status, count)| format!("{count} {status}")).collect();
    let held = done.entries.iter().filter(|entry| entry.thresholds.0 == entry.thresholds.1).count();
    format!(
        "{points} points, {} runs: {}; {held} hold all thresholds\nrun now: {}, known before: {}\ndigest {}\ntable: {}\n",
        done.entries.len(),
        statuses.join(", "),
        done.fresh,
        done.entries.len() - done.fresh,
        digest(done.entries.iter()),
        out.join(TABLE).display()
    )
}

struct Runner<'a> {
    args: &'a Args,
    sweep: &'a Sweep,
    paths: Vec<&'a str>,
}

impl Runner<'_> {
    /// The experiment at a point.
    fn at(&self, point: &[String]) -> Result<Experiment> {
        let base = &self.args.overrides;
        let fixed =
            self.sweep.set.iter().flat_map(|set| set.values.iter().map(move |value| format!("{}={value}", set.path)));
        let varied = self.paths.iter().zip(point).map(|(path, value)| format!("{path}={value}"));
        let overrides = Overrides {
            set: base.set.iter().cloned().chain(fixed).chain(varied).collect(),
            scale: base.scale,
            seed: base.seed,
            repetitions: base.repetitions,
            duration: base.duration.clone(),
            base: base.base.clone(),
        };
        load(&self.sweep.experiment, &overrides, &Part::default())
    }

    /// Every value of every parameter once, beside the first point's others; gives the first point's experiment.
    fn check(&self, all: &[Point]) -> Result<Experiment> {
        let first = all.first().ok_or_else(|| anyhow!("a sweep has a point"))?;
        let experiment = self.at(first).map_err(|why| self.blamed(&why))?;
        experiment.ends_in_virtual_time()?;
        for (at, axis) in self.sweep.grid.iter().enumerate() {
            for value in &axis.values {
                let mut point = first.clone();
                point[at].clone_from(value);
                self.at(&point).map_err(|why| self.blamed(&why))?;
            }
        }
        for range in self.sweep.random.iter().flat_map(|(_, _, ranges)| ranges) {
            let at = self.paths.iter().position(|path| *path == range.path).unwrap_or_default();
            for end in [range.from, range.to] {
                let mut point = first.clone();
                point[at] = format!("{end}{}", range.unit);
                self.at(&point).map_err(|why| self.blamed(&why))?;
            }
        }
        Ok(experiment)
    }

    /// Says where in the sweep file a parameter stands that the experiment does not take.
    fn blamed(&self, why: &anyhow::Error) -> anyhow::Error {
        let text = format!("{why:#}");
        let at = self.sweep.blamed(&text).map_or_else(|| self.args.file.display().to_string(), str::to_owned);
        UsageError(format!("{at}: the experiment does not take this\n{text}")).into()
    }

    /// Runs what is not known yet; gives all results in order.
    fn all(&self, all: &[Point], repetitions: u32, journal: Journal, known: BTreeMap<String, Entry>) -> Result<Done> {
        let runs = all.len() * repetitions as usize;
        let cores = self.args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
        let trials = Trials::within(&self.args.out)?;
        let work = Work {
            runner: self,
            all,
            repetitions,
            known,
            trials,
            media: Media::default(),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            book: Mutex::new(Book { journal, entries: vec![None; runs], fresh: 0, done: 0 }),
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores.clamp(1, runs)).map(|_| scope.spawn(|| work.run())).collect();
            workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a dry run panicked"))?)
        })?;
        let Book { entries, fresh, .. } = work.book.into_inner().map_err(|_| anyhow!("a dry run panicked"))?;
        let entries: Option<Vec<Entry>> = entries.into_iter().collect();
        Ok(Done { entries: entries.ok_or_else(|| anyhow!("a run is missing"))?, fresh })
    }
}

/// What all threads share.
struct Work<'a> {
    runner: &'a Runner<'a>,
    all: &'a [Point],
    repetitions: u32,
    known: BTreeMap<String, Entry>,
    trials: Trials,
    media: Media,
    next: AtomicUsize,
    stop: AtomicBool,
    book: Mutex<Book>,
}

struct Book {
    journal: Journal,
    entries: Vec<Option<Entry>>,
    fresh: usize,
    done: usize,
}

impl Work<'_> {
    /// Takes one run after the other until there are no more; an error ends all threads.
    fn run(&self) -> Result<()> {
        let runs = self.all.len() * self.repetitions as usize;
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= runs || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Err(why) = self.one(at, runs) {
                self.stop.store(true, Ordering::Relaxed);
                let point = &self.all[at / self.repetitions as usize];
                let values: Vec<String> =
                    self.runner.paths.iter().zip(point).map(|(p, v)| format!("{p}={v}")).collect();
                return Err(why.context(format!("point {}, {}", at / self.repetitions as usize, values.join(", "))));
            }
        }
    }

    fn one(&self, at: usize, runs: usize) -> Result<()> {
        let repetition = (at % self.repetitions as usize) as u32;
        let experiment = self.runner.at(&self.all[at / self.repetitions as usize])?;
        let calibration = calibration::of(&experiment, self.runner.args.calibration.as_deref())?;
        // a calibration is told apart by all of its figures
        let costs = calibration.as_ref().map(|calibration| format!("{calibration:?}")).unwrap_or_default();
        let key = key(&experiment.resolved_toml(), &self.media.of(&experiment)?, &costs, repetition);
        let known = self.known.get(&key).cloned();
        let fresh = known.is_none();
        let entry = match known {
            Some(entry) => entry,
            None => Entry::of(key, &self.trials.run(&experiment, repetition, calibration)?),
        };
        let mut book = self.book.lock().map_err(|_| anyhow!("another dry run failed"))?;
        if fresh {
            book.journal.add(&entry)?;
            book.fresh += 1;
        }
        book.entries[at] = Some(entry);
        book.done += 1;
        self.progress(book.done, runs);
        Ok(())
    }

    /// A line that is written over on a terminal; in a log, one for each tenth.
    fn progress(&self, done: usize, runs: usize) {
        if self.runner.args.quiet {
            return;
        }
        let mut out = stderr().lock();
        let last = done == runs;
        // progress is a courtesy: a closed stderr must not end the sweep
        let _ = if out.is_terminal() {
            write!(out, "\r\x1b[2K{done} of {runs} runs{}", if last { "\n" } else { "" })
        } else if last || done.is_multiple_of((runs / 10).max(1)) {
            writeln!(out, "{done} of {runs} runs")
        } else {
            Ok(())
        };
        let _ = out.flush();
    }
}
