//! Why an emulation does not begin, or cannot go on.

use std::net::SocketAddr;

use thiserror::Error;

use crate::options::Network;

/// An emulation was refused, or failed. [`EmuError::is_refusal`] tells which.
#[derive(Debug, Error)]
pub enum EmuError {
    /// Traffic would go to an address that the allow-list does not hold.
    #[error("`{actor}` would send to {address}, which is not allowed; to allow it: --allow {}", host(.address))]
    TargetNotAllowed {
        /// The sending actor, `node/actor`.
        actor: String,
        /// Where it would send.
        address: SocketAddr,
    },
    /// An actor would listen on an address that the allow-list does not hold.
    #[error("`{actor}` would listen on {address}, which is not allowed; to allow it: --allow {}", host(.address))]
    ListenNotAllowed {
        /// The receiving actor, `node/actor`.
        actor: String,
        /// Where it would listen.
        address: SocketAddr,
    },
    /// A target runs elsewhere, and nobody says where.
    #[error(
        "`{actor}` sends to `{target}`, which does not run here and has no fixed address; give `{target}` the key `listen`"
    )]
    TargetUnknown {
        /// The sending actor, `node/actor`.
        actor: String,
        /// The receiving actor, `node/actor`.
        target: String,
    },
    /// A numbered instance's port would be above 65,535.
    #[error("`{actor}`: instance {member} would listen on port {port}; lower `listen`")]
    Port {
        /// The receiving actor, `node/actor`.
        actor: String,
        /// The instance, from 0.
        member: u32,
        /// `listen` plus its number.
        port: u32,
    },
    /// An address cannot be listened on.
    #[error("`{actor}` cannot listen on {address}")]
    Listen {
        /// The receiving actor, `node/actor`.
        actor: String,
        /// Where it would listen.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The operating system allows too few open files.
    #[error(
        "{needed} file descriptors are needed, {limit} are allowed; raise `ulimit -n`, or lower `streams` or `in_flight`"
    )]
    Descriptors {
        /// Both ends of all connections, listeners and what the process itself needs.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// Threads or sockets could not be made.
    #[error("cannot start {what}")]
    Start {
        /// What could not be started.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// There is no way to the other processes of the run.
    #[error("cannot reach the other processes of the run")]
    Remote(#[from] rehearsal_bus::nats::NatsError),
    /// A shard ended before its time: a bug.
    #[error("shard {shard} ended before its time")]
    ShardLost {
        /// Its number.
        shard: usize,
    },
}

impl EmuError {
    /// Whether the run was refused before it began, rather than broken by something within.
    pub const fn is_refusal(&self) -> bool {
        !matches!(self, EmuError::Start { .. } | EmuError::ShardLost { .. })
    }
}

fn host(address: &SocketAddr) -> Network {
    Network::host(address.ip())
}
