//! Figures of several rounds: their median and range.

use serde::Serialize;

/// What several rounds gave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The one in the middle, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Each round's, in their order.
    pub rounds: Vec<f64>,
}

impl Figures {
    /// Those of these rounds; all zero when there were none.
    pub fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let rounds: Vec<f64> = rounds.into_iter().collect();
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return Self::default() };
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Figures { median, min: *min, max: *max, rounds }
    }

    /// Round by round, these over those: what pairs that ran one after the other say of each other.
    pub fn over(&self, peer: &Figures) -> Figures {
        Figures::of(self.rounds.iter().zip(&peer.rounds).filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b))
    }

    /// All of them, times `factor`.
    pub fn times(&self, factor: f64) -> Figures {
        Figures::of(self.rounds.iter().map(|figure| figure * factor))
    }
}

/// `12,345` or `0.123`: whole above a hundred, three digits that matter below.
pub fn plain(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        let digits = format!("{:.0}", size);
        let mut text = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at) % 3 == 0 {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    let decimals = if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_range_are_of_the_rounds() {
        let odd = Figures::of([3.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(Figures::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Figures::of([]).median, 0.0);
        assert_eq!(odd.rounds, [3.0, 1.0, 2.0], "in their order");
    }

    #[test]
    fn ratios_are_of_pairs_not_of_medians() {
        let ratio = Figures::of([10.0, 40.0, 20.0]).over(&Figures::of([10.0, 20.0, 40.0]));
        assert_eq!(ratio.rounds, [1.0, 2.0, 0.5]);
        assert_eq!(ratio.median, 1.0);
        assert_eq!(Figures::of([1.0, 2.0]).over(&Figures::of([0.0, 4.0])).rounds, [0.5]);
    }

    #[test]
    fn figures_are_printed_with_the_digits_that_matter() {
        let cases = [(0.0, "0"), (0.7312, "0.731"), (12.34, "12.3"), (1.5, "1.50"), (123.4, "123"), (1e6, "1,000,000")];
        for (value, text) in cases {
            assert_eq!(plain(value), text);
        }
        assert_eq!(plain(-1234.0), "-1,234");
    }
}
