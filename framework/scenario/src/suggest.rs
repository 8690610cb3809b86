//! "Did you mean": the nearest of the words that would have been understood.

/// Most words listed when none is near.
const LISTED_MAX: usize = 30;

/// A help line for `word`: the nearest candidate, or the list of all of them.
pub(crate) fn help<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut candidates: Vec<&str> = candidates.into_iter().collect();
    candidates.sort_unstable();
    candidates.dedup();
    if let Some(near) = nearest(word, &candidates) {
        return Some(format!("did you mean `{near}`?"));
    }
    match candidates.len() {
        0 => None,
        1 => Some(format!("write `{}`", candidates[0])),
        2..=LISTED_MAX => Some(format!("choose one of {}", quoted(&candidates))),
        _ => None,
    }
}

/// `` `a`, `b`, `c` ``.
pub(crate) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The candidate with the fewest edits, if there are few enough for a slip of the hand.
fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let lower = word.to_lowercase().replace('-', "_");
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let edits = |candidate: &&str| edits(&lower, &candidate.to_lowercase().replace('-', "_"));
    candidates.iter().map(|c| (edits(c), *c)).filter(|(n, _)| *n <= limit).min_by_key(|(n, _)| *n).map(|(_, c)| c)
}

/// Edits from `a` to `b`: insertions, deletions, substitutions and swaps of neighbours
/// (optimal string alignment, Damerau 1964).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitution = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = substitution.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_swaps_as_one() {
        assert_eq!(edits("rtae", "rate"), 1);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("camera", "camera"), 0);
        assert_eq!(edits("kitten", "sitting"), 3);
    }

    #[test]
    fn a_slip_is_answered_and_a_stranger_gets_the_list() {
        let words = ["rate", "requests", "retries", "in_flight"];
        assert_eq!(help("rtae", words).as_deref(), Some("did you mean `rate`?"));
        assert_eq!(help("in-flight", words).as_deref(), Some("did you mean `in_flight`?"));
        assert_eq!(help("zebra", ["rate", "to"]).as_deref(), Some("choose one of `rate`, `to`"));
        assert_eq!(help("zebra", []), None);
        assert_eq!(help("x", ["rate"]).as_deref(), Some("write `rate`"));
    }
}
