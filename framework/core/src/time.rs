//! Virtual and real time in one type: whole nanoseconds since the run was created.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

/// Nanoseconds since the run was created; below 2^56 (2.28 years), so that an event key fits in 128 bits.
///
/// The controller and the loggers act before traffic begins, so a run's start is a later `Time`; reports
/// show `t - start`. Actors never read a clock: `now` is an argument.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

/// A length of time in whole nanoseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(u64);

/// Nanoseconds in one second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl Time {
    /// The instant the run was created.
    pub const ZERO: Time = Time(0);
    /// The last instant an event key can hold (2^56 − 1 ns).
    pub const MAX: Time = Time((1 << 56) - 1);

    /// The instant `nanos` ns after the run was created.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the run was created.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span from `earlier` to `self`; zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `self + span`, held at [`Time::MAX`].
    #[inline]
    pub const fn saturating_add(self, span: Span) -> Time {
        let sum = self.0.saturating_add(span.0);
        if sum > Time::MAX.0 { Time::MAX } else { Time(sum) }
    }

    /// The first multiple of `quantum` at or after this; itself, if `quantum` is zero.
    #[inline]
    pub const fn round_up(self, quantum: Span) -> Time {
        match quantum.0 {
            0 => self,
            q => Time(self.0.div_ceil(q).saturating_mul(q)),
        }
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than any run.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `nanos` ns.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Span(nanos)
    }

    /// A span of `micros` µs.
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Span(micros * 1_000)
    }

    /// A span of `millis` ms.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Span(millis * 1_000_000)
    }

    /// A span of `seconds` s.
    #[inline]
    pub const fn from_secs(seconds: u64) -> Self {
        Span(seconds * NANOS_PER_SECOND)
    }

    /// The nearest whole nanosecond of `seconds`; negative and NaN give zero.
    #[inline]
    pub fn from_secs_f64(seconds: f64) -> Self {
        Span((seconds * NANOS_PER_SECOND as f64).round() as u64)
    }

    /// Whole nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, rounded to a double.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Whether this is no time at all.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self * factor`, held at [`Span::MAX`].
    #[inline]
    pub const fn saturating_mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }

    /// The standard library's type, for engines that wait in real time.
    #[inline]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, factor: u64) -> Span {
        Span(self.0 * factor)
    }
}

impl Div<u64> for Span {
    type Output = Span;
    #[inline]
    fn div(self, by: u64) -> Span {
        Span(self.0 / by)
    }
}
