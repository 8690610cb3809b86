//! Virtual time held to real time: each event waits until its moment has come. How late they were is told.

use std::time::{Duration, Instant};

use rehearsal_core::{Span, Time};

/// Shorter waits are not worth a sleep: a thread wakes up about so late. Assumed.
const SLEEP_MIN: Duration = Duration::from_micros(50);

/// A pace.
pub struct Pace {
    factor: f64,
    limit: Option<Span>,
    begun: Option<(Time, Instant)>,
    last: Time,
    instants: u64,
    late: u64,
    worst: (Duration, Time),
}

impl Pace {
    /// Virtual time passes `factor` times as fast as real time. Above `limit` of lag, the run must not go on.
    pub fn new(factor: f64, limit: Option<Span>) -> Self {
        let worst = (Duration::ZERO, Time::ZERO);
        Pace { factor, limit, begun: None, last: Time::ZERO, instants: 0, late: 0, worst }
    }

    /// Waits for `at`.
    ///
    /// # Errors
    /// When it is further behind than the limit.
    pub fn due(&mut self, at: Time) -> Result<(), String> {
        let (zero, begun) = *self.begun.get_or_insert_with(|| (at, Instant::now()));
        if at <= self.last {
            return Ok(());
        }
        self.last = at;
        self.instants += 1;
        let wanted = Duration::from_secs_f64(at.since(zero).as_secs_f64() / self.factor);
        let passed = begun.elapsed();
        if wanted > passed {
            if wanted - passed >= SLEEP_MIN {
                std::thread::sleep(wanted - passed);
            }
            return Ok(());
        }
        self.fell_behind(at, passed - wanted)
    }

    fn fell_behind(&mut self, at: Time, lag: Duration) -> Result<(), String> {
        self.late += u64::from(lag >= SLEEP_MIN);
        if lag > self.worst.0 {
            self.worst = (lag, at);
        }
        match self.limit.filter(|limit| lag > Duration::from_nanos(limit.as_nanos())) {
            Some(limit) => Err(format!(
                "virtual time is {:.3} ms behind its pace of {} at {at}, and {limit} is allowed; choose a smaller --pace",
                lag.as_secs_f64() * 1e3,
                self.factor
            )),
            None => Ok(()),
        }
    }

    /// What to say of it.
    pub fn end(&self) -> String {
        let (worst, at) = self.worst;
        format!(
            "paced at {} times real time: {} of {} moments came more than 50 us late, the latest {:.3} ms at {at}",
            self.factor,
            self.late,
            self.instants,
            worst.as_secs_f64() * 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn time_waits_for_its_moment_and_lag_above_the_limit_ends_the_run() {
        let mut pace = Pace::new(10.0, Some(Span::from_millis(5)));
        let begun = Instant::now();
        assert_eq!(pace.due(at(1000)), Ok(()), "the first event sets the clock");
        assert_eq!(pace.due(at(1200)), Ok(()));
        assert!(begun.elapsed() >= Duration::from_millis(19), "200 ms at ten times real time are 20 ms");
        std::thread::sleep(Duration::from_millis(20));
        let why = pace.due(at(1201)).expect_err("it is 20 ms late");
        assert!(why.contains("behind its pace of 10") && why.contains("smaller --pace"), "{why}");
        assert_eq!((pace.instants, pace.late), (3, 1), "the first event is a moment too");
        assert!(pace.end().starts_with("paced at 10 times real time: 1 of 3 moments"), "{}", pace.end());
    }
}
