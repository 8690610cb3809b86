//! What users send: bytes that differ from one to the next and mean nothing.

use bytes::BytesMut;
use rehearsal_core::Recipe;
use rehearsal_core::payload::{RenderContext, Rtp};
use rehearsal_models::diagram::module::Codec;

/// The pattern that fills payloads.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// Packets, requests for objects, and files. Datagrams have the carrier's header (experiment, actor, stream, number, times) in
/// their first 32 bytes; a codec's packets begin with RTP there.
#[derive(Debug)]
pub(super) struct Content(pub Option<Codec>);

/// Payload types, and the clock of all. Sources: RFC 3551; AMR has none of its own (RFC 4867), nor G.726 at 32 kbit/s any more.
fn rtp(codec: Codec) -> Rtp {
    let payload_type = match codec {
        Codec::G711 => 0,
        Codec::G7231 => 4,
        Codec::G729 => 18,
        Codec::G726 => 96,
        Codec::Amr122 => 97,
    };
    Rtp { payload_type, clock_hz: 8000 }
}

impl Recipe for Content {
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
    }

    fn rtp(&self) -> Option<Rtp> {
        self.0.map(rtp)
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        let (mut from, mut left) = ((cx.seq % LETTERS.len() as u64) as usize, cx.bytes as usize);
        out.reserve(left);
        while left > 0 {
            let count = left.min(LETTERS.len() - from);
            out.extend_from_slice(&LETTERS[from..from + count]);
            (from, left) = (0, left - count);
        }
    }
}
