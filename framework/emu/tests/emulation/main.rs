//! Whole runs over loopback: counts, identities and order, never times.

mod actors;
mod datagrams;
mod ends;
mod exchanges;
mod foreign;
mod lab;
mod refusals;
mod telemetry;
