//! What users send: bytes that differ from one to the next and mean nothing.

use bytes::BytesMut;
use rehearsal_core::Recipe;
use rehearsal_core::payload::RenderContext;

/// The pattern that fills payloads.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// Packets, requests for objects, and files. Datagrams have the carrier's header (experiment, actor, stream, number, times) in
/// their first 32 bytes, where a codec's packets have RTP.
#[derive(Debug)]
pub(super) struct Content;

impl Recipe for Content {
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
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
