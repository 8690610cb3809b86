//! Probabilities and quantiles: Student's t, the normal and the chi-squared distribution.

use crate::error::StatsError;
use crate::special::{beta_inc, gamma_q};

/// Halvings of an interval: enough for the last bit of any quantile below 2^64.
const HALVINGS: usize = 200;

/// P(|T| ≥ |t|) of Student's distribution with `freedom` degrees of freedom, which must be positive.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_inc(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The t with P(|T| ≤ t) = `level`: 2.262 for nine degrees of freedom and 0.95.
///
/// # Errors
/// When `level` is not between 0 and 1, or `freedom` is not positive.
pub fn student_quantile(level: f64, freedom: f64) -> Result<f64, StatsError> {
    check_level(level)?;
    if freedom <= 0.0 {
        return Err(StatsError::Parameter { name: "degrees of freedom", value: freedom, range: "above 0" });
    }
    Ok(invert(1.0 - level, |t| student_two_sided(t, freedom)))
}

/// P(|Z| ≥ |z|) of the standard normal distribution.
pub fn normal_two_sided(z: f64) -> f64 {
    gamma_q(0.5, z * z / 2.0)
}

/// The z with P(|Z| ≤ z) = `level`: 1.960 for 0.95.
///
/// # Errors
/// When `level` is not between 0 and 1.
pub fn normal_quantile(level: f64) -> Result<f64, StatsError> {
    check_level(level)?;
    Ok(invert(1.0 - level, normal_two_sided))
}

/// P(X ≥ x) of the chi-squared distribution with `freedom` degrees of freedom, which must be positive.
pub fn chi_squared_above(x: f64, freedom: f64) -> f64 {
    gamma_q(freedom / 2.0, x / 2.0)
}

/// A level of confidence is strictly between 0 and 1.
pub(crate) fn check_level(level: f64) -> Result<(), StatsError> {
    if level > 0.0 && level < 1.0 {
        return Ok(());
    }
    Err(StatsError::Parameter { name: "the level of confidence", value: level, range: "between 0 and 1, such as 0.95" })
}

/// Where a function that falls from 1 to 0 over the positive numbers has the value `wanted`.
fn invert(wanted: f64, falls: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while falls(high) > wanted && high < 1e18 {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if falls(middle) > wanted { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::near;

    #[test]
    fn student_is_that_of_scipy() {
        // 2 scipy.stats.t.sf(|t|, freedom), SciPy 1.17.1
        let table = [
            (0.5, 9.0, 0.6290712998260263),
            (12.7, 1.0, 0.050024327689344165),
            (-1.2, 3.0, 0.31626211469810517),
            (1.96, 1e5, 0.04999856319430168),
        ];
        for (t, freedom, p) in table {
            near(student_two_sided(t, freedom), p, 1e-9);
        }
        // scipy.stats.t.ppf((1 + level) / 2, freedom)
        let table = [
            (0.95, 9.0, 2.262157162798205),
            (0.95, 1.0, 12.706204736174694),
            (0.99, 2.0, 9.924843200918287),
            (0.90, 29.0, 1.6991270265334972),
            (0.95, 1320.0, 1.9617627807176092),
        ];
        for (level, freedom, t) in table {
            near(student_quantile(level, freedom).unwrap(), t, 1e-9);
        }
    }

    #[test]
    fn normal_and_chi_squared_are_those_of_scipy() {
        // scipy.stats.norm.sf and ppf, scipy.stats.chi2.sf, SciPy 1.17.1
        near(normal_two_sided(1.0), 2.0 * 0.15865525393145707, 1e-12);
        near(normal_two_sided(-5.0), 2.0 * 2.866515718791933e-07, 1e-12);
        near(normal_quantile(0.90).unwrap(), 1.6448536269514722, 1e-12);
        near(normal_quantile(0.95).unwrap(), 1.959963984540054, 1e-12);
        near(normal_quantile(0.99).unwrap(), 2.5758293035489004, 1e-12);
        near(chi_squared_above(0.1, 1.0), 0.7518296340458492, 1e-12);
        near(chi_squared_above(20.0, 1.0), 7.744216431044088e-06, 1e-12);
    }

    #[test]
    fn levels_out_of_range_are_refused() {
        for level in [0.0, 1.0, 95.0, f64::NAN] {
            let error = normal_quantile(level).unwrap_err().to_string();
            assert!(error.contains("between 0 and 1, such as 0.95"), "{error}");
        }
        assert!(student_quantile(0.95, 0.0).is_err());
    }
}
