//! The three functions behind every distribution used here: ln Γ, the regularised incomplete beta and gamma functions.
//!
//! Relative error below 1e-12 for moderate arguments and 1e-9 for a hundred thousand samples; held against SciPy.

use std::f64::consts::PI;

/// Terms after which a fraction or series has long converged: they need about √max(a, b), and n is below 1e8.
const STEPS: usize = 20_000;
/// Stands for zero in a continued fraction, whose denominators must not vanish.
const TINY: f64 = 1e-300;
/// A factor this near to 1 changes nothing any more.
const PRECISION: f64 = 1e-15;

/// ln Γ(x) for x > 0: Stirling's series above 15, the recurrence Γ(x + 1) = x Γ(x) below.
pub fn ln_gamma(x: f64) -> f64 {
    assert!(x > 0.0, "the logarithm of the gamma function is used for positive arguments");
    let (mut x, mut product) = (x, 1.0);
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    // Bernoulli numbers B₂ₖ / (2k (2k − 1)) over odd powers of x
    let series = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0];
    let square = x * x;
    let tail = series.iter().rev().fold(0.0, |sum, term| sum / square + term) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + tail - f64::ln(product)
}

/// The regularised incomplete beta function Iₓ(a, b), for a, b > 0 and x in 0..=1.
pub fn beta_inc(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    // the fraction converges fast on this side of the mean, and the other side is its complement
    if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * beta_fraction(a, b, x) / a
    } else {
        1.0 - front.exp() * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of Iₓ(a, b), by Lentz's method. Source: DLMF 8.17.22.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let term = |m: usize| {
        let n = (m / 2) as f64;
        if m.is_multiple_of(2) {
            n * (b - n) * x / ((a + 2.0 * n - 1.0) * (a + 2.0 * n))
        } else {
            -(a + n) * (a + b + n) * x / ((a + 2.0 * n) * (a + 2.0 * n + 1.0))
        }
    };
    let (mut value, mut c, mut d) = (TINY, TINY, 0.0);
    for m in 0..STEPS {
        let numerator = if m == 0 { 1.0 } else { term(m) };
        d = 1.0 / apart(1.0 + numerator * d);
        c = apart(1.0 + numerator / c);
        let factor = c * d;
        value *= factor;
        if (factor - 1.0).abs() < PRECISION {
            break;
        }
    }
    value
}

/// The upper regularised incomplete gamma function Q(a, x), for a > 0 and x ≥ 0.
pub fn gamma_q(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 { 1.0 - front * gamma_series(a, x) } else { front * gamma_fraction(a, x) }
}

/// Σ xᵏ / (a (a + 1) … (a + k)). Source: DLMF 8.7.1.
fn gamma_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0 / a, 1.0 / a);
    for k in 1..STEPS {
        term *= x / (a + k as f64);
        sum += term;
        if term < sum * PRECISION {
            break;
        }
    }
    sum
}

/// The continued fraction of Γ(a, x) eˣ x⁻ᵃ. Source: DLMF 8.9.2, contracted.
fn gamma_fraction(a: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / apart(b));
    let mut value = d;
    for k in 1..STEPS {
        let k = k as f64;
        let numerator = -k * (k - a);
        b += 2.0;
        d = 1.0 / apart(numerator * d + b);
        c = apart(b + numerator / c);
        let factor = c * d;
        value *= factor;
        if (factor - 1.0).abs() < PRECISION {
            break;
        }
    }
    value
}

/// `x`, but never zero.
fn apart(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::near;
    #[test]
    fn ln_gamma_is_that_of_scipy() {
        // scipy.special.gammaln, SciPy 1.17.1
        let table = [
            (0.5, 0.5723649429247),
            (2.5, 0.2846828704729192),
            (4.5, 2.4537365708424423),
            (10.0, 12.801827480081469),
            (50.25, 145.5418715963321),
            (5e4, 490984.42327157187),
        ];
        for (x, value) in table {
            near(ln_gamma(x), value, 1e-13);
        }
        assert!(ln_gamma(1.0).abs() < 1e-14 && ln_gamma(2.0).abs() < 1e-14);
    }

    #[test]
    fn the_incomplete_beta_function_is_that_of_scipy() {
        // scipy.special.betainc, SciPy 1.17.1
        let table = [
            (0.5, 0.5, 0.3, 0.36901011956554536),
            (4.5, 0.5, 0.9, 0.3434363961379134),
            (2.0, 3.0, 0.5, 0.6875),
            (660.0, 0.5, 0.5, 6.485759005571193e-201),
            (50_000.0, 0.5, 0.9999, 0.0015650197621734966),
            (5.0, 0.5, 1e-6, 2.460938525391282e-31),
            (0.5, 4.5, 0.02, 0.32169025819442043),
        ];
        for (a, b, x, value) in table {
            near(beta_inc(a, b, x), value, 1e-9);
        }
        assert_eq!((beta_inc(2.0, 2.0, 0.0), beta_inc(2.0, 2.0, 1.0)), (0.0, 1.0));
    }

    #[test]
    fn the_incomplete_gamma_function_is_that_of_scipy() {
        // scipy.special.gammaincc, SciPy 1.17.1
        let table = [
            (0.5, 0.1, 0.6547208460185768),
            (0.5, 2.0, 0.04550026389635857),
            (0.5, 30.0, 9.485737571073857e-15),
            (3.0, 2.5, 0.5438131158833297),
            (10.0, 20.0, 0.0049954123083075785),
            (10.0, 3.0, 0.9988975118698845),
        ];
        for (a, x, value) in table {
            near(gamma_q(a, x), value, 1e-12);
        }
    }
}
