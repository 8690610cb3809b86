//! Flags of what concerns a fleet of hosts: `agent`, `agents`, and what `emulate --placement agents` adds.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rehearsal_core::Span;

use super::Format;
use crate::connection::{Connection, NodeIdentity};
use crate::exit::UsageError;

/// How long a server that was only just started is waited for. Assumed: one that is not there by then will not come.
const STARTING: Duration = Duration::from_secs(2);

/// `rehearsal agent`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal agent --nats nats://192.0.2.1:4222 --listen 192.0.2.7 --allow 192.0.2.0/24 --labels rack=a,radio=5g
  rehearsal agent --nats nats://127.0.0.1:4222 --name small --cores 1 --memory 512MiB

It permits traffic to this machine alone, whatever an experiment says, unless --listen and --allow say otherwise.
Ctrl-C ends its nodes and takes it off the list.")]
pub struct Agent {
    /// Its name in the fleet: lower-case letters, digits and `-` [default: the host's]
    #[arg(long, value_name = "NAME", env = "REHEARSAL_NAME", help_heading = "Offer")]
    pub name: Option<String>,
    /// What experiments may choose it by, such as rack=a,radio=5g
    #[arg(long, value_name = "KEY=VALUE", env = "REHEARSAL_LABELS", value_delimiter = ',', help_heading = "Offer")]
    pub labels: Vec<String>,
    /// Offer only so many cores [default: all]
    #[arg(long, value_name = "N", env = "REHEARSAL_CORES", help_heading = "Offer")]
    pub cores: Option<f64>,
    /// Offer only so much memory, such as 512MiB [default: all]
    #[arg(long, value_name = "SIZE", env = "REHEARSAL_MEMORY", help_heading = "Offer")]
    pub memory: Option<String>,
    /// Folder for files that runs bring [default: the user's cache folder]
    #[arg(long, value_name = "DIR", env = "REHEARSAL_AGENT_CACHE", help_heading = "Offer")]
    pub cache: Option<PathBuf>,
    /// Address of this host that its receivers listen on and others send to [default: loopback]
    #[arg(long, value_name = "ADDRESS", env = "REHEARSAL_LISTEN", help_heading = "Permissions")]
    pub listen: Option<String>,
    /// Permit traffic to this address or network, such as 192.0.2.0/24 (repeatable) [default: this host only]
    #[arg(long, value_name = "CIDR", env = "REHEARSAL_ALLOW", value_delimiter = ',', help_heading = "Permissions")]
    pub allow: Vec<String>,
    /// Permit whole frames of replayers at this interface, such as eth1 (needs CAP_NET_RAW) [default: none]
    #[arg(long, value_name = "NAME", env = "REHEARSAL_INTERFACE", help_heading = "Permissions")]
    pub interface: Option<String>,
    /// Most requests per second that all runs together may offer here, such as 1000/s [default: no ceiling]
    #[arg(long, value_name = "RATE", env = "REHEARSAL_RATE_MAX", help_heading = "Permissions")]
    pub rate_max: Option<String>,
    /// Most bits of payload per second that they may offer, such as 100Mbit/s [default: no ceiling]
    #[arg(long, value_name = "RATE", env = "REHEARSAL_BIT_RATE_MAX", help_heading = "Permissions")]
    pub bit_rate_max: Option<String>,
    /// Server through which leaders find it
    #[command(flatten)]
    pub nats: Connection,
    /// Whom processes of nodes connect as
    #[command(flatten)]
    pub nodes: NodeIdentity,
}

/// `rehearsal agents`.
#[derive(Debug, Args)]
pub struct Agents {
    /// How the list is printed
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT")]
    pub format: Format,
    /// Server through which they are found
    #[command(flatten)]
    pub nats: Connection,
}

/// What `emulate --placement agents` waits for.
#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "Fleet")]
pub struct Expect {
    /// Wait until so many agents are there [default: do not wait]
    #[arg(long, value_name = "N", env = "REHEARSAL_EXPECT_AGENTS")]
    pub expect_agents: Option<usize>,
    /// How long to wait for them
    #[arg(long, value_name = "TIME", default_value = "60s", env = "REHEARSAL_EXPECT_TIMEOUT")]
    pub expect_timeout: String,
}

impl Expect {
    /// How long to wait for agents.
    ///
    /// # Errors
    /// When it is no time.
    pub fn patience(&self) -> Result<Duration, UsageError> {
        let span: Span = self.expect_timeout.parse().map_err(|why| UsageError(format!("--expect-timeout: {why}")))?;
        Ok(span.to_std())
    }

    /// How long to wait for the server: as long as for agents, where some are expected.
    ///
    /// # Errors
    /// When it is no time.
    pub fn server_patience(&self) -> Result<Duration, UsageError> {
        let patience = self.patience()?;
        Ok(if self.expect_agents.is_some() { patience } else { STARTING })
    }
}
