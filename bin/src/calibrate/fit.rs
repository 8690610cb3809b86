//! From measurements to costs: pure arithmetic on medians.

use rehearsal_core::calibration::Cost;

/// Points of a table of quantiles, 0 % and 100 % among them.
pub const POINTS: usize = 65;
/// Steps of the search for half a way. Each one closes most of what is left; by then what is left is below a microsecond.
const STEPS: usize = 60;
/// Share of the largest values that is left out of a table: a single stall of the host would be drawn again and again.
pub const TRIMMED: f64 = 0.001;

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Quantiles of a lognormal law with mean 1 and that standard deviation, the largest values left out and the mean restored.
/// Empty for no spread.
pub fn lognormal(deviation: f64) -> Vec<f64> {
    if deviation <= 0.0 {
        return Vec::new();
    }
    let sigma = (deviation * deviation).ln_1p().sqrt();
    let value = |at: usize| (sigma * normal((1.0 - TRIMMED) * (at as f64 + 0.1) / (POINTS as f64 - 0.8))).exp();
    let table: Vec<f64> = (0..POINTS).map(value).collect();
    // between its points a table is drawn from evenly
    let mean = table.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).sum::<f64>() / (POINTS - 1) as f64;
    table.iter().map(|value| (value / mean * 1e4).round() / 1e4).collect()
}

/// The quantile of the standard normal law, by bisection of its distribution, to a millionth.
fn normal(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..48 {
        let middle = f64::midpoint(low, high);
        if distribution(middle) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The standard normal distribution: Abramowitz and Stegun, 26.2.17, with an error below 7.5e-8.
fn distribution(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = [0.319_381_53, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum;
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// A share of a cost.
pub fn share(cost: &Cost, share: f64) -> Cost {
    let (fixed_ns, ns_per_byte) = (cost.fixed_ns * share, cost.ns_per_byte * share);
    Cost { fixed_ns, ns_per_byte, eased: cost.eased, residual: Vec::new() }
}

/// What is left of each quantile when `nanos` are taken away.
pub fn less(table: &[f64], nanos: f64) -> Vec<f64> {
    table.iter().map(|value| (value - nanos).max(0.0)).collect()
}

/// Half a way: a table whose sum with an independent copy of itself has the given quantiles, as nearly as a table that rises
/// and is nowhere below 0 can: within 3 % from the median on, within 12 % below, where it matters less.
pub fn half(whole: &[f64]) -> Vec<f64> {
    let n = whole.len();
    let mut half: Vec<f64> = whole.iter().map(|value| value / 2.0).collect();
    if n < 2 {
        return half;
    }
    // what a table draws between its points, in steps finer than these
    let fine = |table: &[f64]| -> Vec<f64> {
        (0..2 * n).map(|at| rehearsal_core::calibration::quantile(table, (at as f64 + 0.5) / (2 * n) as f64)).collect()
    };
    for _ in 0..STEPS {
        let parts = fine(&half);
        let mut sums: Vec<f64> = parts.iter().flat_map(|a| parts.iter().map(move |b| a + b)).collect();
        sums.sort_by(f64::total_cmp);
        for (at, value) in half.iter_mut().enumerate() {
            let is = rehearsal_core::calibration::quantile(&sums, at as f64 / (n - 1) as f64);
            *value = (*value + (whole[at] - is) / 2.0).max(0.0);
        }
        half.sort_by(f64::total_cmp);
    }
    half
}

/// A table with every value multiplied.
pub fn times(table: &[f64], factor: f64) -> Vec<f64> {
    if factor <= 0.0 { Vec::new() } else { table.iter().map(|value| (value * factor).round()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_keeps_the_mean_and_has_its_deviation() {
        assert!(lognormal(0.0).is_empty());
        for deviation in [0.3, 0.6, 1.0] {
            let table = lognormal(deviation);
            assert!(table.is_sorted() && table[0] > 0.0 && table.len() == POINTS);
            let n = 100_000;
            let draws =
                (0..n).map(|at| rehearsal_core::calibration::quantile(&table, (f64::from(at) + 0.5) / f64::from(n)));
            let (sum, squares) = draws.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
            let mean = sum / f64::from(n);
            let is = (squares / f64::from(n) - mean * mean).sqrt();
            assert!((mean - 1.0).abs() < 0.001, "{mean}");
            // the largest thousandth is left out, and 65 points are coarse in the tail
            assert!((is / deviation - 1.0).abs() < 0.15, "{is} for {deviation}");
        }
        assert!((normal(0.975) - 1.959_964).abs() < 1e-4 && normal(0.5).abs() < 1e-4);
    }

    #[test]
    fn two_halves_make_the_whole() {
        let n = POINTS;
        let share = |at: usize| at as f64 / (n - 1) as f64;
        // evenly spread, and with a long tail
        let triangular = |p: f64| if p < 0.5 { (2.0 * p).sqrt() } else { 2.0 - (2.0 - 2.0 * p).sqrt() };
        let tailed = |p: f64| 1.0 - (1.0 - 0.999 * p).ln();
        for whole in
            [triangular as fn(f64) -> f64, tailed].map(|q| (0..n).map(|at| 1e5 * q(share(at))).collect::<Vec<_>>())
        {
            let half = half(&whole);
            assert!(half.is_sorted() && half[0] >= 0.0 && half.len() == n);
            let draws: Vec<f64> = (0..500)
                .map(|at| rehearsal_core::calibration::quantile(&half, (f64::from(at) + 0.5) / 500.0))
                .collect();
            let mut sums: Vec<f64> = draws.iter().flat_map(|a| draws.iter().map(move |b| a + b)).collect();
            sums.sort_by(f64::total_cmp);
            for percent in [5, 25, 50, 75, 90, 95] {
                let p = f64::from(percent) / 100.0;
                let (is, wanted) =
                    (sums[(p * sums.len() as f64) as usize], rehearsal_core::calibration::quantile(&whole, p));
                let room = if percent < 50 { 0.12 } else { 0.03 };
                assert!((is / wanted - 1.0).abs() < room, "p{percent}: {is} for {wanted}");
            }
        }
    }

    #[test]
    fn medians_ignore_what_is_unknown() {
        assert_eq!(median(&[3.0, f64::NAN, 1.0]), Some(2.0));
        assert_eq!((median(&[5.0]), median(&[])), (Some(5.0), None));
        assert_eq!(less(&[1.0, 5.0], 2.0), [0.0, 3.0]);
        assert_eq!((times(&[2.0], 0.0), times(&[2.0], 0.5)), (vec![], vec![1.0]));
    }
}
