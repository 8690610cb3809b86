//! The books of one group: counters and histograms. Both engines write them in the same way, so it cannot be forgotten.

use hdrhistogram::Histogram;
use serde_bytes::ByteBuf;

use super::buckets::{Buckets, NS_MAX, Shape};
use super::jitter::Variation;
use super::recorder::{Recorder, RequestRows};
use super::streams::Streams;
use super::tally::Tally;
use crate::exchange::{Datagram, Outcome, Request, Status, Times};
use crate::ids::MetricId;
use crate::kind::{MetricName, StreamSpec};
use crate::messages::{HistogramPart, Metric};
use crate::time::{Span, Time};
use crate::units::Fraction;

/// Highest value that histograms tell apart: one hour in nanoseconds; longer times count as one hour.
pub const HISTOGRAM_NS_MAX: u64 = NS_MAX;
/// Most significant decimal digits of histograms; [`Metric::digits`] says which have fewer.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// An empty histogram with all the digits that any of the project's histograms has, so that merges are exact.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HISTOGRAM_NS_MAX, HISTOGRAM_DIGITS).expect("the bounds are constants")
}

/// Counters and this second's times of one group.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Totals since the start.
    pub tally: Tally,
    times: SecondTimes,
    spare: Option<SecondTimes>,
    streams: Streams,
    own: Vec<Own>,
    schedule: u64,
    recorder: Option<Box<Recorder>>,
    /// Nobody knows how long exchanges take.
    untimed: bool,
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
struct Times1s {
    /// Times that are zero: in a dry run all that nothing makes late.
    zeros: u64,
    /// Those that are in no bucket yet.
    raw: Vec<u64>,
    /// How many of them are put into buckets at once, which costs each of them less.
    raw_max: usize,
    many: Option<Box<Buckets>>,
}

/// With so many values in a second a metric gets buckets of its own (at most 270 kB against 8 kB).
const FEW_MAX: usize = 1024;
/// So many are put into them at once.
const BATCH: usize = 256;

impl Default for Times1s {
    fn default() -> Self {
        Times1s { zeros: 0, raw: Vec::new(), raw_max: FEW_MAX, many: None }
    }
}

impl Times1s {
    #[inline]
    fn record(&mut self, metric: Metric, nanos: u64) {
        if nanos == 0 {
            self.zeros += 1;
            return;
        }
        self.raw.push(nanos);
        if self.raw.len() >= self.raw_max {
            self.sort_in(metric);
        }
    }

    fn forget(&mut self) {
        self.zeros = 0;
        self.raw.clear();
        if let Some(buckets) = &mut self.many {
            buckets.reset();
        }
    }

    #[cold]
    #[inline(never)]
    fn sort_in(&mut self, metric: Metric) {
        self.many.get_or_insert_with(|| Box::new(Buckets::new(Shape::of(metric.digits())))).add_all(&self.raw);
        self.raw.clear();
        if self.raw_max > BATCH {
            (self.raw, self.raw_max) = (Vec::with_capacity(BATCH), BATCH);
        }
    }

    fn is_empty(&self) -> bool {
        self.zeros == 0 && self.raw.is_empty() && self.many.as_ref().is_none_or(|many| many.is_empty())
    }

    /// Writes them and empties it.
    fn encode(&mut self, metric: Metric, scratch: &mut Scratch, out: &mut Vec<u8>) {
        let buckets = match &mut self.many {
            Some(many) => many,
            None => scratch.of(metric),
        };
        let zeros = std::mem::take(&mut self.zeros);
        if zeros > 0 {
            buckets.add(0, zeros);
        }
        buckets.add_all(&self.raw);
        self.raw.clear();
        buckets.encode(out);
        buckets.reset();
    }
}

impl SecondTimes {
    /// The histograms of the second, and empties it.
    pub fn encode(&mut self, scratch: &mut Scratch) -> Vec<HistogramPart> {
        let mut parts = Vec::new();
        for metric in Metric::ALL {
            let times = &mut self.0[metric as usize];
            if !times.is_empty() {
                let mut bytes = Vec::new();
                times.encode(metric, scratch, &mut bytes);
                parts.push(HistogramPart { metric, v2: ByteBuf::from(bytes) });
            }
        }
        parts
    }
}

/// What an engine lends its ledgers to encode a second's histograms with: one for all of them.
#[derive(Debug)]
pub struct Scratch([Buckets; 2]);

impl Default for Scratch {
    fn default() -> Self {
        Scratch([2, 3].map(|digits| Buckets::new(Shape::of(digits))))
    }
}

impl Scratch {
    /// Empty buckets for a metric.
    fn of(&mut self, metric: Metric) -> &mut Buckets {
        &mut self.0[usize::from(metric.digits() == 3)]
    }
}

impl Ledger {
    /// Empty books of a group whose members are counted from `first`, that keep a share of all exchanges one by one.
    pub fn recording(first: u32, share: Fraction) -> Ledger {
        let (streams, recorder) = (Streams::of(first), Recorder::new(share).map(Box::new));
        Ledger { streams, recorder, ..Ledger::default() }
    }

    /// Keeps no times of exchanges from now on: a dry run cannot know how long a service takes that nobody measured.
    pub fn forget_times(&mut self) {
        self.untimed = true;
        self.recorder = None;
    }

    /// Books the first attempt of an exchange that came due: one more is generated.
    ///
    /// The schedule digest sums over (member, stream, number, intended − start, bytes) of what was generated. Slots that
    /// fall into a pause are not generated and take no number; after another rate the intended times are those of the new
    /// schedule, which begins where the change says. A steer that is known ahead of its time changes every stream between
    /// the same two slots, so the digest stays that of the experiment, in either engine. A closed loop has no schedule,
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

    /// Books a datagram that is sent at `sent`, and was to leave at `at`: generated, and sent by the schedule.
    #[inline]
    pub fn datagram(&mut self, member: u32, datagram: &Datagram, sent: Time, start: Time) {
        let gap = self.gap(member, datagram.stream, sent);
        self.datagram_after(gap, member, datagram, sent, start);
    }

    /// The same, so long after the stream's send before.
    #[inline]
    pub fn datagram_after(&mut self, gap: Option<Span>, member: u32, datagram: &Datagram, sent: Time, start: Time) {
        let Datagram { stream, seq, intended, at, payload, .. } = *datagram;
        self.tally.generated += 1;
        self.tally.attempts += 1;
        self.tally.datagrams_sent += 1;
        self.tally.bytes_sent += u64::from(payload.bytes);
        self.record(Metric::Lag, sent.since(at));
        self.departs(gap);
        let (place, intended) = (u64::from(member) << 32 | u64::from(stream), intended.since(start).as_nanos());
        self.schedule = self.schedule.wrapping_add(mix(place, seq, intended, u64::from(payload.bytes)));
    }

    /// Books the times of a datagram that came in; how long it was on the way only where that can be told.
    #[inline]
    pub fn arrived(&mut self, one_way: Option<Span>, variation: &Variation) {
        if let Some(one_way) = one_way {
            self.record(Metric::OneWay, one_way);
        }
        if let Some(jitter) = variation.jitter {
            self.record(Metric::Jitter, jitter);
        }
        variation.steps.into_iter().flatten().for_each(|step| self.record(Metric::Ipdv, step));
    }

    /// A stream sends now: how long after its send before, if there was one.
    #[inline]
    pub fn gap(&mut self, member: u32, stream: u32, now: Time) -> Option<Span> {
        self.streams.at(member, stream)?.sends(now)
    }

    /// A stream has sent, so long after the send before.
    #[inline]
    fn departs(&mut self, gap: Option<Span>) {
        if let Some(gap) = gap {
            self.record(Metric::InterDeparture, gap);
        }
    }

    /// Books an attempt that was handed to the carrier. `member` is the sender's number among all of its actor.
    #[inline]
    pub fn sent(&mut self, request: &Request, member: u32, times: &Times, spec: &StreamSpec) {
        let gap = self.gap(member, request.stream, times.sent);
        self.sent_after(gap, request, times, spec);
    }

    /// The same, so long after the stream's send before.
    #[inline]
    pub fn sent_after(&mut self, gap: Option<Span>, request: &Request, times: &Times, spec: &StreamSpec) {
        self.departs(gap);
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
    /// turns away at once says nothing about how long it takes. `member` is the sender's number among all of its actor.
    #[inline]
    pub fn outcome(
        &mut self,
        request: &Request,
        member: u32,
        outcome: &Outcome,
        stopping: bool,
        spec: &StreamSpec,
    ) -> bool {
        let jitter = self.jitter(request, member, outcome);
        self.outcome_with(jitter, request, member, outcome, stopping, spec)
    }

    /// How the response varies from those of its stream before, after an outcome that has a time.
    #[inline]
    pub fn jitter(&mut self, request: &Request, member: u32, outcome: &Outcome) -> Option<Span> {
        let transit = self.transit(outcome)?;
        self.streams.at(member, request.stream)?.jitter.arrived(transit)
    }

    /// The response time of a success, ns, as estimates of jitter want it; `None` if it has none.
    #[inline]
    pub fn transit(&self, outcome: &Outcome) -> Option<i64> {
        let Outcome { status, times, .. } = outcome;
        (*status == Status::Success && !self.untimed)
            .then(|| i64::try_from(times.done.since(times.intended).as_nanos()).unwrap_or(i64::MAX))
    }

    /// The same as [`Ledger::outcome`] where the stream's jitter is kept elsewhere.
    #[inline]
    pub fn outcome_with(
        &mut self,
        jitter: Option<Span>,
        request: &Request,
        member: u32,
        outcome: &Outcome,
        stopping: bool,
        spec: &StreamSpec,
    ) -> bool {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(request, member, outcome);
        }
        let times = &outcome.times;
        self.tally.bytes_replied += u64::from(outcome.reply_bytes);
        if outcome.status == Status::Success && !self.untimed {
            let service = times.done.since(times.sent);
            self.record(Metric::Service, service);
            let response = times.done.since(times.intended);
            self.record(Metric::Response, response);
            jitter.into_iter().for_each(|jitter| self.record(Metric::Jitter, jitter));
            if spec.threshold.is_some_and(|limit| service > limit) {
                self.tally.deadline_missed += 1;
            }
        }
        self.tally.settle(outcome.status, request.last, stopping)
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
        self.times.0[metric as usize].record(metric, span.as_nanos());
    }

    /// Adds to a counter of the group; the reserved ones have a column of their own.
    #[inline]
    pub fn count(&mut self, metric: MetricId, by: u64) {
        match metric {
            MetricId::SKIPPED => self.tally.skipped += by,
            MetricId::MALFORMED => self.tally.malformed += by,
            MetricId::PAUSED => self.tally.paused += by,
            MetricId::AWAY => self.tally.away += by,
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
    pub fn counts(&self, names: &[MetricName]) -> Vec<(String, u64)> {
        let mut all = Vec::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            let own = self.own.get(place).copied().unwrap_or_default();
            all.push((name.to_string(), own.count));
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

    /// Forgets the times of the second that ends now, which nobody wants to hear of.
    pub fn forget_second(&mut self) {
        self.times.0.iter_mut().for_each(Times1s::forget);
        if let Some(recorder) = &mut self.recorder {
            recorder.take(Time::ZERO);
        }
    }

    /// Attempts of the second that ends now that were kept one by one; `None` if there are none.
    /// Their times are since `start`.
    pub fn take_requests(&mut self, start: Time) -> Option<RequestRows> {
        self.recorder.as_mut()?.take(start)
    }

    /// The times of the second that ends now, to be encoded later.
    pub fn take_times(&mut self) -> SecondTimes {
        let next = self.spare.take().unwrap_or_default();
        std::mem::replace(&mut self.times, next)
    }

    /// Takes back what was taken out and encoded, for a later second: its memory need not be found anew each time.
    pub fn give_back(&mut self, times: SecondTimes) {
        self.spare = Some(times);
    }

    /// Sum over all generated exchanges; equal schedules give equal digests, in any order and over any number of hosts.
    pub fn schedule_digest(&self) -> u64 {
        self.schedule
    }
}

/// A 64-bit mix of four words (splitmix64 finaliser over a running product).
#[inline]
pub(super) fn mix(a: u64, b: u64, c: u64, d: u64) -> u64 {
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
    use crate::ids::{RecipeId, SubjectId, Token};
    use crate::payload::Payload;
    use hdrhistogram::serialization::Deserializer;

    fn request() -> Request {
        Request {
            to: SubjectId(0),
            token: Token(0),
            stream: 0,
            seq: 0,
            attempt: 0,
            last: true,
            intended: Time::ZERO,
            at: Time::ZERO,
            deadline: Span::ZERO,
            limit: Span::ZERO,
            reply_bytes: 0,
            payload: Payload { recipe: RecipeId(0), seq: 0, bytes: 0 },
        }
    }

    fn read(part: &HistogramPart) -> Histogram<u64> {
        Deserializer::new().deserialize(&mut part.v2.as_slice()).expect("our own encoding")
    }

    #[test]
    fn few_and_many_values_give_the_same_histogram() {
        let (mut ledger, mut scratch) = (Ledger::default(), Scratch::default());
        for count in [1_u64, 100, FEW_MAX as u64, FEW_MAX as u64 + 1, 10_000, 3] {
            let mut expected = histogram();
            for i in 0..count {
                // a few are zero, which are counted apart
                let nanos = if i % 5 == 3 { 0 } else { i * 7_919 % 1_000_003 + 1 };
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
    fn what_nobody_knows_has_no_times_and_counts_all_the_same() {
        let (mut ledger, mut scratch) = (Ledger::default(), Scratch::default());
        ledger.forget_times();
        let outcome = Outcome { status: Status::Success, times: Times::default(), reply_bytes: 0 };
        ledger.outcome(&request(), 0, &outcome, false, &StreamSpec::UNDECLARED);
        assert!(ledger.take_histograms(&mut scratch).is_empty());
        assert_eq!(ledger.tally.success, 1);
    }

    #[test]
    fn only_successes_have_times() {
        let (mut ledger, mut scratch) = (Ledger::default(), Scratch::default());
        for status in [Status::Success, Status::Invalid, Status::Failed, Status::Rejected, Status::Unacknowledged] {
            ledger.answered(status, Span::from_millis(1));
            let outcome = Outcome { status, times: Times::default(), reply_bytes: 0 };
            ledger.outcome(&request(), 0, &outcome, false, &StreamSpec::UNDECLARED);
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
        assert_eq!(ledger.counts(&["a".into(), "b".into()]), expected);
        assert_eq!(ledger.tally.skipped, 2);
    }
}
