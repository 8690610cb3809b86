//! Histograms as they are kept: only their occupied buckets, and merged exactly.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rehearsal_core::messages::{HistogramPart, Metric};
use rehearsal_core::parts::buckets::{NS_MAX, Shape, encode_v2};
use rehearsal_core::parts::ledger::HISTOGRAM_DIGITS;
use rehearsal_core::sink::SinkError;

use crate::encoded;
use crate::percentiles::Percentiles;

/// Buckets and how many values are in each: a histogram that is kept for long takes only the room of those that are
/// occupied. Empty, it takes on the shape of the first that is merged into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    shape: Shape,
    /// Index and count, which is above zero; the lowest first.
    buckets: Vec<(u32, u64)>,
}

impl Default for Merged {
    fn default() -> Self {
        Merged { shape: Shape::of(HISTOGRAM_DIGITS), buckets: Vec::new() }
    }
}

impl Merged {
    /// Values and how often each occurred, the lowest first.
    pub fn of(shape: Shape, values: impl Iterator<Item = (u64, u64)>) -> Self {
        Merged::of_indices(shape, values.map(|(value, count)| (shape.index(value), count)))
    }

    /// Buckets of this shape by their numbers, the lowest first; each once.
    pub fn of_indices(shape: Shape, indices: impl Iterator<Item = (usize, u64)>) -> Self {
        let last = shape.index(NS_MAX);
        let mut buckets: Vec<(u32, u64)> = Vec::new();
        for (index, count) in indices.filter(|(_, count)| *count > 0) {
            let index = index.min(last) as u32;
            match buckets.last_mut().filter(|(before, _)| *before == index) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => buckets.push((index, count)),
            }
        }
        Merged { shape, buckets }
    }

    /// Adds every bucket of another, which has the same shape.
    pub fn merge(&mut self, other: &Merged) {
        if self.buckets.is_empty() {
            self.clone_from(other);
            return;
        }
        debug_assert!(other.buckets.is_empty() || self.shape == other.shape, "a metric has one shape");
        let (mut at, mut missing) = (0, 0);
        for (index, count) in &other.buckets {
            at += self.buckets[at..].partition_point(|(own, _)| own < index);
            match self.buckets.get_mut(at).filter(|(own, _)| own == index) {
                Some((_, sum)) => *sum = sum.saturating_add(*count),
                None => missing += 1,
            }
        }
        if missing > 0 {
            self.insert(other, missing);
        }
    }

    /// Adds the buckets that are not there yet.
    #[cold]
    fn insert(&mut self, other: &Merged, missing: usize) {
        let mut all = Vec::with_capacity(self.buckets.len() + missing);
        let mut own = self.buckets.iter().copied().peekable();
        for (index, count) in &other.buckets {
            while let Some(before) = own.next_if(|(own, _)| own < index) {
                all.push(before);
            }
            match own.next_if(|(own, _)| own == index) {
                Some(already) => all.push(already),
                None => all.push((*index, *count)),
            }
        }
        all.extend(own);
        self.buckets = all;
    }

    /// Values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Arithmetic mean, ns; each value counts as the middle of its bucket.
    pub fn mean(&self) -> f64 {
        let all = self.count() as f64;
        let share = |(index, count): &(u32, u64)| self.shape.middle(*index as usize) as f64 * *count as f64 / all;
        self.buckets.iter().map(share).fold(0.0, |sum, share| sum + share)
    }

    /// The largest value, to its digits.
    pub fn max(&self) -> u64 {
        self.buckets.last().map_or(0, |(index, _)| self.shape.highest(*index as usize))
    }

    /// What is left without the values of `part`, all of which it holds.
    pub fn without(&self, part: &Merged) -> Merged {
        let held = |index: u32| part.buckets.binary_search_by_key(&index, |(index, _)| *index).ok();
        let left = |(index, count): &(u32, u64)| {
            (*index, count.saturating_sub(held(*index).map_or(0, |at| part.buckets[at].1)))
        };
        let buckets = self.buckets.iter().map(left).filter(|(_, count)| *count > 0).collect();
        Merged { shape: self.shape, buckets }
    }

    /// The upper end of the bucket at or below which this share of the values lies, as a histogram tells it.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total = self.count();
        let wanted = ((share * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0_u64;
        self.buckets.iter().find_map(|(index, count)| {
            seen = seen.saturating_add(*count);
            (seen >= wanted).then(|| self.shape.highest(*index as usize))
        })
    }

    /// The percentiles; `None` when it is empty.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let least = self.shape.lowest(self.buckets.first()?.0 as usize);
        let at = |share| self.quantile(share).unwrap_or_default();
        Some(Percentiles::told(self.count(), self.mean(), (least, self.max()), at))
    }

    /// Writes it as a histogram in the plain V2 encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_v2(self.shape, self.buckets.iter().map(|(index, count)| (*index as usize, *count)), out);
    }

    /// Adds it to a histogram that tells at least as much apart.
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (index, count) in &self.buckets {
            histogram.saturating_record_n(self.shape.highest(*index as usize), *count);
        }
    }
}

/// One second of one metric, as a report holds it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// Which metric.
    pub metric: Metric,
    /// Its values.
    pub merged: Merged,
}

impl Part {
    /// Reads the wire form.
    pub fn read(part: &HistogramPart, decoder: &mut Deserializer) -> Result<Self, SinkError> {
        let broken = |why| SinkError(format!("the histogram of `{}` cannot be decoded: {why}", part.metric.name()));
        let merged = encoded::decode(&part.v2, Shape::of(part.metric.digits()), decoder);
        Ok(Part { metric: part.metric, merged: merged.map_err(broken)? })
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use rehearsal_core::parts::ledger::HISTOGRAM_NS_MAX;
    use serde_bytes::ByteBuf;

    use super::*;

    fn filled(digits: u8, values: impl Iterator<Item = u64>) -> Histogram<u64> {
        let mut h = Histogram::new_with_bounds(1, HISTOGRAM_NS_MAX, digits).unwrap();
        values.for_each(|value| h.record(value).unwrap());
        h
    }

    fn part(metric: Metric, h: &Histogram<u64>) -> HistogramPart {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(h, &mut bytes).unwrap();
        HistogramPart { metric, v2: ByteBuf::from(bytes) }
    }

    fn read(metric: Metric, h: &Histogram<u64>) -> Merged {
        Part::read(&part(metric, h), &mut Deserializer::new()).unwrap().merged
    }

    #[test]
    fn merged_is_what_one_histogram_would_be() {
        for (metric, digits) in [(Metric::Response, 3), (Metric::Lag, 2)] {
            let a = filled(digits, (0..5000).map(|i| i * 977));
            let b = filled(digits, (0..300).map(|i| i * 40_000_003));
            let mut whole = a.clone();
            whole.add(&b).unwrap();
            let (left, right) = (read(metric, &a), read(metric, &b));
            for (first, second) in [(&left, &right), (&right, &left)] {
                let mut merged = Merged::default();
                merged.merge(first);
                merged.merge(second);
                assert_eq!(merged, read(metric, &whole));
                assert_eq!(merged.percentiles(), Percentiles::of(&whole));
                assert_eq!(merged.count(), 5300);
                assert_eq!(merged.without(first), *second);
                for share in [0.001, 0.5, 0.9, 0.99, 0.9999, 1.0] {
                    assert_eq!(merged.quantile(share), Some(whole.value_at_quantile(share)), "{share}");
                }
                let mut bytes = Vec::new();
                merged.encode(&mut bytes);
                assert_eq!(bytes, part(metric, &whole).v2.into_vec());
            }
        }
        assert_eq!(Merged::default().percentiles(), None);
    }

    #[test]
    fn other_digits_than_ours_are_put_into_our_buckets() {
        let values = || (1..4000).map(|i| i * 1_003);
        assert_eq!(read(Metric::Lag, &filled(3, values())), read(Metric::Lag, &filled(2, values())));
        let coarse = filled(2, values());
        let found = read(Metric::Response, &coarse);
        assert_eq!((found.count(), found.quantile(0.5)), (3999, Some(coarse.value_at_quantile(0.5))));
    }

    #[test]
    fn the_wire_form_is_read_and_garbage_is_refused() {
        let mut part = part(Metric::Lag, &filled(2, 1..100));
        part.v2.truncate(10);
        let error = Part::read(&part, &mut Deserializer::new()).unwrap_err().to_string();
        assert!(error.contains("`lag` cannot be decoded"), "{error}");
    }
}
