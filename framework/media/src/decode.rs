//! H.264 pictures out of a clip, in display order, one at a time.
//!
//! The decoder is driven picture by picture and single-threaded: pictures of a damaged stream
//! then do not depend on how many cores a machine has. Whatever the stream does to the decoder
//! comes back as an error, including a panic.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rust_h264::decoder::{Frame, OrderedDecoder};
use rust_h264::error::DecodeError;
use rust_h264::nal::{NalUnit, NalUnitType, SpsInfo, parse_avcc, parse_avcc_config, parse_sps_info};

use crate::SIDE_MAX;
use crate::clip::Track;
use crate::error::MediaError;
use crate::picture::Colour;

/// Largest picture, in luma samples. Source: H.264 Table A-1, MaxFS of level 5.2 (36 864
/// macroblocks of 256 samples, for example 4096 × 2304).
const SAMPLES_MAX: u64 = 36_864 * 256;

/// Pictures that may wait for an earlier one, unless the stream promises fewer. Source: H.264
/// §E.2.1, `max_num_reorder_frames` is at most MaxDpbFrames, which is at most 16.
const REORDER_MAX: u32 = 16;

/// Decodes a track from its first frame to its last.
pub(crate) struct Decoder {
    track: Arc<Track>,
    inner: OrderedDecoder,
    length_size: usize,
    colour: Colour,
    /// Coded frames already fed.
    fed: usize,
    flushed: bool,
    ready: VecDeque<Frame>,
    /// Pictures already given out.
    given: u32,
}

impl Decoder {
    /// Prepares to decode from the first frame.
    pub(crate) fn new(track: Arc<Track>) -> Result<Self, MediaError> {
        let config_track = Arc::clone(&track);
        let mut decoder = Self {
            inner: OrderedDecoder::new(),
            length_size: 4,
            colour: Colour::default(),
            fed: 0,
            flushed: false,
            ready: VecDeque::new(),
            given: 0,
            track,
        };
        let config = parse_avcc_config(&config_track.config);
        let config = config.map_err(|reason| decoder.damaged(reason))?;
        decoder.length_size = config.length_size;
        let mut depth = if config.sps_nals.is_empty() { REORDER_MAX } else { 1 };
        for nal in &config.sps_nals {
            let promised = decoder.inspect(nal)?.max_reorder_frames;
            depth = depth.max(promised.unwrap_or(REORDER_MAX)).min(REORDER_MAX);
        }
        decoder.inner = OrderedDecoder::with_max_depth(depth as usize);
        for nal in config.sps_nals.iter().chain(&config.pps_nals) {
            decoder.feed(nal)?;
        }
        Ok(decoder)
    }

    /// The next picture in display order, or `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<(Frame, Colour)>, MediaError> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                self.given += 1;
                // Keeps what depends on the index, such as the size of the table, true.
                if self.given as usize > self.track.samples.len() {
                    return Err(self.damaged("it holds more pictures than its index says"));
                }
                return Ok(Some((frame, self.colour)));
            }
            if self.flushed {
                return match self.given {
                    0 => Err(self.damaged("no picture came out")),
                    _ => Ok(None),
                };
            }
            self.advance()?;
        }
    }

    /// Feeds one more coded frame, or ends the stream.
    fn advance(&mut self) -> Result<(), MediaError> {
        let track = Arc::clone(&self.track);
        let Some(range) = track.samples.get(self.fed) else {
            self.flushed = true;
            let inner = AssertUnwindSafe(|| self.inner.flush());
            let frames = catch_unwind(inner).map_err(|_| self.damaged("the decoder panicked"))?;
            self.ready.extend(frames);
            return Ok(());
        };
        self.fed += 1;
        let sample = &track.clip.data[range.clone()];
        if !is_whole(sample, self.length_size) {
            return Err(self.damaged("a length inside a coded frame is wrong"));
        }
        let mut has_picture = false;
        for nal in parse_avcc(sample, self.length_size) {
            has_picture |= is_slice(&nal);
            self.feed(&nal)?;
        }
        match has_picture {
            true => Ok(()),
            false => Err(self.damaged("a coded frame holds no picture")),
        }
    }

    fn feed(&mut self, nal: &NalUnit<'_>) -> Result<(), MediaError> {
        if nal.nal_unit_type == NalUnitType::Sps {
            self.admit(nal)?;
        }
        let inner = AssertUnwindSafe(|| self.inner.decode_nal(nal));
        match catch_unwind(inner) {
            Ok(Ok(frames)) => self.ready.extend(frames),
            // Side information that the decoder cannot read costs no picture.
            Ok(Err(_)) if !is_needed(nal) => {}
            Ok(Err(DecodeError::Unsupported(reason))) => return Err(self.unsupported(reason)),
            Ok(Err(error)) => return Err(self.damaged(&error.to_string())),
            Err(_) => return Err(self.damaged("the decoder panicked")),
        }
        Ok(())
    }

    /// Checks a parameter set before the decoder allocates pictures for it.
    fn admit(&mut self, nal: &NalUnit<'_>) -> Result<(), MediaError> {
        let info = self.inspect(nal)?;
        let samples = u64::from(info.coded_width) * u64::from(info.coded_height);
        if info.coded_width.max(info.coded_height) > SIDE_MAX || samples > SAMPLES_MAX {
            let reason = format!("pictures of {}x{}", info.coded_width, info.coded_height);
            return Err(self.unsupported(&reason));
        }
        self.colour = Colour { matrix: info.matrix, full_range: info.full_range };
        Ok(())
    }

    fn inspect(&self, nal: &NalUnit<'_>) -> Result<SpsInfo, MediaError> {
        catch_unwind(AssertUnwindSafe(|| parse_sps_info(nal)))
            .map_err(|_| self.damaged("the sequence parameter set makes no sense"))?
            .map_err(|error| self.damaged(&error.to_string()))
    }

    fn damaged(&self, reason: &str) -> MediaError {
        MediaError::Damaged { path: self.track.clip.path.clone(), frames: self.given, reason: reason.to_owned() }
    }

    fn unsupported(&self, reason: &str) -> MediaError {
        MediaError::Unsupported { path: self.track.clip.path.clone(), reason: reason.to_owned() }
    }
}

fn is_slice(nal: &NalUnit<'_>) -> bool {
    matches!(nal.nal_unit_type, NalUnitType::Slice | NalUnitType::SliceIdr)
}

fn is_needed(nal: &NalUnit<'_>) -> bool {
    is_slice(nal) || matches!(nal.nal_unit_type, NalUnitType::Sps | NalUnitType::Pps)
}

/// Whether the length prefixes of a coded frame add up to its size.
fn is_whole(sample: &[u8], length_size: usize) -> bool {
    let mut rest = sample;
    while !rest.is_empty() {
        let Some((prefix, tail)) = rest.split_at_checked(length_size) else {
            return false;
        };
        let length = prefix.iter().fold(0usize, |n, &byte| n << 8 | usize::from(byte));
        let Some(tail) = tail.get(length..) else {
            return false;
        };
        rest = tail;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clip::Clip;
    use crate::digest::{hex, sha256};

    /// SHA-256 over the planes of all pictures, as `ffmpeg -i CLIP -f rawvideo -pix_fmt yuv420p -`
    /// writes them.
    fn planes(clip: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(clip);
        let clip = Arc::new(Clip::read(&path).unwrap());
        let mut decoder = Decoder::new(Arc::new(Track::open(clip).unwrap())).unwrap();
        let mut bytes = Vec::new();
        while let Some((frame, _)) = decoder.next().unwrap() {
            for plane in [frame.y, frame.u, frame.v] {
                bytes.extend_from_slice(&plane);
            }
        }
        hex(&sha256(&[&bytes]))
    }

    #[test]
    fn pictures_are_those_of_ffmpeg_bit_for_bit() {
        assert_eq!(planes("tests/data/tiny.mp4"), "e2739b0c222a40db7800f426482d221c96d780b8c9857e508922cf7340df3e41");
        assert_eq!(
            planes("../../configs/media/reference.mp4"),
            "5540196f89855ffdcdd31fcb60ba7bf5686d7deb8bfb147f859ea217ff61dc65"
        );
    }

    #[test]
    fn length_prefixes_must_add_up() {
        assert!(is_whole(&[], 4));
        assert!(is_whole(&[0, 0, 0, 2, 9, 9, 0, 0, 0, 0], 4));
        assert!(is_whole(&[1, 9, 2, 9, 9], 1));
        assert!(!is_whole(&[0, 0, 0, 3, 9, 9], 4));
        assert!(!is_whole(&[0, 0, 0, 1, 9, 9], 4));
    }
}
