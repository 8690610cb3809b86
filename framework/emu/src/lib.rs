//! The emulation engine: the same actors as in the simulator, with real connections in real time.
//!
//! [`run`] takes an assembled experiment and returns when the run has ended. A process runs one actix system; its
//! shards (threads, at most one per core) own whole nodes with their actors, connections and histograms, and share
//! nothing on the hot path. Traffic goes over sockets even between nodes of one process, or over a NATS server where a link
//! says so; messages go over the local bus. What a link with `impose = "userspace"` says of delay, rate and loss is made
//! true by the node that sends, with the simulator's own model.
//!
//! ```text
//! supervisor (calling thread)                     store (thread): the sink, in order
//!   | Start, Begin, Stop, Close, End by actix       ^            | stored
//!   v                                               | records    v
//! shard 0: Host + actors ----- local bus ----- shard 1: Host + actors ...
//!   pacer (timerfd) · connections · listeners      each calls its shard directly
//! ```
//!
//! What a run promises: latency counts from the intended time; *ready* is the time asked for, or when `in_flight` had
//! room; *sent* is when a connection takes the attempt, so lag is sent − ready and opening a connection is service time.
//! Each request has exactly one outcome, also when an actor panics, a peer falls silent or the run is stopped. Every
//! queue has a bound, and what is dropped is counted. No step of the end can hang.
//!
//! A node that is not local runs in another process: with [`EmuOptions::remote`] the bus reaches it over NATS, all processes
//! share one clock, and the engine that leads gathers how the others end.
//!
//! To stop a run from outside keep a clone of its [`Control`]:
//!
//! ```no_run
//! # fn example(assembly: rehearsal_core::assembly::Assembly, sink: Box<dyn rehearsal_core::sink::Sink>)
//! # -> Result<(), rehearsal_emu::EmuError> {
//! use rehearsal_core::messages::StopReason;
//! use rehearsal_emu::{Control, EmuOptions, preflight, run};
//!
//! let options = EmuOptions::default();
//! println!("{} file descriptors", preflight(&assembly, &options)?.descriptors);
//! let control = Control::new();
//! let on_signal = control.clone();
//! let handler = move || on_signal.stop(StopReason::Interrupted); // once: drains; twice: ends at once
//! let end = run(assembly, options, sink, control, Box::new(|p| println!("{} settled", p.settled)))?;
//! println!("{:?}: {} groups, {} faults", end.reason, end.groups.len(), end.faults.len());
//! # let _ = handler;
//! # Ok(())
//! # }
//! ```

mod bridge;
mod carried;
mod clock;
mod control;
mod error;
mod frames;
mod host;
mod http;
mod losses;
mod marks;
mod mqtt;
mod nats;
mod notes;
mod options;
mod pacer;
mod placement;
mod preflight;
mod sample;
mod seed;
mod shard;
mod steps;
mod store;
mod supervisor;
mod tcp;
mod tls;
mod udp;
mod wake;
mod world;

pub use control::Control;
pub use error::EmuError;
pub use frames::{FrameEar, FrameMouth, FramePorts};
pub use options::{EmuOptions, Network, NetworkError, Remote, Validate};
pub use preflight::{Preflight, Way, doubts, fragmented, preflight};
pub use supervisor::run;
pub use tls::Encrypted;
