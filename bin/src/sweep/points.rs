//! The points of a sweep, in an order that depends on the file alone: the grid, and at each of its points the random ones.

use rehearsal_core::rng::{RngStream, Seed};

use super::file::{Method, POINTS_MAX, Scale, Spread, Sweep};
use crate::exit::UsageError;

/// One point: the value of every parameter, in the order of [`paths`].
pub type Point = Vec<String>;

/// The parameters: the grid's, then those that are drawn.
pub fn paths(sweep: &Sweep) -> Vec<&str> {
    let drawn = sweep.random.iter().flat_map(|(_, _, ranges)| ranges).map(|range| range.path.as_str());
    sweep.grid.iter().map(|axis| axis.path.as_str()).chain(drawn).collect()
}

/// All points.
///
/// # Errors
/// When there are too many.
pub fn points(sweep: &Sweep) -> Result<Vec<Point>, UsageError> {
    let drawn = draw(sweep);
    let sizes = sweep.grid.iter().map(|axis| axis.values.len() as u64).chain([drawn.len() as u64]);
    let count = sizes.fold(1_u64, u64::saturating_mul);
    if count > POINTS_MAX {
        return Err(UsageError(format!("the sweep has {count} points, at most {POINTS_MAX} are possible")));
    }
    let mut grid: Vec<Point> = vec![Vec::new()];
    for axis in &sweep.grid {
        let longer = |point: &Point| {
            let point = point.clone();
            axis.values.iter().map(move |value| [point.as_slice(), std::slice::from_ref(value)].concat())
        };
        grid = grid.iter().flat_map(longer).collect();
    }
    Ok(grid.iter().flat_map(|point| drawn.iter().map(move |more| [point.as_slice(), more].concat())).collect())
}

/// The random points; a single empty one if there are none.
fn draw(sweep: &Sweep) -> Vec<Point> {
    let Some((count, method, ranges)) = &sweep.random else { return vec![Vec::new()] };
    let columns: Vec<Vec<String>> = ranges.iter().map(|range| column(range, *count, *method, sweep.seed)).collect();
    (0..*count as usize).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

/// Values of one parameter: its draws follow from its own name, so another parameter changes none of them.
fn column(range: &Spread, count: u64, method: Method, seed: u64) -> Vec<String> {
    let named = |purpose| Seed { seed, repetition: 0, group: &range.path, member: 0, stream: 0, purpose };
    let (mut within, mut order) = (RngStream::new(named("sweep-within")), RngStream::new(named("sweep-order")));
    let mut strata: Vec<u64> = (0..count).collect();
    for at in (1..strata.len()).rev() {
        strata.swap(at, order.below(at as u64 + 1) as usize);
    }
    let share = |stratum: u64, unit: f64| match method {
        Method::LatinHypercube => (stratum as f64 + unit) / count as f64,
        Method::Uniform => unit,
    };
    strata.into_iter().map(|stratum| at(range, share(stratum, within.unit()))).collect()
}

/// The value at a share of the range, from 0 to 1.
fn at(range: &Spread, share: f64) -> String {
    // whole numbers: both ends get as much room as the others
    let (from, to) = if range.whole { (range.from - 0.5, range.to + 0.5) } else { (range.from, range.to) };
    let value = match range.scale {
        Scale::Linear => from + (to - from) * share,
        Scale::Log => from.max(f64::MIN_POSITIVE) * (to / from.max(f64::MIN_POSITIVE)).powf(share),
    };
    if range.whole {
        let whole = value.round().clamp(range.from, range.to);
        return format!("{whole:.0}{}", range.unit);
    }
    let text = format!("{value:.6}");
    format!("{}{}", text.trim_end_matches('0').trim_end_matches('.'), range.unit)
}

#[cfg(test)]
mod tests {
    use super::super::file::{Axis, quantity_of};
    use super::*;

    fn sweep(random: Option<(u64, Method, Vec<Spread>)>) -> Sweep {
        let axis = |path: &str, values: &[&str]| Axis {
            path: path.to_owned(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
            at: String::new(),
        };
        Sweep {
            experiment: "x.toml".into(),
            repetitions: None,
            seed: 1,
            set: Vec::new(),
            grid: vec![axis("a", &["1", "2"]), axis("b", &["x", "y", "z"])],
            random,
        }
    }

    fn range(path: &str, from: f64, to: f64, whole: bool, scale: Scale) -> Spread {
        Spread { path: path.to_owned(), from, to, unit: "/s".to_owned(), whole, scale, at: String::new() }
    }

    #[test]
    fn a_grid_is_the_product_with_the_last_axis_fastest() {
        let all = points(&sweep(None)).expect("few");
        let text: Vec<String> = all.iter().map(|p| p.concat()).collect();
        assert_eq!(text, ["1x", "1y", "1z", "2x", "2y", "2z"]);
    }

    #[test]
    fn a_latin_hypercube_has_one_point_in_each_stratum() {
        let random = (
            40,
            Method::LatinHypercube,
            vec![range("c", 0.0, 40.0, false, Scale::Linear), range("d", 1.0, 1e4, false, Scale::Log)],
        );
        let of = sweep(Some(random));
        let all = points(&of).expect("few");
        assert_eq!((all.len(), paths(&of)), (6 * 40, vec!["a", "b", "c", "d"]));
        let column =
            |at: usize| all[..40].iter().map(|p| quantity_of(&p[at]).expect("a number").number).collect::<Vec<_>>();
        let mut linear: Vec<u64> = column(2).iter().map(|v| v.floor() as u64).collect();
        let mut log: Vec<u64> = column(3).iter().map(|v| (v.log10() * 10.0).floor() as u64).collect();
        assert!(linear.windows(2).any(|w| w[0] > w[1]), "in no order");
        linear.sort_unstable();
        log.sort_unstable();
        assert_eq!(linear, (0..40).collect::<Vec<_>>());
        assert_eq!(log, (0..40).collect::<Vec<_>>());
        assert_eq!(all, points(&of).expect("few"), "the same file gives the same points");
    }

    #[test]
    fn uniform_points_keep_to_the_range_and_leave_strata_empty() {
        let of = sweep(Some((40, Method::Uniform, vec![range("c", 0.0, 40.0, false, Scale::Linear)])));
        let all = points(&of).expect("few");
        let mut strata: Vec<u64> =
            all[..40].iter().map(|p| quantity_of(&p[2]).expect("a number").number.floor() as u64).collect();
        assert!(strata.iter().all(|s| *s < 40));
        strata.sort_unstable();
        strata.dedup();
        assert!(strata.len() < 40);
    }

    #[test]
    fn whole_numbers_reach_both_ends() {
        let of = sweep(Some((300, Method::LatinHypercube, vec![range("c", 1.0, 3.0, true, Scale::Linear)])));
        let values: Vec<String> = points(&of).expect("few").iter().take(300).map(|p| p[2].clone()).collect();
        let count = |v: &str| values.iter().filter(|value| *value == v).count();
        assert_eq!([count("1/s"), count("2/s"), count("3/s")], [100, 100, 100]);
    }

    #[test]
    fn too_many_points_are_refused() {
        let of = sweep(Some((POINTS_MAX, Method::Uniform, vec![range("c", 0.0, 1.0, false, Scale::Linear)])));
        assert!(points(&of).unwrap_err().to_string().contains("600000 points"));
    }
}
