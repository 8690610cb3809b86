//! The command line: verbs, flags, their environment variables and their help.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::connection::{AggregatorIdentity, Connection, NodeIdentity, hide_password};
use crate::exit::{INTERNAL, USAGE};

mod analysis;
mod control;
mod converse;
mod fleet;
mod habits;
mod measured;
mod model;
mod plan;
mod replay;
mod send;
mod simulate;
mod template;

pub use analysis::{Report, ReportFormat, Runs};
pub use control::{Action, Control};
pub use converse::{Converse, HalfOf, Middle, SplitBy};
pub use fleet::{Agent, Agents, Expect};
pub use habits::{Against, Beside, Metrics, Tagged, Tags};
pub use measured::{BoundArgs, Calibrate, Compare, Way};
pub use model::{Mix, Model, ModelVerb, Quality, Show};
pub use plan::{Plan, PlanFormat, Sweep};
pub use replay::{Keeping, Receive, ReceiveAs, Replay, SendPath, Target, Times};
pub use send::Send;
pub use simulate::Virtual;
pub use template::{Edits, Export, Import, List, Place, ShowTemplate, Template, TemplateAction};

/// What the user typed.
#[derive(Debug, Parser)]
#[command(
    name = "rehearsal",
    version,
    about = "Write a network experiment once: dry-run it in virtual time, then run it for real",
    long_about = "Rehearsal runs one experiment file in two ways: `simulate` is a deterministic dry run in virtual time, \
                  `emulate` sends real traffic between real actors. Both leave the same kind of result bundle, which \
                  begins with a verdict: may these numbers be trusted?",
    after_long_help = EXIT_CODES,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "Exit codes:
  0    the run passed
  1    internal error
  2    usage, or something wrong in the experiment file
  3    refused before the start (ports, descriptors, targets, output folder)
  10   a threshold failed, or a figure is worse than the baseline allows
  20   the run is INVALID, or DEGRADED with --strict (outranks 10)
  130  stopped by Ctrl-C; 143 by SIGTERM (a process of receivers alone, which has no other end, keeps 0 or 20)

Every flag can be set by a variable REHEARSAL_<FLAG>; a flag outranks a variable, which outranks the file.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a commented first experiment
    Init(Init),
    /// Validate an experiment and explain what it will do
    Check(Check),
    /// Dry-run an experiment in virtual time: deterministic, on any laptop
    Simulate(Simulate),
    /// Run an experiment for real: real sockets, real time, measured latency
    Emulate(Box<Emulate>),
    /// Send to a URL, without a file: one request, or a load with a verdict
    Send(Box<Send>),
    /// Tell what to book for experiments before anything is booked, or how much fits
    Plan(Box<Plan>),
    /// Dry-run an experiment at many points of its parameters, on all cores, into one table
    Sweep(Box<Sweep>),
    /// Models of users: which there are, what one does and offers, as a table or a drawing
    Model(Model),
    /// Pause, resume, speed up, slow down or stop a run that goes on
    Control(Box<Control>),
    /// Offer this host to experiments: announce it, and run nodes on it
    Agent(Box<Agent>),
    /// List the hosts that agents offer
    Agents(Agents),
    /// Tell what finished runs say over their repetitions, verdict first
    Report(Report),
    /// List finished runs
    Runs(Runs),
    /// Hold a dry run against the real run of the same experiment: errors, and whether they are inside of bounds
    Compare(Compare),
    /// Measure what sending and receiving costs on this host, for dry runs
    Calibrate(Box<Calibrate>),
    /// Make templates of captures, list them, tell what they hold, and write them as captures
    Template(Box<Template>),
    /// Replay a template or a capture on the wire, and tell how true it was
    Replay(Box<Replay>),
    /// Pass frames on between two interfaces, late and with losses, and count them
    Middle(Middle),
    /// Run one node of an emulation, as told on stdin
    #[command(hide = true)]
    Node,
    /// Store what the nodes of an emulation report, as told on stdin
    #[command(hide = true)]
    Aggregator,
    /// Become another program, which ends with its parent
    #[command(hide = true)]
    Child(Child),
}

/// `rehearsal child`.
#[derive(Debug, Args)]
pub struct Child {
    /// Stand in this control group (repeatable)
    #[arg(long, value_name = "DIR")]
    pub group: Vec<PathBuf>,
    /// See this network namespace
    #[arg(long, value_name = "FILE")]
    pub space: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

/// Where the nodes of an emulation run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// All in this process
    #[default]
    Embedded,
    /// Each in a process of its own on this machine, over a NATS server
    Processes,
    /// Each in a process of its own on hosts that offer themselves by `rehearsal agent`
    Agents,
}

/// What network the nodes of an emulation see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum NetworkMode {
    /// The host's own
    #[default]
    Host,
    /// Each a network namespace of its own, joined by a bridge; needs root and iproute2
    Namespaces,
}

/// `rehearsal init`.
#[derive(Debug, Args)]
pub struct Init {
    /// Where to write it; an existing file is never overwritten
    #[arg(default_value = "experiment.toml")]
    pub file: PathBuf,
}

/// `rehearsal check`.
#[derive(Debug, Args)]
#[command(
    override_usage = "rehearsal check [OPTIONS] <FILE>
       rehearsal check --schema",
    after_long_help = "Examples:
  rehearsal check configs/uav-control.toml
  rehearsal check configs/pl5g/b1.toml --scale 0.01 --resolved
  rehearsal check --schema > experiment.schema.json"
)]
pub struct Check {
    /// The experiment and what to change in it
    #[command(flatten)]
    pub experiment: OptionalExperiment,
    /// Print the experiment with every default filled in
    #[arg(long, conflicts_with = "schema")]
    pub resolved: bool,
    /// Print the JSON Schema of experiment files, for editors
    #[arg(long, conflicts_with = "file")]
    pub schema: bool,
}

/// An experiment that may be left out (`check --schema`).
#[derive(Debug, Args)]
pub struct OptionalExperiment {
    /// The experiment file
    #[arg(required_unless_present = "schema")]
    pub file: Option<PathBuf>,
    /// What to change in it
    #[command(flatten)]
    pub overrides: Overrides,
    /// Which nodes of it
    #[command(flatten)]
    pub part: Part,
}

/// Changes to an experiment file.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Experiment")]
pub struct Overrides {
    /// Change one value, by its path in the file: --set nodes.camera.count=8
    #[arg(long = "set", value_name = "PATH=VALUE", env = "REHEARSAL_SET", value_delimiter = None)]
    pub set: Vec<String>,
    /// Multiply request counts (or the duration) for a trial: --scale 0.01
    #[arg(long, value_name = "FACTOR", env = "REHEARSAL_SCALE")]
    pub scale: Option<f64>,
    /// Another seed
    #[arg(long, env = "REHEARSAL_SEED")]
    pub seed: Option<u64>,
    /// Another number of repetitions
    #[arg(long, value_name = "N", env = "REHEARSAL_REPETITIONS")]
    pub repetitions: Option<u32>,
    /// Another duration, such as 30s
    #[arg(long, value_name = "TIME", env = "REHEARSAL_DURATION")]
    pub duration: Option<String>,
    /// Folder that media are relative to [default: the experiment file's]
    #[arg(long, value_name = "DIR", env = "REHEARSAL_BASE")]
    pub base: Option<PathBuf>,
}

/// Which nodes this process runs.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Experiment")]
pub struct Part {
    /// Run only this node in this process (repeatable); the others must listen at fixed addresses
    #[arg(long, value_name = "NODE", env = "REHEARSAL_ONLY", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Run all nodes but this one in this process (repeatable)
    #[arg(long, value_name = "NODE", env = "REHEARSAL_WITHOUT", value_delimiter = ',', conflicts_with = "only")]
    pub without: Vec<String>,
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// The exit code, when there is nothing to run: help was asked for, or something cannot be understood.
    pub fn read() -> Result<Self, ExitCode> {
        if let Err(why) = hide_password() {
            eprintln!("error: this program cannot start itself to hide the password in --nats: {why}");
            return Err(ExitCode::from(INTERNAL));
        }
        Cli::try_parse().map_err(|why| {
            if let Err(error) = why.print()
                && error.kind() != ErrorKind::BrokenPipe
            {
                return ExitCode::from(INTERNAL);
            }
            if let Some(variable) = variable(&why) {
                eprintln!("note: the value comes from the variable {variable}");
            }
            ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(USAGE))
        })
    }
}

/// The variable that a flag's bad value came from, if it was not typed.
fn variable(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = argument.split([' ', '=']).next()?;
    let typed = std::env::args().any(|word| word == flag || word.starts_with(&format!("{flag}=")));
    let name = format!("REHEARSAL_{}", flag.strip_prefix("--")?.replace('-', "_").to_uppercase());
    (!typed && std::env::var_os(&name).is_some()).then_some(name)
}

/// Where results go and how they are shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub struct Output {
    /// Folder of the result bundle [default: results/<experiment>-<engine>-<time>]
    #[arg(long, value_name = "DIR", env = "REHEARSAL_OUT")]
    pub out: Option<PathBuf>,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT")]
    pub format: Format,
    /// Also write series.csv
    #[arg(long, env = "REHEARSAL_CSV")]
    pub csv: bool,
    /// A DEGRADED run exits with 20 too
    #[arg(long, env = "REHEARSAL_STRICT")]
    pub strict: bool,
    /// No progress on stderr
    #[arg(long, short, env = "REHEARSAL_QUIET")]
    pub quiet: bool,
    /// A row for each second on stderr: rates, losses, times, CPU of the busiest node
    #[arg(long, conflicts_with = "quiet", env = "REHEARSAL_TABLE")]
    pub table: bool,
    /// What the run is called
    #[command(flatten)]
    pub called: Tags,
    /// What is written beside it
    #[command(flatten)]
    pub beside: Beside,
    /// What it is compared with
    #[command(flatten)]
    pub against: Against,
    /// Nothing of the bundle is kept: it is not told where it is.
    #[arg(skip)]
    pub scratch: bool,
}

/// How a summary is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs, on stdout
    Json,
}

/// `rehearsal simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal simulate configs/uav-control.toml
  rehearsal simulate configs/pl5g/b1.toml --scale 0.1 --repetitions 3
  rehearsal simulate experiment.toml --set links.default.delay=5ms --out results/slow-link")]
pub struct Simulate {
    /// The experiment file
    pub file: PathBuf,
    /// What to change in it
    #[command(flatten)]
    pub overrides: Overrides,
    /// Where results go
    #[command(flatten)]
    pub output: Output,
    /// What things cost on a host: a file such as configs/calibration/default.toml [default: the experiment's]
    #[arg(long, value_name = "FILE", env = "REHEARSAL_CALIBRATION", help_heading = "Engine")]
    pub calibration: Option<PathBuf>,
    /// Encode and decode every message, as a network would
    #[arg(long, env = "REHEARSAL_WIRE", help_heading = "Engine")]
    pub wire: bool,
    /// Print the fingerprint of the event trace and the schedule's digest on stdout
    #[arg(long, env = "REHEARSAL_DIGEST", help_heading = "Engine")]
    pub digest: bool,
    /// How virtual time passes, and what is told of it
    #[command(flatten)]
    pub time: Virtual,
}

/// `rehearsal emulate`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal emulate configs/uav-control.toml
  rehearsal emulate configs/pl5g/a1.toml --scale 0.01 --out results/a1-trial
  rehearsal emulate configs/uav-control.toml --placement processes
  rehearsal emulate x.toml --only receiver        # in one terminal; Ctrl-C ends it
  rehearsal emulate x.toml --without receiver     # in another

The first Ctrl-C stops the traffic, waits for what is under way and writes the bundle; the second ends at once.
A process of receivers alone is ended by Ctrl-C; it exits with 0, or 20 if INVALID.")]
pub struct Emulate {
    /// The experiment file
    pub file: PathBuf,
    /// What to change in it
    #[command(flatten)]
    pub overrides: Overrides,
    /// Which nodes of it
    #[command(flatten)]
    pub part: Part,
    /// Where results go
    #[command(flatten)]
    pub output: Output,
    /// Where nodes run
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_PLACEMENT", help_heading = "Engine")]
    pub placement: Placement,
    /// What network processes of nodes see
    #[arg(long, value_enum, default_value_t, env = "REHEARSAL_NETWORK", help_heading = "Engine")]
    pub network: NetworkMode,
    /// Permit traffic to this address or network, such as 10.0.0.0/24 (repeatable) [default: loopback only]
    #[arg(long, value_name = "CIDR", env = "REHEARSAL_ALLOW", value_delimiter = ',', help_heading = "Engine")]
    pub allow: Vec<String>,
    /// Start although a check before the start failed: a target that does not answer, ports, descriptors, memory, MTU, CPU
    #[arg(long, env = "REHEARSAL_FORCE", help_heading = "Engine")]
    pub force: bool,
    /// What things cost on a host: a load that clearly needs more cores than there are is refused [default: the experiment's]
    #[arg(long, value_name = "FILE", env = "REHEARSAL_CALIBRATION", help_heading = "Engine")]
    pub calibration: Option<PathBuf>,
    /// Threads that carry actors and their connections [default: one per core, at most one per node]
    #[arg(long, value_name = "N", env = "REHEARSAL_SHARDS", help_heading = "Engine")]
    pub shards: Option<usize>,
    /// Wake-ups are rounded up to the smaller of this and half a gap; 0s for none (more CPU, less lag)
    #[arg(long, value_name = "TIME", default_value = "250us", env = "REHEARSAL_QUANTUM", help_heading = "Engine")]
    pub quantum: String,
    /// Spin for the last 80 µs before each departure: lag of a few µs, for a whole core per shard
    #[arg(long, env = "REHEARSAL_SPIN", help_heading = "Engine")]
    pub spin: bool,
    /// Where figures are served
    #[command(flatten)]
    pub metrics: Metrics,
    /// Which agents to wait for
    #[command(flatten)]
    pub expect: Expect,
    /// Server that processes talk over [default: a private one for this run]
    #[command(flatten)]
    pub nats: Connection,
    /// Whom processes of nodes connect as
    #[command(flatten)]
    pub nodes: NodeIdentity,
    /// Whom the process of the aggregator connects as
    #[command(flatten)]
    pub aggregator: AggregatorIdentity,
    /// Tell no second, only the end: for measuring what telemetry costs
    #[arg(long, hide = true)]
    pub without_telemetry: bool,
}
