//! How long a packet is under way beside its serialisation: propagation, and what varies about it.

use rand_distr::{Gamma, LogNormal, StandardNormal};
use rehearsal_core::plan::{JitterShape, LinkSpec};
use rehearsal_core::{RngStream, Span};

/// No delay is drawn longer than this: a day, the longest wait that an experiment may ask for.
const MOST_NS: f64 = 86_400e9;

/// The delay of a link.
#[derive(Clone, Debug)]
pub struct Delay {
    base: Span,
    jitter: Jitter,
}

#[derive(Clone, Debug)]
enum Jitter {
    None,
    /// Up to so many ns.
    Uniform(u64),
    /// Standard deviation, ns.
    Normal(f64),
    Gamma(Gamma<f64>),
    Lognormal(LogNormal<f64>),
    /// Extra ns at equally spaced quantiles, the first at 0 and the last at 1.
    Table(Vec<f64>),
}

impl Delay {
    /// That of a link.
    pub fn of(spec: &LinkSpec) -> Self {
        let mean = spec.jitter.as_nanos() as f64;
        let jitter = if !spec.jitter_quantiles.is_empty() {
            Jitter::Table(spec.jitter_quantiles.iter().map(|extra| extra.as_nanos() as f64).collect())
        } else if spec.jitter.is_zero() {
            Jitter::None
        } else {
            match spec.jitter_shape {
                JitterShape::Uniform => Jitter::Uniform(spec.jitter.as_nanos()),
                JitterShape::Normal => Jitter::Normal(mean),
                JitterShape::Gamma => gamma(mean, spec.jitter_cv),
                JitterShape::Lognormal => lognormal(mean, spec.jitter_cv),
            }
        };
        Delay { base: spec.delay, jitter }
    }

    /// One packet's.
    #[inline]
    pub fn draw(&self, rng: &mut RngStream) -> Span {
        let extra = match &self.jitter {
            Jitter::None => return self.base,
            Jitter::Uniform(most) => return self.base + Span::from_nanos(rng.below(most.saturating_add(1))),
            Jitter::Normal(deviation) => rng.sample::<f64, _>(&StandardNormal) * deviation,
            Jitter::Gamma(law) => rng.sample(law),
            Jitter::Lognormal(law) => rng.sample(law),
            Jitter::Table(table) => quantile(table, rng.unit()),
        };
        Span::from_nanos((self.base.as_nanos() as f64 + extra).clamp(0.0, MOST_NS) as u64)
    }
}

/// With this mean and standard deviation `cv · mean`: shape 1 / cv², scale mean · cv².
fn gamma(mean: f64, cv: f64) -> Jitter {
    let square = cv * cv;
    Gamma::new(1.0 / square, mean * square).map_or(Jitter::None, Jitter::Gamma)
}

/// With this mean and standard deviation `cv · mean`: σ² = ln(1 + cv²), μ = ln mean − σ² / 2.
fn lognormal(mean: f64, cv: f64) -> Jitter {
    let variance = (cv * cv).ln_1p();
    LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt()).map_or(Jitter::None, Jitter::Lognormal)
}

/// Between two entries of the table the quantile function is a straight line.
fn quantile(table: &[f64], unit: f64) -> f64 {
    let place = unit * (table.len() - 1) as f64;
    let below = place as usize;
    let (low, high) = (table[below], table[(below + 1).min(table.len() - 1)]);
    low + (high - low) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use rehearsal_core::rng::Seed;

    use super::*;

    const N: usize = 100_000;

    /// Mean and standard deviation of what is drawn, in µs.
    fn moments(spec: &LinkSpec) -> (f64, f64) {
        let seed = Seed { seed: 3, repetition: 0, group: "link/a-b", member: 0, stream: 0, purpose: "link" };
        let (mut rng, delay) = (RngStream::new(seed), Delay::of(spec));
        let drawn: Vec<f64> = (0..N).map(|_| delay.draw(&mut rng).as_nanos() as f64 / 1e3).collect();
        let mean = drawn.iter().sum::<f64>() / N as f64;
        let square = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64;
        (mean, square.sqrt())
    }

    fn spec(shape: JitterShape, cv: f64) -> LinkSpec {
        let (delay, jitter) = (Span::from_millis(5), Span::from_millis(1));
        LinkSpec { delay, jitter, jitter_shape: shape, jitter_cv: cv, ..LinkSpec::default() }
    }

    #[test]
    fn each_shape_has_its_moments() {
        let cases = [
            (spec(JitterShape::Uniform, 1.0), 5500.0, 288.7),
            (spec(JitterShape::Normal, 1.0), 5000.0, 1000.0),
            (spec(JitterShape::Gamma, 0.5), 6000.0, 500.0),
            (spec(JitterShape::Gamma, 1.0), 6000.0, 1000.0),
            (spec(JitterShape::Lognormal, 0.5), 6000.0, 500.0),
        ];
        for (spec, mean, deviation) in cases {
            let (m, d) = moments(&spec);
            // five standard errors of the mean; the deviation's own error grows with the tail: 5 %
            assert!((m - mean).abs() < 5.0 * deviation / (N as f64).sqrt(), "{:?}: mean {m}", spec.jitter_shape);
            assert!((d - deviation).abs() < 0.05 * deviation, "{:?}: deviation {d}", spec.jitter_shape);
        }
    }

    #[test]
    fn a_table_is_drawn_from_between_its_entries() {
        let ms = Span::from_millis;
        // half below 1 ms, half from 1 to 5 ms: mean 0.5 · 0.5 + 0.5 · 3
        let spec = LinkSpec { jitter_quantiles: vec![ms(0), ms(1), ms(5)], ..LinkSpec::default() };
        let (mean, _) = moments(&spec);
        assert!((mean - 1750.0).abs() < 25.0, "{mean}");
        assert_eq!([0.0, 0.5, 0.75].map(|u| quantile(&[0.0, 1.0, 5.0], u)), [0.0, 1.0, 3.0]);
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
    }

    #[test]
    fn nothing_arrives_before_it_left() {
        let near = LinkSpec { delay: Span::from_micros(100), ..spec(JitterShape::Normal, 1.0) };
        let (mean, _) = moments(&near);
        // truncated at zero, the mean of N(0.1, 1) is 0.1 Φ(0.1) + φ(0.1) = 0.451 ms
        assert!((mean - 451.0).abs() < 10.0, "{mean}");
    }
}
