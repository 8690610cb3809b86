//! Video in segments: what is loaded next, when, and at which rate, as players of MPEG-DASH (ISO/IEC 23009-1) do it.
//!
//! The rate of a segment is the highest that is at most a share of the throughput of the one before. Segments are loaded one
//! after the other until enough is loaded ahead, then one as soon as there is room for it.

use std::cmp::Reverse;
use std::sync::Arc;

use rand_distr::StandardNormal;
use rehearsal_core::{RngStream, Span, Time};

use super::{Traffic, What, Wish, Work};
use crate::diagram::Ending;
use crate::diagram::chain::Works;
use crate::diagram::module::{Kind, Module};
use crate::diagram::stationary::{Flow, pieces};

/// Play time of a segment. Assumed: between the 2 s and 10 s that are usual.
const SEGMENT: Span = Span::from_secs(4);
/// Play time that is loaded ahead. Assumed: what players keep.
const BUFFER: Span = Span::from_secs(30);
/// Coefficient of variation of sizes. Assumed.
const CV: f64 = 0.2;
/// The share of the throughput that a rate may take. Assumed: what throughput rules of players leave as a margin.
const SHARE: f64 = 0.8;
/// Most rates.
const LADDER_MAX: usize = 32;
/// Largest segment, bytes.
const BYTES_MAX: f64 = 16e6;

/// A video that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Video {
    /// Segments that are not there yet.
    left: u64,
    /// When the last one was asked for, and its bytes.
    asked: Time,
    bytes: u32,
    /// Until when what is there can be played.
    played: Time,
    /// Row of the rate.
    rung: usize,
}

impl Video {
    /// The first of so many segments is asked for.
    pub(super) fn new(segments: u64, now: Time, bytes: u32) -> Self {
        Video { left: segments, asked: now, bytes, played: now, rung: 0 }
    }
}

impl Traffic {
    /// A segment is there, or will not come.
    pub(super) fn segment_came(&mut self, user: u32, number: u32, now: Time, fine: bool, wishes: &mut Vec<Wish>) {
        if !fine {
            return self.fail(user, number, now, wishes);
        }
        let chain = Arc::clone(&self.chain);
        let Some(flow) = self.flow(user, number) else { return };
        let module = &chain.modules[usize::from(flow.module)].module;
        let Work::Dash(video) = &mut flow.work else { return };
        video.left = video.left.saturating_sub(1);
        // who had nothing left to play has stood still
        video.played = video.played.max(now).saturating_add(module.segment());
        video.rung = module.rung(f64::from(video.bytes) * 8.0, now.since(video.asked));
        let ahead = module.buffer() - module.segment();
        let next = Time::from_nanos(video.played.as_nanos().saturating_sub(ahead.as_nanos()));
        let left = video.left;
        if left == 0 {
            self.finish(user, now, Ending::Done, wishes);
        } else if next > now {
            self.due.push(Reverse((next, user, What::Parsed, number)));
        } else {
            self.ask_segment(user, number, now, wishes);
        }
    }

    pub(super) fn ask_segment(&mut self, user: u32, number: u32, at: Time, wishes: &mut Vec<Wish>) {
        let chain = Arc::clone(&self.chain);
        let Some(flow) = self.flow(user, number) else { return };
        let (module, Work::Dash(video)) = (flow.module, &flow.work) else { return };
        let bytes = chain.modules[usize::from(module)].segment_bytes(video.rung, self.crowd.rng(user));
        if let Some(Work::Dash(video)) = self.flow(user, number).map(|flow| &mut flow.work) {
            (video.asked, video.bytes) = (at, bytes);
        }
        wishes.push(Wish::Load { at, user, module, flow: number, bytes });
    }
}

impl Module {
    pub(super) fn segment(&self) -> Span {
        self.segment.unwrap_or(SEGMENT)
    }

    pub(super) fn buffer(&self) -> Span {
        self.buffer.unwrap_or(BUFFER)
    }

    /// The rate that a throughput allows; the lowest, if it allows none.
    fn rung(&self, bits: f64, took: Span) -> usize {
        let allowed = bits / took.as_secs_f64().max(1e-9) * SHARE;
        self.ladder.iter().rposition(|rate| rate.0 as f64 <= allowed).unwrap_or(0)
    }

    /// What cannot be in a video of segments.
    pub(in crate::diagram) fn dash_fault(&self) -> Option<(&'static str, String)> {
        if self.kind != Kind::Dash {
            return None;
        }
        let (segment, buffer) = (self.segment(), self.buffer());
        if self.ladder.len() > LADDER_MAX || self.ladder.windows(2).any(|pair| pair[1] <= pair[0]) {
            return Some(("ladder", format!("at most {LADDER_MAX} rates, from the lowest to the highest")));
        }
        if !(Span::from_millis(100)..=Span::from_secs(60)).contains(&segment) {
            return Some(("segment", "a segment plays 100ms to 60s".to_owned()));
        }
        if buffer < segment || buffer > Span::from_secs(3600) {
            return Some(("buffer", "a buffer holds a segment at least, and an hour at most".to_owned()));
        }
        if !(0.0..=2.0).contains(&self.cv.unwrap_or(CV)) {
            return Some(("cv", "`cv` must be from 0 to 2".to_owned()));
        }
        let largest = self.ladder.last().map_or(0.0, |rate| rate.0 as f64 / 8.0 * segment.as_secs_f64());
        (largest > BYTES_MAX).then(|| ("ladder", "a segment of the highest rate has at most 16 MB".to_owned()))
    }
}

impl Works {
    /// Segments of a video.
    pub(super) fn segments(&self, rng: &mut RngStream) -> u64 {
        let segment = self.module.segment().as_nanos();
        let drawn = self.lasts.as_ref().map(|lasts| lasts.whole(rng).div_ceil(segment));
        drawn.or(self.module.count).unwrap_or(1).max(1)
    }

    /// Bytes of a segment at a rate of the ladder.
    pub(super) fn segment_bytes(&self, rung: usize, rng: &mut RngStream) -> u32 {
        let rate = self.module.ladder.get(rung).map_or(0.0, |rate| rate.0 as f64);
        let variance = self.module.cv.unwrap_or(CV).powi(2).ln_1p();
        let spread = (variance.sqrt() * rng.sample::<f64, _>(&StandardNormal) - variance / 2.0).exp();
        let bytes = rate / 8.0 * self.module.segment().as_secs_f64() * spread;
        bytes.round().clamp(1.0, 4.0 * BYTES_MAX) as u32
    }

    /// A video at its highest rate, over a network that takes no time.
    pub(in crate::diagram) fn video(&self) -> Flow {
        let (segment, ahead) = (self.module.segment(), self.module.buffer());
        let rate = self.module.ladder.last().map_or(0.0, |rate| rate.0 as f64);
        // segments after the first so many wait for room
        let ahead = ahead.as_nanos() as f64 / segment.as_nanos() as f64;
        let (segments, waiting) = match &self.lasts {
            Some(lasts) => {
                let all = pieces(&lasts.law, segment.as_nanos() as f64);
                let first: f64 = (0..ahead.floor() as u32)
                    .map(|k| lasts.law.survival(f64::from(k) * segment.as_nanos() as f64))
                    .sum();
                (all, all - first)
            }
            None => {
                let count = self.module.count.unwrap_or(1) as f64;
                (count, (count - ahead).max(0.0))
            }
        };
        let play_s = segment.as_secs_f64();
        Flow { seconds: waiting * play_s, packets: segments, bytes: segments * rate / 8.0 * play_s }
    }
}
