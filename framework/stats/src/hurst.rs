//! Self-similarity by variance and time: how fast the variance of block means falls with the length of blocks.
//!
//! Of independent samples it falls as 1 / m, of self-similar ones as m^(2 H − 2); the slope β of log variance over log m gives
//! the Hurst parameter H = 1 + β / 2. Source: Leland, Taqqu, Willinger & Wilson, IEEE/ACM Trans. Networking 2(1), 1994.
//!
//! The points of the plot depend on each other, so the scatter about their line is no interval. One is had by trying: the same
//! estimate of many series of fractional Gaussian noise, as long, with parameters below and above what was found. Those whose
//! estimates would reach what was found are inside, and the one whose estimates lie about it is told. That takes for granted that
//! the series is stationary, and that its samples are many enough to be about normal; whether its mean stays where it was is
//! tried with the same noise, though of a parameter near 1 a trend can hardly be told from memory.

use ndarray::{Array1, ArrayView1};
use rehearsal_core::rng::{RngStream, Seed};
use serde::Serialize;

use crate::distributions::{check_level, normal_quantile};
use crate::error::StatsError;
use crate::line::Line;
use crate::noise::Noise;
use crate::series::check;

/// Blocks that a variance needs, at least. Assumed: its relative deviation is then about 30 %.
const BLOCKS_MIN: usize = 20;
/// Fewest block lengths that a slope is told from.
const LENGTHS_MIN: usize = 4;
/// Longest series of noise that an interval is tried with; of a longer one a part, so that the interval is rather too wide.
const TRIED_MAX: usize = 1 << 12;
/// Pairs of series that are tried with each parameter.
const PAIRS: usize = 50;
/// Steps from the least parameter that is tried to the largest: so far below what was found, and so far above.
const STEPS: usize = 7;
const BELOW: f64 = 0.25;
const ABOVE: f64 = 0.4;
/// Parameters that noise is tried with: at the ends there is none.
const TRIED: (f64, f64) = (0.05, 0.985);

/// What variance and time say of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VarianceTime {
    /// Block length in samples, and the variance of block means by that of single samples.
    pub points: Vec<(usize, f64)>,
    /// The Hurst parameter: 0.5 for no long memory, up to 1.
    pub hurst: f64,
    /// Standard error of it, by the scatter of the points about their line.
    pub error: f64,
    /// Shortest blocks that the slope is taken from, samples.
    pub from: usize,
    /// Samples of the series.
    pub samples: usize,
    /// How far apart the means of its halves are, in standard deviations of blocks of `from`.
    pub drift: f64,
}

/// Where the Hurst parameter lies, and what that rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HurstInterval {
    /// The parameter whose estimates lie about the one that was found.
    pub hurst: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
    /// Level of confidence.
    pub level: f64,
    /// Series of noise that it was tried with.
    pub replicates: usize,
    /// Where the random numbers began.
    pub seed: u64,
    /// Share of these series whose halves are as far apart as those of this one. Near 0 it has a trend, and no parameter.
    pub drift_share: f64,
}

/// Of drifts this rare a series is taken to have a trend. Assumed.
pub const DRIFT_SHARE_MIN: f64 = 0.02;

impl HurstInterval {
    /// Whether the mean of the series stays where it was, as far as can be told.
    pub fn is_stationary(&self) -> bool {
        self.drift_share >= DRIFT_SHARE_MIN
    }
}

impl VarianceTime {
    /// Where the parameter lies at a level of confidence.
    ///
    /// # Errors
    /// When the level is not between 0 and 1.
    pub fn interval(&self, level: f64, seed: u64) -> Result<HurstInterval, StatsError> {
        check_level(level)?;
        let mut random =
            RngStream::new(Seed { seed, repetition: 0, group: "stats", member: 0, stream: 0, purpose: "hurst" });
        // at each parameter that is tried: where estimates lie, and how much they scatter
        let z = normal_quantile(level)?;
        let first = (self.hurst - BELOW).max(TRIED.0);
        let step = ((self.hurst + ABOVE).min(TRIED.1).max(first + STEPS as f64 * 0.01) - first) / STEPS as f64;
        let (mut curves, mut nearest) = ([const { Vec::new() }; 3], (f64::INFINITY, Vec::new()));
        for at in 0..=STEPS {
            let hurst = (first + step * at as f64).min(TRIED.1);
            let (found, drifts) = self.tries(hurst, &mut random)?;
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let deviation = variance(found.iter().copied(), found.len()).sqrt();
            // a parameter is possible if what it makes of noise reaches what was found
            for (curve, by) in curves.iter_mut().zip([z, 0.0, -z]) {
                curve.push((hurst, mean + by * deviation));
            }
            if (mean - self.hurst).abs() < nearest.0 {
                nearest = ((mean - self.hurst).abs(), drifts);
            }
        }
        let [lower, hurst, upper] = curves.map(|curve| reaches(&curve, self.hurst));
        let drifts = nearest.1;
        let farther = drifts.iter().filter(|drift| **drift >= self.drift).count();
        let drift_share = farther as f64 / drifts.len().max(1) as f64;
        Ok(HurstInterval { hurst, lower, upper, level, replicates: 2 * PAIRS * (STEPS + 1), seed, drift_share })
    }

    /// Estimates of series of noise as long as this one, and how far their halves are apart.
    fn tries(&self, hurst: f64, random: &mut RngStream) -> Result<(Vec<f64>, Vec<f64>), StatsError> {
        // blocks of this noise are noise of the same kind, so its samples are this series' shortest blocks
        let samples = (self.samples / self.from).min(TRIED_MAX);
        let noise = Noise::new(hurst, samples);
        let (mut found, mut drifts) = (Vec::with_capacity(2 * PAIRS), Vec::with_capacity(2 * PAIRS));
        for series in (0..PAIRS).flat_map(|_| noise.draw(random)) {
            let one = variance_time(Array1::from(series).view(), 1)?;
            found.push(one.hurst);
            drifts.push(one.drift);
        }
        Ok((found, drifts))
    }
}

/// Where a curve that rises reaches a value, on a straight line between two points; the ends of what there can be beyond it.
fn reaches(curve: &[(f64, f64)], value: f64) -> f64 {
    match curve.iter().position(|(_, found)| *found >= value) {
        None => 1.0,
        Some(0) => {
            if curve[0].0 > TRIED.0 {
                curve[0].0
            } else {
                0.0
            }
        }
        Some(at) => {
            let ((low, below), (high, above)) = (curve[at - 1], curve[at]);
            low + (value - below) / (above - below) * (high - low)
        }
    }
}

/// Variances over blocks of 1, 2, 4 … samples; the slope is taken from blocks of `from` samples on.
///
/// # Errors
/// When there are too few samples for four block lengths, a value is no number, or the series never changes.
pub fn variance_time(series: ArrayView1<'_, f64>, from: usize) -> Result<VarianceTime, StatsError> {
    let what = "a variance-time plot";
    // lengths are powers of two
    let from = from.max(1).next_power_of_two();
    check(what, series, BLOCKS_MIN * from * (1 << (LENGTHS_MIN - 1)))?;
    let single = variance(series.iter().copied(), series.len());
    if single <= 0.0 {
        return Err(StatsError::Constant { what, value: series[0] });
    }
    let values = series.as_slice().map_or_else(|| series.to_vec(), <[f64]>::to_vec);
    let means = |length: usize| values.chunks_exact(length).map(move |block| block.iter().sum::<f64>() / length as f64);
    let mut points = Vec::new();
    let mut length = 1;
    while values.len() / length >= BLOCKS_MIN {
        points.push((length, variance(means(length), values.len() / length) / single));
        length *= 2;
    }
    let logs = points.iter().filter(|(length, share)| *length >= from && *share > 0.0);
    let (x, y): (Vec<f64>, Vec<f64>) = logs.map(|(length, share)| ((*length as f64).ln(), share.ln())).unzip();
    let line = Line::fit(Array1::from(x).view(), Array1::from(y).view())?;
    let blocks: Vec<f64> = means(from).collect();
    let (first, second) = blocks.split_at(blocks.len() / 2);
    let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len() as f64;
    let deviation = variance(blocks.iter().copied(), blocks.len()).sqrt().max(f64::MIN_POSITIVE);
    let drift = (mean(first) - mean(second)).abs() / deviation;
    let (hurst, error) = (1.0 + line.slope / 2.0, line.slope_error / 2.0);
    Ok(VarianceTime { points, hurst, error, from, samples: values.len(), drift })
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

    fn random(purpose: &str) -> RngStream {
        RngStream::new(Seed { seed: 7, repetition: 0, group: "stats", member: 0, stream: 0, purpose })
    }

    /// Noise of a known parameter: the interval holds it about as often as it says, and says so of short series too.
    #[test]
    fn intervals_hold_the_parameter_of_noise() {
        let mut random = random("coverage");
        for (hurst, samples) in [(0.5, 1000), (0.7, 400), (0.9, 1000)] {
            let noise = Noise::new(hurst, samples);
            let (mut held, mut off, mut still) = (0, 0.0, 0);
            for series in (0..10).flat_map(|_| noise.draw(&mut random)) {
                let found = variance_time(Array1::from(series).view(), 1).expect("enough samples");
                let interval = found.interval(0.95, 1).expect("a level");
                held += usize::from((interval.lower..=interval.upper).contains(&hurst));
                still += usize::from(interval.is_stationary());
                off += (interval.hurst - hurst) / 20.0;
            }
            assert!(held >= 17, "H {hurst} of {samples} samples: {held} of 20 intervals hold it");
            assert!(still >= 18, "H {hurst} of {samples} samples: {still} of 20 are stationary");
            assert!(off.abs() < 0.05, "H {hurst} of {samples} samples: off by {off} in the mean");
        }
    }

    /// M/G/∞: customers come at random and stay for Pareto times of shape 1.4, which no one cuts off. Their number has
    /// H = (3 − 1.4) / 2 = 0.8.
    #[test]
    fn busy_servers_have_the_parameter_of_their_law() {
        let mut next = uniform();
        let mut series = vec![0.0; 1 << 15];
        let mut at = -200_000.0;
        while at < series.len() as f64 {
            at -= (1.0 - next()).ln() / 2.0;
            let end = at + 1.0 / (1.0 - next()).powf(1.0 / 1.4);
            let seconds = at.max(0.0).ceil() as usize..end.clamp(0.0, series.len() as f64).ceil() as usize;
            series.get_mut(seconds).into_iter().flatten().for_each(|sum| *sum += 1.0);
        }
        let found = variance_time(Array1::from(series).view(), 16).expect("enough samples");
        let interval = found.interval(0.95, 1).expect("a level");
        assert!((interval.lower..interval.upper).contains(&0.8), "{interval:?}");
        assert!(interval.lower > 0.6 && interval.upper - interval.lower < 0.35, "{interval:?}");
    }

    #[test]
    fn a_trend_is_told() {
        let mut next = uniform();
        let series: Array1<f64> = (0..1000).map(|at| next() + f64::from(at) / 1000.0).collect();
        let found = variance_time(series.view(), 1).expect("enough samples");
        let interval = found.interval(0.95, 1).expect("a level");
        assert!(found.hurst > 0.8, "which is no memory: {found:?}");
        assert!(found.drift > 1.0, "{found:?}");
        assert!(found.interval(1.5, 1).is_err() && interval.replicates == 800);
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let few: Array1<f64> = (0..100).map(f64::from).collect();
        assert!(matches!(variance_time(few.view(), 1), Err(StatsError::TooFew { needed: 160, found: 100, .. })));
        let flat = Array1::from_elem(1000, 3.0);
        assert!(matches!(variance_time(flat.view(), 1), Err(StatsError::Constant { .. })));
    }
}
