//! The special functions that moments and survival functions need.

/// ln Γ(x) for x > 0, to about 1e-13: Stirling's series above 10, and Γ(x + 1) = x Γ(x) below. Source: DLMF 5.11.1, 5.5.1.
pub(super) fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let (inverse, square) = (1.0 / x, 1.0 / (x * x));
    let series = inverse
        * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    shift + (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

/// Steps of a series or a continued fraction. Both need some multiple of √a; a is at most 10,000.
const STEPS_MAX: u32 = 5_000;

/// Q(a, x), the upper regularised incomplete gamma function, for a > 0 and x ≥ 0. Source: DLMF 8.7.1 (series) and 8.9.2
/// (continued fraction, evaluated by Lentz's method, DLMF 3.10(iii)).
pub(super) fn gamma_q(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    if x.is_infinite() {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        for _ in 0..STEPS_MAX {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < sum * 1e-16 {
                break;
            }
        }
        return (1.0 - front * sum).clamp(0.0, 1.0);
    }
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / tiny;
    let mut d = 1.0 / b;
    let mut value = d;
    for i in 1..=STEPS_MAX {
        let an = -f64::from(i) * (f64::from(i) - a);
        b += 2.0;
        let away = |v: f64| if v.abs() < tiny { tiny } else { v };
        d = 1.0 / away(an * d + b);
        c = away(b + an / c);
        value *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (front * value).clamp(0.0, 1.0)
}

/// P(Z > z) of a standard normal: Q(½, z²/2) / 2 above 0. Source: DLMF 7.11.2.
pub(super) fn normal_survival(z: f64) -> f64 {
    let tail = gamma_q(0.5, z * z / 2.0) / 2.0;
    if z >= 0.0 { tail } else { 1.0 - tail }
}

/// I_x(a, b), the regularised incomplete beta function, for a, b > 0 and 0 ≤ x ≤ 1. Source: DLMF 8.17.22 (continued fraction,
/// evaluated by Lentz's method, DLMF 3.10(iii)) and 8.17.4 (symmetry).
pub(super) fn beta_i(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // it converges quickly on this side alone
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_i(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let away = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..=STEPS_MAX {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = value;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            value *= c * d;
        }
        if (value - before).abs() < before.abs() * 1e-15 {
            break;
        }
    }
    (front * value).clamp(0.0, 1.0)
}
