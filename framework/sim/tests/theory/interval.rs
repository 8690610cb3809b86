//! Confidence intervals over seeds.

/// Seeds of every experiment here.
pub const SEEDS: u64 = 10;
/// Quantile 99.95 % of Student's t with nine degrees of freedom: both ends leave out 0.1 %. Source: any table of it.
const T: f64 = 4.781;

/// Mean over seeds, and how far from it the truth may lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub mean: f64,
    pub half: f64,
}

impl Interval {
    /// Of one figure per seed.
    pub fn of(figures: &[f64]) -> Self {
        assert_eq!(figures.len() as u64, SEEDS);
        let n = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / n;
        let variance = figures.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Interval { mean, half: T * (variance / n).sqrt() }
    }

    pub fn holds(&self, theory: f64) -> bool {
        (self.mean - theory).abs() <= self.half
    }
}

/// Runs `figure` once for each seed and holds its mean against `theory`; `share` bounds the half width of the interval, as
/// a share of the theory.
pub fn check(name: &str, theory: f64, share: f64, figure: impl Fn(u64) -> f64) {
    let figures: Vec<f64> = (1..=SEEDS).map(figure).collect();
    accept(name, theory, share, &figures);
}

/// As [`check`], of figures that are there already.
pub fn accept(name: &str, theory: f64, share: f64, figures: &[f64]) {
    let interval = Interval::of(figures);
    assert!(
        interval.holds(theory),
        "{name}: theory {theory:.5}, simulated {:.5} ± {:.5}",
        interval.mean,
        interval.half
    );
    let width = interval.half / theory.abs();
    assert!(width <= share, "{name}: an interval of ± {width:.4} of {theory:.4} tells too little");
}

/// The customers after the first tenth.
pub fn settled<T>(customers: &[T]) -> &[T] {
    &customers[customers.len() / 10..]
}

pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut sum) = (0_u64, 0.0);
    for value in values {
        n += 1;
        sum += value;
    }
    sum / n as f64
}

#[test]
fn a_wrong_theory_is_refused() {
    let figures: Vec<f64> = (0..SEEDS).map(|n| 5.0 + (n as f64 - 4.5) / 50.0).collect();
    let interval = Interval::of(&figures);
    assert!(interval.holds(5.0) && interval.holds(4.95));
    assert!(!interval.holds(4.9) && !interval.holds(5.1), "{interval:?}");
}
