//! The largest value for which a condition holds: doubling, halving, and a look at whether that is the whole story.

use std::collections::BTreeMap;

/// Values that are tried beside the search, to see whether the condition is monotone.
const PROBES: usize = 4;

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The largest value below which every value tried holds; `None` if the first does not.
    pub largest: Option<u64>,
    /// The smallest value tried that does not hold; `None` if every one holds.
    pub fails_at: Option<u64>,
    /// Whether the edge is exact: nothing lies between the two.
    pub exact: bool,
    /// Values that hold although a smaller one does not.
    pub violations: Vec<u64>,
}

/// Searches from `from` to `up_to` with at most `tries` calls of `holds`.
///
/// # Errors
/// The first of `holds`.
pub fn search<E>(from: u64, up_to: u64, tries: u32, mut holds: impl FnMut(u64) -> Result<bool, E>) -> Result<Found, E> {
    let mut tried: BTreeMap<u64, bool> = BTreeMap::new();
    let (mut low, mut high) = (None, None);
    let mut at = from.min(up_to);
    let mut left = tries.max(1);
    let mut ask = |value: u64, left: &mut u32| -> Result<bool, E> {
        *left -= 1;
        let answer = holds(value)?;
        tried.insert(value, answer);
        Ok(answer)
    };
    while left > 0 {
        if !ask(at, &mut left)? {
            high = Some(at);
            break;
        }
        low = Some(at);
        if at == up_to {
            break;
        }
        at = at.saturating_mul(2).max(at + 1).min(up_to);
    }
    while let (Some(l), Some(h)) = (low, high) {
        if h - l <= 1 || left == 0 {
            break;
        }
        let middle = l + (h - l) / 2;
        if ask(middle, &mut left)? { low = Some(middle) } else { high = Some(middle) }
    }
    for probe in probes(low, high, up_to) {
        if left > 0 {
            ask(probe, &mut left)?;
        }
    }
    Ok(told(&tried))
}

/// Values of which a monotone condition must hold (below the edge), and one of which it must not (above).
fn probes(low: Option<u64>, high: Option<u64>, up_to: u64) -> Vec<u64> {
    let below =
        low.into_iter().flat_map(|l| [l / 4 * 3, l / 8 * 5, l / 8 * 3].into_iter().filter(move |v| *v >= 1 && *v < l));
    let above = high.into_iter().map(|h| h.saturating_add(h / 2 + 1)).filter(|v| *v <= up_to);
    above.chain(below).take(PROBES).collect()
}

fn told(tried: &BTreeMap<u64, bool>) -> Found {
    let fails_at = tried.iter().find(|(_, holds)| !**holds).map(|(value, _)| *value);
    let below = |value: &u64| fails_at.is_none_or(|fails| *value < fails);
    let largest = tried.keys().copied().filter(below).max();
    let violations = tried.iter().filter(|(value, holds)| **holds && !below(value)).map(|(value, _)| *value).collect();
    let exact = matches!((largest, fails_at), (Some(l), Some(f)) if f - l == 1);
    Found { largest, fails_at, exact, violations }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(from: u64, up_to: u64, tries: u32, holds: impl Fn(u64) -> bool) -> (Found, Vec<u64>) {
        let mut asked = Vec::new();
        let found = search(from, up_to, tries, |value| {
            asked.push(value);
            Ok::<_, ()>(holds(value))
        });
        (found.expect("no error"), asked)
    }

    #[test]
    fn every_edge_is_found_exactly() {
        for edge in 1..300 {
            let (found, asked) = find(1, 1000, 60, |v| v <= edge);
            assert_eq!((found.largest, found.fails_at, found.exact), (Some(edge), Some(edge + 1), true), "{asked:?}");
            assert!(found.violations.is_empty() && asked.len() < 60);
        }
    }

    #[test]
    fn nothing_and_everything_are_told_apart() {
        let (none, asked) = find(1, 100, 60, |_| false);
        assert_eq!((none.largest, none.fails_at), (None, Some(1)));
        assert!(asked.len() <= 2, "{asked:?}");
        let (all, asked) = find(1, 100, 60, |_| true);
        assert_eq!((all.largest, all.fails_at, all.exact), (Some(100), None, false));
        assert_eq!(asked[..8], [1, 2, 4, 8, 16, 32, 64, 100]);
    }

    #[test]
    fn tries_are_bounded() {
        let (found, asked) = find(1, u64::MAX, 5, |_| true);
        assert_eq!((found.largest, asked.len()), (Some(16), 5));
        let (found, asked) = find(1, 1 << 40, 14, |v| v <= 1000);
        assert!(asked.len() == 14 && !found.exact, "{asked:?}");
        assert!(found.largest.is_some_and(|l| l <= 1000) && found.fails_at.is_some_and(|f| f > 1000));
    }

    #[test]
    fn a_hole_below_the_edge_is_seen() {
        // holds to 1000, but not around 750: a probe falls into it
        let (found, _) = find(1, 5000, 60, |v| v <= 1000 && !(740..760).contains(&v));
        assert_eq!(found.fails_at, Some(750));
        assert!(found.violations.contains(&1000), "{found:?}");
        assert!(found.largest.is_some_and(|l| l < 740));
        // and one that holds again above the edge
        let (found, _) = find(1, 5000, 60, |v| v <= 10 || v >= 17);
        assert_eq!((found.largest, found.violations.as_slice()), (Some(10), [17].as_slice()));
    }
}
