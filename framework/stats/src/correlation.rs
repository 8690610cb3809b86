//! How far two series go together: Pearson's r, and Spearman's ρ on mid-ranks.
//!
//! The p-values are those of the t test on n − 2 degrees of freedom, as SciPy and the literature give them. It supposes
//! independent samples. Seconds of one run are not independent, so beside it stands the p-value on the effective n, and
//! an interval comes from [`crate::bootstrap`].

use ndarray::{Array2, ArrayView1, ArrayView2};
use serde::Serialize;

use crate::autocorrelation::effective_pairs;
use crate::distributions::student_two_sided;
use crate::error::StatsError;
use crate::ranks::mid_ranks;
use crate::series::{centred, check_pair};

/// From here on a correlation is called strong. Source: PL-5G, section 5, after Cohen's large effects.
pub const STRONG: f64 = 0.60;
/// The fewest pairs for which a correlation has a p-value.
const PAIRS_MIN: usize = 3;

/// Which coefficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Pearson's r: how well a straight line describes it.
    Pearson,
    /// Spearman's ρ: how well any rising or falling curve does.
    Spearman,
}

/// A coefficient and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Correlation {
    /// Which coefficient.
    pub method: Method,
    /// Its value, −1 to 1.
    pub r: f64,
    /// Pairs.
    pub n: usize,
    /// P-value that neglects autocorrelation, as papers print it; 0 stands for anything below 1e-300.
    pub p: f64,
    /// As many independent pairs would tell as much.
    pub effective_n: f64,
    /// P-value on the effective n; `None` when that is not above 2.
    pub p_effective: Option<f64>,
}

impl Correlation {
    /// Of two series.
    ///
    /// # Errors
    /// When there are fewer than 3 pairs, the lengths differ, a value is no number, or a series never changes.
    pub fn of(method: Method, x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> Result<Self, StatsError> {
        check_pair("a correlation", x, y, PAIRS_MIN)?;
        let (x, y) = (x.to_vec(), y.to_vec());
        let (x, y) = match method {
            Method::Pearson => (x, y),
            Method::Spearman => (mid_ranks(&x), mid_ranks(&y)),
        };
        let r = product_moment(&x, &y).ok_or(StatsError::Constant { what: "a correlation", value: x[0] })?;
        let effective_n = effective_pairs(&x, &y);
        let p_effective = (effective_n > 2.0).then(|| p_value(r, effective_n));
        Ok(Correlation { method, r, n: x.len(), p: p_value(r, x.len() as f64), effective_n, p_effective })
    }

    /// Whether it is what the paper calls strong and positive.
    pub fn is_strong(&self) -> bool {
        self.r >= STRONG
    }
}

/// The coefficients of all pairs of columns; rows are samples.
///
/// # Errors
/// As for [`Correlation::of`], for the first pair that has none.
pub fn correlation_matrix(method: Method, columns: ArrayView2<'_, f64>) -> Result<Array2<f64>, StatsError> {
    let width = columns.ncols();
    let mut matrix = Array2::eye(width);
    for (i, j) in (0..width).flat_map(|i| (0..i).map(move |j| (i, j))) {
        let r = Correlation::of(method, columns.column(i), columns.column(j))?.r;
        matrix[[i, j]] = r;
        matrix[[j, i]] = r;
    }
    Ok(matrix)
}

/// Pearson's r of values that are numbers; `None` when one side never changes.
pub(crate) fn product_moment(x: &[f64], y: &[f64]) -> Option<f64> {
    let (dx, dy) = (centred(x.into()).1, centred(y.into()).1);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let scale = (dot(&dx, &dx) * dot(&dy, &dy)).sqrt();
    (scale > 0.0).then(|| (dot(&dx, &dy) / scale).clamp(-1.0, 1.0))
}

/// The two-sided p-value of a coefficient by the t test on n − 2 degrees of freedom.
fn p_value(r: f64, n: f64) -> f64 {
    let freedom = n - 2.0;
    if r.abs() >= 1.0 { 0.0 } else { student_two_sided(r * (freedom / (1.0 - r * r)).sqrt(), freedom) }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, array};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{cloud, near};

    #[test]
    fn coefficients_and_p_values_are_those_of_scipy() {
        // scipy.stats.pearsonr and spearmanr, SciPy 1.17.1: n, r, p, ρ, p
        let table = [
            (12, 0.9706005076708655, 1.6464544215811905e-07, 0.9246949382066171, 1.67906990497589e-05),
            (60, 0.9491337397994883, 8.552747231100487e-31, 0.8894732011213667, 2.19670651033529e-21),
            (400, 0.947253563669775, 8.642626116129061e-199, 0.9441985350245231, 4.660007680745048e-194),
        ];
        for (n, r, p, rho, p_rho) in table {
            let (x, y) = cloud(n);
            let found = Correlation::of(Method::Pearson, x.view(), y.view()).unwrap();
            near(found.r, r, 1e-12);
            near(found.p, p, 1e-8);
            let found = Correlation::of(Method::Spearman, x.view(), y.view()).unwrap();
            near(found.r, rho, 1e-12);
            near(found.p, p_rho, 1e-8);
            assert!(found.effective_n < n as f64 && found.p_effective.unwrap() > found.p, "{found:?}");
        }
    }

    #[test]
    fn perfect_lines_have_no_doubt() {
        let x = array![1.0, 2.0, 3.0, 4.0];
        let line = Correlation::of(Method::Pearson, x.view(), (-2.0 * &x).view()).unwrap();
        assert_eq!((line.r, line.p), (-1.0, 0.0));
        let curve = Correlation::of(Method::Spearman, x.view(), x.mapv(f64::exp).view()).unwrap();
        assert!((curve.r - 1.0).abs() < 1e-15 && curve.is_strong());
    }

    #[test]
    fn what_has_no_correlation_is_refused() {
        let pair = |x: Array1<f64>, y: Array1<f64>| Correlation::of(Method::Pearson, x.view(), y.view()).unwrap_err();
        assert!(matches!(pair(array![1.0, 2.0], array![1.0, 2.0]), StatsError::TooFew { needed: 3, found: 2, .. }));
        assert!(matches!(pair(array![1.0, 2.0, 3.0], array![5.0, 5.0, 5.0]), StatsError::Constant { value: 5.0, .. }));
        assert!(matches!(pair(array![1.0, 2.0], array![1.0]), StatsError::Lengths { .. }));
        assert!(matches!(
            pair(array![1.0, f64::INFINITY, 3.0], array![1.0, 2.0, 3.0]),
            StatsError::NotFinite { at: 1, .. }
        ));
    }

    #[test]
    fn a_matrix_holds_every_pair() {
        let (x, y) = cloud(40);
        let columns = ndarray::stack![ndarray::Axis(1), x, y, &x + &y];
        let matrix = correlation_matrix(Method::Pearson, columns.view()).unwrap();
        let r = Correlation::of(Method::Pearson, x.view(), y.view()).unwrap().r;
        assert_eq!((matrix[[0, 1]], matrix[[1, 0]], matrix[[2, 2]]), (r, r, 1.0));
    }

    proptest! {
        #[test]
        fn coefficients_keep_their_range_and_ignore_scale(values in prop::collection::vec((0_u16..999, 0_u16..999), 3..40)) {
            let x: Array1<f64> = values.iter().map(|(x, _)| f64::from(*x)).collect();
            let y: Array1<f64> = values.iter().map(|(_, y)| f64::from(*y)).collect();
            for method in [Method::Pearson, Method::Spearman] {
                if let Ok(found) = Correlation::of(method, x.view(), y.view()) {
                    prop_assert!((-1.0..=1.0).contains(&found.r) && (0.0..=1.0).contains(&found.p));
                    let scaled = Correlation::of(method, (&x * 3.0 + 7.0).view(), (&y * -0.5).view()).unwrap();
                    prop_assert!((scaled.r + found.r).abs() < 1e-12);
                    prop_assert!(found.effective_n <= found.n as f64);
                }
            }
        }
    }
}
