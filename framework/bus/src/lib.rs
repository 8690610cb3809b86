//! How messages travel between actors: over the local bus inside one process, and over NATS between processes.
//!
//! Subjects and wildcards are those of [`rehearsal_core::subject`]; who hears what is resolved once, when a run is
//! assembled ([`rehearsal_core::assembly::Routes`]). A shard delivers to its own actors itself; between shards there
//! is one bounded queue per receiving shard. The promises, as over any transport of the project: per-publisher order,
//! at most once, bounded buffers whose overflow is dropped and counted.

pub mod clock;
pub mod fleet;
mod local;
pub mod nats;
pub mod server;
mod split;
pub mod stream;
pub mod templates;

pub use local::{Delivery, INBOX_DELIVERIES_MAX, Inbox, Port, local, local_and_beyond};
