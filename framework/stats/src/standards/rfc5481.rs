//! RFC 5481: the two forms of delay variation.
//!
//! PDV, D(i) − Dmin, says how large a buffer must be. IPDV, D(i) − D(i − 1), says how spacing changes; its mean telescopes
//! to nearly nothing, so only its quantiles are told.

use serde::Serialize;

use super::{Packet, counted_rank, nearest_rank};
use crate::error::StatsError;

/// Quantiles by nearest rank, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Values.
    pub count: u64,
    /// Median.
    pub p50_ns: i64,
    /// 95th percentile.
    pub p95_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// 99.9th percentile, which RFC 5481 recommends for PDV.
    pub p999_ns: i64,
    /// Largest.
    pub max_ns: i64,
}

impl Quantiles {
    /// Of counted values, as a histogram holds them, the smallest first; `None` if there are none.
    pub fn of_counts(values: &[(i64, u64)]) -> Option<Self> {
        Some(Quantiles {
            count: values.iter().map(|(_, count)| *count).sum(),
            p50_ns: counted_rank(values, 0.50)?,
            p95_ns: counted_rank(values, 0.95)?,
            p99_ns: counted_rank(values, 0.99)?,
            p999_ns: counted_rank(values, 0.999)?,
            max_ns: values.last()?.0,
        })
    }

    /// PDV, D(i) − Dmin, of counted delays, the smallest first; `None` if there are none. Source: RFC 5481, 4.2.
    pub fn pdv_of_counts(delays: &[(i64, u64)]) -> Option<Self> {
        let least = delays.first()?.0;
        let above: Vec<(i64, u64)> = delays.iter().map(|(delay, count)| (delay - least, *count)).collect();
        Quantiles::of_counts(&above)
    }
}

/// The variation of delay in a stream of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DelayVariation {
    /// D(i) − Dmin of every packet that arrived.
    pub pdv: Quantiles,
    /// |D(i) − D(i − 1)| of every two packets that were sent one after the other and both arrived; `None` if there are no two.
    pub ipdv: Option<Quantiles>,
    /// The smallest and the largest signed D(i) − D(i − 1), ns.
    pub ipdv_range_ns: Option<(i64, i64)>,
}

impl DelayVariation {
    /// Of packets in the order of sending.
    ///
    /// # Errors
    /// When none arrived.
    pub fn of(packets: &[Packet]) -> Result<Self, StatsError> {
        let delays: Vec<i64> = packets.iter().filter_map(Packet::delay_ns).collect();
        let none = StatsError::TooFew { what: "delay variation", needed: 1, found: 0 };
        let least = delays.iter().copied().min().ok_or(none.clone())?;
        let steps = packets.windows(2).filter_map(|pair| Some(pair[1].delay_ns()? - pair[0].delay_ns()?));
        let steps: Vec<i64> = steps.collect();
        let range = steps.iter().copied().min().zip(steps.iter().copied().max());
        Ok(DelayVariation {
            pdv: quantiles(delays.into_iter().map(|d| d - least)).ok_or(none)?,
            ipdv: quantiles(steps.into_iter().map(i64::abs)),
            ipdv_range_ns: range,
        })
    }
}

fn quantiles(values: impl Iterator<Item = i64>) -> Option<Quantiles> {
    let mut sorted: Vec<i64> = values.collect();
    sorted.sort_unstable();
    Some(Quantiles {
        count: sorted.len() as u64,
        p50_ns: nearest_rank(&sorted, 0.50)?,
        p95_ns: nearest_rank(&sorted, 0.95)?,
        p99_ns: nearest_rank(&sorted, 0.99)?,
        p999_ns: nearest_rank(&sorted, 0.999)?,
        max_ns: *sorted.last()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(delays: &[Option<i64>]) -> Vec<Packet> {
        let at = |(i, delay): (usize, &Option<i64>)| {
            let sent_ns = i as i64 * 1000;
            Packet { sent_ns, received_ns: delay.map(|d| sent_ns + d) }
        };
        delays.iter().enumerate().map(at).collect()
    }

    #[test]
    fn by_hand() {
        // D: 30 20 – 50 25, Dmin 20: PDV 10 0 30 5, sorted 0 5 10 30; IPDV −10 (then a gap) −25
        let found = DelayVariation::of(&packets(&[Some(30), Some(20), None, Some(50), Some(25)])).unwrap();
        assert_eq!((found.pdv.count, found.pdv.p50_ns, found.pdv.p99_ns, found.pdv.max_ns), (4, 5, 30, 30));
        let ipdv = found.ipdv.unwrap();
        assert_eq!((ipdv.count, ipdv.p50_ns, ipdv.max_ns), (2, 10, 25));
        assert_eq!(found.ipdv_range_ns, Some((-25, -10)));
    }

    #[test]
    fn counted_delays_by_hand() {
        // 20 once, 25 twice, 50 once: above the least 0, 5, 5, 30
        let pdv = Quantiles::pdv_of_counts(&[(20, 1), (25, 2), (50, 1)]).unwrap();
        assert_eq!((pdv.count, pdv.p50_ns, pdv.p95_ns, pdv.p999_ns, pdv.max_ns), (4, 5, 30, 30, 30));
        let packets = packets(&[Some(25), Some(20), Some(50), Some(25)]);
        assert_eq!(DelayVariation::of(&packets).unwrap().pdv, pdv, "the same as of the packets one by one");
        assert_eq!((Quantiles::pdv_of_counts(&[]), Quantiles::of_counts(&[])), (None, None));
    }

    #[test]
    fn an_offset_of_the_clocks_cancels() {
        let near = DelayVariation::of(&packets(&[Some(3), Some(9), Some(4)])).unwrap();
        let far = DelayVariation::of(&packets(&[Some(-997), Some(-991), Some(-996)])).unwrap();
        assert_eq!(near, far);
        assert_eq!(near.ipdv_range_ns, Some((-5, 6)));
    }

    #[test]
    fn lonely_packets_have_no_neighbours() {
        let lonely = DelayVariation::of(&packets(&[Some(3), None, Some(9)])).unwrap();
        assert_eq!((lonely.ipdv, lonely.ipdv_range_ns, lonely.pdv.max_ns), (None, None, 6));
        assert!(DelayVariation::of(&packets(&[None])).is_err());
    }
}
