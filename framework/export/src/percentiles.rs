//! Histograms: decoded from reports, merged exactly, and told as percentiles.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rehearsal_core::messages::{HistogramPart, Metric};
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::sink::SinkError;
use serde::{Deserialize, Serialize};

/// What a metric came to, in nanoseconds, to the three digits of its histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Values.
    pub count: u64,
    /// Arithmetic mean, ns.
    pub mean_ns: f64,
    /// Smallest, ns.
    pub min_ns: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 95th percentile, ns.
    pub p95_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.9th percentile, ns.
    pub p999_ns: u64,
    /// Largest, ns.
    pub max_ns: u64,
}

impl Percentiles {
    /// Those of a histogram; `None` when it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Percentiles {
            count: histogram.len(),
            mean_ns: histogram.mean(),
            min_ns: histogram.min(),
            p50_ns: at(0.50),
            p90_ns: at(0.90),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: histogram.max(),
        })
    }

    /// The value that a threshold calls by this name, in ns (`count` in values).
    pub fn stat(&self, name: &str) -> Option<f64> {
        let ns = match name {
            "mean" => return Some(self.mean_ns),
            "min" => self.min_ns,
            "p50" => self.p50_ns,
            "p90" => self.p90_ns,
            "p95" => self.p95_ns,
            "p99" => self.p99_ns,
            "p999" | "p99.9" => self.p999_ns,
            "max" => self.max_ns,
            "count" => self.count,
            _ => return None,
        };
        Some(ns as f64)
    }
}

/// Values and how often they occurred: a histogram that is kept for long takes only the room of its occupied buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged(BTreeMap<u64, u64>);

impl Merged {
    /// Adds every bucket of a histogram.
    pub fn add(&mut self, histogram: &Histogram<u64>) {
        for bucket in histogram.iter_recorded() {
            *self.0.entry(bucket.value_iterated_to()).or_default() += bucket.count_since_last_iteration();
        }
    }

    /// Adds every bucket of another.
    pub fn merge(&mut self, other: &Merged) {
        for (value, count) in &other.0 {
            *self.0.entry(*value).or_default() += count;
        }
    }

    /// The upper end of the bucket at or below which this share of the values lies, as a histogram tells it.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total: u64 = self.0.values().sum();
        let wanted = ((share * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        self.0.iter().find_map(|(value, count)| {
            seen += count;
            (seen >= wanted).then_some(*value)
        })
    }

    /// The percentiles; `None` when it is empty.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let mut dense = histogram();
        for (value, count) in &self.0 {
            dense.saturating_record_n(*value, *count);
        }
        Percentiles::of(&dense)
    }
}

/// One second of one metric, as a report holds it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// Which metric.
    pub metric: Metric,
    /// Its values.
    pub histogram: Histogram<u64>,
    /// Its occupied buckets: most of a second's histogram is empty, and walking it is slow.
    pub merged: Merged,
}

impl Part {
    /// Reads the wire form.
    pub fn read(part: &HistogramPart, decoder: &mut Deserializer) -> Result<Self, SinkError> {
        let histogram = decode(part, decoder)?;
        let mut merged = Merged::default();
        merged.add(&histogram);
        Ok(Part { metric: part.metric, histogram, merged })
    }
}

/// Reads the wire form of one histogram.
fn decode(part: &HistogramPart, decoder: &mut Deserializer) -> Result<Histogram<u64>, SinkError> {
    let broken = |why| SinkError(format!("the histogram of `{}` cannot be decoded: {why}", part.metric.name()));
    decoder.deserialize(&mut part.v2.as_slice()).map_err(|why| broken(why.to_string()))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use serde_bytes::ByteBuf;

    use super::*;

    fn filled(values: impl Iterator<Item = u64>) -> Histogram<u64> {
        let mut h = histogram();
        for value in values {
            h.record(value).unwrap();
        }
        h
    }

    #[test]
    fn merged_is_what_one_histogram_would_be() {
        let (a, b) = (filled((0..5000).map(|i| i * 977)), filled((0..300).map(|i| i * 40_000_003)));
        let mut whole = a.clone();
        whole.add(&b).unwrap();
        let (mut left, mut right) = (Merged::default(), Merged::default());
        left.add(&a);
        right.add(&b);
        left.merge(&right);
        assert_eq!(left.percentiles(), Percentiles::of(&whole));
        assert_eq!(left.percentiles().unwrap().count, 5300);
        for share in [0.0, 0.001, 0.5, 0.9, 0.99, 0.9999, 1.0] {
            assert_eq!(left.quantile(share), Some(whole.value_at_quantile(share)), "{share}");
        }
        assert_eq!(Merged::default().percentiles(), None);
    }

    #[test]
    fn the_wire_form_is_read_and_garbage_is_refused() {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&filled(1..100), &mut bytes).unwrap();
        let mut part = HistogramPart { metric: Metric::Lag, v2: ByteBuf::from(bytes) };
        assert_eq!(decode(&part, &mut Deserializer::new()).unwrap(), filled(1..100));
        part.v2.truncate(10);
        let error = decode(&part, &mut Deserializer::new()).unwrap_err().to_string();
        assert!(error.contains("`lag` cannot be decoded"), "{error}");
    }
}
