//! Core time: what both ends used at all loads, taken apart into rest, messages, bytes, falling asleep, and what load saves.

use rehearsal_core::calibration::{Cost, EASED_MAX};

/// Least load that is believed to be told apart from nothing, cores: errors are shares of what was measured, or of this.
const LEAST_CORES: f64 = 0.03;
/// Sweeps of the fit. Assumed: two columns that are nearly parallel need some thousands.
const SWEEPS: usize = 20_000;
/// A sweep that moves nothing by more than this share is the last one: what is left to go is a thousand times that.
const STILL: f64 = 1e-9;
/// Steps in which the share that load saves is looked for.
const EASED_STEPS: u32 = 99;
/// Unknowns of one fit: rest, a message, a byte, falling asleep, what is due, and a message and a byte that waited for a pause.
const UNKNOWN: usize = 7;

/// What one end used at one point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// 0 for the sender, 1 for the receiver.
    pub end: usize,
    /// Bytes of payload.
    pub bytes: f64,
    /// Exchanges per second.
    pub rate: f64,
    /// How often it fell asleep, 1/s; 0 where nobody knows.
    pub sleeps: f64,
    /// Exchanges that a clock made due, 1/s; 0 at a receiver, and where each waits for the one before.
    pub due: f64,
    /// Whether each answer waited for a pause.
    pub paused: bool,
    /// Cores used.
    pub cores: f64,
}

/// What it is made of.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// Cores used without traffic.
    pub rest_cores: f64,
    /// Core time of falling asleep once and waking up again, ns.
    pub sleep_ns: f64,
    /// Core time of an exchange that a clock makes due, beside that of sending it, ns.
    pub due_ns: f64,
    /// An exchange at the sender and at the receiver.
    pub ends: [Cost; 2],
    /// What it costs beside when its answer waited for a pause.
    pub paused: [Cost; 2],
}

/// What is known already, from another carrier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Cores used without traffic.
    pub rest_cores: Option<f64>,
    /// Core time of falling asleep once and waking up again, ns.
    pub sleep_ns: Option<f64>,
    /// Core time of an exchange that a clock makes due, beside that of sending it, ns.
    pub due_ns: Option<f64>,
}

impl Fitted {
    /// Least squares of relative errors in which nothing is below 0, for each end. Rest and sleep are the smaller ones of both ends, or
    /// what is known of them: more would take from the other end's messages. `None` with fewer than two sizes at either end.
    pub fn of(rows: &[Row], known: Known) -> Option<Self> {
        // where a clock makes all of them due, that cannot be told from their sending
        let apart = rows.iter().any(|row| row.end == 0 && row.due < 0.5 * row.rate && row.cores.is_finite());
        let known = Known { due_ns: known.due_ns.or((!apart).then_some(0.0)), ..known };
        let both = |known: Known| Some([one(rows, 0, known)?, one(rows, 1, known)?]);
        let [sender, receiver] = both(known)?;
        let rest_cores = known.rest_cores.unwrap_or(sender.rest_cores.min(receiver.rest_cores));
        let known = Known { rest_cores: Some(rest_cores), ..known };
        let [sender, receiver] = both(known)?;
        let sleep_ns = known.sleep_ns.unwrap_or(sender.sleep_ns.min(receiver.sleep_ns));
        let [sender, receiver] = both(Known { sleep_ns: Some(sleep_ns), ..known })?;
        let (ends, paused) = ([sender.whole, receiver.whole], [sender.paused, receiver.paused]);
        Some(Fitted { rest_cores, sleep_ns, due_ns: sender.due_ns, ends, paused })
    }

    /// Cores that it says an end uses.
    pub fn cores(&self, row: &Row) -> f64 {
        let mut each = self.ends[row.end].mean(row.bytes, row.cores.min(1.0));
        if row.paused {
            each += self.paused[row.end].mean(row.bytes, 0.0);
        }
        self.rest_cores + (row.rate * each + row.sleeps * self.sleep_ns + row.due * self.due_ns) / 1e9
    }

    /// What points of one end cost beside: a fixed part, eased by load in a share of its own, and a part per byte.
    pub fn added(&self, rows: &[Row]) -> Cost {
        let rows: Vec<Row> = rows.iter().filter(|row| row.cores.is_finite() && row.rate > 0.0).copied().collect();
        let known = Known { rest_cores: Some(0.0), sleep_ns: Some(0.0), due_ns: Some(0.0) };
        let weighted = |eased: f64| -> (f64, Cost) {
            let lines = rows.iter().map(|row| {
                let (columns, _) = line(row, eased, known);
                (columns, (row.cores - self.cores(row)) / row.cores.max(LEAST_CORES))
            });
            let (columns, wanted): (Vec<_>, Vec<_>) = lines.unzip();
            let found = least(&columns, &wanted);
            let cost = Cost { fixed_ns: found[1], ns_per_byte: found[2], eased, residual: Vec::new() };
            (off(&columns, &wanted, &found), cost)
        };
        let all = (0..=EASED_STEPS).map(|step| weighted(EASED_MAX * f64::from(step) / f64::from(EASED_STEPS)));
        all.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(Cost::default, |(_, cost)| cost)
    }

    /// The largest error at the points of an end, in points of CPU load.
    pub fn error_points(&self, rows: &[Row], end: usize) -> f64 {
        let known = rows.iter().filter(|row| row.end == end && row.cores.is_finite());
        known.map(|row| (self.cores(row) - row.cores).abs() * 100.0).fold(0.0, f64::max)
    }
}

/// What is found for one end.
#[derive(Clone, Debug)]
struct One {
    rest_cores: f64,
    sleep_ns: f64,
    due_ns: f64,
    whole: Cost,
    paused: Cost,
}

/// Rest and costs of one end: for each share that load may save, a line; the best of these lines.
fn one(rows: &[Row], end: usize, known: Known) -> Option<One> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.end == end && row.cores.is_finite() && row.rate > 0.0).collect();
    let mut sizes: Vec<f64> = rows.iter().map(|row| row.bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let mut best: Option<(f64, One)> = None;
    for step in 0..=EASED_STEPS {
        let eased = EASED_MAX * f64::from(step) / f64::from(EASED_STEPS);
        let (columns, wanted): (Vec<_>, Vec<_>) = rows.iter().map(|row| line(row, eased, known)).unzip();
        let found = least(&columns, &wanted);
        let error = off(&columns, &wanted, &found);
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            let [rest, fixed_ns, ns_per_byte, sleep, due, paused_ns, paused_byte] = found;
            let of = |fixed_ns, ns_per_byte, eased| Cost { fixed_ns, ns_per_byte, eased, residual: Vec::new() };
            let found = One {
                rest_cores: known.rest_cores.unwrap_or(rest),
                sleep_ns: known.sleep_ns.unwrap_or(sleep),
                due_ns: known.due_ns.unwrap_or(due),
                whole: of(fixed_ns, ns_per_byte, eased),
                paused: of(paused_ns, paused_byte, 0.0),
            };
            best = Some((error, found));
        }
    }
    best.map(|(_, found)| found)
}

/// Squares of what is left.
fn off(rows: &[[f64; UNKNOWN]], wanted: &[f64], x: &[f64; UNKNOWN]) -> f64 {
    let left = |row: &[f64; UNKNOWN]| row.iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
    rows.iter().zip(wanted).map(|(row, wanted)| (left(row) - wanted).powi(2)).sum()
}

/// A row as shares of what was measured: what each unknown adds to it, and what is not known yet.
fn line(row: &Row, eased: f64, known: Known) -> ([f64; UNKNOWN], f64) {
    let weight = 1.0 / row.cores.max(LEAST_CORES);
    let [per, sleeps, due] = [row.rate, row.sleeps, row.due].map(|each| weight * each / 1e9);
    let unknown = |known: Option<f64>, value: f64| if known.is_none() { value } else { 0.0 };
    let paused = if row.paused { per } else { 0.0 };
    let columns = [
        unknown(known.rest_cores, weight),
        per * (1.0 - eased * row.cores.min(1.0)),
        per * row.bytes,
        unknown(known.sleep_ns, sleeps),
        unknown(known.due_ns, due),
        paused,
        paused * row.bytes,
    ];
    let told = sleeps * known.sleep_ns.unwrap_or(0.0) + due * known.due_ns.unwrap_or(0.0);
    (columns, weight * (row.cores - known.rest_cores.unwrap_or(0.0)) - told)
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
        let (mut moved, mut most) = (0.0_f64, 0.0_f64);
        for (at, (row, right)) in gram.iter().zip(&right).enumerate() {
            if row[at] > 0.0 {
                let lacks = right - row.iter().zip(&x).map(|(product, x)| product * x).sum::<f64>();
                let next = f64::max(x[at] + lacks / row[at], 0.0);
                (moved, most) = (moved.max((next - x[at]).abs()), most.max(next));
                x[at] = next;
            }
        }
        if moved <= most * STILL {
            break;
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
                    rows.push(Row { end, bytes, rate, cores: cores * noise(rows.len()), ..Row::default() });
                }
            }
        }
        rows
    }

    #[test]
    fn what_was_put_together_is_taken_apart() {
        let rows = rows(|_| 1.0);
        let fitted = Fitted::of(&rows, Known::default()).expect("four sizes");
        let near = |is: f64, wanted: f64| assert!((is / wanted - 1.0).abs() < 0.02, "{is} for {wanted}: {fitted:?}");
        near(fitted.rest_cores, 0.004);
        near(fitted.ends[0].fixed_ns, 10e3);
        near(fitted.ends[1].fixed_ns, 8e3);
        near(fitted.ends[0].ns_per_byte, 0.2);
        near(fitted.ends[1].ns_per_byte, 0.4);
        assert!(fitted.ends.iter().all(|cost| (cost.eased - 0.3).abs() < 0.03), "{fitted:?}");
        assert!(fitted.error_points(&rows, 0) < 0.1 && fitted.error_points(&rows, 1) < 0.1);
    }

    /// The same ends with 5 us for each time that they fall asleep, 4 us for what a clock makes due, and 6 us and 0.05 ns/B for what
    /// waited for a pause.
    fn more() -> Vec<Row> {
        let mut rows = Vec::new();
        for bytes in [500.0, 5_000.0, 50_000.0, 200_000.0] {
            // rate, whether a clock makes them due, sleeps, paused
            for (rate, clock, sleeps, paused) in [
                (100.0, true, 200.0, false),
                (2_000.0, true, 2_500.0, false),
                (9_000.0, true, 3_000.0, false),
                (9_500.0, false, 0.0, false),
                (2_000.0, true, 4_000.0, true),
                (9_000.0, true, 8_000.0, true),
            ] {
                for (end, fixed, byte) in [(0, 10e3, 0.2), (1, 8e3, 0.4)] {
                    let per = rate / 1e9;
                    let due = if clock && end == 0 { rate } else { 0.0 };
                    let waited = if paused { per * (6e3 + 0.05 * bytes) } else { 0.0 };
                    let rest = 0.004 + sleeps * 5e3 / 1e9 + due * 4e3 / 1e9 + waited;
                    let cores = (rest + per * (fixed + byte * bytes)) / (1.0 + 0.3 * per * fixed);
                    rows.push(Row { end, bytes, rate, sleeps, due, paused, cores });
                }
            }
        }
        rows
    }

    #[test]
    fn what_is_beside_messages_is_taken_apart_too() {
        let rows = more();
        let fitted = Fitted::of(&rows, Known::default()).expect("four sizes");
        let near = |is: f64, wanted: f64| assert!((is / wanted - 1.0).abs() < 0.05, "{is} for {wanted}: {fitted:?}");
        near(fitted.sleep_ns, 5e3);
        near(fitted.due_ns, 4e3);
        near(fitted.ends[0].fixed_ns, 10e3);
        near(fitted.ends[1].fixed_ns, 8e3);
        for paused in &fitted.paused {
            near(paused.fixed_ns, 6e3);
            near(paused.ns_per_byte, 0.05);
        }
        assert!(fitted.error_points(&rows, 0) < 0.5 && fitted.error_points(&rows, 1) < 0.5);
    }

    #[test]
    fn what_connections_add_is_eased_by_itself() {
        let fitted = Fitted::of(&more(), Known::default()).expect("four sizes");
        let mut rows = Vec::new();
        for bytes in [500.0, 200_000.0] {
            for rate in [500.0, 3_000.0, 8_000.0] {
                let bare = Row { end: 1, bytes, rate, sleeps: rate / 2.0, ..Row::default() };
                // by turns, since costs depend on load, and load on costs
                let more = |cores: f64| rate * (30e3 * (1.0 - 0.5 * cores.min(1.0)) + 0.1 * bytes) / 1e9;
                let cores = (0..200).fold(0.0, |cores: f64, _| {
                    let next = fitted.cores(&Row { cores, ..bare }) + more(cores);
                    f64::midpoint(cores, next)
                });
                rows.push(Row { cores, ..bare });
            }
        }
        let added = fitted.added(&rows);
        assert!(
            (added.fixed_ns / 30e3 - 1.0).abs() < 0.05 && (added.ns_per_byte / 0.1 - 1.0).abs() < 0.05,
            "{added:?}"
        );
        assert!((added.eased - 0.5).abs() < 0.05, "{added:?}");
    }

    #[test]
    fn noise_moves_costs_by_little_and_none_below_nothing() {
        let rows = rows(|at| if at % 2 == 0 { 1.03 } else { 0.97 });
        let fitted = Fitted::of(&rows, Known::default()).expect("four sizes");
        assert!((fitted.ends[0].ns_per_byte / 0.2 - 1.0).abs() < 0.1, "{fitted:?}");
        assert!(fitted.rest_cores >= 0.0 && fitted.ends.iter().all(|cost| (0.0..=EASED_MAX).contains(&cost.eased)));
        assert!(fitted.error_points(&rows, 0) < 15.0);
    }

    #[test]
    fn what_is_known_stays_and_one_size_tells_nothing() {
        let rows = rows(|_| 1.0);
        let fitted = Fitted::of(&rows, Known { rest_cores: Some(0.004), ..Known::default() }).expect("four sizes");
        assert_eq!(fitted.rest_cores, 0.004);
        assert!((fitted.ends[1].fixed_ns / 8e3 - 1.0).abs() < 0.02, "{fitted:?}");
        let one: Vec<Row> = rows.iter().filter(|row| row.bytes < 1000.0).copied().collect();
        assert!(Fitted::of(&one, Known::default()).is_none());
    }
}
