//! Recordings: what a template of captured packets tells a sender, so that both engines replay the same.
//!
//! A kind asks for one by a [`TemplateRequest`]; whoever assembles a run reads the template and hands a [`Recording`] over.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::RecipeId;
use crate::time::Span;

/// Packets of one recording at most, all sides together. Assumed: its table of 24 bytes each stays below 400 MB.
pub const PACKETS_MAX: u32 = 1 << 24;

/// How fast a template is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At its own times, divided by this.
    Speed(f64),
    /// Evenly, so many packets of the template per second.
    Packets(f64),
    /// So many bits of the template's frames per second.
    Bits(f64),
}

/// Whose packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Everybody's.
    #[default]
    Both,
    /// Those of the sides that opened the streams.
    Client,
    /// Those of the others.
    Server,
}

/// A template as a sender asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateRequest {
    /// A file relative to the experiment, or a name in the library, `name@digits`.
    pub template: String,
    /// How fast.
    pub pace: Pace,
    /// Longer gaps of the template are cut to this.
    pub gap_max: Option<Span>,
    /// From the last packet of a loop to the first of the next; the mean gap if it is not said.
    pub loop_gap: Option<Span>,
    /// Whose packets.
    pub side: Side,
    /// Changes to copies of packets, each `key=value`.
    pub edit: Vec<String>,
    /// Whether whole frames are sent, or what their transport carries.
    pub frames: bool,
}

/// One packet of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it is due after its loop began.
    pub at: Span,
    /// Its length as it is sent: of the frame, or of the payload.
    pub bytes: u32,
    /// The template's stream that it belongs to.
    pub stream: u32,
    /// Which of its stream in this loop, from 0.
    pub place: u32,
}

/// A template as a sender gets it.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Renders packet `number` = loop × packets + place in the loop.
    pub recipe: RecipeId,
    /// The packets of one loop in the order of time; never empty.
    pub packets: Arc<[Recorded]>,
    /// Packets of each stream in one loop; streams that the chosen side never sends in have none.
    pub streams: Arc<[u32]>,
    /// From the beginning of a loop to that of the next.
    pub period: Span,
}

impl Recording {
    /// Packets per second in the mean, over whole loops; `None` if a loop takes no time.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.period.as_secs_f64();
        (seconds > 0.0).then(|| self.packets.len() as f64 / seconds)
    }

    /// Bytes of a packet in the mean.
    pub fn mean_bytes(&self) -> f64 {
        let all: u64 = self.packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        all as f64 / self.packets.len().max(1) as f64
    }
}

/// Which packet of a sender a frame is that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// Of all its loops, from 0.
    pub number: u64,
    /// The template's stream.
    pub stream: u32,
    /// Which of its stream, of all loops.
    pub seq: u64,
    /// Its length as it was sent.
    pub bytes: u32,
    /// Whether it may be sent again, so that another one like it is no duplicate of it.
    pub repeats: bool,
}
