//! Intervals that respect autocorrelation: the moving block bootstrap.
//!
//! Pairs are drawn again in blocks of consecutive seconds, with replacement, until there are as many as before; the
//! coefficient of each such sample is one replicate, and the interval lies between two quantiles of the replicates. What
//! neighbours have in common stays in the blocks. Source: Künsch, 1989.
//!
//! The blocks are as long as the larger of ⌈n^(1/3)⌉ and twice n / effective n of the pairs, at most n / 4; a caller may
//! set the length. The same seed gives the same interval.

use ndarray::ArrayView1;
use rehearsal_core::rng::{RngStream, Seed};
use serde::Serialize;

use crate::autocorrelation::effective_pairs;
use crate::correlation::Method;
use crate::distributions::check_level;
use crate::error::StatsError;
use crate::ranks::mid_ranks;
use crate::repetitions::LEVEL;
use crate::series::check_pair;

/// The fewest pairs whose blocks say anything.
const PAIRS_MIN: usize = 8;
/// Blocks that the shortest repetition is cut into at least, unless a caller says otherwise.
const BLOCKS_MIN: usize = 4;
/// The most replicates; more only cost time.
const REPLICATES_MAX: usize = 100_000;

/// Two series of one repetition.
pub type Pair<'a> = (ArrayView1<'a, f64>, ArrayView1<'a, f64>);

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// Seconds per block; `None` to derive it from the series.
    pub block: Option<usize>,
    /// Replicates, 1 to 100,000.
    pub replicates: usize,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Level of confidence, between 0 and 1.
    pub level: f64,
}

impl Default for Bootstrap {
    /// 1,000 replicates (assumed: ends of the interval then move by a few hundredths of its width), seed 1, 95 %.
    fn default() -> Self {
        Bootstrap { block: None, replicates: 1_000, seed: 1, level: LEVEL }
    }
}

/// An interval, and all it takes to draw it again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Resampled {
    /// Its lower end.
    pub lower: f64,
    /// Its upper end.
    pub upper: f64,
    /// Level of confidence.
    pub level: f64,
    /// Seconds per block.
    pub block: usize,
    /// Replicates that were drawn.
    pub replicates: usize,
    /// Replicates without a coefficient, because a series happened to be constant; they are left out.
    pub undefined: usize,
    /// Where the random numbers began.
    pub seed: u64,
}

impl Bootstrap {
    /// The interval of a correlation.
    ///
    /// # Errors
    /// When there are fewer than 8 pairs, the lengths differ, a value is no number, a series never changes, or a
    /// parameter is out of range.
    pub fn correlation(
        &self,
        method: Method,
        x: ArrayView1<'_, f64>,
        y: ArrayView1<'_, f64>,
    ) -> Result<Resampled, StatsError> {
        self.mean_correlation(method, &[(x, y)])
    }

    /// The interval of the mean of the repetitions' correlations: every replicate draws within each repetition.
    ///
    /// # Errors
    /// As for [`Bootstrap::correlation`], for any of the repetitions, or when there is none.
    pub fn mean_correlation(&self, method: Method, repetitions: &[Pair<'_>]) -> Result<Resampled, StatsError> {
        check_level(self.level)?;
        for (x, y) in repetitions {
            check_pair("a bootstrap", *x, *y, PAIRS_MIN)?;
        }
        let clouds: Vec<Cloud> = repetitions.iter().map(|(x, y)| Cloud::new(method, *x, *y)).collect();
        let shortest = clouds.iter().map(Cloud::len).min();
        let shortest = shortest.ok_or(StatsError::TooFew { what: "a bootstrap", needed: 1, found: 0 })?;
        let longest_memory = clouds.iter().map(Cloud::block_length).max().unwrap_or(1);
        let block = self.block.unwrap_or(longest_memory.min(shortest / BLOCKS_MIN).max(1));
        self.check(block, shortest)?;
        let seed = Seed { seed: self.seed, repetition: 0, group: "stats", member: 0, stream: 0, purpose: "bootstrap" };
        let mut random = RngStream::new(seed);
        let mut counts = Vec::new();
        let mut found = Vec::with_capacity(self.replicates);
        for _ in 0..self.replicates {
            let each = clouds.iter().map(|cloud| cloud.replicate(block, &mut random, &mut counts));
            let each: Vec<Option<f64>> = each.collect();
            let sum: Option<f64> = each.iter().copied().sum();
            found.extend(sum.map(|sum| sum / clouds.len() as f64));
        }
        if found.is_empty() {
            let value = repetitions[0].0[0];
            return Err(StatsError::Constant { what: "every replicate of a bootstrap", value });
        }
        found.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - self.level) / 2.0;
        Ok(Resampled {
            lower: quantile(&found, tail),
            upper: quantile(&found, 1.0 - tail),
            level: self.level,
            block,
            replicates: self.replicates,
            undefined: self.replicates - found.len(),
            seed: self.seed,
        })
    }

    /// Whether level and replicates can be drawn with, whatever the samples.
    ///
    /// # Errors
    /// When one of them is out of range.
    pub fn check_parameters(&self) -> Result<(), StatsError> {
        check_level(self.level)?;
        if self.replicates == 0 || self.replicates > REPLICATES_MAX {
            let (name, value) = ("the number of replicates", self.replicates as f64);
            return Err(StatsError::Parameter { name, value, range: "1 to 100,000" });
        }
        Ok(())
    }

    fn check(&self, block: usize, n: usize) -> Result<(), StatsError> {
        if block == 0 || block > n {
            let (name, value) = ("the block length", block as f64);
            return Err(StatsError::Parameter { name, value, range: "at least 1 and at most the number of samples" });
        }
        self.check_parameters()
    }
}

/// One repetition: its samples, and for ranks their order, so that no replicate has to be sorted.
struct Cloud {
    x: Vec<f64>,
    y: Vec<f64>,
    orders: Option<[Vec<u32>; 2]>,
}

impl Cloud {
    fn new(method: Method, x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> Self {
        let (x, y) = (x.to_vec(), y.to_vec());
        let orders = (method == Method::Spearman).then(|| [order(&x), order(&y)]);
        Cloud { x, y, orders }
    }

    fn len(&self) -> usize {
        self.x.len()
    }

    /// Long enough to hold what neighbours have in common, short enough to have several.
    fn block_length(&self) -> usize {
        let n = self.len() as f64;
        let effective = match &self.orders {
            None => effective_pairs(&self.x, &self.y),
            Some(_) => effective_pairs(&mid_ranks(&self.x), &mid_ranks(&self.y)),
        };
        n.cbrt().ceil().max((2.0 * n / effective).ceil()) as usize
    }

    /// The coefficient of one sample drawn in blocks; `counts` is room to count how often each pair was drawn.
    fn replicate(&self, block: usize, random: &mut RngStream, counts: &mut Vec<u32>) -> Option<f64> {
        counts.clear();
        counts.resize(self.len(), 0);
        let starts = (self.len() - block + 1) as u64;
        let mut left = self.len();
        while left > 0 {
            let (from, length) = (random.below(starts) as usize, block.min(left));
            counts[from..from + length].iter_mut().for_each(|count| *count += 1);
            left -= length;
        }
        match &self.orders {
            None => weighted(&self.x, &self.y, counts),
            Some([by_x, by_y]) => {
                weighted(&ranks_of_drawn(&self.x, by_x, counts), &ranks_of_drawn(&self.y, by_y, counts), counts)
            }
        }
    }
}

fn order(values: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_unstable_by(|a, b| values[*a as usize].total_cmp(&values[*b as usize]));
    order
}

/// Mid-ranks among the drawn values; those that were not drawn have any.
fn ranks_of_drawn(values: &[f64], order: &[u32], counts: &[u32]) -> Vec<f64> {
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for tied in order.chunk_by(|a, b| values[*a as usize] == values[*b as usize]) {
        let drawn: u32 = tied.iter().map(|at| counts[*at as usize]).sum();
        let shared = f64::from(before) + f64::from(drawn + 1) / 2.0;
        tied.iter().for_each(|at| ranks[*at as usize] = shared);
        before += drawn;
    }
    ranks
}

/// Pearson's r of pairs that occur several times; `None` when one side never changes.
fn weighted(x: &[f64], y: &[f64], counts: &[u32]) -> Option<f64> {
    let drawn = || x.iter().zip(y).zip(counts).filter(|(_, count)| **count > 0);
    let (mut n, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
    for ((x, y), count) in drawn() {
        let w = f64::from(*count);
        (n, sum_x, sum_y) = (n + w, sum_x + w * x, sum_y + w * y);
    }
    let (mean_x, mean_y) = (sum_x / n, sum_y / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    let (mut still_x, mut still_y) = (None, None);
    let (mut moves_x, mut moves_y) = (false, false);
    for ((x, y), count) in drawn() {
        let (w, dx, dy) = (f64::from(*count), x - mean_x, y - mean_y);
        (xx, yy, xy) = (xx + w * dx * dx, yy + w * dy * dy, xy + w * dx * dy);
        moves_x |= *still_x.get_or_insert(*x) != *x;
        moves_y |= *still_y.get_or_insert(*y) != *y;
    }
    // a constant side leaves rounding errors, not zero
    (moves_x && moves_y && xx * yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// Of sorted values, by linear interpolation between neighbours (Hyndman and Fan's type 7, as NumPy's default).
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (at - at.floor()) * (sorted[high] - sorted[low])
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, array};

    use super::*;
    use crate::correlation::Correlation;
    use crate::testing::{cloud, noise};

    /// Two independent series with a long memory.
    fn strangers(seed: u64, n: usize) -> (Array1<f64>, Array1<f64>) {
        let walk = |seed| {
            let mut last = 0.0;
            noise(seed)
                .take(n)
                .map(move |e| {
                    last = 0.95 * last + e - 0.5;
                    last
                })
                .collect::<Array1<f64>>()
        };
        (walk(seed), walk(seed + 1000))
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_it_holds_the_coefficient() {
        let (x, y) = cloud(300);
        let draw = Bootstrap { replicates: 500, ..Bootstrap::default() };
        for method in [Method::Pearson, Method::Spearman] {
            let found = draw.correlation(method, x.view(), y.view()).unwrap();
            assert_eq!(found, draw.correlation(method, x.view(), y.view()).unwrap());
            let other = Bootstrap { seed: 2, ..draw }.correlation(method, x.view(), y.view()).unwrap();
            assert!(other.lower != found.lower && (other.lower - found.lower).abs() < 0.02);
            assert!((0.88..0.945).contains(&found.lower) && (0.945..0.98).contains(&found.upper), "{found:?}");
            assert_eq!((found.replicates, found.undefined), (500, 0));
        }
    }

    #[test]
    fn a_drawn_sample_has_the_coefficient_of_its_pairs() {
        let (x, y) = cloud(50);
        let mut random = RngStream::new(Seed { seed: 3, repetition: 0, group: "", member: 0, stream: 0, purpose: "" });
        for method in [Method::Pearson, Method::Spearman] {
            let (mut counts, whole) = (Vec::new(), Cloud::new(method, x.view(), y.view()));
            let found = whole.replicate(4, &mut random, &mut counts).unwrap();
            assert_eq!(counts.iter().sum::<u32>(), 50);
            let drawn = |values: &Array1<f64>| -> Array1<f64> {
                values
                    .iter()
                    .zip(&counts)
                    .flat_map(|(value, count)| std::iter::repeat_n(*value, *count as usize))
                    .collect()
            };
            let wanted = Correlation::of(method, drawn(&x).view(), drawn(&y).view()).unwrap().r;
            assert!((found - wanted).abs() < 1e-12, "{method:?}: {found} is not {wanted}");
        }
    }

    #[test]
    fn repetitions_narrow_the_interval_of_their_mean() {
        let (x, y) = cloud(400);
        let width = |pairs: &[Pair<'_>]| {
            let found = Bootstrap::default().mean_correlation(Method::Pearson, pairs).unwrap();
            found.upper - found.lower
        };
        let (one, four) = (width(&[(x.view(), y.view())]), width(&[(x.view(), y.view()); 4]));
        assert!((0.4..0.6).contains(&(four / one)), "half as wide: {one} {four}");
        assert!(Bootstrap::default().mean_correlation(Method::Pearson, &[]).is_err());
    }

    #[test]
    fn blocks_cover_zero_where_single_samples_pretend_to_know() {
        let covers = |block: Option<usize>| {
            let draw = Bootstrap { block, replicates: 200, ..Bootstrap::default() };
            let hit = |seed| {
                let (x, y) = strangers(seed, 600);
                let found = draw.correlation(Method::Pearson, x.view(), y.view()).unwrap();
                found.lower <= 0.0 && 0.0 <= found.upper
            };
            (1..=40).filter(|seed| hit(*seed)).count()
        };
        let (blocks, singles) = (covers(None), covers(Some(1)));
        assert!(blocks >= 32, "{blocks} of 40 intervals hold the truth");
        assert!(singles <= 25 && singles < blocks, "{singles} of 40 with blocks of one");
    }

    #[test]
    fn blocks_grow_with_memory() {
        let (x, y) = strangers(5, 1000);
        let white: Vec<f64> = noise(6).take(1000).collect();
        let own = |x: &[f64], y: &[f64]| Cloud::new(Method::Pearson, x.into(), y.into()).block_length();
        assert_eq!(own(&white, &white), 10);
        assert!((15..=250).contains(&own(&x.to_vec(), &y.to_vec())));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let (x, y) = cloud(20);
        let with = |draw: Bootstrap| draw.correlation(Method::Pearson, x.view(), y.view()).unwrap_err().to_string();
        let base = Bootstrap::default();
        assert!(with(Bootstrap { block: Some(0), ..base }).contains("the block length is 0"));
        assert!(with(Bootstrap { block: Some(21), ..base }).contains("at most the number of samples"));
        assert!(with(Bootstrap { replicates: 0, ..base }).contains("1 to 100,000"));
        assert!(with(Bootstrap { level: 95.0, ..base }).contains("such as 0.95"));
        for bad in [Bootstrap { replicates: 100_001, ..base }, Bootstrap { level: 1.0, ..base }] {
            assert!(bad.check_parameters().is_err(), "{bad:?}");
        }
        assert_eq!(base.check_parameters(), Ok(()));
        let few = base.correlation(Method::Pearson, array![1.0, 2.0].view(), array![1.0, 3.0].view());
        assert!(matches!(few, Err(StatsError::TooFew { needed: 8, .. })));
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.25), 1.5);
        assert_eq!((quantile(&[1.0, 2.0, 4.0], 1.0), quantile(&[3.0], 0.5)), (4.0, 3.0));
    }
}
