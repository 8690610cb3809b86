//! Payloads by reference: an actor names a recipe and a sequence number, and holds no bytes.
//!
//! The simulator reads the length alone; the emulator's carrier renders the bytes when it sends them. Both
//! therefore send exactly the same sizes in the same order.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::ids::RecipeId;
use crate::recording::FramePlace;
use crate::script::Script;

/// What travels over a link: a row of the recipe table, which of its items, and the length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    /// Application payload bytes, headers not included.
    pub bytes: u32,
    /// How the bytes are made.
    pub recipe: RecipeId,
    /// Which item of the recipe: a sequence or frame number.
    pub seq: u64,
}

impl Payload {
    /// No bytes.
    pub const EMPTY: Payload = Payload { bytes: 0, recipe: Payload::RECEIVED, seq: 0 };
    /// Stands in place of a recipe when the bytes came in from outside; the engine holds them with the exchange.
    pub const RECEIVED: RecipeId = RecipeId(u16::MAX);

    /// `bytes` bytes of `recipe`'s item `seq`.
    #[inline]
    pub const fn new(bytes: u32, recipe: RecipeId, seq: u64) -> Self {
        Payload { bytes, recipe, seq }
    }
}

/// What a recipe is told when it renders an item.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext {
    /// The item's sequence or frame number.
    pub seq: u64,
    /// The number of the sending instance within its group.
    pub member: u32,
    /// Unix time in nanoseconds at which the item is sent.
    pub epoch_ns: u64,
    /// The length to produce, in bytes, as announced in [`Payload::bytes`].
    pub bytes: u32,
}

/// A codec's packets as RTP has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtp {
    /// Payload type. Source: RFC 3551, tables 4 and 5.
    pub payload_type: u8,
    /// Rate of the clock that timestamps count.
    pub clock_hz: u32,
}

/// How payloads of one sort are made. Implemented by actors (text, acknowledgements) and by the media library (frames).
pub trait Recipe: Debug + Send + Sync {
    /// The media type that an HTTP carrier announces, such as `application/json`.
    fn content_type(&self) -> &'static str;

    /// Whether a receiver must refuse it. Lets a simulated receiver see malformed payloads too.
    fn malformed(&self) -> bool {
        false
    }

    /// Appends exactly `cx.bytes` bytes to `out`. Never called in a simulation.
    fn render(&self, cx: RenderContext, out: &mut BytesMut);

    /// How its datagrams stand in RTP, if they are a codec's: then their header is one that others know.
    fn rtp(&self) -> Option<Rtp> {
        None
    }

    /// The item's bytes when they exist already: a clone costs one reference count. Tried before [`Recipe::render`].
    fn shared(&self, seq: u64) -> Option<Bytes> {
        let _ = seq;
        None
    }

    /// Which of its items a whole frame is that came in, its Ethernet addresses left aside; of several it is the one nearest
    /// to item `next`. `None` if it is none.
    fn frame_place(&self, frame: &[u8], tag: Option<u16>, next: u64) -> Option<FramePlace> {
        let _ = (frame, tag, next);
        None
    }

    /// The script and the step that its items are bodies of, if a user's script makes them: the rest of the request, and what is
    /// wanted of its answer, stand there.
    fn step(&self) -> Option<(&Arc<Script>, u16)> {
        None
    }
}
