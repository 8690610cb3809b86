//! Hidden verbs of the processes that a run starts: one node of the experiment, or a program that ends with its parent.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use rehearsal_core::Body;
use rehearsal_core::plan::Plan;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_emu::{Control, EmuOptions, Network, Remote, run};
use rehearsal_scenario::{LoadOptions, parse};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::cli;
use crate::clips::Use;
use crate::experiment::assemble;
use crate::registry::registry;
use crate::validate;

/// Largest orders that are read, bytes: far more than the largest experiment file.
const ORDERS_BYTES_MAX: u64 = 64 << 20;

/// What a process must know to run its node. It comes on stdin: a server's URL may hold a password.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The resolved experiment.
    pub experiment: String,
    /// Where its file stands.
    pub source: PathBuf,
    /// The folder that its media are relative to.
    pub base: PathBuf,
    /// The repetition, from 0.
    pub repetition: u32,
    /// The run's token in subjects.
    pub run: String,
    /// The node instance to run.
    pub node: String,
    /// The NATS server.
    pub nats: String,
    /// The run's creation on CLOCK_MONOTONIC, ns.
    pub epoch_ns: u64,
    /// Address ranges that traffic may go to, beside the loopback.
    pub allow: Vec<String>,
    /// Wake-ups are rounded up to multiples of it, ns.
    pub quantum_ns: u64,
    /// Whether the pacer spins.
    pub spin: bool,
    /// Threads of the process.
    pub shards: Option<usize>,
}

impl Orders {
    /// Makes `plan` the part of the run that the process with these nodes runs.
    pub fn place(&self, plan: &mut Plan, local: impl Fn(&str, bool) -> bool) {
        plan.info.run.clone_from(&self.run);
        plan.nodes.iter_mut().for_each(|node| node.local = local(&node.name, node.measured));
    }
}

/// Runs the node that stdin names.
///
/// # Errors
/// When there are no orders, the node cannot be built, or the other processes cannot be reached.
pub fn node() -> Result<ExitCode> {
    end_with_parent()?;
    let mut text = String::new();
    std::io::stdin().take(ORDERS_BYTES_MAX).read_to_string(&mut text).context("cannot read stdin")?;
    let orders: Orders = serde_json::from_str(&text).context("`rehearsal node` is started by `rehearsal emulate`")?;
    let load = LoadOptions { base: Some(orders.base.clone()), ..LoadOptions::default() };
    let experiment = parse(&orders.source, orders.experiment.clone(), &registry(), &load)?;
    let mut plan = experiment.plan(orders.repetition);
    orders.place(&mut plan, |name, _| name == orders.node);
    if !plan.nodes.iter().any(|n| n.local) {
        bail!("there is no node `{}`", orders.node);
    }
    let mut options = EmuOptions {
        validate: Arc::new(validate::check),
        spin: orders.spin,
        shards: orders.shards,
        quantum: rehearsal_core::Span::from_nanos(orders.quantum_ns),
        remote: Some(Remote { url: orders.nats, epoch_ns: orders.epoch_ns, leads: false }),
        ..EmuOptions::default()
    };
    for text in &orders.allow {
        options.allow.push(text.parse::<Network>()?);
    }
    let (assembly, _) = assemble(&experiment, plan, Use::Emulation, true)?;
    run(assembly, options, Box::new(Nowhere), Control::new(), Box::new(|_| {}))?;
    Ok(ExitCode::SUCCESS)
}

/// Becomes another program, which ends with the parent of this process.
///
/// # Errors
/// When it cannot be started.
pub fn child(args: &cli::Child) -> Result<ExitCode> {
    end_with_parent()?;
    let [program, rest @ ..] = &args.command[..] else { bail!("no program is named") };
    let why = Command::new(program).args(rest).exec();
    Err(why).with_context(|| format!("cannot start {}", program.display()))
}

/// The kernel kills this process when its parent ends, however that comes about.
fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot be tied to the parent process")
}

/// Records are stored where the aggregator runs.
struct Nowhere;

impl Sink for Nowhere {
    fn store(&mut self, _: &Body) -> Result<(), SinkError> {
        Err(SinkError("this process stores nothing".to_owned()))
    }
}
