//! When packets are due: the pace, loops, and clamped gaps; told before anything is sent.

use serde::Serialize;
use thiserror::Error;

use crate::template::Template;

mod cursor;
pub mod precedence;
pub mod wait;

pub use cursor::{Cursor, Due};

/// How fast a template is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// At its own times; a factor of 2 takes half the time.
    Original {
        /// What times are divided by, above 0.
        factor: f64,
    },
    /// Evenly, so many packets per second.
    Packets {
        /// Packets per second, above 0.
        per_second: f64,
    },
    /// So many bits per second of Ethernet frames, without preamble, check sequence and inter-frame gap.
    Bits {
        /// Bits per second, above 0.
        per_second: f64,
    },
    /// As fast as the path takes them.
    TopSpeed,
}

/// How a sender keeps to the times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// Every packet is due at a time since the start, so lateness is made up for. Sleeps until 60 µs before, then spins.
    #[default]
    Absolute,
    /// Algorithm 1 of the DTRF paper (Information 2023, 14(2), 59): sleeps for what is left of the gap since the packet before
    /// was sent. What a sleep overshoots is never made up for.
    Dtrf,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rules {
    /// How fast.
    pub pace: Pace,
    /// How times are kept.
    pub pacing: Pacing,
    /// How often the template is replayed, from 1; `None`: until somebody ends it.
    pub loops: Option<u64>,
    /// Nanoseconds from the last packet of a loop to the first of the next. `None`: the mean gap of the template at original
    /// timing, the ordinary distance at a rate.
    pub loop_gap: Option<u64>,
    /// Gaps of the template that are longer are cut to this many nanoseconds, at original timing and before the factor.
    pub gap_max: Option<u64>,
}

impl Default for Rules {
    fn default() -> Self {
        let pace = Pace::Original { factor: 1.0 };
        Rules { pace, pacing: Pacing::default(), loops: Some(1), loop_gap: None, gap_max: None }
    }
}

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TimingError {
    /// There is nothing to send.
    #[error("the template has no packet")]
    Empty,
    /// A number that makes no sense.
    #[error("{what} is {value}; write a number above 0")]
    Number {
        /// Which.
        what: &'static str,
        /// What it is.
        value: f64,
    },
    /// No loop.
    #[error("0 loops send nothing; write 1 or more, or leave the number out")]
    Loops,
    /// Nobody knows when the next loop begins.
    #[error("a template of one packet has no gap between loops; say one with --loop-gap")]
    LoopGap,
    /// It takes longer than a clock can tell.
    #[error("the replay would take more than 290 years; clamp its gaps or raise its speed")]
    TooLong,
}

/// The times of all packets, known before the first one is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// What was asked for.
    pub rules: Rules,
    /// Packets of one loop.
    pub packets: u64,
    /// Bytes of one loop.
    pub bytes: u64,
    /// Nanoseconds from a loop's first packet to the next loop's first packet; 0 at top speed.
    pub period: u64,
    /// Nanoseconds from the first packet to the last of all; `None` at top speed and without an end.
    pub planned: Option<u64>,
    /// Gaps that were cut, in one loop.
    pub clamped: u64,
    /// The longest gap of the template, nanoseconds.
    pub gap_longest: u64,
}

impl Schedule {
    /// Looks through the template's times once.
    ///
    /// # Errors
    /// When a number makes no sense, or there is nothing to send.
    pub fn new(template: &Template, rules: Rules) -> Result<Self, TimingError> {
        let packets = u64::from(template.len());
        if packets == 0 {
            return Err(TimingError::Empty);
        }
        if rules.loops == Some(0) {
            return Err(TimingError::Loops);
        }
        check(rules.pace)?;
        let [mut span, mut last, mut clamped, mut gap_longest, mut last_bytes] = [0u64; 5];
        for packet in template.packets() {
            let gap = packet.at - last;
            let kept = rules.gap_max.map_or(gap, |most| gap.min(most));
            clamped += u64::from(kept < gap);
            gap_longest = gap_longest.max(gap);
            span += kept;
            last = packet.at;
            last_bytes = packet.bytes.len() as u64;
        }
        let bytes = template.bytes();
        let (span, period) = match rules.pace {
            Pace::Original { factor } => {
                let span = whole(span as f64 / factor)?;
                let between = match rules.loop_gap {
                    Some(gap) => gap,
                    None if packets > 1 => span / (packets - 1),
                    None if rules.loops == Some(1) => 0,
                    None => return Err(TimingError::LoopGap),
                };
                (span, span.saturating_add(between))
            }
            Pace::Packets { per_second } => {
                let span = whole((packets - 1) as f64 * NANOS / per_second)?;
                (span, period(span, whole(packets as f64 * NANOS / per_second)?, rules.loop_gap))
            }
            Pace::Bits { per_second } => {
                let time = |bytes: u64| whole(bytes as f64 * 8.0 * NANOS / per_second);
                let span = time(bytes - last_bytes)?;
                (span, period(span, time(bytes)?, rules.loop_gap))
            }
            Pace::TopSpeed => (0, 0),
        };
        let planned = match (rules.pace, rules.loops) {
            (Pace::TopSpeed, _) | (_, None) => None,
            (_, Some(loops)) => {
                let before = (loops - 1).checked_mul(period).and_then(|before| before.checked_add(span));
                Some(before.filter(|all| *all <= i64::MAX as u64).ok_or(TimingError::TooLong)?)
            }
        };
        Ok(Schedule { rules, packets, bytes, period, planned, clamped, gap_longest })
    }

    /// Packets of all loops, if they have an end.
    pub fn total(&self) -> Option<u64> {
        self.rules.loops.map(|loops| loops.saturating_mul(self.packets))
    }

    /// Packets per second on the average, if they have times.
    pub fn rate(&self) -> Option<f64> {
        (self.period > 0).then(|| self.packets as f64 * NANOS / self.period as f64)
    }

    /// Whether packets have times at all.
    pub fn is_timed(&self) -> bool {
        self.rules.pace != Pace::TopSpeed
    }
}

/// Nanoseconds in a second.
const NANOS: f64 = 1e9;

fn check(pace: Pace) -> Result<(), TimingError> {
    let (what, value) = match pace {
        Pace::Original { factor } => ("the speed", factor),
        Pace::Packets { per_second } => ("the rate in packets per second", per_second),
        Pace::Bits { per_second } => ("the rate in bits per second", per_second),
        Pace::TopSpeed => return Ok(()),
    };
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(TimingError::Number { what, value }) }
}

/// From one loop to the next at a rate: as if it went on, unless a gap is asked for.
fn period(span: u64, rolling: u64, gap: Option<u64>) -> u64 {
    gap.map_or(rolling, |gap| span.saturating_add(gap))
}

fn whole(nanos: f64) -> Result<u64, TimingError> {
    if nanos < i64::MAX as f64 { Ok(nanos.round() as u64) } else { Err(TimingError::TooLong) }
}

#[cfg(test)]
mod tests;
