//! `rehearsal simulate`: every repetition in virtual time, as many at once as there are cores.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Result, anyhow};
use rehearsal_core::Span;
use rehearsal_core::calibration::Calibration;
use rehearsal_core::messages::StopReason;
use rehearsal_export::{BundleMeta, BundleWriter, Engine, Finished, RunFacts, index};
use rehearsal_scenario::Experiment;
use rehearsal_sim::{SimOptions, Simulation};

use crate::calibration;
use crate::cli::{Format, Part, Simulate};
use crate::clips::Use;
use crate::destination::Destination;
use crate::experiment::{assemble, load};
use crate::facts::{Roster, meta, outside_notes};
use crate::live::{Alarm, LiveSink, Watch};
use crate::report::{self, Ending, refuse};
use crate::signals::Signals;
use crate::tags;
use crate::unfinished::Unfinished;
use crate::witness;

/// Runs the verb.
///
/// # Errors
/// What stops it before or while it runs.
pub fn simulate(args: &Simulate) -> Result<ExitCode> {
    let experiment = load(&args.file, &args.overrides, &Part::default())?;
    let calibration = calibration::of(&experiment, args.calibration.as_deref())?;
    if calibration.is_none() {
        // what costs core time takes time
        experiment.ends_in_virtual_time()?;
    }
    report::notes(&experiment.notes, args.output.quiet);
    witness::check(&args.time, &experiment)?;
    let until = witness::span("until", args.time.until.as_deref())?;
    let tags = tags::of_run(&args.output.called.tags)?;
    let ending = Ending::begin(&args.output, &experiment, Engine::Simulate)?;
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
    let run = Run { args, until, calibration, experiment: &experiment, tags, destination: &destination, unfinished };
    let finished = run.all(repetitions)?;
    if args.digest && args.output.format == Format::Text {
        report::digests(&finished)?;
    }
    ending.finish(&destination, &finished)
}

/// What all repetitions share.
struct Run<'a> {
    args: &'a Simulate,
    until: Option<Span>,
    calibration: Option<Arc<Calibration>>,
    experiment: &'a Experiment,
    tags: BTreeMap<String, String>,
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
        let Run { args, calibration, experiment, destination, unfinished, .. } = self;
        let plan = experiment.plan(repetition);
        let tags = self.tags.clone();
        let meta = BundleMeta { tags, ..meta(experiment, &plan, Engine::Simulate, args.output.csv) };
        let watch = Watch::of(&args.output, &meta, &plan);
        let watch = if quiet { watch.unseen() } else { watch };
        let (assembly, media_notes) = assemble(experiment, plan, Use::Simulation, quiet)?;
        let roster = Roster::of(&assembly).calibrated(calibration.as_deref());
        let (partial, writer) = unfinished.begin(|| {
            let writer = BundleWriter::create(&destination.bundle(repetition), meta).map_err(refuse)?;
            Ok::<_, anyhow::Error>((writer.partial().to_owned(), writer))
        })?;
        let witness = witness::of(&args.time, &assembly)?;
        let alarm = Alarm::default();
        let mut sink = LiveSink::new(writer, watch, alarm.clone(), None);
        let options = SimOptions {
            wire: args.wire,
            until: self.until,
            calibration: calibration.clone(),
            ..SimOptions::default()
        };
        let mut simulation = Simulation::new(assembly, options);
        if let Some(witness) = witness {
            simulation = simulation.witnessed(witness);
        }
        let end = simulation.run(&mut sink, &mut |_| {});
        let aborted = alarm.heard().filter(|_| end.reason == StopReason::Threshold);
        let mut facts = RunFacts { aborted, ..roster.facts(end, Engine::Simulate, args.output.strict) };
        facts.notes.extend(media_notes);
        facts.notes.extend(outside_notes(experiment));
        Ok(unfinished.finish(&partial, || sink.into_inner().finish(facts))?)
    }
}
