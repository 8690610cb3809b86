//! `rehearsal emulate`: every repetition for real, one after the other.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::calibration::Calibration;
use rehearsal_core::messages::StopReason;
use rehearsal_core::units::UnitError;
use rehearsal_emu::{Control, EmuOptions, Network, Way, doubts, fragmented, preflight, run};
use rehearsal_export::{BundleMeta, Engine, Finished, RunFacts, index};
use rehearsal_host::network::NODE_MTU;
use rehearsal_scenario::Experiment;

use crate::agents::{self, Base, Claim};
use crate::aggregator::Telemetry;
use crate::books::{Books, Wanted};
use crate::calibration;
use crate::cli::{Emulate, Placement};
use crate::clips::Use;
use crate::control;
use crate::cores::{self, Given};
use crate::destination::Destination;
use crate::exit::{Refused, UsageError};
use crate::experiment::{assemble, load_with};
use crate::facts::{Roster, meta, unix_ns};
use crate::foreign;
use crate::links;
use crate::live::{Alarm, Watch};
use crate::metrics::{Address, Board, Server};
use crate::node::Orders;
use crate::permits;
use crate::processes::{self, Confinement, Fleet, Home, Nats, token};
use crate::recordings;
use crate::report::{self, Ending, refuse};
use crate::signals::Signals;
use crate::tags;
use crate::targets;
use crate::unfinished::Unfinished;
use crate::validate;

/// Runs the verb.
///
/// # Errors
/// What stops it before or while it runs.
pub fn emulate(args: &Emulate) -> Result<ExitCode> {
    let here = args.placement != Placement::Agents;
    recordings::fetch_from(&args.nats);
    run_one(args, load_with(&args.file, &args.overrides, &args.part, here)?)
}

/// Runs an experiment that was read, as `args` say, whatever file they name.
///
/// # Errors
/// What stops it before or while it runs.
pub fn run_one(args: &Emulate, mut experiment: Experiment) -> Result<ExitCode> {
    let apart = (args.placement != Placement::Embedded).then(|| experiment.set_aggregator_apart()).flatten();
    found(&experiment)?;
    targets::find(&mut experiment)?;
    foreign::check(&experiment, args.placement)?;
    if args.placement != Placement::Embedded {
        links::check_cells(&experiment.plan(0))?;
    }
    report::notes(&experiment.notes, args.output.quiet);
    let tags = tags::of_run(&args.output.called.tags)?;
    let calibration = calibration::of(&experiment, args.calibration.as_deref())?;
    let ending = Ending::begin(&args.output, &experiment, Engine::Emulate)?;
    let (metrics, board) = serve(args, apart.is_some())?;
    let mut options = options(args)?;
    let confinement = Confinement::find(args, &experiment.plan(0))?;
    confinement.permit(&mut options);
    let server = processes::server(args, links::use_server(&experiment), confinement.server_address())?;
    let traffic = links::server(args, &experiment)?;
    options.traffic = traffic.settings();
    links::check(
        &experiment,
        confinement.network().is_some(),
        args.placement == Placement::Agents,
        options.traffic.as_ref().or(server.settings().as_ref()),
    )?;
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
    let (_provision, base) = agents::open(args, &experiment, server.settings().as_ref(), &signals)?;
    let run = Run {
        args,
        experiment: &experiment,
        calibration,
        tags,
        metrics,
        board,
        apart,
        destination: &destination,
        options,
        confinement,
        server,
        base,
        unfinished,
    };
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
    let code = ending.finish(&destination, &finished)?;
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
    options.telemetry = !args.without_telemetry;
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
    options.force = args.force;
    for text in &args.allow {
        let network: Network = text.parse().map_err(|why| usage("--allow", &why))?;
        options.allow.push(network);
    }
    Ok(options)
}

/// What a reader must know of reasons not to start that somebody overrode.
fn insisted(forced: &[String]) -> Vec<String> {
    forced.iter().map(|why| format!("started with --force although {why}")).collect()
}

/// Serves figures, unless the process that stores does.
fn serve(args: &Emulate, apart: bool) -> Result<(Option<Address>, Option<Board>)> {
    let Some(text) = &args.metrics.address else { return Ok((None, None)) };
    let address = Address::read(text, args.metrics.public)?;
    if apart {
        return Ok((Some(address), None));
    }
    let board = Board::default();
    let server = Server::start(address, board.clone())?;
    if !args.output.quiet {
        eprintln!("metrics: {}", server.url());
    }
    Ok((Some(address), Some(board)))
}

/// Ends the run when it rings.
fn alarm(control: &Control) -> Alarm {
    let control = control.clone();
    Alarm::then(move |aborted| {
        eprintln!("`{}` does not hold after {} s of traffic: the run ends", aborted.threshold, aborted.seconds);
        control.conclude(StopReason::Threshold);
    })
}

/// Said of an experiment that places both itself.
const TOGETHER: &str = "the controller and the aggregator share a node: the process that leads stores too, and cannot be \
                        started again alone";

/// What all repetitions share.
struct Run<'a> {
    args: &'a Emulate,
    experiment: &'a Experiment,
    /// What things cost here, if that is known.
    calibration: Option<Arc<Calibration>>,
    tags: BTreeMap<String, String>,
    /// Where figures are served, and what is served by this process.
    metrics: Option<Address>,
    board: Option<Board>,
    /// The node that stores in a process of its own.
    apart: Option<String>,
    destination: &'a Destination,
    options: EmuOptions,
    confinement: Confinement,
    server: Nats,
    /// The way to the fleet, if nodes run on agents.
    base: Option<Base>,
    unfinished: Unfinished,
}

impl Run<'_> {
    /// Refuses to start what cannot be, and with doubts, unless somebody insists: those.
    fn doubts(&self, assembly: &Assembly, options: &EmuOptions) -> Result<Vec<String>> {
        let mut found = doubts(assembly, options, &preflight(assembly, options)?);
        found.extend(fragmented(assembly, self.way()));
        if let Some(calibration) = &self.calibration {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
            let (placement, enforced) = (self.args.placement, self.confinement.enforcement().enforced);
            let enforced = enforced || placement == Placement::Agents;
            found.extend(cores::doubts(assembly, calibration, Given { placement, enforced, cores }));
        }
        if found.is_empty() || self.args.force {
            return Ok(found);
        }
        Err(Refused(format!("{}; to start all the same: --force", found.join("; "))).into())
    }

    /// What datagrams between nodes travel over.
    fn way(&self) -> Way {
        match (self.args.placement, self.confinement.network()) {
            (Placement::Agents, _) => Way::Unknown,
            (_, Some(_)) => Way::Own(NODE_MTU),
            (_, None) => Way::Routes,
        }
    }

    fn one(&self, repetition: u32, control: Control) -> Result<Finished> {
        let Run { args, experiment, apart, destination, options, confinement, server, base, unfinished, .. } = self;
        let mut plan = experiment.plan(repetition);
        let tags = self.tags.clone();
        let mut meta = BundleMeta { tags, ..meta(experiment, &plan, Engine::Emulate, args.output.csv) };
        let metrics = self.metrics.filter(|_| apart.is_some()).map(|address| address.0);
        let watch = Watch { metrics, ..Watch::of(&args.output, &meta, &plan) };
        let mut options = options.clone();
        let orders = server
            .settings()
            .map(|nats| processes::share(args, experiment, &mut plan, &mut options, nats, apart.clone()))
            .transpose()?;
        // where nodes are processes of their own, one of each machine speaks for it
        options.machine = orders.is_none().then(rehearsal_host::machine::name);
        let name = orders.as_ref().map_or_else(|| token(&experiment.name, unix_ns()), |orders| orders.run.clone());
        let (assembly, media_notes) = assemble(experiment, plan, Use::Emulation, args.output.quiet)?;
        meta.forced = self.doubts(&assembly, &options)?;
        let forced = insisted(&meta.forced);
        confinement.begin(&assembly)?;
        if let Some((nats, orders)) = server.settings().zip(orders.as_ref()).filter(|_| base.is_none()) {
            permits::check(&assembly.plan, &nats, orders)?;
        }
        let roster = Roster::of(&assembly).placed(args.placement).limited(confinement.enforcement());
        let kept = server.settings().zip(orders.as_ref());
        let telemetry = kept.map(|(nats, orders)| Telemetry::keep(&nats, &orders.run)).transpose()?;
        let claim = match (base, &orders) {
            (Some(base), Some(orders)) => {
                Some(Claim::take(base, experiment, &assembly.plan, orders, &control, args.output.quiet)?)
            }
            _ => None,
        };
        let storing = apart.as_ref().zip(orders.as_ref()).and_then(|(name, orders)| {
            assembly.plan.nodes.iter().find(|node| node.name == *name).map(|node| orders.of(node))
        });
        let identified = |mut orders: Orders| {
            // who stores is no node: it hears all telemetry
            let own = server.settings().unwrap_or_else(|| orders.nats.clone());
            orders.nats = args.aggregator.settings(&own)?;
            anyhow::Ok(orders)
        };
        let storing = storing.map(identified).transpose()?;
        let alarm = alarm(&control);
        let board = self.board.clone();
        let wanted = Wanted { bundle: &destination.bundle(repetition), meta, watch, alarm: alarm.clone(), board };
        let mut books = Books::begin(wanted, storing, unfinished)?;
        books.watch(&control)?;
        orders
            .iter()
            .flat_map(|orders| foreign::instructions(&assembly.plan, orders))
            .for_each(|line| eprintln!("{line}"));
        let home = Home::on_stderr()?.within(confinement.groups()).on(confinement.network());
        let here = orders.filter(|_| claim.is_none());
        let fleet = here.map(|orders| Fleet::start(home, &assembly.plan, &orders, &control)).transpose()?;
        let desk = control::open(&name, args, server, &control);
        let mut end = run(assembly, options, books.sink(), control, Box::new(|_| {}))?;
        confinement.complete(&experiment.plan(repetition), &mut end);
        drop((desk, fleet));
        let aborted = alarm.heard().filter(|_| end.reason == StopReason::Threshold);
        let mut facts = RunFacts { aborted, ..roster.facts(end, Engine::Emulate, args.output.strict) };
        facts.notes.extend(media_notes.into_iter().chain(forced));
        if let Some(claim) = claim {
            claim.end()?.complete(&mut facts);
        }
        if telemetry.is_some() && apart.is_none() {
            facts.notes.push(TOGETHER.to_owned());
        }
        let finished = books.finish(facts);
        drop(telemetry);
        finished
    }
}
