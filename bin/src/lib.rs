//! The program: composes scenario, media, engines and export, and maps what happens to exit codes.
//!
//! ```text
//!   cli ──> experiment (load, assemble) ──> simulate | emulate ──> report ──> exit code
//!                 │                              │
//!            registry, clips             progress, signals, facts
//! ```

pub mod check;
pub mod cli;
pub mod clips;
pub mod destination;
pub mod emulate;
pub mod exit;
pub mod experiment;
pub mod facts;
pub mod histograms;
pub mod node;
pub mod processes;
pub mod progress;
pub mod registry;
pub mod report;
pub mod signals;
pub mod simulate;
pub mod thresholds;
pub mod unfinished;
pub mod validate;
