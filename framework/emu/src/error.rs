//! Why an emulation does not begin, or cannot go on.

use std::net::SocketAddr;

use thiserror::Error;

use crate::options::Network;

/// An emulation was refused, or failed. [`EmuError::is_refusal`] tells which.
#[derive(Debug, Error)]
pub enum EmuError {
    /// An MQTT broker is not there, or does not do what is needed.
    #[error("the MQTT broker {broker}: {why}")]
    Broker {
        /// Where it should be.
        broker: String,
        /// What is wrong.
        why: String,
    },
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
    /// Nobody has looked up where a target outside is.
    #[error("`{actor}` sends to {target}, and nobody has looked up where that is")]
    TargetUnresolved {
        /// The sending actor, `node/actor`.
        actor: String,
        /// Scheme, host and port.
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
    /// A file that a link's `tls` names cannot be used.
    #[error("link `{link}`: `{file}` cannot be used: {reason}")]
    TlsFile {
        /// The link's name in the experiment.
        link: String,
        /// The file as it is written there.
        file: String,
        /// Why not.
        reason: String,
    },
    /// What a link's `tls` says does not go together, such as a certificate and the key of another.
    #[error("link `{link}`: its certificates cannot be used")]
    Tls {
        /// The link's name in the experiment.
        link: String,
        /// Why not.
        source: rustls::Error,
    },
    /// No certificate could be made for the run.
    #[error("no certificate could be made for the run: {reason}")]
    Certificate {
        /// Why not.
        reason: String,
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
    /// Traffic is to go over a NATS server, and none is known.
    #[error("a link has `carrier = \"nats\"`, and no NATS server is known; name one with --nats URL")]
    ServerMissing,
    /// The NATS server that traffic goes over cannot be used.
    #[error("traffic cannot go over the NATS server")]
    Traffic(#[source] rehearsal_bus::nats::NatsError),
    /// There is no way to the other processes of the run.
    #[error("cannot reach the other processes of the run")]
    Remote(#[from] rehearsal_bus::nats::NatsError),
    /// Whole frames need an interface, and there is none for them.
    #[error(
        "`{actor}` has a link with `carrier = \"frames\"`, which needs an interface of its node's own: add `--placement processes \
         --network namespaces` (as root) or use agents with an `--interface`, or write `carrier = \"udp\"` for the payloads alone"
    )]
    Frames {
        /// The actor, `node/actor`.
        actor: String,
    },
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
        !matches!(self, EmuError::Start { .. } | EmuError::ShardLost { .. } | EmuError::Certificate { .. })
    }
}

fn host(address: &SocketAddr) -> Network {
    Network::host(address.ip())
}
