//! `rehearsal emulate`: every repetition for real, one after the other.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use rehearsal_core::Body;
use rehearsal_core::messages::{NodeReport, StopReason};
use rehearsal_core::plan::Stop;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::units::UnitError;
use rehearsal_emu::{Control, EmuOptions, Network, preflight, run};
use rehearsal_export::{BundleWriter, Engine, Finished, index};
use rehearsal_scenario::Experiment;

use crate::cli::Emulate;
use crate::clips::Use;
use crate::destination::Destination;
use crate::exit::{Refused, UsageError};
use crate::experiment::{assemble, load};
use crate::facts::{Roster, meta};
use crate::processes::{self, Fleet, Nats};
use crate::progress::ProgressSink;
use crate::report::{self, refuse};
use crate::signals::Signals;
use crate::unfinished::Unfinished;
use crate::validate;

/// Runs the verb.
///
/// # Errors
/// What stops it before or while it runs.
pub fn emulate(args: &Emulate) -> Result<ExitCode> {
    let experiment = load(&args.file, &args.overrides, &args.part)?;
    found(&experiment)?;
    report::notes(&experiment.notes, args.output.quiet);
    let options = options(args)?;
    let server = processes::server(args)?;
    let repetitions = experiment.repetitions;
    let destination = Destination::new(args.output.out.as_deref(), &experiment.name, "emulate", repetitions);
    let unfinished = Unfinished::default();
    if repetitions > 1 {
        index::create(destination.base()).map_err(refuse)?;
        unfinished.inside(destination.base());
    }
    let current: Arc<Mutex<Control>> = Arc::default();
    let drain = current.clone();
    let signals = Signals::draining(unfinished.clone(), move || {
        drain.lock().unwrap_or_else(PoisonError::into_inner).stop(StopReason::Interrupted);
    })?;
    let run = Run { args, experiment: &experiment, destination: &destination, options, server, unfinished };
    let mut finished = Vec::new();
    for repetition in 0..repetitions {
        let control = Control::new();
        *current.lock().unwrap_or_else(PoisonError::into_inner) = control.clone();
        report::heading(&args.output, repetition, repetitions);
        finished.push(run.one(repetition, control)?);
        if signals.code().is_some() {
            break;
        }
    }
    let code = report::finish(&args.output, &experiment, &destination, &finished)?;
    // a process of receivers alone has no other end than a signal
    let sends = experiment.sends_here();
    Ok(signals.code().filter(|_| sends).map_or(code, ExitCode::from))
}

/// A receiver must have an address that senders in other processes can know.
fn found(experiment: &Experiment) -> Result<(), Refused> {
    let Some(name) = experiment.hidden_receivers().into_iter().next() else { return Ok(()) };
    Err(Refused(format!(
        "senders to `{name}` run elsewhere, and it has no fixed address; give `{name}` the key `listen`, such as \
         `listen = \"127.0.0.1:7001\"`"
    )))
}

fn options(args: &Emulate) -> Result<EmuOptions> {
    let usage = |flag: &str, why: &dyn std::fmt::Display| UsageError(format!("{flag}: {why}"));
    let mut options = EmuOptions { validate: Arc::new(validate::check), spin: args.spin, ..EmuOptions::default() };
    options.quantum = args.quantum.parse().map_err(|why| match why {
        UnitError::Bare { text, .. } => {
            usage("--quantum", &format!("`{text}` has no unit; write for instance `{text}us`"))
        }
        why => usage("--quantum", &why),
    })?;
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

/// What all repetitions share.
struct Run<'a> {
    args: &'a Emulate,
    experiment: &'a Experiment,
    destination: &'a Destination,
    options: EmuOptions,
    server: Nats,
    unfinished: Unfinished,
}

impl Run<'_> {
    fn one(&self, repetition: u32, control: Control) -> Result<Finished> {
        let Run { args, experiment, destination, options, server, unfinished } = self;
        let mut plan = experiment.plan(repetition);
        let seconds = match plan.info.stop {
            Stop::AllRequestsDone => None,
            Stop::After(span) => Some(span.as_secs_f64().ceil() as u64),
        };
        let meta = meta(experiment, &plan, Engine::Emulate, args.output.csv);
        let mut options = options.clone();
        let orders = server.url().map(|url| processes::share(args, experiment, &mut plan, &mut options, url));
        let (assembly, media_notes) = assemble(experiment, plan, Use::Emulation, args.output.quiet)?;
        preflight(&assembly, &options)?;
        let roster = Roster::of(&assembly).placed(args.placement);
        let (partial, writer) = unfinished.begin(|| {
            let writer = BundleWriter::create(&destination.bundle(repetition), meta).map_err(refuse)?;
            Ok::<_, anyhow::Error>((writer.partial().to_owned(), writer))
        })?;
        let inner = Recorded { inner: writer, partial: partial.clone(), unfinished: unfinished.clone(), any: false };
        let shared = Shared::new(ProgressSink::new(inner, seconds, args.output.quiet));
        let fleet = orders.map(|orders| Fleet::start(&assembly.plan, &orders, &control)).transpose()?;
        let end = run(assembly, options, Box::new(shared.clone()), control, Box::new(|_| {}))?;
        drop(fleet);
        let mut facts = roster.facts(end, Engine::Emulate, args.output.strict);
        facts.notes.extend(media_notes);
        let sink = shared.take().context("the bundle was taken away while the run went on")?;
        Ok(unfinished.finish(&partial, || sink.into_inner().inner.finish(facts))?)
    }
}

/// A sink that tells when the first report of a node is safe: from then on its folder is worth keeping.
struct Recorded<S> {
    inner: S,
    partial: PathBuf,
    unfinished: Unfinished,
    any: bool,
}

impl<S: Sink> Sink for Recorded<S> {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        self.inner.store(record)?;
        if !self.any && record.get::<NodeReport>().is_ok() {
            self.any = true;
            self.unfinished.keep(&self.partial);
        }
        Ok(())
    }
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
