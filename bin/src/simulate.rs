//! `rehearsal simulate`: every repetition in virtual time, as many at once as there are cores.

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Result, anyhow};
use rehearsal_core::plan::Stop;
use rehearsal_export::{BundleWriter, Engine, Finished, index};
use rehearsal_scenario::Experiment;
use rehearsal_sim::{SimOptions, Simulation};

use crate::cli::{Format, Part, Simulate};
use crate::clips::Use;
use crate::destination::Destination;
use crate::experiment::{assemble, load};
use crate::facts::{Roster, meta};
use crate::progress::ProgressSink;
use crate::report::{self, refuse};
use crate::signals::Signals;
use crate::unfinished::Unfinished;

/// Runs the verb.
///
/// # Errors
/// What stops it before or while it runs.
pub fn simulate(args: &Simulate) -> Result<ExitCode> {
    let experiment = load(&args.file, &args.overrides, &Part::default())?;
    experiment.ends_in_virtual_time()?;
    report::notes(&experiment.notes, args.output.quiet);
    let repetitions = experiment.repetitions;
    let destination = Destination::new(args.output.out.as_deref(), &experiment.name, "simulate", repetitions);
    let unfinished = Unfinished::default();
    Signals::ending(unfinished.clone())?;
    if repetitions > 1 {
        index::create(destination.base()).map_err(refuse)?;
        unfinished.inside(destination.base());
        // the clips are prepared once, with progress; the repetitions then find them in the cache
        assemble(&experiment, experiment.plan(0), Use::Simulation, args.output.quiet)?;
    }
    let run = Run { args, experiment: &experiment, destination: &destination, unfinished };
    let finished = run.all(repetitions)?;
    if args.digest && args.output.format == Format::Text {
        report::digests(&finished)?;
    }
    report::finish(&args.output, &experiment, &destination, &finished)
}

/// What all repetitions share.
struct Run<'a> {
    args: &'a Simulate,
    experiment: &'a Experiment,
    destination: &'a Destination,
    unfinished: Unfinished,
}

impl Run<'_> {
    /// Every repetition, in order.
    fn all(&self, repetitions: u32) -> Result<Vec<Finished>> {
        if repetitions == 1 {
            return Ok(vec![self.one(0, self.args.output.quiet)?]);
        }
        let cores = thread::available_parallelism().map_or(1, NonZero::get).min(repetitions as usize);
        let (next, done) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let repetition = next.fetch_add(1, Ordering::Relaxed);
                            if repetition >= repetitions {
                                return Ok::<(), anyhow::Error>(());
                            }
                            let finished = self.one(repetition, true)?;
                            done.lock().map_err(|_| anyhow!("another repetition failed"))?.push((repetition, finished));
                        }
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|w| w.join().map_err(|_| anyhow!("a repetition panicked"))?)
        })?;
        let mut done = done.into_inner().map_err(|_| anyhow!("a repetition failed"))?;
        done.sort_by_key(|(repetition, _)| *repetition);
        Ok(done.into_iter().map(|(_, finished)| finished).collect())
    }

    fn one(&self, repetition: u32, quiet: bool) -> Result<Finished> {
        let Run { args, experiment, destination, unfinished } = self;
        let plan = experiment.plan(repetition);
        let seconds = match plan.info.stop {
            Stop::AllRequestsDone => None,
            Stop::After(span) => Some(span.as_secs_f64().ceil() as u64),
        };
        let meta = meta(experiment, &plan, Engine::Simulate, args.output.csv);
        let (assembly, media_notes) = assemble(experiment, plan, Use::Simulation, quiet)?;
        let roster = Roster::of(&assembly);
        let (partial, writer) = unfinished.begin(|| {
            let writer = BundleWriter::create(&destination.bundle(repetition), meta).map_err(refuse)?;
            Ok::<_, anyhow::Error>((writer.partial().to_owned(), writer))
        })?;
        let mut sink = ProgressSink::new(writer, seconds, quiet);
        let options = SimOptions { wire: args.wire, ..SimOptions::default() };
        let end = Simulation::new(assembly, options).run(&mut sink, &mut |_| {});
        let mut facts = roster.facts(end, Engine::Simulate, args.output.strict);
        facts.notes.extend(media_notes);
        Ok(unfinished.finish(&partial, || sink.into_inner().finish(facts))?)
    }
}
