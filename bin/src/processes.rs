//! Placement `processes`: a process for each node on this machine, over a NATS server that is given or private. This
//! process runs what leads the experiment, and writes the bundle.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rehearsal_bus::nats::{ConnectSettings, NatsError};
use rehearsal_bus::server::{Server, ServerError};
use rehearsal_core::life::Succession;
use rehearsal_core::plan::Plan;
use rehearsal_core::subject::TOKEN_CHARS_MAX;
use rehearsal_emu::{EmuOptions, Remote};
use rehearsal_host::cgroup::Limits;
use rehearsal_scenario::Experiment;

use crate::aggregator::READER;
use crate::cli::{Emulate, Placement};
use crate::exit::{Refused, UsageError};
use crate::facts::unix_ns;
use crate::node::Orders;
use crate::report::chain;

mod carried;
mod confine;
mod fleet;
mod member;
mod network;

pub use confine::Confinement;
pub use fleet::{Crew, Fleet};
pub(crate) use member::from_lasting_thread;
pub use member::{Ended, Home, Member, Said};

/// How long the server may take to tell whether it has JetStream.
const PROBE: std::time::Duration = std::time::Duration::from_secs(5);

/// The server that the processes of a run talk over.
pub enum Nats {
    /// No process needs one.
    None,
    /// The user named one.
    Given(Box<ConnectSettings>),
    /// A private one, for as long as this value lives.
    Own(Box<Server>),
}

impl Nats {
    /// How to connect to it.
    pub fn settings(&self) -> Option<ConnectSettings> {
        match self {
            Nats::None => None,
            Nats::Given(settings) => Some((**settings).clone()),
            Nats::Own(server) => Some(server.settings()),
        }
    }
}

/// The server that the processes of a run talk over, as `args` ask for; `used` tells whether an embedded run has a use
/// for one. A private one listens on `address`.
///
/// # Errors
/// When none is given and none can be started, or flags contradict each other.
pub fn server(args: &Emulate, used: bool, address: IpAddr) -> Result<Nats> {
    if args.placement == Placement::Embedded {
        return match args.nats.settings()? {
            Some(_) if !used => {
                Err(UsageError("--nats: --placement processes or agents talks over a server".to_owned()).into())
            }
            _ => Ok(Nats::None),
        };
    }
    if !(args.part.only.is_empty() && args.part.without.is_empty()) {
        let placement = if args.placement == Placement::Agents { "agents" } else { "processes" };
        let why = format!("--placement {placement} runs every node: leave --only and --without out");
        return Err(UsageError(why).into());
    }
    if args.placement == Placement::Agents && args.nats.nats.is_none() {
        let why = "--placement agents needs --nats URL: the server that the agents are connected to";
        return Err(UsageError(why.to_owned()).into());
    }
    if let Some(settings) = args.nats.settings()? {
        probe(&settings, args.expect.server_patience()?)?;
        return Ok(Nats::Given(Box::new(settings)));
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let launcher = [own.into_os_string(), OsString::from("child"), OsString::from("--")];
    let refuse = |why: ServerError| Refused(chain(&why));
    Ok(Nats::Own(Box::new(Server::start_at(&launcher, address).map_err(refuse)?)))
}

/// Whether the server answers, accepts this client, is new enough and has JetStream: known before anything is written. What
/// earlier runs left there is taken away. A server that is only just starting is waited for.
fn probe(settings: &ConnectSettings, patience: Duration) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let probed = runtime.block_on(async {
        let (nats, _) = rehearsal_bus::nats::Nats::connect_within(settings, "rehearsal", patience, |_| {}).await?;
        nats.jetstream_state(PROBE).await?;
        rehearsal_bus::stream::delete_left(&nats).await;
        Ok::<_, NatsError>(())
    });
    probed.map_err(|why| Refused(chain(&why)).into())
}

/// Leaves in `plan` what this process runs, without the node `apart` that stores in a process of its own; tells `options` of the others, and gives their orders but for the node.
///
/// # Errors
/// When it cannot be told whom the others connect as.
pub fn share(
    args: &Emulate,
    experiment: &Experiment,
    plan: &mut Plan,
    options: &mut EmuOptions,
    nats: ConnectSettings,
    apart: Option<String>,
) -> Result<Orders> {
    let orders = Orders {
        experiment: experiment.resolved_toml(),
        source: experiment.source.clone(),
        base: experiment.base.clone(),
        repetition: plan.repetition,
        run: token(&experiment.name, unix_ns()),
        node: String::new(),
        nats: args.nodes.settings(&nats)?,
        epoch_ns: Remote::epoch_now(),
        allow: args.allow.clone(),
        quantum_ns: options.quantum.as_nanos(),
        spin: options.spin,
        telemetry: options.telemetry,
        shards: options.shards,
        listen: None,
        limits: Limits::default(),
        succession: Succession::default(),
        meter: None,
        machine: None,
        own_network: false,
        interface: None,
        targets: experiment.outside.iter().filter_map(|o| Some((o.url.origin(), o.address?))).collect(),
    };
    options.remote = Some(Remote {
        nats,
        epoch_ns: orders.epoch_ns,
        leads: true,
        reader: apart.is_none().then(|| READER.to_owned()),
        apart: apart.clone(),
        succession: Succession::default(),
    });
    orders.place(plan, |name, measured| !measured && apart.as_deref() != Some(name));
    Ok(orders)
}

/// A run's token in subjects: runs of one experiment share a server without hearing each other.
pub fn token(name: &str, unix_ns: u64) -> String {
    let suffix = format!("-{:08x}", (unix_ns / 1000) as u32);
    let name: String = name.chars().take(TOKEN_CHARS_MAX - suffix.len()).collect();
    name + &suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_fit_the_grammar_and_differ() {
        let long = "a".repeat(32);
        for name in ["uav-control", &long] {
            let token = token(name, 1_700_000_000_123_456_789);
            assert_eq!(rehearsal_core::subject::check_token(&token), Ok(()), "{token}");
        }
        assert_ne!(token("x", 1_000_000), token("x", 2_000_000));
    }
}
