//! RFC 3550: interarrival jitter as RTP receivers report it.

/// Weight of the newest difference. Source: RFC 3550, 6.4.1.
const GAIN: f64 = 1.0 / 16.0;

/// The estimator: J += (|D| − J) / 16, where D is how much longer this packet took than the one that arrived before it.
/// Packets are told in the order of their arrival, whatever their order of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    transit_ns: Option<i64>,
    ns: f64,
}

impl Jitter {
    /// A packet arrived. The clocks need not agree.
    pub fn arrived(&mut self, sent_ns: i64, received_ns: i64) {
        let transit = received_ns - sent_ns;
        if let Some(before) = self.transit_ns.replace(transit) {
            self.ns += ((transit - before).abs() as f64 - self.ns) * GAIN;
        }
    }

    /// The estimate now, ns; 0 before the second packet.
    pub const fn ns(&self) -> f64 {
        self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // transit 10, 26, 26, 10: |D| 16, 0, 16; J 1, 1 − 1/16 = 0.9375, 0.9375 + 15.0625 / 16 = 1.87890625
        let mut jitter = Jitter::default();
        let mut told = Vec::new();
        for (sent, received) in [(0, 10), (20, 46), (40, 66), (60, 70)] {
            jitter.arrived(sent, received);
            told.push(jitter.ns());
        }
        assert_eq!(told, [0.0, 1.0, 0.9375, 1.878_906_25]);
    }

    #[test]
    fn a_constant_offset_of_the_clocks_changes_nothing() {
        let run = |offset: i64| {
            let mut jitter = Jitter::default();
            for i in 0..50 {
                jitter.arrived(i * 20, i * 20 + offset + i * i % 7);
            }
            jitter.ns()
        };
        assert_eq!(run(0), run(-1_000_000_007));
        assert!(run(0) > 0.0);
    }

    #[test]
    fn a_constant_difference_is_where_it_settles() {
        let mut jitter = Jitter::default();
        for i in 0..500 {
            jitter.arrived(i * 100, i * 100 + 8 * (i % 2));
        }
        assert!((jitter.ns() - 8.0).abs() < 1e-9);
    }
}
