//! `--metrics ADDR`: the run so far as OpenMetrics text, for Prometheus and what reads its format.
//!
//! Source: OpenMetrics 1.0. Counters are of the whole run; those of a later repetition begin at zero again, as they do
//! after a restart. Figures are of the last second that was complete.

mod address;
mod board;
mod page;
mod server;

pub use address::Address;
pub use board::Board;
pub use server::Server;

/// Type of the answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
