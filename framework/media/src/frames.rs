//! Prepared frames: what a camera sends, and what a simulator needs to know of it.

use std::sync::Arc;

use bytes::Bytes;

use crate::clip::FrameRate;
use crate::digest::{Sha, hex};
use crate::error::Note;

/// The sizes of all frames of a clip, in display order, and what they were made from. At least
/// one frame.
#[derive(Debug, Clone)]
pub struct FrameTable {
    pub(crate) sizes: Arc<[u32]>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rate: Option<FrameRate>,
    pub(crate) padded: u32,
    pub(crate) payload: Sha,
    pub(crate) notes: Vec<Note>,
}

impl FrameTable {
    /// Number of frames, at least 1 and at most [`crate::FRAMES_MAX`].
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// Size of each frame, in bytes.
    #[must_use]
    pub fn sizes(&self) -> Arc<[u32]> {
        Arc::clone(&self.sizes)
    }

    /// Size of the run's frame `index`, in bytes; the clip starts again after its last frame.
    #[must_use]
    pub fn bytes(&self, index: u64) -> u32 {
        self.sizes[wrap(index, self.sizes.len())]
    }

    /// Width of the first frame, in pixels.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height of the first frame, in pixels.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Frame rate of the clip, where its container states one.
    #[must_use]
    pub fn frame_rate(&self) -> Option<FrameRate> {
        self.rate
    }

    /// Number of frames that needed comment segments to reach the lower bound.
    #[must_use]
    pub fn padded(&self) -> u32 {
        self.padded
    }

    /// SHA-256 of all frames one after the other, in hexadecimal: two hosts with the same digest
    /// and the same sizes send the same bytes.
    #[must_use]
    pub fn digest(&self) -> String {
        hex(&self.payload)
    }

    /// What is worth telling about the preparation.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// A [`FrameTable`] with its frames, all in memory. Dereferences to the table; cheap to clone.
#[derive(Clone)]
pub struct PreparedFrames {
    table: FrameTable,
    /// Where each frame begins in `payload`, and where the last one ends.
    offsets: Arc<[usize]>,
    payload: Bytes,
}

impl PreparedFrames {
    /// Joins a table with its frames. `payload` has exactly the bytes that the table announces.
    pub(crate) fn new(table: FrameTable, payload: Bytes) -> Self {
        let ends = table.sizes.iter().scan(0, |end, &bytes| {
            *end += bytes as usize;
            Some(*end)
        });
        let offsets: Arc<[usize]> = std::iter::once(0).chain(ends).collect();
        assert_eq!(offsets.last(), Some(&payload.len()), "sizes add up");
        Self { table, offsets, payload }
    }

    /// The JPEG of the run's frame `index`; the clip starts again after its last frame. A slice
    /// of shared memory: nothing is copied.
    #[must_use]
    pub fn frame(&self, index: u64) -> Bytes {
        let at = wrap(index, self.table.sizes.len());
        self.payload.slice(self.offsets[at]..self.offsets[at + 1])
    }

    /// The table alone.
    #[must_use]
    pub fn table(&self) -> &FrameTable {
        &self.table
    }
}

impl std::fmt::Debug for PreparedFrames {
    /// The table and the number of bytes, not the bytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedFrames")
            .field("table", &self.table)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

impl std::ops::Deref for PreparedFrames {
    type Target = FrameTable;

    fn deref(&self) -> &FrameTable {
        &self.table
    }
}

fn wrap(index: u64, frames: usize) -> usize {
    (index % frames as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_slices_and_wrap_at_the_end() {
        let table = FrameTable {
            sizes: Arc::from([3u32, 0, 2]),
            width: 1,
            height: 1,
            rate: None,
            padded: 0,
            payload: [0; 32],
            notes: Vec::new(),
        };
        let frames = PreparedFrames::new(table, Bytes::from_static(b"abcde"));
        let run: Vec<_> = (0..5).map(|index| frames.frame(index)).collect();
        assert_eq!(run, [&b"abc"[..], b"", b"de", b"abc", b""]);
        assert_eq!(frames.bytes(5), 2);
        assert_eq!(frames.frame(u64::MAX).len(), frames.bytes(u64::MAX) as usize);
    }
}
