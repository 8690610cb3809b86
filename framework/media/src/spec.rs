//! What an experiment asks for: a clip, and how large its frames shall be.

use std::path::PathBuf;

use crate::MediaError;
use crate::digest::{Sha, draw, sha256};

/// Smallest upper bound that is accepted, in bytes: the headers and tables of a baseline colour
/// JPEG alone have about 620 bytes.
const BYTES_MAX_SMALLEST: u32 = 1_000;

/// A clip and the bounds of one frame's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSpec {
    /// The clip: an MP4 file with an H.264 video track.
    pub path: PathBuf,
    /// Smallest frame, in bytes, inclusive.
    pub bytes_min: u32,
    /// Largest frame, in bytes, inclusive.
    pub bytes_max: u32,
}

impl FrameSpec {
    /// Checks that the bounds are a range that a JPEG can lie in.
    pub(crate) fn check(&self) -> Result<(), MediaError> {
        if self.bytes_min > self.bytes_max || self.bytes_max < BYTES_MAX_SMALLEST {
            return Err(MediaError::BadBounds {
                bytes_min: self.bytes_min,
                bytes_max: self.bytes_max,
                smallest: BYTES_MAX_SMALLEST,
            });
        }
        Ok(())
    }

    /// The size to aim for with one frame: uniform over the bounds, and a function of the clip,
    /// the bounds and the frame's index alone, so that every host draws the same sizes.
    pub(crate) fn target(&self, clip: &Sha, index: u32) -> Target {
        let sha = sha256(&[
            b"rehearsal frame size",
            clip,
            &self.bytes_min.to_le_bytes(),
            &self.bytes_max.to_le_bytes(),
            &index.to_le_bytes(),
        ]);
        let span = u128::from(self.bytes_max - self.bytes_min) + 1;
        let offset = (u128::from(draw(&sha)) * span) >> 64;
        Target {
            bytes: self.bytes_min + u32::try_from(offset).expect("offset is at most max - min"),
            bytes_min: self.bytes_min,
            bytes_max: self.bytes_max,
        }
    }
}

/// The size drawn for one frame, within its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// Size to come close to, in bytes.
    pub bytes: u32,
    /// Lower bound, in bytes.
    pub bytes_min: u32,
    /// Upper bound, in bytes.
    pub bytes_max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(bytes_min: u32, bytes_max: u32) -> FrameSpec {
        FrameSpec { path: "clip.mp4".into(), bytes_min, bytes_max }
    }

    #[test]
    fn targets_are_spread_evenly_over_the_bounds() {
        let spec = spec(100_000, 199_999);
        let mut tenths = [0u32; 10];
        for index in 0..10_000 {
            let target = spec.target(&[7; 32], index);
            tenths[((target.bytes - 100_000) / 10_000) as usize] += 1;
        }
        // Binomial(10 000, 0.1) has σ = 30; five σ on either side.
        assert!(tenths.iter().all(|n| (850..=1150).contains(n)), "{tenths:?}");
    }

    #[test]
    fn targets_depend_on_clip_bounds_and_index_only() {
        let wide = spec(100_000, 200_000);
        assert_eq!(wide.target(&[1; 32], 5), wide.target(&[1; 32], 5));
        assert_ne!(wide.target(&[1; 32], 5), wide.target(&[1; 32], 6));
        assert_ne!(wide.target(&[1; 32], 5), wide.target(&[2; 32], 5));
        assert_eq!(spec(5_000, 5_000).target(&[1; 32], 3).bytes, 5_000);
        let all = spec(0, u32::MAX).target(&[3; 32], 0);
        assert!(all.bytes > 0);
    }

    #[test]
    fn empty_and_tiny_bounds_are_refused() {
        assert!(spec(200, 100).check().is_err());
        assert!(spec(0, 999).check().is_err());
        assert!(spec(0, 1_000).check().is_ok());
    }
}
