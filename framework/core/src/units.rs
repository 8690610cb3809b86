//! Quantities with their unit in the text: `10s`, `250/s`, `100kB..200kB`, `1Gbit/s`, `512MiB`, `1%`.
//!
//! A bare number is an error that says what to write. Decimal prefixes (k, M, G) are powers of ten, binary ones
//! (Ki, Mi, Gi) powers of two (IEC 80000-13).

use std::fmt;

use thiserror::Error;

use crate::time::{NANOS_PER_SECOND, Span, Time};

mod parse;
mod text;

pub use parse::UnitError;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteSize(pub u64);

/// Events per time, kept as an exact fraction so that schedules do not drift: `events` every `per`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    events: u64,
    per: Span,
}

/// Bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BitRate(pub u64);

/// A share between 0 and 1, written in per cent.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Fraction(pub f64);

/// A range of sizes, `100kB..200kB`, or one size; both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ByteRange {
    /// Smallest, bytes.
    pub min: ByteSize,
    /// Largest, bytes.
    pub max: ByteSize,
}

/// A rate of zero or one that cannot be kept exactly.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a rate must be above zero and at most 10^9 per second")]
pub struct RateError;

impl Rate {
    /// `events` each second; at least one.
    pub const fn per_second(events: u64) -> Self {
        assert!(events > 0, "a rate is above zero");
        Rate { events, per: Span::from_secs(1) }
    }

    /// `events` every `per`.
    ///
    /// # Errors
    /// [`RateError`] if either is zero, or the mean gap is below 1 ns.
    pub fn new(events: u64, per: Span) -> Result<Self, RateError> {
        if events == 0 || per.is_zero() || per.as_nanos() / events == 0 {
            return Err(RateError);
        }
        Ok(Rate { events, per })
    }

    /// `factor` times this rate, to seven digits.
    ///
    /// # Errors
    /// [`RateError`] if `factor` is not above zero, or the result cannot be kept.
    pub fn scaled(self, factor: f64) -> Result<Self, RateError> {
        const DIGITS: f64 = 1e7;
        // both sides of the fraction are whole numbers
        let events = (factor * DIGITS).round();
        if !(events >= 1.0 && events < u64::MAX as f64) {
            return Err(RateError);
        }
        let (mut events, mut per) =
            (u128::from(self.events) * events as u128, u128::from(self.per.as_nanos()) * DIGITS as u128);
        let (mut a, mut b) = (events, per);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        (events, per) = (events / a, per / a);
        let fits = |n: u128| u64::try_from(n).map_err(|_| RateError);
        Rate::new(fits(events)?, Span::from_nanos(fits(per)?))
    }

    /// From the start of a schedule to its `k`-th event (from 0), exact to the nanosecond.
    #[inline]
    pub fn offset(self, k: u64) -> Span {
        let nanos = u128::from(k) * u128::from(self.per.as_nanos()) / u128::from(self.events);
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Mean gap between events, rounded down to the nanosecond.
    #[inline]
    pub const fn gap(self) -> Span {
        Span::from_nanos(self.per.as_nanos() / self.events)
    }

    /// Events per second.
    #[inline]
    pub fn as_f64(self) -> f64 {
        self.events as f64 / self.per.as_secs_f64()
    }

    /// Expected events in `span`.
    #[inline]
    pub fn events_in(self, span: Span) -> f64 {
        self.as_f64() * span.as_secs_f64()
    }
}

impl BitRate {
    /// How long `bytes` bytes occupy the medium, rounded up to the nanosecond.
    #[inline]
    pub fn serialisation(self, bytes: u64) -> Span {
        let nanos = (u128::from(bytes) * 8 * u128::from(NANOS_PER_SECOND)).div_ceil(u128::from(self.0.max(1)));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl ByteRange {
    /// `bytes` and nothing else.
    pub const fn exactly(bytes: u64) -> Self {
        ByteRange { min: ByteSize(bytes), max: ByteSize(bytes) }
    }
}

impl Fraction {
    /// The share in per cent.
    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_nanos() as f64 / NANOS_PER_SECOND as f64)
    }
}
