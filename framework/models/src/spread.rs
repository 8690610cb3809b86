//! Which instances of a target an exchange goes to.

use rehearsal_core::sender::Spread;

/// Into how many exchanges one request fans out, for a target of `instances` instances.
pub const fn fan(spread: Spread, instances: u32) -> u32 {
    match spread {
        Spread::RoundRobin | Spread::Hash => 1,
        Spread::All => instances,
    }
}

/// The instance, `0..instances`, that exchange `seq` of the `source`-th stream goes to; streams are counted over all
/// members. `instances` is at least 1.
///
/// A fixed instance (`hash`) is the stream's number modulo `instances`: that is as even as it can be. A request to all
/// takes `instances` consecutive numbers.
#[inline]
pub const fn instance(spread: Spread, source: u64, seq: u64, instances: u32) -> u32 {
    let number = match spread {
        Spread::RoundRobin => source.wrapping_add(seq),
        Spread::Hash => source,
        Spread::All => seq,
    };
    (number % instances as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instances that `count` exchanges of one stream go to.
    fn course(spread: Spread, source: u64, count: u64) -> Vec<u32> {
        (0..count).map(|seq| instance(spread, source, seq, 3)).collect()
    }

    #[test]
    fn each_rule_has_its_course() {
        assert_eq!(course(Spread::RoundRobin, 0, 5), [0, 1, 2, 0, 1]);
        assert_eq!(course(Spread::RoundRobin, 4, 5), [1, 2, 0, 1, 2], "each stream begins at its own number");
        assert_eq!(course(Spread::Hash, 4, 5), [1; 5]);
        assert_eq!(course(Spread::All, 4, 6), [0, 1, 2, 0, 1, 2]);
        assert_eq!([Spread::RoundRobin, Spread::Hash, Spread::All].map(|s| fan(s, 3)), [1, 1, 3]);
        assert_eq!(instance(Spread::RoundRobin, u64::MAX, 5, 1), 0);
    }

    #[test]
    fn streams_share_the_instances_evenly() {
        for spread in [Spread::RoundRobin, Spread::Hash] {
            let mut hits = [0; 3];
            for source in 0..300 {
                for seq in 0..10 {
                    hits[instance(spread, source, seq, 3) as usize] += 1;
                }
            }
            assert_eq!(hits, [1000; 3], "{spread:?}");
        }
    }
}
