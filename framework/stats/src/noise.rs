//! Fractional Gaussian noise of a chosen Hurst parameter: what an estimate is held against.
//!
//! Exact, by circulant embedding: the covariances stand on a circle of 2^p ≥ 2 n places, whose eigenvalues are a Fourier
//! transform of them, and white noise weighted by their roots is transformed back. Source: Davies & Harte, Biometrika 74(1), 1987.

use std::f64::consts::PI;

use rehearsal_core::RngStream;

/// A real and an imaginary part.
type Complex = (f64, f64);

/// Noise of one parameter and length, with unit variance.
#[derive(Clone, Debug)]
pub struct Noise {
    samples: usize,
    /// Roots of the eigenvalues, each over the root of their number.
    weights: Vec<f64>,
}

impl Noise {
    /// Noise of `samples` samples; `hurst` is above 0 and below 1, 0.5 is white noise.
    pub fn new(hurst: f64, samples: usize) -> Noise {
        let samples = samples.max(1);
        let places = (2 * samples).next_power_of_two();
        let power = |lag: f64| lag.abs().powf(2.0 * hurst);
        let covariance = |lag: usize| {
            let lag = lag as f64;
            0.5 * (power(lag + 1.0) - 2.0 * power(lag) + power(lag - 1.0))
        };
        let mut circle: Vec<Complex> = (0..places).map(|at| (covariance(at.min(places - at)), 0.0)).collect();
        transform(&mut circle);
        // of this covariance none is negative but by rounding
        let weights = circle.into_iter().map(|(value, _)| (value.max(0.0) / places as f64).sqrt()).collect();
        Noise { samples, weights }
    }

    /// Two series that do not depend on each other.
    pub fn draw(&self, random: &mut RngStream) -> [Vec<f64>; 2] {
        let white = |weight: &f64| {
            // Box and Muller's pair of normal numbers
            let (radius, angle) = ((-2.0 * (1.0 - random.unit()).ln()).sqrt(), 2.0 * PI * random.unit());
            (weight * radius * angle.cos(), weight * radius * angle.sin())
        };
        let mut values: Vec<Complex> = self.weights.iter().map(white).collect();
        transform(&mut values);
        values.truncate(self.samples);
        [values.iter().map(|value| value.0).collect(), values.iter().map(|value| value.1).collect()]
    }
}

/// The discrete Fourier transform in place; the length is a power of two.
fn transform(values: &mut [Complex]) {
    let count = values.len();
    let bits = count.trailing_zeros();
    for at in 0..count {
        let other = if bits == 0 { 0 } else { at.reverse_bits() >> (usize::BITS - bits) };
        if at < other {
            values.swap(at, other);
        }
    }
    let roots: Vec<Complex> = (0..count / 2)
        .map(|at| {
            let angle = -2.0 * PI * at as f64 / count as f64;
            (angle.cos(), angle.sin())
        })
        .collect();
    let mut half = 1;
    while half < count {
        let step = count / (2 * half);
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (at, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let (cos, sin) = roots[at * step];
                let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                *b = (a.0 - turned.0, a.1 - turned.1);
                *a = (a.0 + turned.0, a.1 + turned.1);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::rng::Seed;

    use super::*;

    #[test]
    fn a_transform_by_hand() {
        let mut values = [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0)];
        transform(&mut values);
        for (found, wanted) in values.into_iter().zip([(10.0, 0.0), (-2.0, 2.0), (-2.0, 0.0), (-2.0, -2.0)]) {
            assert!((found.0 - wanted.0).abs() < 1e-12 && (found.1 - wanted.1).abs() < 1e-12, "{found:?} {wanted:?}");
        }
        let mut one = [(5.0, 1.0)];
        transform(&mut one);
        assert_eq!(one, [(5.0, 1.0)]);
    }

    /// Variance and the covariance of neighbours are those of the definition: 2^(2 H − 1) − 1.
    #[test]
    fn noise_has_its_covariance() {
        let seed = Seed { seed: 3, repetition: 0, group: "stats", member: 0, stream: 0, purpose: "noise" };
        let mut random = RngStream::new(seed);
        for hurst in [0.3, 0.5, 0.8] {
            let noise = Noise::new(hurst, 1000);
            let (mut sums, mut count) = ([0.0; 2], 0.0);
            for series in (0..50).flat_map(|_| noise.draw(&mut random)) {
                assert_eq!(series.len(), 1000);
                for pair in series.windows(2) {
                    sums = [sums[0] + pair[0] * pair[0], sums[1] + pair[0] * pair[1]];
                    count += 1.0;
                }
            }
            let wanted = 2_f64.powf(2.0 * hurst - 1.0) - 1.0;
            assert!((sums[0] / count - 1.0).abs() < 0.08, "{hurst}: variance {}", sums[0] / count);
            assert!((sums[1] / count - wanted).abs() < 0.08, "{hurst}: {} is not {wanted}", sums[1] / count);
        }
    }
}
