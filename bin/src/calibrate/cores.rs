//! Core time: what both ends used at all loads, taken apart into rest, messages, bytes, and what load saves.

use rehearsal_core::calibration::{Cost, EASED_MAX};

/// Least load that is believed to be told apart from nothing, cores: errors are shares of what was measured, or of this.
const LEAST_CORES: f64 = 0.03;
/// Sweeps of the fit. Assumed: two columns that are nearly parallel need some thousands.
const SWEEPS: usize = 20_000;
/// Steps in which the share that load saves is looked for.
const EASED_STEPS: u32 = 99;
/// Unknowns of one fit: rest, a message and a byte.
const UNKNOWN: usize = 3;

/// What one end used at one point.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// 0 for the sender, 1 for the receiver.
    pub end: usize,
    /// Bytes of payload.
    pub bytes: f64,
    /// Exchanges per second.
    pub rate: f64,
    /// Cores used.
    pub cores: f64,
}

/// What it is made of.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// Cores used without traffic.
    pub rest_cores: f64,
    /// An exchange at the sender and at the receiver.
    pub ends: [Cost; 2],
}

impl Fitted {
    /// Least squares of relative errors in which nothing is below 0, for each end. Rest is the smaller one of both ends, or what
    /// is known of it. `None` with fewer than two sizes at either end.
    pub fn of(rows: &[Row], known: Option<f64>) -> Option<Self> {
        let alone = [0, 1].map(|end| one(rows, end, known));
        let [Some((sender, _)), Some((receiver, _))] = alone else { return None };
        let rest_cores = known.unwrap_or(sender.min(receiver));
        let [Some((_, sender)), Some((_, receiver))] = [0, 1].map(|end| one(rows, end, Some(rest_cores))) else {
            return None;
        };
        Some(Fitted { rest_cores, ends: [sender, receiver] })
    }

    /// Cores that it says an end uses.
    pub fn cores(&self, row: &Row) -> f64 {
        self.rest_cores + row.rate * self.ends[row.end].mean(row.bytes, row.cores.min(1.0)) / 1e9
    }

    /// The largest error at the points of an end, in points of CPU load.
    pub fn error_points(&self, rows: &[Row], end: usize) -> f64 {
        let known = rows.iter().filter(|row| row.end == end && row.cores.is_finite());
        known.map(|row| (self.cores(row) - row.cores).abs() * 100.0).fold(0.0, f64::max)
    }
}

/// Rest and costs of one end: for each share that load may save, a line; the best of these lines.
fn one(rows: &[Row], end: usize, rest: Option<f64>) -> Option<(f64, Cost)> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.end == end && row.cores.is_finite() && row.rate > 0.0).collect();
    let mut sizes: Vec<f64> = rows.iter().map(|row| row.bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let mut best: Option<(f64, f64, Cost)> = None;
    for step in 0..=EASED_STEPS {
        let eased = EASED_MAX * f64::from(step) / f64::from(EASED_STEPS);
        let (mut columns, mut wanted) = (Vec::new(), Vec::new());
        for row in &rows {
            let weight = 1.0 / row.cores.max(LEAST_CORES);
            let per = weight * row.rate / 1e9;
            let own = if rest.is_none() { weight } else { 0.0 };
            columns.push([own, per * (1.0 - eased * row.cores.min(1.0)), per * row.bytes]);
            wanted.push(weight * (row.cores - rest.unwrap_or(0.0)));
        }
        let found = least(&columns, &wanted);
        let off = |(column, wanted): (&[f64; UNKNOWN], &f64)| {
            (column.iter().zip(&found).map(|(a, x)| a * x).sum::<f64>() - wanted).powi(2)
        };
        let error: f64 = columns.iter().zip(&wanted).map(off).sum();
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            let [own, fixed_ns, ns_per_byte] = found;
            best = Some((error, rest.unwrap_or(own), Cost { fixed_ns, ns_per_byte, eased, residual: Vec::new() }));
        }
    }
    best.map(|(_, rest, cost)| (rest, cost))
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

    /// 0.4 % of rest, 10 µs and 0.2 ns/B at the sender, 8 µs and 0.4 ns/B at the receiver; 30 % of the fixed parts fall away
    /// under load.
    fn rows(noise: impl Fn(usize) -> f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for bytes in [500.0, 5_000.0, 50_000.0, 200_000.0] {
            for rate in [100.0, 2_000.0, 9_000.0] {
                for (end, fixed, byte) in [(0, 10e3, 0.2), (1, 8e3, 0.4)] {
                    // cores = rest + rate (fixed (1 - 0.3 cores) + byte · bytes)
                    let per = rate / 1e9;
                    let cores = (0.004 + per * (fixed + byte * bytes)) / (1.0 + 0.3 * per * fixed);
                    rows.push(Row { end, bytes, rate, cores: cores * noise(rows.len()) });
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
        near(fitted.ends[0].fixed_ns, 10e3);
        near(fitted.ends[1].fixed_ns, 8e3);
        near(fitted.ends[0].ns_per_byte, 0.2);
        near(fitted.ends[1].ns_per_byte, 0.4);
        assert!(fitted.ends.iter().all(|cost| (cost.eased - 0.3).abs() < 0.03), "{fitted:?}");
        assert!(fitted.error_points(&rows, 0) < 0.1 && fitted.error_points(&rows, 1) < 0.1);
    }

    #[test]
    fn noise_moves_costs_by_little_and_none_below_nothing() {
        let rows = rows(|at| if at % 2 == 0 { 1.03 } else { 0.97 });
        let fitted = Fitted::of(&rows, None).expect("four sizes");
        assert!((fitted.ends[0].ns_per_byte / 0.2 - 1.0).abs() < 0.1, "{fitted:?}");
        assert!(fitted.rest_cores >= 0.0 && fitted.ends.iter().all(|cost| (0.0..=EASED_MAX).contains(&cost.eased)));
        assert!(fitted.error_points(&rows, 0) < 15.0);
    }

    #[test]
    fn what_is_known_stays_and_one_size_tells_nothing() {
        let rows = rows(|_| 1.0);
        let fitted = Fitted::of(&rows, Some(0.004)).expect("four sizes");
        assert_eq!(fitted.rest_cores, 0.004);
        assert!((fitted.ends[1].fixed_ns / 8e3 - 1.0).abs() < 0.02, "{fitted:?}");
        let one: Vec<Row> = rows.iter().filter(|row| row.bytes < 1000.0).copied().collect();
        assert!(Fitted::of(&one, None).is_none());
    }
}
