//! The resources of one node over the measured seconds.

use rehearsal_core::messages::HostSample;
use serde::{Deserialize, Serialize};

/// Sums and extremes of a node's host samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HostBook {
    seconds: u64,
    cpu_percent: Mean,
    cpu_ghz: Mean,
    memory_bytes_max: Option<u64>,
    memory_percent: Mean,
    steal_percent: Mean,
    throttled_ns: Option<u64>,
}

/// Mean and largest of the values that are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    count: u64,
    sum: f64,
    max: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.max = if self.count == 0 { value } else { self.max.max(value) };
            self.count += 1;
            self.sum += value;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

/// The resources of one node over the measured seconds; unknown ones are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeResources {
    /// The node instance.
    pub node: String,
    /// Seconds with a sample.
    pub seconds: u64,
    /// Mean CPU use, per cent of its allocation.
    pub cpu_percent_mean: Option<f64>,
    /// Highest CPU use of a second, per cent of its allocation.
    pub cpu_percent_max: Option<f64>,
    /// Mean clock, GHz.
    pub cpu_ghz_mean: Option<f64>,
    /// Highest resident memory, bytes.
    pub memory_bytes_max: Option<u64>,
    /// Highest resident memory, per cent of its limit.
    pub memory_percent_max: Option<f64>,
    /// Mean share that the hypervisor took, per cent.
    pub steal_percent_mean: Option<f64>,
    /// Share of the time that its CPU quota held it back, per cent.
    pub throttled_percent: Option<f64>,
}

impl HostBook {
    /// Adds a second.
    pub fn add(&mut self, sample: &HostSample) {
        self.seconds += 1;
        self.cpu_percent.add(sample.cpu_percent);
        self.cpu_ghz.add(sample.cpu_ghz);
        self.memory_percent.add(sample.memory_percent);
        self.steal_percent.add(sample.steal_percent);
        self.memory_bytes_max = self.memory_bytes_max.max(sample.memory_bytes);
        if let Some(ns) = sample.throttled_ns {
            self.throttled_ns = Some(self.throttled_ns.unwrap_or(0).saturating_add(ns));
        }
    }

    /// What it came to; `None` without samples.
    pub fn resources(&self, node: &str) -> Option<NodeResources> {
        (self.seconds > 0).then(|| NodeResources {
            node: node.to_owned(),
            seconds: self.seconds,
            cpu_percent_mean: self.cpu_percent.mean(),
            cpu_percent_max: self.cpu_percent.max(),
            cpu_ghz_mean: self.cpu_ghz.mean(),
            memory_bytes_max: self.memory_bytes_max,
            memory_percent_max: self.memory_percent.max(),
            steal_percent_mean: self.steal_percent.mean(),
            throttled_percent: self.throttled_ns.map(|ns| ns as f64 / (self.seconds as f64 * 1e9) * 100.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_stay_unknown() {
        let mut book = HostBook::default();
        assert_eq!(book.resources("a"), None);
        let sample = |cpu| HostSample { cpu_percent: cpu, memory_bytes: Some(7), ..HostSample::default() };
        book.add(&sample(Some(20.0)));
        book.add(&sample(None));
        book.add(&sample(Some(40.0)));
        let resources = book.resources("a").unwrap();
        assert_eq!((resources.cpu_percent_mean, resources.cpu_percent_max), (Some(30.0), Some(40.0)));
        assert_eq!((resources.memory_bytes_max, resources.throttled_percent), (Some(7), None));
    }
}
