//! Hidden verbs of the processes that a run starts: one node of the experiment, or a program that ends with its parent.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_core::Body;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::life::Succession;
use rehearsal_core::plan::{NodePlan, Plan};
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_emu::{Control, EmuOptions, Network, Remote, run};
use rehearsal_host::cgroup::{self, Limits, Meter};
use rehearsal_scenario::{LoadOptions, parse};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::cli;
use crate::clips::Use;
use crate::experiment::assemble;
use crate::ports::NodePorts;
use crate::registry::registry;
use crate::validate;

/// Largest orders that are read, bytes: far more than the largest experiment file.
const ORDERS_BYTES_MAX: u64 = 64 << 20;

/// What a process must know to run its node. It comes on stdin: it holds what is needed to connect to the server.
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
    /// How to connect to the NATS server.
    pub nats: ConnectSettings,
    /// The run's creation on CLOCK_MONOTONIC, ns.
    pub epoch_ns: u64,
    /// Address ranges that traffic may go to, beside the loopback.
    pub allow: Vec<String>,
    /// Wake-ups are rounded up to multiples of it, ns.
    pub quantum_ns: u64,
    /// Whether the pacer spins.
    pub spin: bool,
    /// Whether each second is told.
    pub telemetry: bool,
    /// Threads of the process.
    pub shards: Option<usize>,
    /// Where receivers without a fixed address listen; the loopback if it is not said.
    #[serde(default)]
    pub listen: Option<IpAddr>,
    /// What the node may use of its host.
    #[serde(default)]
    pub limits: Limits,
    /// What it knows of processes that ran the node before.
    #[serde(default)]
    pub succession: Succession,
    /// What reads the control group that the process stands in.
    #[serde(default)]
    pub meter: Option<Meter>,
    /// The machine's name, if this process speaks for it: one of each run does.
    #[serde(default)]
    pub machine: Option<String>,
    /// Whether the process stands in a network namespace of its own.
    #[serde(default)]
    pub own_network: bool,
    /// The interface for whole frames, where the process has no network of its own.
    #[serde(default)]
    pub interface: Option<String>,
    /// Where targets outside are, by scheme, host and port, as the process that leads has looked them up.
    #[serde(default)]
    pub targets: BTreeMap<String, SocketAddr>,
}

impl Orders {
    /// Makes `plan` the part of the run that the process with these nodes runs.
    pub fn place(&self, plan: &mut Plan, local: impl Fn(&str, bool) -> bool) {
        plan.info.run.clone_from(&self.run);
        for node in &mut plan.nodes {
            node.local = node.outside.is_none() && local(&node.name, node.measured);
            if let Some(outside) = &mut node.outside {
                outside.address = self.targets.get(&outside.origin).copied();
            }
        }
    }

    /// The same orders for `node`, with what it may use.
    pub fn of(&self, node: &NodePlan) -> Orders {
        let limits = Limits { vcpu: node.vcpu, memory_bytes: node.memory.map(|m| m.0) };
        Orders { node: node.name.clone(), limits, ..self.clone() }
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
    let (assembly, options) = ready(orders, None)?;
    run(assembly, options, Box::new(Nowhere), Control::new(), Box::new(|_| {}))?;
    Ok(ExitCode::SUCCESS)
}

/// What the engine is given to run the node of `orders`; `reader` is the name under which it reads the run's telemetry,
/// if it stores that.
///
/// # Errors
/// When the node cannot be built.
pub fn ready(orders: Orders, reader: Option<String>) -> Result<(Assembly, EmuOptions)> {
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
        telemetry: orders.telemetry,
        shards: orders.shards,
        listen: orders.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        quantum: rehearsal_core::Span::from_nanos(orders.quantum_ns),
        remote: Some(Remote {
            nats: orders.nats,
            epoch_ns: orders.epoch_ns,
            leads: false,
            reader,
            apart: None,
            succession: orders.succession,
        }),
        meter: orders.meter,
        machine: orders.machine,
        own_network: orders.own_network,
        frames: NodePorts::of(orders.own_network, orders.interface).map(|ports| Arc::new(ports) as _),
        ..EmuOptions::default()
    };
    for text in &orders.allow {
        options.allow.push(text.parse::<Network>()?);
    }
    let (assembly, _) = assemble(&experiment, plan, Use::Emulation, true)?;
    Ok((assembly, options))
}

/// Becomes another program, which ends with the parent of this process, and stands in the control groups and the
/// network namespace that are named.
///
/// # Errors
/// When a group cannot be entered, or the program cannot be started.
pub fn child(args: &cli::Child) -> Result<ExitCode> {
    end_with_parent()?;
    for folder in &args.group {
        cgroup::enter(folder).with_context(|| format!("cannot enter the control group {}", folder.display()))?;
    }
    if let Some(space) = &args.space {
        let why = || format!("cannot enter the network namespace {}", space.display());
        rehearsal_host::network::enter(space).with_context(why)?;
    }
    let [program, rest @ ..] = &args.command[..] else { bail!("no program is named") };
    let why = Command::new(program).args(rest).exec();
    Err(why).with_context(|| format!("cannot start {}", program.display()))
}

/// The kernel kills this process when its parent ends, however that comes about.
pub(crate) fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot be tied to the parent process")
}

/// Records are stored where the aggregator runs.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn store(&mut self, _: &Body) -> Result<(), SinkError> {
        Err(SinkError("this process stores nothing".to_owned()))
    }
}
