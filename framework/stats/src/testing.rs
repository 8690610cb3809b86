//! What the tests of this crate share.

use ndarray::Array1;

/// Fails unless the two are equal to a relative error.
#[track_caller]
pub(crate) fn near(found: f64, wanted: f64, relative: f64) {
    let off = (found - wanted).abs();
    assert!(off <= relative * wanted.abs(), "{found} is not {wanted}: off by {off:e}");
}

/// Pseudorandom numbers in [0, 1), the same for ever and easy to repeat elsewhere: a multiplicative congruential
/// generator modulo 2^31 − 1 with multiplier 48271 (`minstd_rand`).
pub(crate) fn noise(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state * 48_271 % 2_147_483_647;
        state as f64 / 2_147_483_647.0
    })
}

/// Two series of `n` related samples with memory, y in steps of 0.1 so that there are ties.
pub(crate) fn cloud(n: usize) -> (Array1<f64>, Array1<f64>) {
    let (mut e, mut f, mut x) = (noise(11), noise(12), 0.0);
    let pairs = std::iter::repeat_with(|| {
        x = 0.7 * x + e.next().unwrap_or_default();
        (x, ((2.0 * x + f.next().unwrap_or_default()) * 10.0).round() / 10.0)
    });
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.take(n).unzip();
    (x.into(), y.into())
}
