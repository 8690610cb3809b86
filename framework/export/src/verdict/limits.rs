//! What a verdict is measured by; an experiment may set other limits.

use serde::{Deserialize, Serialize};

/// Two bounds of one quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Beyond it the run is DEGRADED.
    pub degraded: f64,
    /// Beyond it the run is INVALID.
    pub invalid: f64,
}

/// What a verdict is measured by. The defaults are assumed: common practice of load generators, chosen so that a
/// run whose lag could change a reported percentile by a tenth of the gap is told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Lag p99, in per cent of the gap between two sends of a stream.
    pub lag_gap_percent: Pair,
    /// Lag p99 below this is never held against a run, ns; the only bound of a closed loop, which has no gap.
    pub lag_ns_min: Pair,
    /// Exchanges that left, in per cent of those that should have; lower is worse.
    pub achieved_percent: Pair,
    /// Slots that were given up, in per cent of all slots; INVALID above.
    pub skipped_percent: f64,
    /// Share of the time that a CPU quota held a node back, per cent.
    pub throttled_percent: Pair,
    /// Share of the time that the hypervisor took, per cent.
    pub steal_percent: Pair,
    /// Traffic longer than planned, in per cent of the plan; INVALID above.
    pub stretched_percent: f64,
    /// Traffic longer than planned by less than this is never held against a run, seconds.
    pub stretched_seconds_min: f64,
    /// Values that a 99th percentile needs: ten beyond it.
    pub samples_p99: u64,
    /// Uncertainty of the hosts' clock offsets above which one-way times are in doubt, ns.
    pub clock_uncertainty_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            lag_gap_percent: Pair { degraded: 10.0, invalid: 50.0 },
            lag_ns_min: Pair { degraded: 1e6, invalid: 5e6 },
            achieved_percent: Pair { degraded: 99.0, invalid: 95.0 },
            skipped_percent: 1.0,
            throttled_percent: Pair { degraded: 1.0, invalid: 5.0 },
            steal_percent: Pair { degraded: 1.0, invalid: 5.0 },
            stretched_percent: 5.0,
            stretched_seconds_min: 0.1,
            samples_p99: 1000,
            clock_uncertainty_ns: 1_000_000,
        }
    }
}

impl Limits {
    /// Bounds on lag p99 for streams with this gap, ns.
    pub fn lag_ns(&self, gap_ns: Option<u64>) -> Pair {
        let gap = gap_ns.unwrap_or(0) as f64;
        let bound = |percent: f64, min: f64| (gap * percent / 100.0).max(min);
        Pair {
            degraded: bound(self.lag_gap_percent.degraded, self.lag_ns_min.degraded),
            invalid: bound(self.lag_gap_percent.invalid, self.lag_ns_min.invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_on_lag_follows_the_gap_but_not_below_the_floor() {
        let limits = Limits::default();
        let of = |gap| (limits.lag_ns(gap).degraded, limits.lag_ns(gap).invalid);
        assert_eq!(of(Some(40_000_000)), (4e6, 20e6));
        assert_eq!(of(Some(1_000_000)), (1e6, 5e6));
        assert_eq!(of(None), (1e6, 5e6));
    }
}
