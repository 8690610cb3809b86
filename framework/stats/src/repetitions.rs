//! Over repetitions: mean, deviation with n − 1, and Student's interval.

use ndarray::{ArrayView1, ArrayView2};
use serde::Serialize;

use crate::distributions::{check_level, student_quantile};
use crate::error::StatsError;
use crate::series::{centred, check};

/// The level of confidence that is told where nothing else is asked for.
pub const LEVEL: f64 = 0.95;

/// What a number came to over repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Described {
    /// Repetitions.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n − 1; `None` for a single one.
    pub sd: Option<f64>,
    /// Half the width of the interval around the mean; `None` for a single one.
    pub half_width: Option<f64>,
    /// Its level of confidence.
    pub level: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Described {
    /// Of one number in every repetition, with Student's interval on n − 1 degrees of freedom. It supposes that
    /// repetitions are independent and their mean is near to normal.
    ///
    /// ```
    /// use ndarray::array;
    /// use rehearsal_stats::Described;
    ///
    /// let rates = array![135.5, 136.25, 136.0, 136.25];
    /// let rate = Described::of(rates.view(), 0.95)?;
    /// assert_eq!(format!("{:.2} ± {:.2}", rate.mean, rate.half_width.unwrap()), "136.00 ± 0.56");
    /// # Ok::<(), rehearsal_stats::StatsError>(())
    /// ```
    ///
    /// # Errors
    /// When there is none, one is no number, or `level` is not between 0 and 1.
    pub fn of(series: ArrayView1<'_, f64>, level: f64) -> Result<Self, StatsError> {
        check("a mean", series, 1)?;
        check_level(level)?;
        let n = series.len();
        let (mean, offsets) = centred(series);
        let sd = (n > 1).then(|| (offsets.iter().map(|d| d * d).sum::<f64>() / (n - 1) as f64).sqrt());
        let half_width = sd.map(|sd| half_width(sd, n, level)).transpose()?;
        let (min, max) = series.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        Ok(Described { n, mean, sd, half_width, level, min, max })
    }

    /// Of every column of a matrix whose rows are repetitions.
    ///
    /// # Errors
    /// As for [`Described::of`], for the first column that cannot be described.
    pub fn columns(matrix: ArrayView2<'_, f64>, level: f64) -> Result<Vec<Self>, StatsError> {
        matrix.columns().into_iter().map(|column| Described::of(column, level)).collect()
    }

    /// The deviation as a share of the mean; `None` for a single repetition or a mean of 0.
    pub fn variation(&self) -> Option<f64> {
        self.sd.filter(|_| self.mean != 0.0).map(|sd| sd / self.mean.abs())
    }

    /// The ends of the interval; `None` for a single repetition.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half_width.map(|half| (self.mean - half, self.mean + half))
    }
}

/// Half the width of Student's interval around the mean of `n` values with deviation `sd`: t(n − 1) · sd / √n. It needs
/// no more than what a paper's table prints.
///
/// # Errors
/// When `n` is below 2 or `level` is not between 0 and 1.
pub fn half_width(sd: f64, n: usize, level: f64) -> Result<f64, StatsError> {
    if n < 2 {
        return Err(StatsError::TooFew { what: "an interval", needed: 2, found: n });
    }
    Ok(student_quantile(level, (n - 1) as f64)? * sd / (n as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::testing::near;

    #[test]
    fn mean_deviation_and_interval_are_those_of_scipy() {
        // numpy mean and std(ddof=1), scipy.stats.t.interval; NumPy 2.4.6, SciPy 1.17.1
        let rates = array![544.1, 543.2, 546.9, 545.5, 544.0, 542.8, 545.7, 546.1, 543.9, 544.6];
        let d = Described::of(rates.view(), LEVEL).unwrap();
        assert_eq!((d.n, d.min, d.max), (10, 542.8, 546.9));
        near(d.mean, 544.68, 1e-12);
        near(d.sd.unwrap(), 1.3248060654718947, 1e-12);
        near(d.half_width.unwrap(), 0.9477091680071226, 1e-9);
        near(d.variation().unwrap(), 1.3248060654718947 / 544.68, 1e-12);
        near(half_width(1.3248060654718947, 10, 0.99).unwrap(), 1.3614876048101803, 1e-9);
    }

    #[test]
    fn one_repetition_has_no_interval() {
        let one = Described::of(array![4.0].view(), LEVEL).unwrap();
        assert_eq!((one.mean, one.sd, one.interval(), one.variation()), (4.0, None, None, None));
        let none = Described::of(array![].view(), LEVEL).unwrap_err();
        assert_eq!(none, StatsError::TooFew { what: "a mean", needed: 1, found: 0 });
        assert!(half_width(1.0, 1, LEVEL).is_err());
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        let near_a_billion = array![1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0];
        assert_eq!(Described::of(near_a_billion.view(), LEVEL).unwrap().sd, Some(30_f64.sqrt()));
    }

    #[test]
    fn columns_are_described_one_by_one() {
        let matrix = array![[1.0, 10.0], [3.0, 10.0]];
        let columns = Described::columns(matrix.view(), LEVEL).unwrap();
        assert_eq!(
            columns.iter().map(|c| (c.mean, c.sd)).collect::<Vec<_>>(),
            [(2.0, Some(2_f64.sqrt())), (10.0, Some(0.0))]
        );
        let (low, high) = columns[1].interval().unwrap();
        assert_eq!((low, high), (10.0, 10.0));
    }
}
