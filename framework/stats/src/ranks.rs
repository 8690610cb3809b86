//! Ranks with ties: equal values share the mean of the ranks they would have had.

/// Mid-ranks, from 1.
pub(crate) fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    // -0.0 sorts before 0.0, and is equal to it all the same
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let before = order.partition_point(|at| values[*at] < values[tied[0]]);
        let shared = before as f64 + (tied.len() + 1) as f64 / 2.0;
        for at in tied {
            ranks[*at] = shared;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ties_share_their_ranks() {
        assert_eq!(mid_ranks(&[10.0, 20.0, 20.0, 5.0, 20.0]), [2.0, 4.0, 4.0, 1.0, 4.0]);
        assert_eq!(mid_ranks(&[0.0, -0.0, 1.0]), [1.5, 1.5, 3.0]);
        assert_eq!(mid_ranks(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn ranks_add_up(values in prop::collection::vec(0_u8..9, 1..60)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let n = values.len() as f64;
            prop_assert_eq!(mid_ranks(&values).iter().sum::<f64>(), n * (n + 1.0) / 2.0);
        }
    }
}
