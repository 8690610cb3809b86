//! Self-similarity by variance and time: how fast the variance of block means falls with the length of blocks.
//!
//! Of independent samples it falls as 1 / m, of self-similar ones as m^(2 H − 2); the slope β of log variance over log m gives
//! the Hurst parameter H = 1 + β / 2. Source: Leland, Taqqu, Willinger & Wilson, IEEE/ACM Trans. Networking 2(1), 1994.

use ndarray::{Array1, ArrayView1};

use crate::error::StatsError;
use crate::line::Line;
use crate::series::check;

/// Blocks that a variance needs, at least. Assumed: its relative deviation is then about 30 %.
const BLOCKS_MIN: usize = 20;
/// Fewest block lengths that a slope is told from.
const LENGTHS_MIN: usize = 4;

/// What variance and time say of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct VarianceTime {
    /// Block length in samples, and the variance of block means by that of single samples.
    pub points: Vec<(usize, f64)>,
    /// The Hurst parameter: 0.5 for no long memory, up to 1.
    pub hurst: f64,
    /// Standard error of it, by the scatter of the points about their line.
    pub error: f64,
}

/// Variances over blocks of 1, 2, 4 … samples; the slope is taken from blocks of `from` samples on.
///
/// # Errors
/// When there are too few samples for four block lengths, a value is no number, or the series never changes.
pub fn variance_time(series: ArrayView1<'_, f64>, from: usize) -> Result<VarianceTime, StatsError> {
    let what = "a variance-time plot";
    check(what, series, BLOCKS_MIN * from.max(1) * (1 << (LENGTHS_MIN - 1)))?;
    let single = variance(series.iter().copied(), series.len());
    if single <= 0.0 {
        return Err(StatsError::Constant { what, value: series[0] });
    }
    let mut points = Vec::new();
    let mut length = 1;
    while series.len() / length >= BLOCKS_MIN {
        let blocks = series.len() / length;
        let values = series.as_slice().map_or_else(|| series.to_vec(), <[f64]>::to_vec);
        let means = values.chunks_exact(length).map(|block| block.iter().sum::<f64>() / length as f64);
        points.push((length, variance(means, blocks) / single));
        length *= 2;
    }
    let logs = points.iter().filter(|(length, share)| *length >= from && *share > 0.0);
    let (x, y): (Vec<f64>, Vec<f64>) = logs.map(|(length, share)| ((*length as f64).ln(), share.ln())).unzip();
    let line = Line::fit(Array1::from(x).view(), Array1::from(y).view())?;
    Ok(VarianceTime { points, hurst: 1.0 + line.slope / 2.0, error: line.slope_error / 2.0 })
}

fn variance(values: impl Iterator<Item = f64>, many: usize) -> f64 {
    let values: Vec<f64> = values.take(many).collect();
    let mean = values.iter().sum::<f64>() / many as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (many as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator (an LCG by Knuth, MMIX): uniform in [0, 1).
    fn uniform() -> impl FnMut() -> f64 {
        let mut state = 42_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn independent_samples_have_no_long_memory() {
        let mut next = uniform();
        let series: Array1<f64> = (0..100_000).map(|_| next()).collect();
        let found = variance_time(series.view(), 1).expect("enough samples");
        assert!((found.hurst - 0.5).abs() < 0.05, "{found:?}");
        assert_eq!(found.points[0], (1, 1.0));
        assert!((found.points[5].1 * 32.0 - 1.0).abs() < 0.1, "1 / m: {found:?}");
    }

    /// Sources that are on and off for Pareto times of shape 1.4 have H = (3 − 1.4) / 2 = 0.8 in the limit.
    #[test]
    fn heavy_tails_make_long_memory() {
        let mut next = uniform();
        let mut series = vec![0.0; 200_000];
        for _ in 0..50 {
            let mut at = 0.0;
            let mut on = next() < 0.5;
            while at < series.len() as f64 {
                let stay = 10.0 / (1.0 - next()).powf(1.0 / 1.4);
                let end = (at + stay).min(series.len() as f64);
                if on {
                    series[at as usize..end as usize].iter_mut().for_each(|sum| *sum += 1.0);
                }
                (at, on) = (end, !on);
            }
        }
        let found = variance_time(Array1::from(series).view(), 64).expect("enough samples");
        assert!((0.72..0.92).contains(&found.hurst), "{found:?}");
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let few: Array1<f64> = (0..100).map(f64::from).collect();
        assert!(matches!(variance_time(few.view(), 1), Err(StatsError::TooFew { needed: 160, found: 100, .. })));
        let flat = Array1::from_elem(1000, 3.0);
        assert!(matches!(variance_time(flat.view(), 1), Err(StatsError::Constant { .. })));
    }
}
