//! Placement `agents`, seen from the leader: who is there, which node goes where, what is held, shipped, started, watched
//! and let go again. Also `rehearsal agents`, which lists the fleet.
//!
//! ```text
//! scan ──> place ──> reserve ──> read clocks ──> ship ──> launch ──> (the run) ──> collect ──> release
//! ```

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_core::fleet::Card;
use rehearsal_scenario::Experiment;

use crate::cli;
use crate::cli::{Format, Placement};
use crate::exit::UsageError;
use crate::facts::unix_ns;
use crate::processes::token;
use crate::provision::Provision;
use crate::report;
use crate::signals::Signals;

mod base;
pub mod calibrate;
mod claim;
mod left;
mod place;
mod ship;
mod watch;

pub use base::Base;
pub use claim::Claim;
pub use left::{HostLeft, Left};

/// How long an agent may take to answer what it can answer at once.
const ANSWER: Duration = Duration::from_secs(2);

/// Makes the hosts of the experiment, if it says how, and opens the way to the fleet once there are enough agents.
///
/// # Errors
/// When the server cannot be reached, or too few agents come in time.
pub fn open(
    args: &cli::Emulate,
    experiment: &Experiment,
    settings: Option<&ConnectSettings>,
    signals: &Signals,
) -> Result<(Option<Provision>, Option<Base>)> {
    let (Placement::Agents, Some(settings)) = (args.placement, settings) else {
        return match args.expect.expect_agents {
            Some(_) => Err(UsageError("--expect-agents: only --placement agents has any".to_owned()).into()),
            None => Ok((None, None)),
        };
    };
    let patience = args.expect.patience()?;
    let run = token(&experiment.name, unix_ns());
    let provision = Provision::create(experiment, settings, &run, signals)?;
    let wanted = args.expect.expect_agents;
    let base = Base::open(settings, "leader", args.expect.server_patience()?)?;
    if let Some(agents) = wanted {
        base.expect(agents, patience, || signals.code())?;
    }
    Ok((provision, Some(base)))
}

/// Lists the fleet.
///
/// # Errors
/// When the server cannot be reached.
pub fn agents(args: &cli::Agents) -> Result<ExitCode> {
    let Some(settings) = args.nats.settings()? else {
        return Err(UsageError("--nats URL is needed: agents are found through a NATS server".to_owned()).into());
    };
    let base = Base::open(&settings, "agents", Duration::ZERO)?;
    let cards = base.scan()?;
    match args.format {
        Format::Json => report::print(&serde_json::to_string_pretty(&cards)?)?,
        Format::Text => report::print(&table(&cards))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(cards: &[Card]) -> String {
    if cards.is_empty() {
        return "no agents; start some with `rehearsal agent --nats URL`\n".to_owned();
    }
    let head = ["agent", "cores", "free", "memory", "free", "address", "labels", "held by"].map(str::to_owned);
    let row = |card: &Card| {
        let (vcpu, memory) = card.free();
        let labels: Vec<String> = card.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let held: Vec<String> = card.held.iter().map(|held| format!("{} ({})", held.run, held.leader)).collect();
        let dash = |words: Vec<String>| if words.is_empty() { "-".to_owned() } else { words.join(",") };
        [
            card.agent.clone(),
            card.cores.to_string(),
            vcpu.to_string(),
            card.memory.to_string(),
            memory.to_string(),
            card.address.to_string(),
            dash(labels),
            dash(held),
        ]
    };
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(cards.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; 8]| {
        let cells = row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
