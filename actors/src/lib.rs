//! The kinds of actor: one file each, all of them sans-IO, so that both engines run the same code.
//!
//! Senders: [`Sensor`], [`Camera`], [`Client`], [`Flow`], [`Population`], [`Replayer`]. Receivers: [`Receiver`]. Services, which run the experiment itself: [`Logger`],
//! [`Aggregator`], [`Controller`]. A new kind is a file here, a line in the binary's registry and an example.

pub mod aggregator;
mod alarm;
pub mod camera;
pub mod client;
pub mod controller;
pub mod flow;
pub mod logger;
pub mod population;
pub mod receiver;
pub mod replayer;
pub mod sensor;
mod service;
#[cfg(test)]
mod testing;

pub use aggregator::Aggregator;
pub use camera::Camera;
pub use client::Client;
pub use controller::Controller;
pub use flow::Flow;
pub use logger::Logger;
pub use population::Population;
pub use receiver::Receiver;
pub use replayer::Replayer;
pub use sensor::Sensor;
