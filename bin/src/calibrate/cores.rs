//! Core time: what both ends used at all loads, taken apart into rest, wake-ups, messages and bytes.

use rehearsal_core::calibration::Cost;

/// Least load that is believed to be told apart from nothing, cores: errors are shares of what was measured, or of this.
const LEAST_CORES: f64 = 0.01;
/// Sweeps of the fit. Assumed: two columns that are nearly parallel need some thousands.
const SWEEPS: usize = 20_000;
/// Unknowns: rest, a wake-up, and a message and a byte of each end.
const UNKNOWN: usize = 6;

/// What one end used at one point.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// 0 for the sender, 1 for the receiver.
    pub end: usize,
    /// Bytes of payload.
    pub bytes: f64,
    /// Exchanges per second.
    pub rate: f64,
    /// Wake-ups for each.
    pub wakes: f64,
    /// Cores used.
    pub cores: f64,
}

/// What it is made of.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// Cores used without traffic.
    pub rest_cores: f64,
    /// Core time of a wake-up, ns.
    pub wake_ns: f64,
    /// An exchange at the sender and at the receiver, without wake-ups.
    pub ends: [Cost; 2],
}

impl Fitted {
    /// Least squares of relative errors in which nothing is below 0. `rest` and wake-up are taken as they are where they
    /// are known. `None` with fewer than two sizes at either end.
    pub fn of(rows: &[Row], known: Option<(f64, f64)>) -> Option<Self> {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.cores.is_finite() && row.rate > 0.0).collect();
        for end in 0..2 {
            let mut sizes: Vec<f64> = rows.iter().filter(|row| row.end == end).map(|row| row.bytes).collect();
            sizes.sort_by(f64::total_cmp);
            sizes.dedup();
            if sizes.len() < 2 {
                return None;
            }
        }
        let (rest, wake) = known.unwrap_or_default();
        let (mut columns, mut wanted) = (Vec::new(), Vec::new());
        for row in rows {
            let weight = 1.0 / row.cores.max(LEAST_CORES);
            let per = row.rate / 1e9;
            let mut column = [0.0; UNKNOWN];
            if known.is_none() {
                (column[0], column[1]) = (weight, weight * per * row.wakes);
            }
            (column[2 + 2 * row.end], column[3 + 2 * row.end]) = (weight * per, weight * per * row.bytes);
            columns.push(column);
            wanted.push(weight * (row.cores - rest - wake * per * row.wakes));
        }
        let found = least(&columns, &wanted);
        let cost = |at: usize| Cost { fixed_ns: found[at], ns_per_byte: found[at + 1], residual: Vec::new() };
        let (rest_cores, wake_ns) = known.unwrap_or((found[0], found[1]));
        Some(Fitted { rest_cores, wake_ns, ends: [cost(2), cost(4)] })
    }

    /// Cores that it says an end uses.
    pub fn cores(&self, row: &Row) -> f64 {
        let cost = &self.ends[row.end];
        let each = cost.fixed_ns + cost.ns_per_byte * row.bytes + self.wake_ns * row.wakes;
        self.rest_cores + row.rate * each / 1e9
    }

    /// The largest error at the points of an end, in points of CPU load.
    pub fn error_points(&self, rows: &[Row], end: usize) -> f64 {
        let known = rows.iter().filter(|row| row.end == end && row.cores.is_finite());
        known.map(|row| (self.cores(row) - row.cores).abs() * 100.0).fold(0.0, f64::max)
    }
}

/// The `x`, nowhere below 0, with the least squares of `rows · x − wanted`: one unknown after the other, again and again.
fn least(rows: &[[f64; UNKNOWN]], wanted: &[f64]) -> [f64; UNKNOWN] {
    let scale: [f64; UNKNOWN] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at] * row[at]).sum::<f64>().sqrt().max(f64::MIN_POSITIVE));
    let scaled: Vec<[f64; UNKNOWN]> = rows.iter().map(|row| std::array::from_fn(|at| row[at] / scale[at])).collect();
    let dot = |a: usize, b: usize| scaled.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let gram: [[f64; UNKNOWN]; UNKNOWN] = std::array::from_fn(|a| std::array::from_fn(|b| dot(a, b)));
    let right: [f64; UNKNOWN] = std::array::from_fn(|at| scaled.iter().zip(wanted).map(|(row, y)| row[at] * y).sum());
    let mut x = [0.0; UNKNOWN];
    for _ in 0..SWEEPS {
        for (at, (row, right)) in gram.iter().zip(&right).enumerate() {
            if row[at] > 0.0 {
                let lacks = right - row.iter().zip(&x).map(|(product, x)| product * x).sum::<f64>();
                x[at] = f64::max(x[at] + lacks / row[at], 0.0);
            }
        }
    }
    std::array::from_fn(|at| x[at] / scale[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.4 % of rest, 6 µs a wake-up, 10 µs and 0.2 ns/B at the sender, 8 µs and 0.4 ns/B at the receiver.
    fn rows(noise: impl Fn(usize) -> f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for bytes in [500.0, 5_000.0, 50_000.0, 200_000.0] {
            for (rate, wakes) in [(100.0, 1.0), (2_000.0, 0.9), (10_000.0, 0.5)] {
                for (end, fixed, byte) in [(0, 10e3, 0.2), (1, 8e3, 0.4)] {
                    let wakes = if end == 0 { 2.0 * wakes } else { wakes };
                    let cores = 0.004 + rate * (fixed + byte * bytes + 6e3 * wakes) / 1e9;
                    rows.push(Row { end, bytes, rate, wakes, cores: cores * noise(rows.len()) });
                }
            }
        }
        rows
    }

    #[test]
    fn what_was_put_together_is_taken_apart() {
        let rows = rows(|_| 1.0);
        let fitted = Fitted::of(&rows, None).expect("four sizes");
        let near = |is: f64, wanted: f64| assert!((is / wanted - 1.0).abs() < 0.02, "{is} for {wanted}: {fitted:?}");
        near(fitted.rest_cores, 0.004);
        near(fitted.wake_ns, 6e3);
        near(fitted.ends[0].fixed_ns, 10e3);
        near(fitted.ends[1].fixed_ns, 8e3);
        near(fitted.ends[0].ns_per_byte, 0.2);
        near(fitted.ends[1].ns_per_byte, 0.4);
        assert!(fitted.error_points(&rows, 0) < 0.1 && fitted.error_points(&rows, 1) < 0.1);
    }

    #[test]
    fn noise_moves_costs_by_little_and_none_below_nothing() {
        let rows = rows(|at| if at % 2 == 0 { 1.03 } else { 0.97 });
        let fitted = Fitted::of(&rows, None).expect("four sizes");
        assert!((fitted.ends[0].ns_per_byte / 0.2 - 1.0).abs() < 0.1, "{fitted:?}");
        assert!(fitted.wake_ns >= 0.0 && fitted.rest_cores >= 0.0);
        assert!(fitted.error_points(&rows, 0) < 15.0);
    }

    #[test]
    fn what_is_known_stays_and_one_size_tells_nothing() {
        let rows = rows(|_| 1.0);
        let fitted = Fitted::of(&rows, Some((0.004, 6e3))).expect("four sizes");
        assert_eq!((fitted.rest_cores, fitted.wake_ns), (0.004, 6e3));
        assert!((fitted.ends[1].fixed_ns / 8e3 - 1.0).abs() < 0.02, "{fitted:?}");
        let one: Vec<Row> = rows.iter().filter(|row| row.bytes < 1000.0).copied().collect();
        assert!(Fitted::of(&one, None).is_none());
    }
}
