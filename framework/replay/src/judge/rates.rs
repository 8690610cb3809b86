//! Packets in windows of time.

use serde::Serialize;

use super::expect::Expected;
use super::gaps::{median_of, points};
use super::matching::Matched;

/// Widths of windows, ms.
const WIDTHS_MS: [u64; 3] = [1, 10, 100];
/// Windows of one width at most: what is behind them is not looked at.
const WINDOWS_MAX: u64 = 4 << 20;
const NANOS_PER_MS: u64 = 1_000_000;

/// What arrived in windows of one width, beside what was to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Their width, ms.
    pub width_ms: u64,
    /// How many.
    pub windows: u64,
    /// Packets in one on the average.
    pub packets_mean: f64,
    /// Coefficient of variation (standard deviation over mean) of what was to arrive.
    pub planned_cv: f64,
    /// The same of what arrived.
    pub arrived_cv: f64,
    /// Mean absolute difference of the two, per cent of the mean.
    pub difference_percent: f64,
}

/// Rates in windows, of what has no times to be held against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// From the first arrival to the last, ns.
    pub elapsed_ns: u64,
    /// Over all of that, packets per second.
    pub packets_per_second: f64,
    /// In windows of each width.
    pub windows: Vec<RateWindow>,
}

/// Rates in windows of one width; the first and the last window are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateWindow {
    /// Their width, ms.
    pub width_ms: u64,
    /// The lowest, packets per second.
    pub min: f64,
    /// The one in the middle.
    pub p50: f64,
    /// The highest.
    pub max: f64,
}

impl Window {
    /// For every width that the run is longer than.
    pub fn all(expected: &Expected, matched: &Matched) -> Vec<Window> {
        let points = points(expected, matched);
        let (Some(median), Some(last)) = (median_of(&points), expected.packets.last()) else { return Vec::new() };
        let of = |width_ms: u64| {
            let width = width_ms * NANOS_PER_MS;
            // whole ones, the last packet's share of time included: a short window would look like a slow one
            let share = last.due / (points.len() as u64 - 1).max(1);
            let count = ((last.due + share) / width).min(WINDOWS_MAX);
            let mut planned = vec![0u32; count as usize];
            let mut arrived = planned.clone();
            let put = |windows: &mut Vec<u32>, time: i64| {
                let window = time.max(0).unsigned_abs() / width;
                if let Some(packets) = windows.get_mut(window as usize) {
                    *packets += 1;
                }
            };
            for (due, late) in &points {
                put(&mut planned, due.cast_signed());
                put(&mut arrived, due.cast_signed() + late - median);
            }
            let mean = planned.iter().map(|packets| f64::from(*packets)).sum::<f64>() / count as f64;
            let apart =
                planned.iter().zip(&arrived).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / count as f64;
            Window {
                width_ms,
                windows: count,
                packets_mean: mean,
                planned_cv: variation(&planned, mean),
                arrived_cv: variation(&arrived, mean),
                difference_percent: apart / mean * 100.0,
            }
        };
        WIDTHS_MS.into_iter().filter(|width| last.due >= 2 * width * NANOS_PER_MS).map(of).collect()
    }
}

fn variation(windows: &[u32], mean: f64) -> f64 {
    let squares = windows.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>();
    (squares / windows.len().max(1) as f64).sqrt() / mean
}

impl Rates {
    /// Of how many had come by which time, in order; `None` with fewer than two times.
    pub fn of_counts(counts: &[(u64, u64)]) -> Option<Self> {
        let ((first, before), (last, all)) = (*counts.first()?, *counts.last()?);
        let elapsed_ns = last.checked_sub(first).filter(|elapsed| *elapsed > 0)?;
        let packets_per_second = (all - before) as f64 * 1e9 / elapsed_ns as f64;
        let windows = WIDTHS_MS.into_iter().filter_map(|width| in_windows(counts, width)).collect();
        Some(Rates { elapsed_ns, packets_per_second, windows })
    }
}

/// Between readings that are at least a window apart, so that a late reading is no higher rate.
fn in_windows(counts: &[(u64, u64)], width_ms: u64) -> Option<RateWindow> {
    let mut rates = Vec::new();
    let mut from = *counts.first()?;
    for reading in counts {
        let elapsed = reading.0 - from.0;
        if elapsed >= width_ms * NANOS_PER_MS {
            rates.push((reading.1 - from.1) as f64 * 1e9 / elapsed as f64);
            from = *reading;
        }
    }
    // the first one begins before the first packet, the last one ends behind the last packet
    let mut inner = rates.get(1..rates.len().saturating_sub(1)).filter(|inner| !inner.is_empty())?.to_vec();
    inner.sort_by(f64::total_cmp);
    Some(RateWindow { width_ms, min: inner[0], p50: inner[inner.len() / 2], max: inner[inner.len() - 1] })
}
