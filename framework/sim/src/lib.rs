//! The simulator: the dry run of an experiment, in virtual time, on one thread.
//!
//! ```text
//!   Assembly ──► Simulation ── run(sink, progress) ──► RunEnd
//!                    │
//!      pools ◄── engine: pop, hand over, apply ──► world: queue, tables, links, books
//! ```
//!
//! One ordered queue drives the same actors that the emulator hosts. The order of events is a property of the model:
//! an entry's key is (time, class, source, the source's own counter), so equal experiments and seeds give equal
//! traces, told by [`RunEnd::fingerprint`](rehearsal_core::run::RunEnd::fingerprint). Time never moves back, which is
//! asserted whenever an event is queued and whenever one is taken.
//!
//! What is modelled: links (rate, delay, jitter, loss, reordering, finite queue) with the headers of their carrier, connection
//! set-up, retransmission, deadlines, the streams' gates, the receivers' work on shared cores under a quota, hosts whose nodes
//! want more than there is, and messages after a latency; with a calibration also the core time of every message, what it
//! waits to be looked at, and memory. What is not: CPU, memory and encoding costs before a calibration, what telemetry
//! costs a node, caches and memory bandwidth that cores share, and acknowledgements on the reverse link.

mod engine;
mod witness;
mod world;

pub use engine::Simulation;
use std::sync::Arc;
pub use witness::{Crossing, Witness};

use rehearsal_core::Span;
use rehearsal_core::calibration::Calibration;

/// How a simulation is run, beside the experiment itself.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOptions {
    /// Serialise every message and let its readers decode it, as between processes.
    pub wire: bool,
    /// Events that actors may handle before the run is ended as a runaway, with a fault.
    pub events_max: u64,
    /// Events within 67 ms of virtual time before the run is ended as one whose time stands still, such as a closed loop
    /// that costs nothing, with a fault.
    pub beat_events_max: u64,
    /// Stops virtual time so long after the start of traffic, if the run has not ended by then; `None` lets it go on. Such
    /// a run is interrupted.
    pub until: Option<Span>,
    /// What things cost; `None` leaves CPU and memory unknown. It must have passed [`Calibration::check`].
    pub calibration: Option<Arc<Calibration>>,
    /// What a NATS server takes for one message, beside the link: `None` takes it from the calibration, or nothing. For
    /// orientation: a request and its reply of 100 B each took 50 µs at p50 over nats-server 2.15.1 on one loopback, the
    /// client's own time included.
    pub broker: Option<Span>,
}

impl Default for SimOptions {
    /// Typed messages; 10^11 events, about five hours at 5 million a second (assumed: nobody waits longer for a dry run);
    /// 2 × 10^7 in a beat (assumed: five times what a million actors need to start at once).
    fn default() -> Self {
        SimOptions {
            wire: false,
            events_max: 100_000_000_000,
            beat_events_max: 20_000_000,
            until: None,
            calibration: None,
            broker: None,
        }
    }
}
