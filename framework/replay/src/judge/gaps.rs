//! Errors of times: of gaps, against the schedule, and over the whole run.

use serde::Serialize;

use super::expect::Expected;
use super::matching::Matched;

/// Packets between which the drift's slope is looked for. Source: Theil–Sen takes the median slope of all pairs; so many
/// packets, evenly chosen, give 80,000 pairs.
const SLOPE_POINTS: usize = 400;

/// Absolute errors of gaps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GapError {
    /// Gaps that were compared: both packets arrived.
    pub gaps: u64,
    /// Mean, ns: Eq. 1 of the DTRF paper.
    pub mean_ns: f64,
    /// Half are at most this, ns.
    pub p50_ns: u64,
    /// 90 % are at most this, ns.
    pub p90_ns: u64,
    /// 99 % are at most this, ns.
    pub p99_ns: u64,
    /// 99.9 % are at most this, ns.
    pub p999_ns: u64,
    /// The largest, ns.
    pub max_ns: u64,
}

/// Offsets against the schedule; 0 is the median packet's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Offset {
    /// Mean of their absolute values, ns.
    pub mean_abs_ns: f64,
    /// 99 % of their absolute values are at most this, ns.
    pub p99_abs_ns: u64,
    /// The largest absolute value, ns.
    pub max_abs_ns: u64,
    /// That of the last packet, ns.
    pub end_ns: i64,
    /// How fast it grew, parts per million of time: the median slope between pairs of packets (Theil–Sen).
    pub drift_ppm: f64,
}

/// The DTRF paper calls its Eq. 1 *timestamp error* and shows values of tens of milliseconds, which only an offset that adds
/// up can reach. So both are told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimestampError {
    /// Eq. 1 as it is written: the mean absolute error of gaps, ns. A replay that is seconds late at its end can have a small one.
    pub eq1_mean_gap_ns: f64,
    /// What adds up: the last packet's time since the first one, against the schedule; positive is late, ns.
    pub cumulative_end_ns: i64,
    /// The largest absolute value of that over all packets, ns.
    pub cumulative_max_ns: u64,
}

impl GapError {
    /// Of packets that follow each other; `None` without any.
    pub fn of(expected: &Expected, matched: &Matched) -> Option<Self> {
        let pairs = expected.packets.windows(2).zip(matched.at.windows(2));
        let both = pairs.filter(|(_, at)| at[0] != 0 && at[1] != 0);
        let error = |(sent, at): (&[super::expect::Packet], &[u64])| {
            let gap = at[1].cast_signed() - at[0].cast_signed();
            (gap - (sent[1].due - sent[0].due).cast_signed()).unsigned_abs()
        };
        let mut errors: Vec<u64> = both.map(error).collect();
        errors.sort_unstable();
        let max_ns = *errors.last()?;
        let [p50_ns, p90_ns, p99_ns, p999_ns] = [0.5, 0.9, 0.99, 0.999].map(|share| quantile(&errors, share));
        let mean_ns = mean(errors.iter().map(|error| *error as f64), errors.len());
        Some(GapError { gaps: errors.len() as u64, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns })
    }
}

impl Offset {
    /// Of the packets that arrived; `None` when none did.
    pub fn of(expected: &Expected, matched: &Matched) -> Option<Self> {
        let points = points(expected, matched);
        let median = median_of(&points)?;
        let last = points.last()?.1 - median;
        let mut sizes: Vec<u64> = points.iter().map(|(_, late)| (late - median).unsigned_abs()).collect();
        sizes.sort_unstable();
        Some(Offset {
            mean_abs_ns: mean(sizes.iter().map(|size| *size as f64), sizes.len()),
            p99_abs_ns: quantile(&sizes, 0.99),
            max_abs_ns: *sizes.last()?,
            end_ns: last,
            drift_ppm: slope(&points).unwrap_or(0.0) * 1e6,
        })
    }
}

impl TimestampError {
    /// Of the packets that arrived; `None` with fewer than two that follow each other.
    pub fn of(expected: &Expected, matched: &Matched) -> Option<Self> {
        let points = points(expected, matched);
        let first = points.first()?.1;
        Some(TimestampError {
            eq1_mean_gap_ns: GapError::of(expected, matched)?.mean_ns,
            cumulative_end_ns: points.last()?.1 - first,
            cumulative_max_ns: points.iter().map(|(_, late)| (late - first).unsigned_abs()).max()?,
        })
    }
}

/// Of each packet that arrived: when it was due, and when it arrived minus that; nanoseconds.
pub fn points(expected: &Expected, matched: &Matched) -> Vec<(u64, i64)> {
    let pairs = expected.packets.iter().zip(&matched.at).filter(|(_, at)| **at != 0);
    pairs.map(|(packet, at)| (packet.due, at.cast_signed() - packet.due.cast_signed())).collect()
}

/// The median lateness.
pub fn median_of(points: &[(u64, i64)]) -> Option<i64> {
    let mut late: Vec<i64> = points.iter().map(|(_, late)| *late).collect();
    let middle = late.len() / 2;
    (!late.is_empty()).then(|| *late.select_nth_unstable(middle).1)
}

fn slope(points: &[(u64, i64)]) -> Option<f64> {
    let step = points.len().div_ceil(SLOPE_POINTS).max(1);
    let chosen: Vec<(u64, i64)> = points.iter().copied().step_by(step).collect();
    let pairs = chosen.iter().enumerate().flat_map(|(at, a)| chosen[at + 1..].iter().map(move |b| (a, b)));
    let slopes = pairs.filter(|(a, b)| b.0 > a.0).map(|(a, b)| (b.1 - a.1) as f64 / (b.0 - a.0) as f64);
    let mut slopes: Vec<f64> = slopes.collect();
    let middle = slopes.len() / 2;
    (!slopes.is_empty()).then(|| *slopes.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The smallest value that so large a share of sorted ones does not exceed.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}

fn mean(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    values.sum::<f64>() / count.max(1) as f64
}
