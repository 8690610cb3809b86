//! After a run: what was to be sent, held against what arrived.
//!
//! ```text
//!   schedule ──walk──> expected (due, key, stream) ─┐
//!   ear ─────────────> seen (time, key) ────────────┴──match──> arrived, lost, late, out of order ──> gaps, offset, drift, rate
//! ```
//!
//! A packet's *offset* is how much later than the median packet it was, against the schedule: `(r − s)` minus the median of all
//! `(r − s)`. A *gap error* is that of two packets that follow each other: `(r₂ − r₁) − (s₂ − s₁)`.

use serde::Serialize;

use crate::receive::{Heard, Mode};
use crate::send::Kind;
use crate::worker::{Material, Sent};

mod expect;
mod gaps;
mod held;
mod matching;
mod rates;

pub use gaps::{GapError, Offset, TimestampError};
pub use held::Held;
pub use rates::{Rates, Window};

use expect::Expected;
use matching::Matched;

/// Packets that are matched one by one at most; more are only counted. Each takes some 40 bytes.
pub const MATCHED_MAX: u64 = 32 << 20;

/// What a comparison says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// How arrivals were taken.
    pub mode: Mode,
    /// Packets that were given to the path and not refused.
    pub sent: u64,
    /// Packets of them that arrived.
    pub arrived: u64,
    /// Packets of them that did not.
    pub lost: u64,
    /// Packets that arrived once too often. Known frame by frame only.
    pub duplicated: Option<u64>,
    /// Frames that arrived and are none of the template's. Known frame by frame only.
    pub foreign: Option<u64>,
    /// Packets that arrived after a later one of their stream (RFC 4737 type-P-reordered). Known frame by frame only.
    pub reordered: Option<u64>,
    /// Frames that the receiver itself missed: above 0, losses may be its own.
    pub receiver_missed: u64,
    /// How far CLOCK_REALTIME, of which the kernel's times are, moved against CLOCK_MONOTONIC meanwhile, ns.
    pub clock_moved_ns: i64,
    /// Errors of gaps between packets that follow each other and both arrived.
    pub gap_error: Option<GapError>,
    /// Packets against the schedule.
    pub offset: Option<Offset>,
    /// Both readings of the DTRF paper's *timestamp error*.
    pub timestamp_error: Option<TimestampError>,
    /// Streams that were there at the same time. Not known of mode `count`.
    pub held: Option<Held>,
    /// What arrived in windows of time, beside what was to.
    pub windows: Vec<Window>,
    /// What arrived in windows of time, where nothing has a time to be held against.
    pub rates: Option<Rates>,
}

/// Compares.
pub fn judge(material: Material<'_>, sent: &Sent, heard: &Heard, mode: Mode) -> Judgement {
    let submitted = sent.sum(|tally| tally.submitted);
    let mut judgement = Judgement {
        mode,
        sent: submitted,
        arrived: 0,
        lost: 0,
        duplicated: None,
        foreign: None,
        reordered: None,
        receiver_missed: heard.dropped + heard.unkept,
        clock_moved_ns: heard.clock_moved,
        gap_error: None,
        offset: None,
        timestamp_error: None,
        held: None,
        windows: Vec::new(),
        rates: None,
    };
    if mode != Mode::Frames || submitted > MATCHED_MAX {
        let counted = heard.counts.last().map_or(heard.frames.len() as u64, |(_, packets)| *packets);
        judgement.arrived = counted.min(submitted);
        judgement.lost = submitted - judgement.arrived;
        judgement.rates = Rates::of_counts(&heard.counts);
        judgement.held = heard.streams.as_ref().and_then(Held::heard);
        return judgement;
    }
    let expected = Expected::of(material, sent);
    let start = if sent.path == Kind::Others { expected.start(heard) } else { sent.start };
    let matched = Matched::of(&expected, heard, start, sent.schedule.is_timed());
    judgement.arrived = matched.arrived();
    judgement.lost = submitted.saturating_sub(judgement.arrived);
    judgement.duplicated = Some(matched.duplicated);
    judgement.foreign = Some(matched.foreign);
    judgement.held = Held::of(&expected, &matched);
    judgement.reordered = Some(matched.reordered(&expected));
    if sent.schedule.is_timed() {
        judgement.gap_error = GapError::of(&expected, &matched);
        judgement.offset = Offset::of(&expected, &matched);
        judgement.timestamp_error = TimestampError::of(&expected, &matched);
        judgement.windows = Window::all(&expected, &matched);
    } else {
        let mut times: Vec<u64> = matched.times().collect();
        times.sort_unstable();
        let counts: Vec<_> = times.iter().zip(1u64..).map(|(time, packets)| (*time, packets)).collect();
        judgement.rates = Rates::of_counts(&counts);
    }
    judgement
}

#[cfg(test)]
mod tests;
