//! Histograms told as percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub(crate) use crate::merged::{Merged, Part};

/// What a metric came to, in nanoseconds, to the digits of its histogram. A percentile is told from so many values
/// on that one of them lies beyond it; of fewer it would be the largest value under another name.
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
    /// 90th percentile, ns; `None` of fewer than 10 values.
    pub p90_ns: Option<u64>,
    /// 95th percentile, ns; `None` of fewer than 20 values.
    pub p95_ns: Option<u64>,
    /// 99th percentile, ns; `None` of fewer than 100 values.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, ns; `None` of fewer than 1,000 values.
    pub p999_ns: Option<u64>,
    /// Largest, ns.
    pub max_ns: u64,
}

impl Percentiles {
    /// Those of a histogram; `None` when it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let ends = (histogram.min(), histogram.max());
        let at = |share| histogram.value_at_quantile(share);
        (!histogram.is_empty()).then(|| Percentiles::told(histogram.len(), histogram.mean(), ends, at))
    }

    /// Those of so many values, above none, between two ends.
    pub(crate) fn told(count: u64, mean_ns: f64, ends: (u64, u64), at: impl Fn(f64) -> u64) -> Self {
        let beyond = |needed: u64, share| (count >= needed).then(|| at(share));
        Percentiles {
            count,
            mean_ns,
            min_ns: ends.0,
            p50_ns: at(0.50),
            p90_ns: beyond(10, 0.90),
            p95_ns: beyond(20, 0.95),
            p99_ns: beyond(100, 0.99),
            p999_ns: beyond(1000, 0.999),
            max_ns: ends.1,
        }
    }

    /// Whether there is a statistic of this name.
    pub fn has(name: &str) -> bool {
        ["mean", "min", "p50", "p90", "p95", "p99", "p999", "p99.9", "max", "count"].contains(&name)
    }

    /// The value that a threshold calls by this name, in ns (`count` in values); `None` also of too few values.
    pub fn stat(&self, name: &str) -> Option<f64> {
        let ns = match name {
            "mean" => return Some(self.mean_ns),
            "min" => self.min_ns,
            "p50" => self.p50_ns,
            "p90" => self.p90_ns?,
            "p95" => self.p95_ns?,
            "p99" => self.p99_ns?,
            "p999" | "p99.9" => self.p999_ns?,
            "max" => self.max_ns,
            "count" => self.count,
            _ => return None,
        };
        Some(ns as f64)
    }
}
