//! The saturation knee: the load from which on less gets through than is offered.

use ndarray::ArrayView1;
use serde::Serialize;

use crate::error::StatsError;
use crate::series::check;

/// Achieved below this share of offered is saturation. Source: GenSyn's scaling experiment, read as 98 %.
pub const ACHIEVED_SHARE: f64 = 0.98;

/// Where a system saturates, in the units of the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Knee {
    /// Nowhere up to this load.
    NotReached {
        /// The highest load that was offered.
        highest: f64,
    },
    /// Between two loads that were offered.
    Between {
        /// The highest load below which, itself included, enough got through.
        below: f64,
        /// The next load, at which too little did.
        above: f64,
        /// Where the share crosses the limit, on a straight line between the two.
        estimate: f64,
        /// What got through at most, at any load.
        ceiling: f64,
    },
    /// Already at the lowest load.
    BelowAll {
        /// The lowest load that was offered.
        lowest: f64,
        /// What got through at most, at any load.
        ceiling: f64,
    },
}

/// The knee of a sweep over loads: `achieved` at each `offered`, in any order, with `share` of what is offered as the
/// limit ([`ACHIEVED_SHARE`]).
///
/// # Errors
/// When there are fewer than two loads, the lengths differ, a value is no number, a load is not positive or occurs twice,
/// or the share is not between 0 and 1.
pub fn knee(offered: ArrayView1<'_, f64>, achieved: ArrayView1<'_, f64>, share: f64) -> Result<Knee, StatsError> {
    check("a knee", offered, 2)?;
    check("a knee", achieved, 2)?;
    if offered.len() != achieved.len() {
        return Err(StatsError::Lengths { left: offered.len(), right: achieved.len() });
    }
    if !(share > 0.0 && share < 1.0) {
        return Err(StatsError::Parameter { name: "the share", value: share, range: "between 0 and 1, such as 0.98" });
    }
    let mut points: Vec<(f64, f64)> = offered.iter().copied().zip(achieved.iter().copied()).collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((load, _)) = points.iter().find(|(load, _)| *load <= 0.0) {
        return Err(StatsError::Parameter { name: "an offered load", value: *load, range: "above 0" });
    }
    if let Some(twice) = points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let range = "offered once; describe its repetitions first";
        return Err(StatsError::Parameter { name: "an offered load", value: twice[0].0, range });
    }
    Ok(of_sorted(&points, share))
}

fn of_sorted(points: &[(f64, f64)], share: f64) -> Knee {
    let got = |(load, through): (f64, f64)| through / load;
    let ceiling = points.iter().map(|(_, through)| *through).fold(f64::NEG_INFINITY, f64::max);
    match points.iter().position(|point| got(*point) < share) {
        None => Knee::NotReached { highest: points[points.len() - 1].0 },
        Some(0) => Knee::BelowAll { lowest: points[0].0, ceiling },
        Some(at) => {
            let (before, after) = (points[at - 1], points[at]);
            let (high, low) = (got(before), got(after));
            let estimate = before.0 + (high - share) / (high - low) * (after.0 - before.0);
            Knee::Between { below: before.0, above: after.0, estimate, ceiling }
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn the_knee_lies_where_the_share_falls_below_the_limit() {
        let offered = array![400.0, 100.0, 200.0, 300.0];
        let achieved = array![270.0, 100.0, 200.0, 276.0];
        // shares 1, 1, 0.92, 0.675: 0.98 is a quarter of the way from 200 to 300
        let Knee::Between { below, above, estimate, ceiling } = knee(offered.view(), achieved.view(), 0.98).unwrap()
        else {
            panic!("there is a knee");
        };
        assert_eq!((below, above, ceiling), (200.0, 300.0, 276.0));
        assert!((estimate - 225.0).abs() < 1e-9);
    }

    #[test]
    fn no_knee_and_nothing_but_knee() {
        let offered = array![100.0, 200.0];
        let all = knee(offered.view(), array![99.0, 197.0].view(), ACHIEVED_SHARE).unwrap();
        assert_eq!(all, Knee::NotReached { highest: 200.0 });
        let none = knee(offered.view(), array![50.0, 51.0].view(), ACHIEVED_SHARE).unwrap();
        assert_eq!(none, Knee::BelowAll { lowest: 100.0, ceiling: 51.0 });
    }

    #[test]
    fn sweeps_that_are_none_are_refused() {
        let said = |offered: [f64; 2], share| {
            knee(array![offered[0], offered[1]].view(), array![1.0, 1.0].view(), share).unwrap_err().to_string()
        };
        assert!(said([1.0, 1.0], 0.98).contains("offered once"));
        assert!(said([0.0, 1.0], 0.98).contains("above 0"));
        assert!(said([1.0, 2.0], 98.0).contains("such as 0.98"));
        assert!(knee(array![1.0].view(), array![1.0].view(), 0.98).is_err());
    }
}
