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

/// Counters and this second's times of one group.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Totals since the start.
    pub tally: Tally,
    times: SecondTimes,
    own: Vec<Own>,
    schedule: u64,
}

/// A counter or value that the group named itself.
#[derive(Debug, Default, Clone, Copy)]
struct Own {
    count: u64,
    /// Of recorded values: how many, and the largest.
    recorded: u64,
    max: u64,
}

/// One second's times of a group. An engine may take them out of the ledger and encode them on another thread.
#[derive(Debug, Default)]
pub struct SecondTimes([Times1s; Metric::ALL.len()]);

/// Values of one metric in one second: as they are while they are few, so that thousands of quiet groups stay small.
#[derive(Debug)]
enum Times1s {
    Few(Vec<u64>),
    Many(Box<Histogram<u64>>),
}

/// Above so many values in a second a metric gets a histogram of its own (270 kB against 32 kB).
const FEW_MAX: usize = 4096;

impl Default for Times1s {
    fn default() -> Self {
        Times1s::Few(Vec::new())
    }
}

impl Times1s {
    #[inline]
    fn record(&mut self, nanos: u64) {
        match self {
            Times1s::Few(values) if values.len() < FEW_MAX => values.push(nanos),
            Times1s::Many(histogram) => histogram.saturating_record(nanos),
            Times1s::Few(_) => self.grow(nanos),
        }
    }

    #[cold]
    fn grow(&mut self, nanos: u64) {
        let mut histogram = Box::new(histogram());
        if let Times1s::Few(values) = self {
            values.iter().for_each(|v| histogram.saturating_record(*v));
        }
        histogram.saturating_record(nanos);
        *self = Times1s::Many(histogram);
    }

    fn is_empty(&self) -> bool {
        match self {
            Times1s::Few(values) => values.is_empty(),
            Times1s::Many(histogram) => histogram.is_empty(),
        }
    }
}

impl SecondTimes {
    /// The histograms of the second, and empties it.
    pub fn encode(&mut self, scratch: &mut Scratch) -> Vec<HistogramPart> {
        let mut parts = Vec::new();
        for metric in Metric::ALL {
            let times = &mut self.0[metric as usize];
            if times.is_empty() {
                continue;
            }
            let mut bytes = Vec::new();
            let encoded = match times {
                Times1s::Many(histogram) => {
                    let encoded = scratch.encoder.serialize(histogram, &mut bytes);
                    histogram.reset();
                    encoded
                }
                Times1s::Few(values) => {
                    values.drain(..).for_each(|v| scratch.histogram.saturating_record(v));
                    let encoded = scratch.encoder.serialize(&scratch.histogram, &mut bytes);
                    scratch.histogram.reset();
                    encoded
                }
            };
            encoded.expect("a histogram fits into memory");
            parts.push(HistogramPart { metric, v2: ByteBuf::from(bytes) });
        }
        parts
    }
}

/// What an engine lends its ledgers to encode a second's histograms with: one for all of them.
pub struct Scratch {
    histogram: Histogram<u64>,
    encoder: V2Serializer,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch { histogram: histogram(), encoder: V2Serializer::new() }
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scratch")
    }
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

    /// Books the end of an attempt; true if the exchange is settled. Times are those of successes: what a receiver
    /// turns away at once says nothing about how long it takes.
    #[inline]
    pub fn outcome(&mut self, outcome: &Outcome, last: bool, stopping: bool, spec: &StreamSpec) -> bool {
        let times = &outcome.times;
        self.tally.bytes_replied += u64::from(outcome.reply_bytes);
        if outcome.status == Status::Success {
            let service = times.done.since(times.sent);
            self.record(Metric::Service, service);
            self.record(Metric::Response, times.done.since(times.intended));
            if spec.threshold.is_some_and(|limit| service > limit) {
                self.tally.deadline_missed += 1;
            }
        }
        self.tally.settle(outcome.status, last, stopping)
    }

    /// Books a receiver's answer; the handling time is that of a served request.
    #[inline]
    pub fn answered(&mut self, status: Status, handling: Span) {
        match status {
            Status::Success => {
                self.tally.served += 1;
                self.record(Metric::Handling, handling);
            }
            Status::Invalid => self.tally.refused += 1,
            Status::Rejected => self.tally.turned_away += 1,
            _ => self.tally.unserved += 1,
        }
    }

    /// Records one time.
    #[inline]
    pub fn record(&mut self, metric: Metric, span: Span) {
        self.times.0[metric as usize].record(span.as_nanos());
    }

    /// Adds to a counter of the group; the reserved ones have a column of their own.
    #[inline]
    pub fn count(&mut self, metric: MetricId, by: u64) {
        match metric {
            MetricId::SKIPPED => self.tally.skipped += by,
            MetricId::MALFORMED => self.tally.malformed += by,
            MetricId(id) => self.own(id).count += by,
        }
    }

    /// Records a value of one of the group's own metrics: its sum, number and largest are kept.
    #[inline]
    pub fn value(&mut self, metric: MetricId, value: u64) {
        if metric.0 >= MetricId::FIRST_OWN {
            let own = self.own(metric.0);
            own.count = own.count.saturating_add(value);
            own.recorded += 1;
            own.max = own.max.max(value);
        }
    }

    fn own(&mut self, id: u16) -> &mut Own {
        let place = usize::from(id - MetricId::FIRST_OWN);
        if self.own.len() <= place {
            self.own.resize(place + 1, Own::default());
        }
        &mut self.own[place]
    }

    /// The group's own counters by name; a metric with recorded values gives its sum, and `_values` and `_max` beside it.
    pub fn counts(&self, names: &[&'static str]) -> Vec<(String, u64)> {
        let mut all = Vec::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            let own = self.own.get(place).copied().unwrap_or_default();
            all.push(((*name).to_owned(), own.count));
            if own.recorded > 0 {
                all.push((format!("{name}_values"), own.recorded));
                all.push((format!("{name}_max"), own.max));
            }
        }
        all
    }

    /// The histograms of the second that ends now, and empties them.
    pub fn take_histograms(&mut self, scratch: &mut Scratch) -> Vec<HistogramPart> {
        self.times.encode(scratch)
    }

    /// The times of the second that ends now, to be encoded later.
    pub fn take_times(&mut self) -> SecondTimes {
        std::mem::take(&mut self.times)
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

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    fn read(part: &HistogramPart) -> Histogram<u64> {
        Deserializer::new().deserialize(&mut part.v2.as_slice()).expect("our own encoding")
    }

    #[test]
    fn few_and_many_values_give_the_same_histogram() {
        let (mut ledger, mut scratch) = (Ledger::default(), Scratch::default());
        for count in [1_u64, 100, FEW_MAX as u64, FEW_MAX as u64 + 1, 10_000, 3] {
            let mut expected = histogram();
            for i in 0..count {
                let nanos = i * 7_919 % 1_000_003 + 1;
                ledger.record(Metric::Service, Span::from_nanos(nanos));
                expected.saturating_record(nanos);
            }
            let parts = ledger.take_histograms(&mut scratch);
            assert_eq!(parts.len(), 1);
            assert_eq!(read(&parts[0]), expected, "{count} values");
            assert!(ledger.take_histograms(&mut scratch).is_empty(), "a second's values are given once");
        }
    }

    #[test]
    fn only_successes_have_times() {
        let (mut ledger, mut scratch) = (Ledger::default(), Scratch::default());
        for status in [Status::Success, Status::Invalid, Status::Failed, Status::Rejected, Status::Unacknowledged] {
            ledger.answered(status, Span::from_millis(1));
            ledger.outcome(
                &Outcome { status, times: Times::default(), reply_bytes: 0 },
                true,
                false,
                &StreamSpec::UNDECLARED,
            );
        }
        let parts = ledger.take_histograms(&mut scratch);
        let counted: Vec<_> = parts.iter().map(|p| (p.metric, read(p).len())).collect();
        assert_eq!(counted, [(Metric::Response, 1), (Metric::Service, 1), (Metric::Handling, 1)]);
        let t = &ledger.tally;
        assert_eq!((t.served, t.refused, t.turned_away, t.unserved), (1, 1, 1, 2));
    }

    #[test]
    fn own_counters_and_values_have_names() {
        let mut ledger = Ledger::default();
        ledger.count(MetricId(MetricId::FIRST_OWN), 3);
        ledger.value(MetricId(MetricId::FIRST_OWN + 1), 5);
        ledger.value(MetricId(MetricId::FIRST_OWN + 1), 9);
        ledger.count(MetricId::SKIPPED, 2);
        let expected = [("a", 3), ("b", 14), ("b_values", 2), ("b_max", 9)].map(|(n, v)| (n.to_owned(), v));
        assert_eq!(ledger.counts(&["a", "b"]), expected);
        assert_eq!(ledger.tally.skipped, 2);
    }
}
