//! `rehearsal emulate`: every repetition for real, one after the other.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use rehearsal_core::Body;
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::Stop;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_emu::{Control, EmuOptions, Network, preflight, run};
use rehearsal_export::{BundleWriter, Engine, Finished, index};
use rehearsal_scenario::Experiment;

use crate::cli::Emulate;
use crate::clips::Use;
use crate::destination::Destination;
use crate::exit::UsageError;
use crate::experiment::{assemble, load};
use crate::facts::{Roster, meta};
use crate::progress::ProgressSink;
use crate::report::{self, refuse};
use crate::signals::Signals;
use crate::validate;

/// Runs the verb.
///
/// # Errors
/// What stops it before or while it runs.
pub fn emulate(args: &Emulate) -> Result<ExitCode> {
    let experiment = load(&args.file, &args.overrides)?;
    report::notes(&experiment.notes, args.output.quiet);
    let options = options(args)?;
    let repetitions = experiment.repetitions;
    let destination = Destination::new(args.output.out.as_deref(), &experiment.name, "emulate", repetitions);
    if repetitions > 1 {
        index::create(destination.base()).map_err(refuse)?;
    }
    let current: Arc<Mutex<Control>> = Arc::default();
    let drain = current.clone();
    let signals = Signals::listen(move || {
        drain.lock().unwrap_or_else(PoisonError::into_inner).stop(StopReason::Interrupted);
    })
    .context("cannot listen for Ctrl-C")?;
    let mut finished = Vec::new();
    for repetition in 0..repetitions {
        let control = Control::new();
        *current.lock().unwrap_or_else(PoisonError::into_inner) = control.clone();
        report::heading(&args.output, repetition, repetitions);
        finished.push(one(args, &experiment, &destination, repetition, &options, control)?);
        if signals.code().is_some() {
            break;
        }
    }
    let code = report::finish(&args.output, &experiment, &destination, &finished)?;
    // a process of receivers alone has no other end than a signal
    let served =
        !experiment.plan(0).nodes.iter().filter(|n| n.local).flat_map(|n| &n.groups).any(|g| g.sender.is_some());
    Ok(signals.code().filter(|_| !served).map_or(code, ExitCode::from))
}

fn options(args: &Emulate) -> Result<EmuOptions> {
    let usage = |flag: &str, why: &dyn std::fmt::Display| UsageError(format!("{flag}: {why}"));
    let mut options = EmuOptions { validate: Arc::new(validate::check), spin: args.spin, ..EmuOptions::default() };
    options.quantum = args.quantum.parse().map_err(|why| usage("--quantum", &why))?;
    if args.shards == Some(0) {
        return Err(usage("--shards", &"at least one is needed").into());
    }
    options.shards = args.shards;
    for text in &args.allow {
        let network: Network = text.parse().map_err(|why| usage("--allow", &why))?;
        options.allow.push(network);
    }
    Ok(options)
}

fn one(
    args: &Emulate,
    experiment: &Experiment,
    destination: &Destination,
    repetition: u32,
    options: &EmuOptions,
    control: Control,
) -> Result<Finished> {
    let plan = experiment.plan(repetition);
    let seconds = match plan.info.stop {
        Stop::AllRequestsDone => None,
        Stop::After(span) => Some(span.as_secs_f64().ceil() as u64),
    };
    let meta = meta(experiment, &plan, Engine::Emulate, args.output.csv);
    let (assembly, media_notes) = assemble(experiment, plan, Use::Emulation, args.output.quiet)?;
    preflight(&assembly, options)?;
    let roster = Roster::of(&assembly);
    let writer = BundleWriter::create(&destination.bundle(repetition), meta).map_err(refuse)?;
    let shared = Shared::new(ProgressSink::new(writer, seconds, args.output.quiet));
    let end = run(assembly, options.clone(), Box::new(shared.clone()), control, Box::new(|_| {}))?;
    let mut facts = roster.facts(end, Engine::Emulate, args.output.strict);
    facts.notes.extend(media_notes);
    let sink = shared.take().context("the bundle was taken away while the run went on")?;
    Ok(sink.into_inner().finish(facts)?)
}

/// A sink that is given to the engine and got back at the end.
struct Shared<S>(Arc<Mutex<Option<S>>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<S> Shared<S> {
    fn new(sink: S) -> Self {
        Shared(Arc::new(Mutex::new(Some(sink))))
    }

    fn take(&self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: Sink> Sink for Shared<S> {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.as_mut().ok_or_else(|| SinkError("the run is over".to_owned()))?.store(record)
    }
}
