//! Targets outside of the experiment: a URL in place of `node/actor`, what a request to it looks like, and what is known of
//! the service there.

use core::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Span;
use crate::units::ByteSize;

pub mod http;
mod request;
pub mod template;
mod url;

pub use request::{ANSWER_BYTES_MAX, AnswerSpec, BodySpec, Expect, Generator, MqttRequest, RequestSpec};
pub use url::{Scheme, Url, check_path};

/// Most headers of one request. Assumed: ten times what browsers send.
pub const HEADERS_MAX: usize = 100;
/// The name that links have for every target outside: `[links."users->outside"]`.
pub const OUTSIDE: &str = "outside";
/// The one actor of a node that stands for a target outside.
pub const SERVICE: &str = "service";

/// What is known of the service at a target outside: the key `service`, which dry runs go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// How long it takes for one request, without waiting.
    pub time: Span,
    /// Requests that it serves at the same time; further ones wait. Assumed: as many as a receiver's.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub workers: u32,
    /// Bytes of its answers, without heads.
    #[serde(default)]
    pub bytes: ByteSize,
}

/// A target outside, as a run knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Scheme, host and port.
    pub origin: String,
    /// Where it is, once that has been looked up.
    pub address: Option<SocketAddr>,
    /// Whether its service time is known; without it a dry run has no times of exchanges with it.
    pub known: bool,
}

const fn sixteen() -> u32 {
    16
}
