//! What every sender can be told, whatever it sends: the common keys of an actor that generates traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals::{Arrivals, Course};
use crate::dscp::Dscp;
use crate::outside::{RequestSpec, ServiceSpec};
use crate::time::Span;
use crate::units::{Fraction, Rate};

/// The keys that all sending kinds share. `rate`, `requests` and `in_flight` are per stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SenderParams {
    /// Where to: `node/actor`, or a place outside the experiment, such as `http://127.0.0.1:8080/path`.
    pub to: String,
    /// Which instance each request goes to, when the target has several.
    #[serde(default)]
    pub spread: Spread,
    /// Concurrent sources of one instance.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub streams: u32,
    /// Exchanges to generate per stream; without it, until the run's duration ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// Exchanges per time and stream, evenly spaced. Without it the loop is closed: the next begins when the last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// When exchanges of a stream are due, if not evenly; instead of `rate`. Times of response count from the drawn time.
    /// There is no bound on how many are due in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Box<Arrivals>>,
    /// Exchanges that one stream may have under way.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub in_flight: u32,
    /// What becomes of an exchange that is due while `in_flight` is full.
    #[serde(default)]
    pub on_late: OnLate,
    /// How many due exchanges of one stream may wait.
    #[serde(default = "thousand")]
    #[schemars(range(max = 1_000_000))]
    pub queue: u32,
    /// An attempt without an answer after this time is unacknowledged.
    #[serde(default = "ten_seconds")]
    pub timeout: Span,
    /// Further attempts after a rejection or a missing answer.
    #[serde(default = "three")]
    #[schemars(range(max = 255))]
    pub retries: u32,
    /// Wait before the second attempt; doubled for each further one, with jitter of ±50 %.
    #[serde(default = "hundred_millis")]
    pub backoff: Span,
    /// A limit on the handling time, and what it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The share of payloads that are spoiled on purpose, to test the receiver's validation.
    #[serde(default)]
    pub malformed: Fraction,
    /// The class of its traffic: `"EF"` or a number. Links with classes go by it, and an emulation marks the packets of its
    /// sockets with it (IP_TOS, IPV6_TCLASS) over `udp`, `tcp`, `mqtt` and HTTP. Answers are of the class of their requests.
    #[serde(default, skip_serializing_if = "Dscp::is_default")]
    pub dscp: Dscp,
    /// What its requests look like, where `to` is a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<RequestSpec>>,
    /// What is known of the service where `to` is a URL: dry runs go by it. Without it their times of exchanges are null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,
}

impl SenderParams {
    /// Whether a schedule paces it: a closed loop has none.
    pub fn is_paced(&self) -> bool {
        self.rate.is_some() || self.arrivals.is_some()
    }

    /// Exchanges per time and stream, in the mean; `None` for a closed loop, and for arrivals that cannot be.
    pub fn mean_rate(&self) -> Option<Rate> {
        self.rate.or_else(|| self.course()?.rate())
    }

    /// Its arrivals, if they are not even and can be.
    pub fn course(&self) -> Option<Course> {
        self.arrivals.as_ref()?.course().ok()
    }

    /// Exchanges of one stream that are due within `span` of the start, in the mean; `None` for a closed loop.
    pub fn expected_in(&self, span: Span) -> Option<f64> {
        match self.rate {
            Some(rate) => Some(rate.events_in(span)),
            None => Some(self.course()?.expected(span)),
        }
    }
}

/// How requests are spread over a target's instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// One after the other, each stream beginning at its own number.
    #[default]
    RoundRobin,
    /// Always the same one for one stream, by its number.
    Hash,
    /// Every request to every instance.
    All,
}

/// What becomes of an exchange that is due while the stream's `in_flight` is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnLate {
    /// It waits its turn, counted; beyond `queue` it is lost.
    #[default]
    Queue,
    /// Its slot is given up and counted; it does not use up `requests`.
    Skip,
    /// It leaves at once, up to `in_flight + queue` under way.
    Burst,
}

/// The paper's 100 ms, in one of its three readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The longest handling time.
    pub deadline: Span,
    /// What it means.
    #[serde(rename = "as", default)]
    pub reading: LimitReading,
}

/// Three readings of a handling-time limit (PL-5G leaves it open which is meant).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitReading {
    /// A success that took longer counts as a deadline miss, and stays a success.
    #[default]
    Threshold,
    /// The sender gives the attempt up.
    Timeout,
    /// The receiver rejects what waited longer for a worker.
    ReceiverDeadline,
}

const fn one() -> u32 {
    1
}
const fn three() -> u32 {
    3
}
const fn thousand() -> u32 {
    1000
}
const fn ten_seconds() -> Span {
    Span::from_secs(10)
}
const fn hundred_millis() -> Span {
    Span::from_millis(100)
}
