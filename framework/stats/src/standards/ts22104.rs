//! TS 22.104: availability and reliability of a cyclic service whose application survives short gaps.
//!
//! A message comes due every transfer interval. The application goes on for the survival time after a message that did
//! not come when it should; from then until the next message that does, the service is down. So a gap of k messages costs
//! max(0, k · interval − survival time). Availability is the share of time the service is up; reliability is told as the
//! mean time between failures, up time over failures. Source: TS 22.104, 5.1 and annex C.

use serde::Serialize;

use super::Packet;
use crate::error::StatsError;

/// What the application asks of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cyclic {
    /// From one message to the next, ns; above 0.
    pub interval_ns: u64,
    /// How long it goes on without a message, ns.
    pub survival_ns: u64,
}

/// How well it was served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServiceAvailability {
    /// Messages that came due.
    pub messages: u64,
    /// Those that did not come in time.
    pub missed: u64,
    /// Times the service went down.
    pub failures: u64,
    /// How long it was down, ns.
    pub down_ns: u64,
    /// How long it was watched, ns: messages times interval.
    pub watched_ns: u64,
}

impl Cyclic {
    /// Judges messages in the order in which they came due: did each come in time?
    ///
    /// # Errors
    /// When there is none, or the interval is 0.
    pub fn judge(&self, in_time: &[bool]) -> Result<ServiceAvailability, StatsError> {
        if in_time.is_empty() {
            return Err(StatsError::TooFew { what: "availability of a service", needed: 1, found: 0 });
        }
        if self.interval_ns == 0 {
            return Err(StatsError::Parameter { name: "the transfer interval", value: 0.0, range: "above 0 ns" });
        }
        let gaps = in_time.chunk_by(|a, b| a == b).filter(|run| !run[0]);
        let down = |gap: &[bool]| (gap.len() as u64 * self.interval_ns).saturating_sub(self.survival_ns);
        let downs: Vec<u64> = gaps.map(down).filter(|down| *down > 0).collect();
        Ok(ServiceAvailability {
            messages: in_time.len() as u64,
            missed: in_time.iter().filter(|came| !**came).count() as u64,
            failures: downs.len() as u64,
            down_ns: downs.iter().sum(),
            watched_ns: in_time.len() as u64 * self.interval_ns,
        })
    }
}

impl ServiceAvailability {
    /// The share of time the service was up, 0 to 1.
    pub fn availability(&self) -> f64 {
        1.0 - self.down_ns as f64 / self.watched_ns as f64
    }

    /// Mean time between failures, ns; `None` without any, when it is longer than what was watched.
    pub fn between_failures_ns(&self) -> Option<f64> {
        (self.failures > 0).then(|| (self.watched_ns - self.down_ns) as f64 / self.failures as f64)
    }
}

/// For each packet, whether it arrived within the largest end-to-end latency that the application accepts.
pub fn in_time(packets: &[Packet], latency_ns_max: i64) -> Vec<bool> {
    packets.iter().map(|packet| packet.delay_ns().is_some_and(|delay| delay <= latency_ns_max)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten messages of 10 ms; the third to fifth are missing.
    const MESSAGES: [bool; 10] = [true, true, false, false, false, true, true, true, true, true];

    fn judged(survival_ms: u64) -> ServiceAvailability {
        Cyclic { interval_ns: 10_000_000, survival_ns: survival_ms * 1_000_000 }.judge(&MESSAGES).unwrap()
    }

    #[test]
    fn by_hand() {
        // due at 20 ms, next at 50 ms: down from 30 ms to 50 ms with a survival time of one interval
        let found = judged(10);
        assert_eq!((found.failures, found.down_ns, found.watched_ns), (1, 20_000_000, 100_000_000));
        assert!((found.availability() - 0.8).abs() < 1e-12);
        assert_eq!(found.between_failures_ns(), Some(80e6));
        assert!((judged(0).availability() - 0.7).abs() < 1e-12);
        let survived = judged(30);
        assert_eq!((survived.availability(), survived.failures, survived.missed), (1.0, 0, 3));
        assert_eq!(survived.between_failures_ns(), None);
    }

    #[test]
    fn every_gap_is_survived_or_not_on_its_own() {
        let twice = [false, true, false, false, true, false, false, false];
        let found = Cyclic { interval_ns: 10, survival_ns: 10 }.judge(&twice).unwrap();
        assert_eq!((found.failures, found.down_ns, found.missed), (2, 30, 6));
    }

    #[test]
    fn what_is_late_did_not_come() {
        let packets =
            [(0, Some(5)), (10, Some(25)), (20, None)].map(|(sent_ns, received_ns)| Packet { sent_ns, received_ns });
        assert_eq!(in_time(&packets, 14), [true, false, false]);
        assert_eq!(in_time(&packets, 15), [true, true, false]);
    }

    #[test]
    fn nothing_to_judge_is_refused() {
        assert!(Cyclic { interval_ns: 10, survival_ns: 0 }.judge(&[]).is_err());
        assert!(Cyclic { interval_ns: 0, survival_ns: 0 }.judge(&MESSAGES).is_err());
    }
}
