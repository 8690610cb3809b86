//! The run's clock: CLOCK_MONOTONIC, counted from the run's creation. All processes of a host read the same
//! one, whatever becomes of its date.

use std::time::{SystemTime, UNIX_EPOCH};

use rehearsal_core::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Tells the run's time. All shards of a process hold the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch_ns: u64,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Clock::since(monotonic_ns())
    }

    /// A clock that began when CLOCK_MONOTONIC was at `epoch_ns`.
    pub(crate) const fn since(epoch_ns: u64) -> Self {
        Clock { epoch_ns }
    }

    /// Now.
    #[inline]
    pub(crate) fn now(self) -> Time {
        Time::from_nanos(monotonic_ns().saturating_sub(self.epoch_ns))
    }

    /// The run's time `at` on CLOCK_MONOTONIC, for timers of the operating system.
    pub(crate) fn monotonic(self, at: Time) -> Timespec {
        let ns = self.epoch_ns.saturating_add(at.as_nanos());
        Timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000).cast_signed() }
    }
}

/// CLOCK_MONOTONIC, ns.
pub(crate) fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Unix time, ns: what a payload tells its reader.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// CPU time of the calling thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
