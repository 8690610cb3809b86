//! Whole runs over loopback: counts, identities and order, never times.

mod actors;
mod brokers;
mod datagrams;
mod echoes;
mod ends;
mod exchanges;
mod foreign;
mod frames;
mod hostile;
mod lab;
mod links;
mod outside;
mod refusals;
mod telemetry;
mod versions;
