//! ITU-T Y.1540: delay, delay variation, loss and availability of IP packet transfer between two points.

use serde::Serialize;

use super::{Packet, counted_rank, nearest_rank};
use crate::error::StatsError;

/// A packet that takes longer is lost, ns. Source: Y.1540, 6.4: Tmax of 3 s is recommended.
pub const TMAX_NS: i64 = 3_000_000_000;
/// The quantile of delay that stands for its upper end. Source: Y.1541, table 1, note on IPDV.
pub const IPDV_QUANTILE: f64 = 0.999;
/// The same for classes 6 and 7. Source: Y.1541, table 3, which is provisional.
pub const IPDV_QUANTILE_STRICT: f64 = 0.99999;
/// An interval in which a larger share is lost is unavailable. Source: Y.1540, 7: c₁.
pub const UNAVAILABLE_IPLR: f64 = 0.2;
/// How long an interval of availability is, ns. Source: Y.1540, 7: Tav, 1 min.
pub const AVAILABILITY_INTERVAL_NS: i64 = 60_000_000_000;

/// What a population of packets came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Transfer {
    /// Packets that left.
    pub transmitted: u64,
    /// Packets that did not arrive within Tmax.
    pub lost: u64,
    /// Mean delay of the others, ns; `None` if there are none, like the following.
    pub iptd_mean_ns: Option<f64>,
    /// Their smallest delay, ns.
    pub iptd_min_ns: Option<f64>,
    /// Their delay at [`IPDV_QUANTILE`] by nearest rank, ns: the largest if there are fewer than 1,000.
    pub iptd_upper_ns: Option<f64>,
    /// The same at [`IPDV_QUANTILE_STRICT`]: the largest if there are fewer than 100,000.
    pub iptd_strict_upper_ns: Option<f64>,
}

impl Transfer {
    /// Of single packets, with [`TMAX_NS`].
    ///
    /// # Errors
    /// When there are none.
    pub fn of(packets: &[Packet]) -> Result<Self, StatsError> {
        if packets.is_empty() {
            return Err(StatsError::TooFew { what: "packet transfer", needed: 1, found: 0 });
        }
        let mut delays: Vec<i64> = packets.iter().filter_map(Packet::delay_ns).filter(|d| *d <= TMAX_NS).collect();
        delays.sort_unstable();
        let sum: i128 = delays.iter().map(|d| i128::from(*d)).sum();
        Ok(Transfer {
            transmitted: packets.len() as u64,
            lost: (packets.len() - delays.len()) as u64,
            iptd_mean_ns: (!delays.is_empty()).then(|| sum as f64 / delays.len() as f64),
            iptd_min_ns: delays.first().map(|d| *d as f64),
            iptd_upper_ns: nearest_rank(&delays, IPDV_QUANTILE).map(|d| d as f64),
            iptd_strict_upper_ns: nearest_rank(&delays, IPDV_QUANTILE_STRICT).map(|d| d as f64),
        })
    }

    /// Of counted delays, as a histogram holds them, the smallest first, and of how many packets left. What did not arrive,
    /// and what took longer than [`TMAX_NS`], is lost; duplicates are not taken out.
    pub fn of_counts(transmitted: u64, delays: &[(i64, u64)]) -> Self {
        let within = &delays[..delays.partition_point(|(delay, _)| *delay <= TMAX_NS)];
        let arrived: u64 = within.iter().map(|(_, count)| *count).sum();
        let sum: f64 = within.iter().map(|(delay, count)| *delay as f64 * *count as f64).sum();
        Transfer {
            transmitted,
            lost: transmitted.saturating_sub(arrived),
            iptd_mean_ns: (arrived > 0).then(|| sum / arrived as f64),
            iptd_min_ns: within.first().map(|(delay, _)| *delay as f64),
            iptd_upper_ns: counted_rank(within, IPDV_QUANTILE).map(|delay| delay as f64),
            iptd_strict_upper_ns: counted_rank(within, IPDV_QUANTILE_STRICT).map(|delay| delay as f64),
        }
    }

    /// Loss ratio: lost / transmitted. 0 if nothing was transmitted.
    pub fn iplr(&self) -> f64 {
        if self.transmitted == 0 { 0.0 } else { self.lost as f64 / self.transmitted as f64 }
    }

    /// Delay variation, ns: upper end less minimum.
    pub fn ipdv_ns(&self) -> Option<f64> {
        Some(self.iptd_upper_ns? - self.iptd_min_ns?)
    }

    /// The same with the quantile of classes 6 and 7, ns.
    pub fn ipdv_strict_ns(&self) -> Option<f64> {
        Some(self.iptd_strict_upper_ns? - self.iptd_min_ns?)
    }
}

/// Intervals of a population, by when packets left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Availability {
    /// Intervals in which anything left.
    pub intervals: u64,
    /// Those with a loss ratio of at most [`UNAVAILABLE_IPLR`].
    pub available: u64,
}

impl Availability {
    /// Cut into intervals of `interval_ns` ([`AVAILABILITY_INTERVAL_NS`]) from the first departure on.
    ///
    /// # Errors
    /// When there are no packets, or the interval is not positive.
    pub fn of(packets: &[Packet], interval_ns: i64) -> Result<Self, StatsError> {
        let first = packets.iter().map(|p| p.sent_ns).min();
        let first = first.ok_or(StatsError::TooFew { what: "availability", needed: 1, found: 0 })?;
        if interval_ns <= 0 {
            let (name, value) = ("the interval of availability", interval_ns as f64);
            return Err(StatsError::Parameter { name, value, range: "above 0 ns" });
        }
        let mut intervals = std::collections::BTreeMap::<i64, (u64, u64)>::new();
        for packet in packets {
            let (sent, lost) = intervals.entry((packet.sent_ns - first) / interval_ns).or_default();
            *sent += 1;
            *lost += u64::from(packet.delay_ns().is_none_or(|d| d > TMAX_NS));
        }
        Ok(Availability::count(intervals.into_values()))
    }

    /// Of what left and what arrived in each second of traffic, in whole minutes from its start: the last part of one is
    /// left out. What is under way at the end of a minute counts as lost in it and as too many in the next, which is
    /// small beside a fifth of a minute's packets.
    ///
    /// # Errors
    /// When there is no whole minute in which anything left.
    pub fn of_seconds(seconds: &[(u64, u64)]) -> Result<Self, StatsError> {
        let sum =
            |minute: &[(u64, u64)]| minute.iter().fold((0, 0), |sum, second| (sum.0 + second.0, sum.1 + second.1));
        let minutes = seconds.chunks_exact(AVAILABILITY_INTERVAL_NS as usize / 1_000_000_000).map(sum);
        let found = Availability::count(minutes.map(|(sent, arrived)| (sent, sent.saturating_sub(arrived))));
        let none = StatsError::TooFew { what: "availability in minutes", needed: 60, found: seconds.len() };
        if found.intervals == 0 { Err(none) } else { Ok(found) }
    }

    /// Of what was sent and lost in each interval.
    fn count(intervals: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut found = Availability { intervals: 0, available: 0 };
        for (sent, lost) in intervals.filter(|(sent, _)| *sent > 0) {
            found.intervals += 1;
            found.available += u64::from(lost as f64 <= UNAVAILABLE_IPLR * sent as f64);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn packet(sent_ms: i64, delay_ms: Option<i64>) -> Packet {
        Packet { sent_ns: sent_ms * MS, received_ns: delay_ms.map(|d| (sent_ms + d) * MS) }
    }

    #[test]
    fn by_hand() {
        // delays 10, 12, 20 and 14 ms; one lost, one after 3001 ms: 2 of 6 lost, mean 56 / 4, variation 20 − 10
        let delays = [Some(10), Some(12), None, Some(20), Some(14), Some(3001)];
        let packets: Vec<Packet> = delays.iter().zip(0..).map(|(delay, i)| packet(i * 20, *delay)).collect();
        let t = Transfer::of(&packets).unwrap();
        assert_eq!((t.transmitted, t.lost, t.iplr()), (6, 2, 2.0 / 6.0));
        assert_eq!((t.iptd_mean_ns, t.iptd_min_ns, t.ipdv_ns()), (Some(14e6), Some(10e6), Some(10e6)));
    }

    #[test]
    fn counted_delays_by_hand() {
        // 10, 10, 12 and 20 ms, one after 3001 ms, one of 6 never: 2 lost, mean 52 / 4, variation 20 − 10
        let counts = [(10 * MS, 2), (12 * MS, 1), (20 * MS, 1), (3001 * MS, 1)];
        let t = Transfer::of_counts(6, &counts);
        assert_eq!((t.lost, t.iptd_mean_ns, t.iptd_min_ns, t.ipdv_ns()), (2, Some(13e6), Some(10e6), Some(10e6)));
        // the same as of the packets one by one
        let delays = [Some(10), Some(10), Some(12), Some(20), Some(3001), None];
        let packets: Vec<Packet> = delays.iter().zip(0..).map(|(delay, i)| packet(i * 20, *delay)).collect();
        assert_eq!(Transfer::of(&packets).unwrap(), t);
        let many = Transfer::of_counts(1000, &[(5 * MS, 999), (900 * MS, 1)]);
        assert_eq!(many.ipdv_ns(), Some(0.0), "one in a thousand is left out");
        assert_eq!(Transfer::of_counts(3, &[]).iptd_mean_ns, None);
    }

    #[test]
    fn one_in_a_thousand_is_left_out_of_the_variation() {
        let mut packets: Vec<Packet> = (0..1000).map(|i| packet(i, Some(5))).collect();
        packets[500] = packet(500, Some(900));
        assert_eq!(Transfer::of(&packets).unwrap().ipdv_ns(), Some(0.0));
        packets[501] = packet(501, Some(25));
        assert_eq!(Transfer::of(&packets).unwrap().ipdv_ns(), Some(20e6));
    }

    #[test]
    fn clocks_that_disagree_give_negative_delays_and_the_same_variation() {
        let shifted = [packet(0, Some(-7)), packet(10, Some(-2))];
        let t = Transfer::of(&shifted).unwrap();
        assert_eq!((t.iptd_mean_ns, t.ipdv_ns()), (Some(-4.5e6), Some(5e6)));
    }

    #[test]
    fn minutes_with_more_than_a_fifth_lost_are_unavailable() {
        // minute 0: 1 of 5 lost, available; minute 1: 2 of 5; minute 2 sends nothing; minute 3: none of 1
        let mut packets: Vec<Packet> = (0..5).map(|i| packet(i * 1000, (i > 0).then_some(5))).collect();
        packets.extend((0..5).map(|i| packet(60_000 + i * 1000, (i > 1).then_some(5))));
        packets.push(packet(180_000, Some(1)));
        let found = Availability::of(&packets, AVAILABILITY_INTERVAL_NS).unwrap();
        assert_eq!(found, Availability { intervals: 3, available: 2 });
        assert!(Availability::of(&packets, 0).is_err() && Availability::of(&[], 1).is_err());
    }

    #[test]
    fn seconds_are_put_together_to_whole_minutes() {
        // 20 of 100 a second are lost in the first minute, 21 in the second; nothing leaves in the third; half a minute more
        let mut seconds = vec![(100, 80); 60];
        seconds.extend(vec![(100, 79); 60]);
        seconds.extend(vec![(0, 0); 60]);
        seconds.extend(vec![(100, 0); 30]);
        assert_eq!(Availability::of_seconds(&seconds).unwrap(), Availability { intervals: 2, available: 1 });
        // one of ten is under way when a minute ends
        let late: Vec<_> = (0..120).map(|second| (10, if second % 60 == 59 { 9 } else { 10 })).collect();
        assert_eq!(Availability::of_seconds(&late).unwrap(), Availability { intervals: 2, available: 2 });
        assert!(Availability::of_seconds(&seconds[..59]).is_err() && Availability::of_seconds(&[(0, 0); 60]).is_err());
    }

    #[test]
    fn the_strict_quantile_lets_one_in_a_hundred_thousand_go() {
        let of = |late| Transfer::of_counts(100_000, &[(5 * MS, 100_000 - late), (60 * MS, late)]);
        assert_eq!((of(1).ipdv_strict_ns(), of(2).ipdv_strict_ns()), (Some(0.0), Some(55e6)));
        assert_eq!(of(2).ipdv_ns(), Some(0.0));
    }

    #[test]
    fn nothing_that_arrives_has_no_delay() {
        let t = Transfer::of(&[packet(0, None)]).unwrap();
        assert_eq!((t.iplr(), t.iptd_mean_ns, t.ipdv_ns()), (1.0, None, None));
        assert!(Transfer::of(&[]).is_err());
    }
}
