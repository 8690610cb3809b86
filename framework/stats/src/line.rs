//! A straight line through a cloud by ordinary least squares, and whether its residuals allow what is said of it.

use ndarray::{Array1, ArrayView1};
use serde::Serialize;

use crate::distributions::{check_level, chi_squared_above, normal_two_sided, student_quantile, student_two_sided};
use crate::error::StatsError;
use crate::series::{centred, check_pair};

/// Below this p-value a check of the residuals objects.
pub const OBJECTION_P: f64 = 0.01;
/// The fewest points of a line whose error can be told.
const POINTS_MIN: usize = 3;

/// y = intercept + slope · x.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Points.
    pub n: usize,
    /// In units of y per unit of x.
    pub slope: f64,
    /// In units of y.
    pub intercept: f64,
    /// Standard error of the slope if residuals are independent and equally wide.
    pub slope_error: f64,
    /// Standard error of the intercept, likewise.
    pub intercept_error: f64,
    /// Standard error of the slope by Newey and West, which allows for residuals that resemble each other over
    /// ⌊4 (n / 100)^(2/9)⌋ samples and for unequal widths.
    pub slope_error_robust: f64,
    /// The share of y's variance that the line explains, 0 to 1.
    pub r_squared: f64,
    /// P-value of "the slope is 0", by the t test, supposing independent residuals.
    pub p: f64,
    /// Standard deviation of the residuals with n − 2, in units of y.
    pub residual_sd: f64,
    /// What the residuals say.
    pub residuals: Residuals,
}

/// Three checks of a line's residuals, in the order of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Residuals {
    /// Durbin and Watson's d: about 2 (1 − ρ) for an autocorrelation ρ between neighbours, so 2 if there is none.
    pub durbin_watson: f64,
    /// P-value of Wald and Wolfowitz' runs test: small if signs come in too long or too short runs. `None` if all
    /// residuals have one sign or are 0.
    pub runs_p: Option<f64>,
    /// P-value of Breusch and Pagan's test in Koenker's form: small if the residuals' width depends on x. `None` if all
    /// are equally wide.
    pub breusch_pagan_p: Option<f64>,
}

impl Residuals {
    /// Whether neighbours look independent: the usual errors and p-values hold.
    pub fn independent(&self) -> bool {
        self.runs_p.is_none_or(|p| p >= OBJECTION_P)
    }

    /// Whether they are as wide everywhere.
    pub fn equally_wide(&self) -> bool {
        self.breusch_pagan_p.is_none_or(|p| p >= OBJECTION_P)
    }
}

impl Line {
    /// Through the points (x, y).
    ///
    /// # Errors
    /// When there are fewer than 3 points, the lengths differ, a value is no number, or a series never changes.
    pub fn fit(x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> Result<Self, StatsError> {
        check_pair("a line", x, y, POINTS_MIN)?;
        let n = x.len();
        let (mean_x, dx) = centred(x);
        let (mean_y, dy) = centred(y);
        let (sxx, sxy, syy) = (dot(&dx, &dx), dot(&dx, &dy), dot(&dy, &dy));
        let slope = sxy / sxx;
        let rest: Vec<f64> = dx.iter().zip(&dy).map(|(dx, dy)| dy - slope * dx).collect();
        let freedom = (n - 2) as f64;
        let variance = dot(&rest, &rest) / freedom;
        let slope_error = (variance / sxx).sqrt();
        Ok(Line {
            n,
            slope,
            intercept: mean_y - slope * mean_x,
            slope_error,
            intercept_error: slope_error * (sxx / n as f64 + mean_x * mean_x).sqrt(),
            slope_error_robust: newey_west(&dx, &rest, newey_west_lags(n)) / sxx,
            r_squared: (1.0 - dot(&rest, &rest) / syy).clamp(0.0, 1.0),
            p: if slope_error > 0.0 { student_two_sided(slope / slope_error, freedom) } else { 0.0 },
            residual_sd: variance.sqrt(),
            residuals: Residuals {
                durbin_watson: durbin_watson(&rest),
                runs_p: runs(&rest),
                breusch_pagan_p: breusch_pagan(&dx, &rest),
            },
        })
    }

    /// y on the line.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    /// What the line leaves of each y.
    pub fn residuals_of(&self, x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> Array1<f64> {
        x.iter().zip(y).map(|(x, y)| y - self.at(*x)).collect()
    }

    /// Half the width of the slope's interval by Student's t, from the robust error unless the residuals are independent
    /// and equally wide.
    ///
    /// # Errors
    /// When `level` is not between 0 and 1.
    pub fn slope_half_width(&self, level: f64) -> Result<f64, StatsError> {
        check_level(level)?;
        let plain = self.residuals.independent() && self.residuals.equally_wide();
        let error = if plain { self.slope_error } else { self.slope_error_robust };
        Ok(student_quantile(level, (self.n - 2) as f64)? * error)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The customary number of lags, 4 (n / 100)^(2/9), rounded down. Source: Newey and West, 1994.
fn newey_west_lags(n: usize) -> usize {
    ((4.0 * (n as f64 / 100.0).powf(2.0 / 9.0)) as usize).min(n - 1)
}

/// The long-run deviation of Σ dx · residual, with Bartlett's weights.
fn newey_west(dx: &[f64], rest: &[f64], lags: usize) -> f64 {
    let scores: Vec<f64> = dx.iter().zip(rest).map(|(dx, e)| dx * e).collect();
    let weighted = (1..=lags).map(|lag| {
        let weight = 1.0 - lag as f64 / (lags + 1) as f64;
        2.0 * weight * dot(&scores, &scores[lag..])
    });
    (dot(&scores, &scores) + weighted.sum::<f64>()).max(0.0).sqrt()
}

/// Σ (eₜ − eₜ₋₁)² / Σ eₜ²; 2 where there are no residuals.
fn durbin_watson(rest: &[f64]) -> f64 {
    let sum = dot(rest, rest);
    let steps: f64 = rest.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    if sum > 0.0 { steps / sum } else { 2.0 }
}

/// The runs test by its normal approximation, without correction for continuity; zeros count as negative.
fn runs(rest: &[f64]) -> Option<f64> {
    let above = rest.iter().filter(|e| **e > 0.0).count() as f64;
    let n = rest.len() as f64;
    let below = n - above;
    if above == 0.0 || below == 0.0 {
        return None;
    }
    let runs = 1 + rest.windows(2).filter(|pair| (pair[0] > 0.0) != (pair[1] > 0.0)).count();
    let expected = 2.0 * above * below / n + 1.0;
    let variance = (expected - 1.0) * (expected - 2.0) / (n - 1.0);
    (variance > 0.0).then(|| normal_two_sided((runs as f64 - expected) / variance.sqrt()))
}

/// n R² of the squared residuals on x, against χ² with one degree of freedom.
fn breusch_pagan(dx: &[f64], rest: &[f64]) -> Option<f64> {
    let squares: Vec<f64> = rest.iter().map(|e| e * e).collect();
    let (_, offsets) = centred(squares.as_slice().into());
    let (total, sxx) = (dot(&offsets, &offsets), dot(dx, dx));
    (total > 0.0).then(|| {
        let r_squared = dot(dx, &offsets).powi(2) / (sxx * total);
        chi_squared_above(rest.len() as f64 * r_squared, 1.0)
    })
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::testing::{cloud, near};

    #[test]
    fn lines_are_those_of_scipy() {
        // scipy.stats.linregress, SciPy 1.17.1: n, slope, intercept, their errors, R², p
        let table = [
            (
                12,
                [2.2222546452676233, 0.06490215895042972, 0.17426995508536217, 0.2691217905840254, 0.9420653454909413],
            ),
            (
                60,
                [2.209190154562965, 0.12010589172978836, 0.09623375103645153, 0.18322623647715844, 0.9008548560257629],
            ),
            (400, [2.0190670017523993, 0.47886642931612, 0.03424134081581649, 0.057907652561349, 0.897289313885088]),
        ];
        for (n, wanted) in table {
            let (x, y) = cloud(n);
            let line = Line::fit(x.view(), y.view()).unwrap();
            let found = [line.slope, line.intercept, line.slope_error, line.intercept_error, line.r_squared];
            for (found, wanted) in found.into_iter().zip(wanted) {
                near(found, wanted, 1e-11);
            }
            let rest = line.residuals_of(x.view(), y.view());
            assert!(rest.sum().abs() < 1e-9);
            near((rest.mapv(|e| e * e).sum() / (n - 2) as f64).sqrt(), line.residual_sd, 1e-10);
        }
        let (x, y) = cloud(12);
        let line = Line::fit(x.view(), y.view()).unwrap();
        near(line.p, 1.6464544215812506e-07, 1e-9);
        near(line.slope_half_width(0.95).unwrap(), 0.3882976576595984, 1e-9);
    }

    #[test]
    fn residual_checks_are_those_computed_with_numpy_and_scipy() {
        // n, Durbin-Watson, runs p (scipy.stats.norm), Breusch-Pagan p (scipy.stats.chi2); SciPy 1.17.1
        let table = [
            (12, 3.206552071216251, 0.4661722659193256, 0.11277863878847363),
            (60, 1.9204532055062806, 0.4346580060052977, 0.7697206615810421),
            (400, 1.863402899832963, 0.19561670298860967, 0.45595201248595973),
        ];
        for (n, d, runs_p, breusch_pagan_p) in table {
            let (x, y) = cloud(n);
            let checks = Line::fit(x.view(), y.view()).unwrap().residuals;
            near(checks.durbin_watson, d, 1e-10);
            near(checks.runs_p.unwrap(), runs_p, 1e-9);
            near(checks.breusch_pagan_p.unwrap(), breusch_pagan_p, 1e-9);
            assert!(checks.independent() && checks.equally_wide());
        }
        let (x, y) = cloud(60);
        let dx = centred(x.view()).1;
        let rest = Line::fit(x.view(), y.view()).unwrap().residuals_of(x.view(), y.view()).to_vec();
        near(newey_west(&dx, &rest, 4) / dot(&dx, &dx), 0.09311500136368141, 1e-10);
        assert_eq!((newey_west_lags(100), newey_west_lags(1322), newey_west_lags(3)), (4, 7, 1));
    }

    #[test]
    fn residuals_with_memory_and_growing_width_are_noticed() {
        let x: Array1<f64> = (0..200).map(f64::from).collect();
        let wave = x.mapv(|x| 3.0 * x + 50.0 * (x / 15.0).sin());
        let line = Line::fit(x.view(), wave.view()).unwrap();
        assert!(!line.residuals.independent() && line.residuals.durbin_watson < 0.1, "{line:?}");
        assert!(line.slope_error_robust > line.slope_error);
        let fan: Array1<f64> = x.iter().map(|x| x * if (*x as i64) % 2 == 0 { 1.5 } else { 0.5 }).collect();
        assert!(!Line::fit(x.view(), fan.view()).unwrap().residuals.equally_wide());
    }

    #[test]
    fn a_perfect_line_has_nothing_left() {
        let line = Line::fit(array![0.0, 1.0, 2.0, 4.0].view(), array![1.0, 3.0, 5.0, 9.0].view()).unwrap();
        assert_eq!((line.slope, line.intercept, line.r_squared, line.p), (2.0, 1.0, 1.0, 0.0));
        assert_eq!((line.residuals.runs_p, line.residuals.breusch_pagan_p, line.at(10.0)), (None, None, 21.0));
        assert!(matches!(
            Line::fit(array![1.0, 1.0, 1.0].view(), array![1.0, 2.0, 3.0].view()),
            Err(StatsError::Constant { .. })
        ));
    }
}
