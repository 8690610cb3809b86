//! Arithmetic over all counters of a [`Tally`], and their names.

use rehearsal_core::parts::tally::Tally;

macro_rules! counters {
    ($($field:ident),* $(,)?) => {
        /// The counter of that name.
        pub fn counter(tally: &Tally, name: &str) -> Option<u64> {
            match name {
                $(stringify!($field) => Some(tally.$field),)*
                _ => None,
            }
        }

        /// `a + b`, each counter held at its largest value.
        pub fn plus(a: &Tally, b: &Tally) -> Tally {
            Tally { $($field: a.$field.saturating_add(b.$field)),* }
        }

        /// `a - b`, each counter held at zero.
        pub fn minus(a: &Tally, b: &Tally) -> Tally {
            Tally { $($field: a.$field.saturating_sub(b.$field)),* }
        }

        /// The first counter of `a` that is below that of `b`.
        pub fn below(a: &Tally, b: &Tally) -> Option<&'static str> {
            $(if a.$field < b.$field { return Some(stringify!($field)); })*
            None
        }
    };
}

counters! {
    generated, success, invalid, failed, lost, aborted, attempts, rejected, unacknowledged, aborted_attempts,
    queue_full, queued, skipped, paused, away, malformed, deadline_missed, bytes_sent, bytes_replied, datagrams_sent, received, served,
    refused, turned_away, unserved, bytes_received, datagrams_received, datagrams_duplicate, datagrams_reordered,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums_undo_each_other() {
        let a = Tally { generated: 5, served: 2, ..Tally::default() };
        let b = Tally { generated: 7, served: 2, datagrams_reordered: 1, ..Tally::default() };
        assert_eq!(plus(&a, &minus(&b, &a)), b);
        assert_eq!((below(&a, &b), below(&b, &a)), (Some("generated"), None));
        assert_eq!((counter(&b, "generated"), counter(&b, "open")), (Some(7), None));
    }
}
