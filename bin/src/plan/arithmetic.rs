//! The arithmetic of a booking: pure functions of numbers, each with its unit in its name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds of an hour.
pub const HOUR_S: f64 = 3600.0;
/// How long the side that closes a connection keeps its port. Source: the Linux kernel's `TCP_TIMEWAIT_LEN`.
pub const TIME_WAIT_S: f64 = 60.0;
/// Ports of outgoing connections: 32,768 to 60,999. Source: the Linux kernel's default of `ip_local_port_range`.
pub const EPHEMERAL_PORTS: f64 = 28_232.0;
/// File descriptors that a process may have. Source: the Linux kernel's default soft limit (`INR_OPEN_CUR`).
pub const DESCRIPTORS: u64 = 1024;
/// Share of a capacity from which on queues grow noticeably. Assumed: at 80 % an M/M/1 queue waits four service times.
pub const BUSY: f64 = 0.8;

/// A figure and its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// If nothing is in the way.
    pub low: f64,
    /// What is expected.
    pub expected: f64,
    /// If it goes badly.
    pub high: f64,
}

impl Bounds {
    /// The same three times.
    #[cfg(test)]
    pub const fn exact(value: f64) -> Self {
        Bounds { low: value, expected: value, high: value }
    }

    /// Each figure changed in the same way.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Bounds { low: change(self.low), expected: change(self.expected), high: change(self.high) }
    }

    /// Sum, figure by figure.
    pub fn plus(self, other: Bounds) -> Self {
        Bounds { low: self.low + other.low, expected: self.expected + other.expected, high: self.high + other.high }
    }
}

/// The smallest of `sizes` that holds `wanted`; `None` if none does.
pub fn round_up(wanted: f64, sizes: &[f64]) -> Option<f64> {
    sizes.iter().copied().filter(|size| *size >= wanted).min_by(f64::total_cmp)
}

/// Whole quanta that hold `seconds`, in seconds. A second's ten-thousandth over is no new quantum.
pub fn window_s(seconds: f64, quantum_s: f64) -> f64 {
    (seconds / quantum_s - 1e-9).ceil().max(1.0) * quantum_s
}

/// How long all repetitions of a run take, with what surrounds each.
pub fn campaign_s(run_s: Bounds, around_s: f64, repetitions: u32) -> Bounds {
    run_s.map(|run| (run + around_s) * f64::from(repetitions))
}

/// What is under way on average: arrivals per second times how long each stays (J. D. C. Little, 1961).
pub fn under_way(per_second: f64, stay_s: f64) -> f64 {
    per_second * stay_s
}

/// Ports that one address needs towards one server at `per_second` connections a second.
pub fn ports(per_second: f64) -> f64 {
    per_second * TIME_WAIT_S
}

/// Bytes per second as Mbit/s.
pub fn mbps(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8.0 / 1e6
}

/// The nearest-rank quantile of `values`, sorted by it; zero of none.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
    values.get(rank - 1).or(values.last()).copied().unwrap_or(0.0)
}

/// For each rank the larger of two lists that are sorted downwards: what holds either.
pub fn at_least_both(a: &[f64], b: &[f64]) -> Vec<f64> {
    let at = |list: &[f64], i: usize| list.get(i).copied().unwrap_or(0.0);
    (0..a.len().max(b.len())).map(|i| at(a, i).max(at(b, i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_next_larger() {
        let cores = [1.0, 2.0, 4.0, 6.0];
        assert_eq!([0.5, 1.0, 1.1, 4.0, 5.0].map(|v| round_up(v, &cores)), [1.0, 1.0, 2.0, 4.0, 6.0].map(Some));
        assert_eq!(round_up(7.0, &cores), None);
    }

    #[test]
    fn windows_are_whole_quanta() {
        // 36.3 h, 37 h exactly, a second more, and nothing at all
        let hours = |s: f64| window_s(s, HOUR_S) / HOUR_S;
        assert_eq!([130_680.0, 133_200.0, 133_201.0, 0.0].map(hours), [37.0, 37.0, 38.0, 1.0]);
        assert_eq!(window_s(61.0, 60.0), 120.0);
    }

    #[test]
    fn a_campaign_is_its_runs_and_what_surrounds_them() {
        // ten runs of 829 s, 5 s before and 30 s after each: 8,640 s
        let of = campaign_s(Bounds { low: 720.0, expected: 829.0, high: 1000.0 }, 35.0, 10);
        assert_eq!(of, Bounds { low: 7550.0, expected: 8640.0, high: 10_350.0 });
        assert_eq!(of.plus(Bounds::exact(60.0)).expected, 8700.0);
    }

    #[test]
    fn littles_law_ports_and_rates_by_hand() {
        // 135.98 requests/s that stay 20 ms each: 2.7 are under way; 247.5 connections/s keep 14,850 ports
        assert!((under_way(135.98, 0.020) - 2.7196).abs() < 1e-9);
        assert_eq!(ports(247.5), 14_850.0);
        assert!(ports(545.0) > EPHEMERAL_PORTS && ports(247.5) < EPHEMERAL_PORTS);
        // 22 GB in 828.9 s
        assert!((mbps(22e9 / 828.9) - 212.3).abs() < 0.1);
    }

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(
            (quantile(&mut values, 0.99), quantile(&mut values, 0.5), quantile(&mut values, 1.0)),
            (198.0, 100.0, 200.0)
        );
        assert_eq!((quantile(&mut [], 0.99), quantile(&mut [7.0], 0.99)), (0.0, 7.0));
    }

    #[test]
    fn what_holds_either_holds_each_rank() {
        assert_eq!(at_least_both(&[4.0, 1.0], &[2.0, 2.0, 1.0]), [4.0, 2.0, 1.0]);
        assert_eq!(at_least_both(&[], &[3.0]), [3.0]);
    }
}
