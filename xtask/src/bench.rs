//! Benchmarks: the engines beside peers, in interleaved pairs on pinned cores, with bounded time.
//!
//! Each benchmark prints one table and writes `target/bench/<name>.json` with the machine, the versions and the
//! commands. A peer that cannot run is named as missing. Nothing here fails for a low figure: it is held against its
//! goal, and both are told.

mod calibration;
mod closed;
mod crowd;
mod figures;
mod fleet;
mod http;
mod lab;
mod machine;
mod pacing;
mod paper;
mod process;
mod protocols;
mod quiet;
mod replay;
mod report;
mod sim;
mod subject;
mod telemetry;
mod truth;
mod users;
mod wire;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Requests per CPU second of a sender, beside bare hyper and the paper's stack
    Http(http::Options),
    /// Requests per CPU second of our sender beside wrk, h2load, oha, hey, autocannon, Locust; datagrams beside iperf3, D-ITG
    Wire(wire::Options),
    /// How late an open loop sends, beside a plain tokio timer; with --rate 10000 on a core of its own, beside D-ITG
    Pacing(pacing::Options),
    /// A closed loop of four cameras against its ceiling, beside the paper's stack
    Closed(closed::Options),
    /// Memory and CPU time of a process that holds 100,000 devices which hardly ever send
    Quiet(quiet::Options),
    /// Events per CPU second of the simulator, beside a bare heap, nexosim and SimPy
    Sim(sim::Options),
    /// How near dry runs with a calibration of this host come to real runs
    Calibration(calibration::Options),
    /// CPU per handshake, megabyte, version of HTTP, network, malformed request, with nginx between
    Protocols(protocols::Options),
    /// How together nodes on agents start, and how soon
    Fleet(fleet::Options),
    /// What the telemetry of fifty node processes costs the traffic
    Telemetry(telemetry::Options),
    /// A capture over a veth pair, top speed and its own times, beside tcpreplay; needs root
    Replay(replay::Options),
    /// How many packets users of one machine send and get, up to the knee, beside D-ITG's VoIP; memory of each; a million in virtual time
    Users(users::Options),
    /// The timed parts of the acceptance tests; with --recorder, a capture of packets beside the bundle
    Truth(truth::Options),
}

/// Runs one benchmark.
///
/// # Errors
/// When something cannot be built or started, ends with an error, or takes longer than its bound.
pub fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Http(options) => http::run(options),
        Bench::Wire(options) => wire::run(options),
        Bench::Pacing(options) => pacing::run(options),
        Bench::Closed(options) => closed::run(options),
        Bench::Quiet(options) => quiet::run(options),
        Bench::Sim(options) => sim::run(options),
        Bench::Calibration(options) => calibration::run(options),
        Bench::Protocols(options) => protocols::run(options),
        Bench::Fleet(options) => fleet::run(options),
        Bench::Telemetry(options) => telemetry::run(options),
        Bench::Replay(options) => replay::run(options),
        Bench::Users(options) => users::run(options),
        Bench::Truth(options) => truth::run(options),
    }
}
