//! Draws against closed forms, bounds, and vectors that must never change.

use rehearsal_core::Span;
use rehearsal_core::distribution::{Distribution, Name};
use rehearsal_core::rng::Seed;

use super::*;

const N: usize = 100_000;

fn rng(purpose: &str) -> RngStream {
    RngStream::new(Seed { seed: 1, repetition: 0, group: "sensor/main", member: 0, stream: 0, purpose })
}

fn plain(dist: Name) -> Distribution<Span> {
    Distribution::plain(dist)
}

fn ms(millis: u64) -> Option<Span> {
    Some(Span::from_millis(millis))
}

/// One of each, with some in bounds.
fn cases() -> Vec<(&'static str, Distribution<Span>)> {
    let bounded = |d: Distribution<Span>, truncate| Distribution { min: ms(2), max: ms(30), truncate, ..d };
    let normal = Distribution { mean: ms(10), sd: ms(5), ..plain(Name::Normal) };
    let gamma = Distribution { mean: ms(10), cv: Some(2.0), ..plain(Name::Gamma) };
    let pareto = Distribution { scale: ms(1), shape: Some(1.0), ..plain(Name::Pareto) };
    let cauchy = Distribution { median: ms(10), scale: ms(5), ..plain(Name::Cauchy) };
    let gumbel = Distribution { mode: ms(10), scale: ms(5), ..plain(Name::Gumbel) };
    let (clamp, reject) = (Some(Truncate::Clamp), Some(Truncate::Reject));
    vec![
        ("uniform", Distribution { low: ms(5), high: ms(15), ..plain(Name::Uniform) }),
        ("exponential", Distribution { mean: ms(10), ..plain(Name::Exponential) }),
        ("normal", bounded(normal.clone(), reject)),
        ("normal at zero", Distribution { truncate: clamp, ..normal }),
        ("gamma", gamma.clone()),
        ("regular gamma", Distribution { cv: Some(0.5), ..gamma.clone() }),
        ("gamma clamped", bounded(gamma, clamp)),
        ("weibull", Distribution { mean: ms(10), shape: Some(0.7), ..plain(Name::Weibull) }),
        ("pareto", Distribution { shape: Some(2.5), ..pareto.clone() }),
        ("pareto drawn again", bounded(pareto, reject)),
        ("lognormal", Distribution { mean: ms(10), cv: Some(1.5), ..plain(Name::Lognormal) }),
        ("cauchy clamped", bounded(cauchy.clone(), clamp)),
        ("cauchy drawn again", bounded(cauchy, reject)),
        ("gumbel clamped", Distribution { truncate: clamp, ..gumbel.clone() }),
        ("gumbel drawn again", bounded(gumbel, reject)),
        ("beta", Distribution { low: ms(5), high: ms(15), alpha: Some(3.0), beta: Some(4.0), ..plain(Name::Beta) }),
    ]
}

/// Kolmogorov's test: the largest distance of the two distribution functions, times √n, is above 1.95 for one good sampler
/// in a thousand (Kolmogorov's limit, 2 exp(−2 x²)); with atoms it is smaller. The seed is fixed, so it fails always or never.
#[test]
fn draws_follow_their_distribution() {
    for (name, distribution) in cases() {
        let law = distribution.law().expect(name);
        let sampler = Sampler::new("gaps", &law).expect(name);
        let mut rng = rng(name);
        let mut drawn: Vec<f64> = (0..N).map(|_| sampler.draw(&mut rng)).collect();
        drawn.sort_by(f64::total_cmp);
        let (least, most) = law.bounds();
        assert!(drawn[0] >= least && drawn[N - 1] <= most, "{name}: {} to {}", drawn[0], drawn[N - 1]);
        // of equal draws the last tells the distribution function
        let at_last = (0..N).filter(|i| *i + 1 == N || drawn[*i + 1] > drawn[*i]);
        let distance = at_last.map(|i| ((i + 1) as f64 / N as f64 - (1.0 - law.survival(drawn[i]))).abs());
        let distance = distance.fold(0.0, f64::max) * (N as f64).sqrt();
        assert!(distance < 1.95, "{name}: {distance}");
    }
}

/// Five standard errors of the mean: one good sampler in two million fails.
#[test]
fn draws_have_their_mean() {
    for (name, distribution) in cases() {
        let law = distribution.law().expect(name);
        let sampler = Sampler::new("gaps", &law).expect(name);
        let mut rng = rng(name);
        let mean = (0..N).map(|_| sampler.draw(&mut rng)).sum::<f64>() / N as f64;
        let moments = law.moments();
        let error = (mean - moments.mean).abs() / (moments.sd / (N as f64).sqrt());
        assert!(error < 5.0, "{name}: mean {mean} and not {}, {error} standard errors", moments.mean);
    }
}

/// Golden vectors: the third draw of each in ns. They must never change, on no host and in no version. Those of Gumbel and beta
/// were computed independently from the definitions.
#[test]
fn golden_vectors() {
    let drawn: Vec<(&str, u64)> = cases()
        .iter()
        .map(|(name, distribution)| {
            let sampler = Sampler::new("gaps", &distribution.law().expect(name)).expect(name);
            let mut rng = rng("golden");
            (*name, (0..3).map(|_| sampler.whole(&mut rng)).last().unwrap_or(0))
        })
        .collect();
    assert_eq!(drawn, GOLDEN);
}

const GOLDEN: [(&str, u64); 16] = [
    ("uniform", 9_037_133),
    ("exponential", 5_963_930),
    ("normal", 8_625_191),
    ("normal at zero", 8_625_191),
    ("gamma", 10_035),
    ("regular gamma", 14_244_439),
    ("gamma clamped", 2_000_000),
    ("weibull", 6_872_270),
    ("pareto", 1_437_377),
    ("pareto drawn again", 7_674_177),
    ("lognormal", 4_115_429),
    ("cauchy clamped", 26_022_019),
    ("cauchy drawn again", 26_022_019),
    ("gumbel clamped", 10_487_787),
    ("gumbel drawn again", 10_487_787),
    ("beta", 10_414_774),
];

#[test]
fn a_size_or_gap_is_never_nothing() {
    let law = Distribution { value: Some(Span::from_nanos(1)), ..plain(Name::Constant) }.law().expect("a law");
    assert_eq!(Sampler::new("gaps", &law).expect("a sampler").whole(&mut rng("x")), 1);
    let law = Distribution { mean: ms(1), sd: ms(100), truncate: Some(Truncate::Clamp), ..plain(Name::Normal) };
    let sampler = Sampler::new("gaps", &law.law().expect("a law")).expect("a sampler");
    let mut rng = rng("x");
    assert!((0..100).all(|_| sampler.whole(&mut rng) >= 1));
}
