//! Before ordinary threads, but not all the time: the kernel takes a core away from real-time threads that keep it, for the rest of
//! each second at once (sched(7): 50 ms by default, even if nobody else wants it). Who hardly sleeps steps behind ordinary threads
//! by itself before that, often and for a short time, and goes on meanwhile where nobody else wants the core.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use super::wait::nanos;
use crate::sys::thread::{ordinary, real_time};

/// From one turn to the next, nanoseconds.
const TURN: u64 = 100_000_000;
/// How often is looked, nanoseconds.
const LOOK: u64 = 1_000_000;
/// How much less than the kernel allows is taken.
const MARGIN: f64 = 0.05;

/// Turns of the calling thread.
#[derive(Debug)]
pub struct Precedence {
    /// CPU time that may be had before others in a turn, nanoseconds.
    share: u64,
    ahead: bool,
    /// When is looked again, and when the turn is over.
    look: u64,
    end: u64,
    /// CPU time at the begin of the turn.
    used: u64,
}

/// Where to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ahead,
    Behind,
}

impl Precedence {
    /// Puts the calling thread before ordinary ones; `None` when it may not.
    pub fn take() -> Option<Precedence> {
        real_time().is_ok().then(|| Precedence::new(allowed().unwrap_or(1.0)))
    }

    /// Of a kernel that lets real-time threads have this part of a core.
    fn new(allowed: f64) -> Precedence {
        let share = if allowed < 1.0 { ((allowed - MARGIN).max(0.0) * TURN as f64) as u64 } else { u64::MAX };
        Precedence { share, ahead: true, look: 0, end: 0, used: 0 }
    }

    /// Steps behind others, or before them again, if it is time; `now` is of CLOCK_MONOTONIC.
    #[inline]
    pub fn keep(&mut self, now: u64) {
        if now < self.look {
            return;
        }
        match self.step(now, nanos(clock_gettime(ClockId::ThreadCPUTime))) {
            Some(Step::Behind) => self.ahead = ordinary().is_err(),
            Some(Step::Ahead) => self.ahead = real_time().is_ok(),
            None => {}
        }
    }

    fn step(&mut self, now: u64, used: u64) -> Option<Step> {
        self.look = now + LOOK;
        if now >= self.end {
            (self.end, self.used) = (now + TURN, used);
            return (!self.ahead).then_some(Step::Ahead);
        }
        (self.ahead && used - self.used >= self.share).then_some(Step::Behind)
    }
}

/// Which part of a core real-time threads may have, if that is limited.
fn allowed() -> Option<f64> {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok()?.trim().parse::<f64>().ok()
    };
    let (runtime, period) = (read("runtime")?, read("period")?);
    (runtime >= 0.0 && period > 0.0).then(|| runtime / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Milliseconds of each second that a thread is before others which runs this part of the time.
    fn ahead(allowed: f64, busy: f64) -> Vec<u64> {
        let mut turns = Precedence::new(allowed);
        let second = |second: u64| {
            let of_each = (second * 1_000..(second + 1) * 1_000).filter(|ms| {
                if let Some(step) = turns.step(ms * MS, (*ms as f64 * busy) as u64 * MS) {
                    turns.ahead = step == Step::Ahead;
                }
                turns.ahead
            });
            of_each.count() as u64
        };
        (0..3).map(second).collect()
    }

    #[test]
    fn who_never_sleeps_leaves_a_part_of_each_second_to_others() {
        assert_eq!(ahead(0.95, 1.0), [900, 900, 900]);
        assert_eq!(ahead(0.5, 1.0), [450, 450, 450]);
    }

    #[test]
    fn who_sleeps_enough_or_is_not_limited_stays_before_others() {
        assert_eq!(ahead(0.95, 0.8), [1_000; 3]);
        assert_eq!(ahead(1.0, 1.0), [1_000; 3]);
    }

    #[test]
    fn turns_of_a_real_thread_are_asked_of_the_kernel() {
        let thread = std::thread::spawn(|| {
            let mut turns = Precedence::take()?;
            (turns.share, turns.used) = (0, 0);
            turns.keep(1);
            let first = turns.ahead;
            turns.keep(1 + LOOK);
            let then = turns.ahead;
            turns.keep(1 + TURN);
            Some((first, then, turns.ahead))
        });
        match thread.join().expect("it ends") {
            None => eprintln!("skipped: real-time threads need CAP_SYS_NICE"),
            Some(turns) => assert_eq!(turns, (true, false, true)),
        }
    }
}
