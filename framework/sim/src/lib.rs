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
//! What is modelled: links (rate, delay, jitter, loss, finite queue) with the headers of their carrier, connection
//! set-up, retransmission, deadlines, the streams' gates, the receivers' work, and messages after a constant latency.
//! What is not: CPU, memory and encoding costs before a calibration, congestion control, acknowledgements on the
//! reverse link, and contention between the nodes of one host. [`Simulation::run`] says so in the run's notes.

mod engine;
mod world;

pub use engine::Simulation;

/// How a simulation is run, beside the experiment itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOptions {
    /// Serialise every message and let its readers decode it, as between processes.
    pub wire: bool,
    /// Events that actors may handle before the run is ended as a runaway, with a fault.
    pub events_max: u64,
    /// Events within 67 ms of virtual time before the run is ended as one whose time stands still, such as a closed loop
    /// that costs nothing, with a fault.
    pub beat_events_max: u64,
}

impl Default for SimOptions {
    /// Typed messages; 10^11 events, about five hours at 5 million a second (assumed: nobody waits longer for a dry run);
    /// 2 × 10^7 in a beat (assumed: five times what a million actors need to start at once).
    fn default() -> Self {
        SimOptions { wire: false, events_max: 100_000_000_000, beat_events_max: 20_000_000 }
    }
}
