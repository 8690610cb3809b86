//! How much a sample resembles the ones before it, and what that leaves of n.
//!
//! Consecutive seconds of a run resemble each other, so a thousand of them tell less than a thousand independent ones.

use ndarray::ArrayView1;

use crate::error::StatsError;
use crate::series::{centred, check, varies};

/// Lags beyond this share of the samples are noise.
const LAGS_PER_SAMPLE: usize = 4;

/// Autocorrelation at the lags 0, 1, …, `lags`, with the divisor n at every lag.
///
/// # Errors
/// When there are not more samples than lags, one is no number, or the series never changes.
pub fn autocorrelation(series: ArrayView1<'_, f64>, lags: usize) -> Result<Vec<f64>, StatsError> {
    check("an autocorrelation", series, lags.saturating_add(1).max(2))?;
    varies("an autocorrelation", series)?;
    Ok(coefficients(&series.to_vec(), lags))
}

/// n independent samples would tell the mean of this series as well: n / (1 + 2 Σ ρ(k)), at most n.
///
/// The sum takes lags in pairs while a pair is positive (Geyer's initial positive sequence), at most a quarter of n.
///
/// # Errors
/// As for [`autocorrelation`].
pub fn effective_n(series: ArrayView1<'_, f64>) -> Result<f64, StatsError> {
    check("an effective number of samples", series, 2)?;
    varies("an effective number of samples", series)?;
    let series = series.to_vec();
    let rho = coefficients(&series, series.len() / LAGS_PER_SAMPLE);
    Ok(effective(series.len(), &rho))
}

/// Pairs that tell the correlation of two series as well: n / (1 + 2 Σ ρₓ(k) ρᵧ(k)), at most n, by Bartlett's formula for
/// two series that do not depend on each other; the sum ends as in [`effective_n`].
pub(crate) fn effective_pairs(x: &[f64], y: &[f64]) -> f64 {
    let lags = x.len() / LAGS_PER_SAMPLE;
    let products: Vec<f64> = coefficients(x, lags).iter().zip(coefficients(y, lags)).map(|(a, b)| a * b).collect();
    effective(x.len(), &products)
}

fn effective(n: usize, rho: &[f64]) -> f64 {
    // rho[0] is 1: the first pair is lags 0 and 1
    let pairs = rho.chunks(2).map(|pair| pair.iter().sum::<f64>()).take_while(|sum| *sum > 0.0);
    let inflation = 2.0 * pairs.sum::<f64>() - 1.0;
    n as f64 / inflation.max(1.0)
}

fn coefficients(series: &[f64], lags: usize) -> Vec<f64> {
    let offsets = centred(series.into()).1;
    let at = |lag: usize| offsets.iter().zip(&offsets[lag.min(offsets.len())..]).map(|(a, b)| a * b).sum::<f64>();
    let variance = at(0);
    (0..=lags).map(|lag| if variance > 0.0 { at(lag) / variance } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, array};

    use super::*;
    use crate::testing::{near, noise};

    #[test]
    fn coefficients_are_those_by_hand() {
        // offsets −2 −1 0 1 2: variance 10, lag 1: 2 + 0 + 0 + 2 = 4, lag 2: 0 − 1 + 0 = −1
        let rho = autocorrelation(array![1.0, 2.0, 3.0, 4.0, 5.0].view(), 2).unwrap();
        assert_eq!(rho, [1.0, 0.4, -0.1]);
    }

    #[test]
    fn independent_samples_keep_their_number_and_similar_ones_lose_it() {
        let white: Array1<f64> = noise(1).take(4000).collect();
        let n = effective_n(white.view()).unwrap();
        assert!((3000.0..=4000.0).contains(&n), "{n}");
        // an AR(1) process with coefficient 0.8 has n (1 − 0.8) / (1 + 0.8)
        let mut last = 0.0;
        let similar: Array1<f64> = noise(2)
            .take(20_000)
            .map(|e| {
                last = 0.8 * last + e - 0.5;
                last
            })
            .collect();
        near(effective_n(similar.view()).unwrap(), 20_000.0 / 9.0, 0.15);
        let alternating: Array1<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert_eq!(effective_n(alternating.view()).unwrap(), 100.0);
    }

    #[test]
    fn pairs_lose_only_what_both_series_repeat() {
        let memory = |seed| {
            let mut last = 0.0;
            noise(seed)
                .take(20_000)
                .map(|e| {
                    last = 0.9 * last + e - 0.5;
                    last
                })
                .collect::<Vec<f64>>()
        };
        let white: Vec<f64> = noise(4).take(20_000).collect();
        assert!(effective_pairs(&memory(3), &white) > 17_000.0);
        // Σ 0.81ᵏ twice, plus 1
        near(effective_pairs(&memory(3), &memory(5)), 20_000.0 * 0.19 / 1.81, 0.2);
    }

    #[test]
    fn too_few_and_constant_series_are_refused() {
        assert!(matches!(autocorrelation(array![1.0, 2.0].view(), 2), Err(StatsError::TooFew { needed: 3, .. })));
        assert!(matches!(effective_n(array![2.0, 2.0].view()), Err(StatsError::Constant { .. })));
    }
}
