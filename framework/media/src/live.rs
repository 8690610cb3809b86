//! Decodes and encodes while the run goes on, for experiments that measure this work too.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::clip::{Clip, FrameRate, Track};
use crate::decode::Decoder;
use crate::encode::QUALITY_GUESS;
use crate::error::MediaError;
use crate::prepare::encode_frame;
use crate::spec::FrameSpec;

/// A camera's encoder: one call, one frame, from the start of the clip again after its end.
///
/// Frame `n` aims at the same size as frame `n` of [`crate::prepare`] and, as the search ends at
/// the same quality wherever it starts, is the same JPEG. Each call decodes one picture (a few
/// the first time, until the display order is known) and encodes it two to four times: at
/// 1280 × 720 some 20 to 40 ms of one core. Call it from a thread that may wait, never from one
/// that paces.
pub struct LiveEncoder {
    spec: FrameSpec,
    track: Arc<Track>,
    decoder: Decoder,
    /// Frames since the clip's start.
    index: u32,
    /// Quality of the previous frame: the first guess for the next.
    quality: u8,
    padded: u64,
}

impl LiveEncoder {
    /// Opens the clip and checks that it can be decoded at all.
    ///
    /// # Errors
    ///
    /// [`MediaError`]: the clip cannot be read, is no H.264 MP4, or the bounds are no range.
    pub fn open(spec: &FrameSpec) -> Result<Self, MediaError> {
        spec.check()?;
        let clip = Arc::new(Clip::read(&spec.path)?);
        let track = Arc::new(Track::open(clip)?);
        Ok(Self {
            spec: spec.clone(),
            decoder: Decoder::new(Arc::clone(&track))?,
            track,
            index: 0,
            quality: QUALITY_GUESS,
            padded: 0,
        })
    }

    /// The next frame.
    ///
    /// # Errors
    ///
    /// [`MediaError`]: the stream is damaged here, or the frame does not fit the bounds. What
    /// follows is then undefined but harmless; a run should end or go back to [`Self::open`].
    pub fn encode_next(&mut self) -> Result<Bytes, MediaError> {
        let (frame, colour) = match self.decoder.next()? {
            Some(next) => next,
            None => {
                self.decoder = Decoder::new(Arc::clone(&self.track))?;
                self.index = 0;
                let first = self.decoder.next()?;
                first.expect("a decoder that gives no picture at all gives an error")
            }
        };
        let clip = &self.track.clip;
        let encoded = encode_frame(&self.spec, clip, self.index, &frame, colour, self.quality)?;
        self.index += 1;
        self.quality = encoded.quality;
        self.padded += u64::from(encoded.padded);
        Ok(Bytes::from(encoded.jpeg))
    }

    /// Frames so far that needed comment segments to reach the lower bound.
    #[must_use]
    pub fn padded(&self) -> u64 {
        self.padded
    }

    /// Frame rate of the clip, where its container states one.
    #[must_use]
    pub fn frame_rate(&self) -> Option<FrameRate> {
        self.track.rate
    }

    /// The clip.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.spec.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn may_move_to_another_thread() {
        fn needs_send<T: Send>() {}
        needs_send::<LiveEncoder>();
    }
}
