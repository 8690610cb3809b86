//! Waiting for a time: sleep until shortly before, then look at the clock until it is there.

use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;

/// How long before a time sleeping ends and looking begins, nanoseconds. Source: measured on a virtual machine, where a sleep
/// ends up to 50 µs late.
pub const SPIN: u64 = 60_000;
/// The longest sleep before a wish to stop is looked at, nanoseconds.
const NAP: u64 = 50_000_000;

/// Why a replay ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Somebody asked for it.
    Asked,
    /// Its duration was over.
    Duration,
    /// The interface is no longer there.
    InterfaceGone,
    /// The interface was switched off, or lost its carrier.
    InterfaceDown,
    /// The path took nothing for a second.
    Stalled,
    /// The path failed.
    Failed,
}

const ALL: [Ended; 6] =
    [Ended::Asked, Ended::Duration, Ended::InterfaceGone, Ended::InterfaceDown, Ended::Stalled, Ended::Failed];

/// A wish to stop, shared by all threads of a replay; the first reason stays.
#[derive(Debug, Default)]
pub struct Stop(AtomicU8);

impl Stop {
    /// Nobody wishes to stop.
    pub const fn new() -> Self {
        Stop(AtomicU8::new(0))
    }

    /// Ends everything.
    pub fn set(&self, why: Ended) {
        let code = ALL.iter().position(|each| *each == why).map_or(1, |at| at as u8 + 1);
        // when somebody else was first, that reason stays
        let _ = self.0.compare_exchange(0, code, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether to stop, and why.
    #[inline]
    pub fn why(&self) -> Option<Ended> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            code => ALL.get(usize::from(code) - 1).copied(),
        }
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of CLOCK_REALTIME minus those of CLOCK_MONOTONIC: what turns the kernel's timestamps into times of [`now`].
pub fn realtime_offset() -> i64 {
    // the reading between two others that are closest together
    let tries = (0..5).map(|_| {
        let (before, real, after) = (now(), nanos(clock_gettime(ClockId::Realtime)), now());
        (after - before, real.cast_signed() - (before + (after - before) / 2).cast_signed())
    });
    tries.min().map_or(0, |(_, offset)| offset)
}

/// Makes sleeps of the calling thread end as soon as the kernel can, not 50 µs later. Real-time threads need no wish.
pub fn sharpen() {
    // an ordinary sleep is later, which is then seen in what is measured
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Waits until `due` of CLOCK_MONOTONIC; returns the time then, or `None` when it is to stop.
#[inline]
pub fn until(due: u64, stop: &Stop) -> Option<u64> {
    loop {
        if stop.why().is_some() {
            return None;
        }
        let now = now();
        if now >= due {
            return Some(now);
        }
        if due - now > SPIN {
            sleep((due - SPIN).min(now + NAP));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Sleeps until `due` of CLOCK_MONOTONIC, as late as the kernel wakes; looks at `stop` now and then.
pub fn sleep_until(due: u64, stop: &Stop) {
    while stop.why().is_none() {
        let now = now();
        if now >= due {
            return;
        }
        sleep(due.min(now + NAP));
    }
}

fn sleep(due: u64) {
    let seconds = (due / 1_000_000_000).cast_signed();
    let wish = Timespec { tv_sec: seconds, tv_nsec: (due % 1_000_000_000) as _ };
    // a signal may end it early; whoever waits looks at the clock again
    let _: io::Result<()> = clock_nanosleep_absolute(ClockId::Monotonic, &wish).map_err(io::Error::from);
}

pub(super) fn nanos(time: Timespec) -> u64 {
    // neither clock is ever before its epoch
    time.tv_sec.cast_unsigned() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let stop = Stop::new();
        assert_eq!(stop.why(), None);
        stop.set(Ended::Failed);
        stop.set(Ended::Asked);
        assert_eq!(stop.why(), Some(Ended::Failed));
    }

    #[test]
    fn waiting_ends_at_the_time_or_at_once() {
        let (stop, due) = (Stop::new(), now() + 300_000);
        assert!(until(due, &stop).is_some_and(|now| now >= due));
        sleep_until(now() + 300_000, &stop);
        stop.set(Ended::Asked);
        assert_eq!(until(u64::MAX, &stop), None);
        sleep_until(u64::MAX, &stop);
    }

    #[test]
    fn both_clocks_are_told_apart() {
        let real = now().cast_signed() + realtime_offset();
        assert!(real > 1_600_000_000_000_000_000, "after 2020: {real}");
    }
}
