//! What is asked of a series before anything is computed from it, and the ramps at its ends.

use ndarray::{ArrayView1, Axis, Slice};

use crate::error::StatsError;

/// Seconds that are left out at each end when a correlation is told without ramps. Assumed: start-up and drain of the
/// shipped experiments take less.
pub const RAMP_SECONDS: usize = 5;

/// The middle of a series: without `first` samples at its beginning and `last` at its end. Empty if nothing is left.
///
/// Start-up and drain lie near (0, 0) in a plot of CPU against rate; a handful of such seconds can turn a cloud into a
/// line. So a correlation is always told with and without them.
pub fn without_ramps(mut series: ArrayView1<'_, f64>, first: usize, last: usize) -> ArrayView1<'_, f64> {
    let end = series.len().saturating_sub(last);
    series.slice_axis_inplace(Axis(0), Slice::from(first.min(end)..end));
    series
}

/// All samples are numbers, and there are at least `needed`.
pub(crate) fn check(what: &'static str, series: ArrayView1<'_, f64>, needed: usize) -> Result<(), StatsError> {
    if let Some((at, value)) = series.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        return Err(StatsError::NotFinite { at, value: *value });
    }
    if series.len() < needed {
        return Err(StatsError::TooFew { what, needed, found: series.len() });
    }
    Ok(())
}

/// Two series of numbers, equally long, at least `needed` samples, and neither of them constant.
pub(crate) fn check_pair(
    what: &'static str,
    x: ArrayView1<'_, f64>,
    y: ArrayView1<'_, f64>,
    needed: usize,
) -> Result<(), StatsError> {
    if x.len() != y.len() {
        return Err(StatsError::Lengths { left: x.len(), right: y.len() });
    }
    for series in [x, y] {
        check(what, series, needed)?;
        varies(what, series)?;
    }
    Ok(())
}

/// The series has two different values.
pub(crate) fn varies(what: &'static str, series: ArrayView1<'_, f64>) -> Result<(), StatsError> {
    let value = series[0];
    if series.iter().any(|other| *other != value) { Ok(()) } else { Err(StatsError::Constant { what, value }) }
}

/// Differences from the mean, which is computed in two passes so that a large offset costs no digits.
pub(crate) fn centred(series: ArrayView1<'_, f64>) -> (f64, Vec<f64>) {
    let n = series.len() as f64;
    let first = series.sum() / n;
    let mean = first + series.iter().map(|value| value - first).sum::<f64>() / n;
    (mean, series.iter().map(|value| value - mean).collect())
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn ramps_are_cut_and_never_more_than_there_is() {
        let series = array![0.0, 1.0, 2.0, 3.0, 4.0];
        assert_eq!(without_ramps(series.view(), 1, 2), array![1.0, 2.0]);
        assert_eq!(without_ramps(series.view(), 0, 0), series);
        assert_eq!(without_ramps(series.view(), 3, 3).len(), 0);
        assert_eq!(without_ramps(series.view(), 9, 9).len(), 0);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let holes = array![1.0, f64::NAN, 3.0];
        let said = check("a mean", holes.view(), 1).unwrap_err().to_string();
        assert_eq!(said, "sample 1 is NaN; leave out what is unknown first");
        let said = check_pair("r", array![1.0, 2.0].view(), array![1.0].view(), 2).unwrap_err();
        assert_eq!(said, StatsError::Lengths { left: 2, right: 1 });
        let said = check_pair("r", array![1.0, 2.0].view(), array![7.0, 7.0].view(), 2).unwrap_err().to_string();
        assert_eq!(said, "r is not defined for a series that never changes: all of it is 7");
        let said = check("a mean", array![1.0].view(), 2).unwrap_err().to_string();
        assert_eq!(said, "a mean needs at least 2 samples, there are 1");
    }
}
