//! The program: composes scenario, media, engines and export, and maps what happens to exit codes.
//!
//! ```text
//!   cli ──> experiment (load, assemble) ──> simulate | emulate ──> report ──> exit code
//!                 │                              │
//!       registry, clips, recordings         live, signals, facts
//! ```

pub mod agent;
pub mod agents;
pub mod aggregator;
pub mod analysis;
pub mod attached;
pub mod baseline;
pub mod books;
pub mod calibrate;
pub mod calibration;
pub mod check;
pub mod cli;
pub mod clips;
pub mod compare;
pub mod connection;
pub mod control;
pub mod cores;
pub mod destination;
pub mod emulate;
pub mod exit;
pub mod experiment;
pub mod facts;
pub mod foreign;
pub mod histograms;
pub mod junit;
pub mod limits;
pub mod links;
pub mod live;
pub mod metrics;
pub mod middle;
pub mod model;
pub mod node;
pub mod permits;
pub mod plan;
pub mod ports;
pub mod processes;
pub mod provision;
pub mod recordings;
pub mod registry;
pub mod replay;
pub mod report;
pub mod room;
pub mod send;
pub mod shared;
pub mod signals;
pub mod simulate;
pub mod sweep;
pub mod tags;
pub mod targets;
pub mod template;
pub mod thresholds;
pub mod trial;
pub mod unfinished;
pub mod validate;
pub mod witness;
