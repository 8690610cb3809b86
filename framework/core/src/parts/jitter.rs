//! Interarrival jitter as receivers of RTP report it, in whole numbers. Source: RFC 3550, 6.4.1 and A.8.

use crate::time::Span;

/// The estimator: J += (|D| − J) / 16, where D is how much longer this one took than the one that arrived before it. In
/// sixteenths of a nanosecond, rounded as in A.8. The clocks of both ends need not agree: a constant offset cancels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Of the one before, counted from the least; 0 if there was none, which saves 8 bytes.
    transit_ns: u64,
    sixteenths: u64,
}

/// How the time on the way of a datagram that came in differs from that of others of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    /// The estimate of jitter after it.
    pub jitter: Option<Span>,
    /// |D(i) − D(i − 1)| with the one sent before it and with the one sent after it, where that has come already.
    pub steps: [Option<Span>; 2],
}

/// The largest difference that counts, ns: one hour, as in histograms.
const STEP_NS_MAX: u64 = super::buckets::NS_MAX;

impl Jitter {
    /// One arrived that took so long; the estimate now, `None` for the first.
    #[inline]
    pub fn arrived(&mut self, transit_ns: i64) -> Option<Span> {
        let counted = transit_ns.abs_diff(i64::MIN).max(1);
        let before = std::mem::replace(&mut self.transit_ns, counted);
        if before == 0 {
            return None;
        }
        let step = counted.abs_diff(before).min(STEP_NS_MAX);
        self.sixteenths = self.sixteenths + step - ((self.sixteenths + 8) >> 4);
        Some(Span::from_nanos(self.sixteenths >> 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // D 160, 0, 320: in sixteenths 160; 160 − (168 >> 4) = 150; 150 + 320 − (158 >> 4) = 461. J 10, 9, 28
        let mut jitter = Jitter::default();
        let told = [100, 260, 260, -60].map(|transit| jitter.arrived(transit).map(Span::as_nanos));
        assert_eq!(told, [None, Some(10), Some(9), Some(28)]);
    }

    #[test]
    fn an_offset_of_the_clocks_cancels_and_a_constant_step_is_where_it_settles() {
        let run = |offset: i64| {
            let mut jitter = Jitter::default();
            (0..500).filter_map(|i| jitter.arrived(offset + 800 * (i % 2))).last()
        };
        assert_eq!(run(0), run(-1_000_000_007));
        // rounding holds it within a nanosecond
        assert!(run(0).is_some_and(|j| (799..=800).contains(&j.as_nanos())), "{:?}", run(0));
    }

    #[test]
    fn clocks_that_jump_do_not_overflow() {
        let mut jitter = Jitter::default();
        for _ in 0..1000 {
            jitter.arrived(i64::MAX);
            jitter.arrived(i64::MIN);
        }
        assert!(jitter.arrived(0).is_some_and(|j| j.as_nanos() <= STEP_NS_MAX));
    }
}
