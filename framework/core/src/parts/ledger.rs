//! The books of one group: counters and histograms. Both engines write them in the same way, so it cannot be forgotten.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use serde_bytes::ByteBuf;

use super::tally::Tally;
use crate::exchange::{Outcome, Request, Status, Times};
use crate::ids::MetricId;
use crate::kind::StreamSpec;
use crate::messages::{HistogramPart, Metric};
use crate::time::{Span, Time};

/// Highest value that histograms tell apart: one hour in nanoseconds; longer times count as one hour.
pub const HISTOGRAM_NS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits of histograms.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// An empty histogram in the shape that all of the project's histograms share, so that merges are exact.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HISTOGRAM_NS_MAX, HISTOGRAM_DIGITS).expect("the bounds are constants")
}

/// Counters and this second's histograms of one group.
#[derive(Default)]
pub struct Ledger {
    /// Totals since the start.
    pub tally: Tally,
    histograms: [Option<Box<Histogram<u64>>>; Metric::ALL.len()],
    own: Vec<u64>,
    schedule: u64,
    encoder: Option<V2Serializer>,
}

impl Ledger {
    /// Books the first attempt of an exchange that came due: one more is generated.
    ///
    /// The schedule digest sums over (member, stream, number, intended − start, bytes); a closed loop has no schedule,
    /// so its intended times stay out.
    #[inline]
    pub fn generated(&mut self, request: &Request, member: u32, start: Time, spec: &StreamSpec) {
        self.tally.generated += 1;
        let intended = if spec.gap.is_some() { request.intended.since(start).as_nanos() } else { 0 };
        self.schedule = self.schedule.wrapping_add(mix(
            u64::from(member) << 32 | u64::from(request.stream),
            request.seq,
            intended,
            u64::from(request.payload.bytes),
        ));
    }

    /// Books a datagram: generated, and sent by the schedule `at`.
    #[inline]
    pub fn datagram(&mut self, member: u32, stream: u32, seq: u64, intended: Span, bytes: u32, lag: Span) {
        self.tally.generated += 1;
        self.tally.attempts += 1;
        self.tally.datagrams_sent += 1;
        self.tally.bytes_sent += u64::from(bytes);
        self.record(Metric::Lag, lag);
        let place = u64::from(member) << 32 | u64::from(stream);
        self.schedule = self.schedule.wrapping_add(mix(place, seq, intended.as_nanos(), u64::from(bytes)));
    }

    /// Books an attempt that was handed to the carrier.
    #[inline]
    pub fn sent(&mut self, request: &Request, times: &Times, spec: &StreamSpec) {
        self.tally.attempts += 1;
        self.tally.bytes_sent += u64::from(request.payload.bytes);
        self.record(Metric::Lag, times.sent.since(times.ready));
        self.record(Metric::Blocked, times.ready.since(request.at));
        if let Some(gap) = spec.gap
            && request.attempt == 0
            && times.sent.since(request.intended) > gap
        {
            self.tally.queued += 1;
        }
    }

    /// Books the end of an attempt; true if the exchange is settled.
    #[inline]
    pub fn outcome(&mut self, outcome: &Outcome, last: bool, stopping: bool, spec: &StreamSpec) -> bool {
        let times = &outcome.times;
        self.tally.bytes_replied += u64::from(outcome.reply_bytes);
        if matches!(outcome.status, Status::Success | Status::Invalid | Status::Failed | Status::Rejected) {
            let service = times.done.since(times.sent);
            self.record(Metric::Service, service);
            if outcome.status == Status::Success {
                self.record(Metric::Response, times.done.since(times.intended));
                if spec.threshold.is_some_and(|limit| service > limit) {
                    self.tally.deadline_missed += 1;
                }
            }
        }
        self.tally.settle(outcome.status, last, stopping)
    }

    /// Books a receiver's answer.
    #[inline]
    pub fn answered(&mut self, status: Status, handling: Span) {
        match status {
            Status::Success => self.tally.served += 1,
            Status::Invalid => self.tally.refused += 1,
            Status::Rejected => self.tally.turned_away += 1,
            _ => self.tally.unserved += 1,
        }
        self.record(Metric::Handling, handling);
    }

    /// Records one time.
    #[inline]
    pub fn record(&mut self, metric: Metric, span: Span) {
        let slot = &mut self.histograms[metric as usize];
        slot.get_or_insert_with(|| Box::new(histogram())).saturating_record(span.as_nanos());
    }

    /// Adds to a counter of the group; the reserved ones have a column of their own.
    #[inline]
    pub fn count(&mut self, metric: MetricId, by: u64) {
        match metric {
            MetricId::SKIPPED => self.tally.skipped += by,
            MetricId::MALFORMED => self.tally.malformed += by,
            MetricId(id) => {
                let place = usize::from(id - MetricId::FIRST_OWN);
                if self.own.len() <= place {
                    self.own.resize(place + 1, 0);
                }
                self.own[place] += by;
            }
        }
    }

    /// The group's own counters by name.
    pub fn counts(&self, names: &[&'static str]) -> Vec<(String, u64)> {
        names.iter().enumerate().map(|(i, n)| ((*n).to_owned(), self.own.get(i).copied().unwrap_or(0))).collect()
    }

    /// The histograms of the second that ends now, and empties them.
    pub fn take_histograms(&mut self) -> Vec<HistogramPart> {
        let encoder = self.encoder.get_or_insert_with(V2Serializer::new);
        let mut parts = Vec::new();
        for metric in Metric::ALL {
            if let Some(h) = &mut self.histograms[metric as usize]
                && !h.is_empty()
            {
                let mut bytes = Vec::new();
                encoder.serialize(h, &mut bytes).expect("a histogram fits into memory");
                parts.push(HistogramPart { metric, v2: ByteBuf::from(bytes) });
                h.reset();
            }
        }
        parts
    }

    /// Sum over all generated exchanges; equal schedules give equal digests, in any order and over any number of hosts.
    pub fn schedule_digest(&self) -> u64 {
        self.schedule
    }
}

/// A 64-bit mix of four words (splitmix64 finaliser over a running product).
#[inline]
fn mix(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    for word in [a, b, c, d] {
        x = (x ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^= x >> 29;
    }
    x.wrapping_mul(0x94D0_49BB_1331_11EB) ^ x >> 32
}
