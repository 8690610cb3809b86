//! Models that actors and engines share: links, streams over them, paths, pacing, retries, the choice of a target, and the sender they add up to.
//!
//! Every model is plain state: it is told the time, draws from a stream of its own and answers at once, so it gives
//! the same result in virtual and in real time.

pub mod arrivals;
pub mod compute;
pub mod diagram;
pub mod distribution;
pub mod link;
pub mod pacer;
pub mod path;
pub mod retry;
pub mod seen;
pub mod source;
pub mod spread;
pub mod transport;
pub mod wire;

pub use pacer::Pacer;
pub use retry::Retry;
pub use source::{Next, Payloads, Source, SourceSpec};
