//! JPEG at a wanted size: find the quality that comes closest, and pad only where none does.
//!
//! A JPEG's size grows with its quality, so the search keeps the best quality at or below the
//! target and the first one above it, and ends when these two are neighbours. The guesses in
//! between follow the usual shape of the curve (size ~ quantiser scale to a power), which takes
//! three or four encodings instead of seven. The result does not depend on the first guess as
//! long as the size grows with quality.

mod pad;

use jpeg_encoder::{Encoder, EncodingError, ImageBuffer, JpegColorType, SamplingFactor};

use crate::picture::Picture;
use crate::spec::Target;

/// Names everything that decides the bytes of a frame; part of the cache key. To be raised with
/// every change to the decoder, the colours, the search or the padding.
pub(crate) const ENCODER_VERSION: &str = "1 rust_h264 0.6, jpeg-encoder 0.7";

/// First guess for a frame about which nothing is known.
pub(crate) const QUALITY_GUESS: u8 = 80;

/// How the size falls with the quantiser scale, before there are two sizes to tell. Measured on
/// the reference clip; a wrong value costs encodings, not quality.
const EXPONENT_GUESS: f64 = 0.75;

/// Guesses by the curve before plain bisection takes over.
const CURVE_GUESSES: u32 = 6;

/// One encoded frame.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    /// A complete JPEG file.
    pub jpeg: Vec<u8>,
    /// Its quality, 1 to 100.
    pub quality: u8,
    /// Whether comment segments were needed to reach the lower bound.
    pub padded: bool,
}

/// Why a picture could not be encoded to its bounds.
#[derive(Debug)]
pub(crate) enum EncodeError {
    /// At quality 1 it still has this many bytes.
    Unreachable { bytes_smallest: u32 },
    /// The encoder refused.
    Refused(String),
}

impl From<EncodingError> for EncodeError {
    fn from(error: EncodingError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Encodes `picture` as close to the target as its quality allows, inside the bounds.
pub(crate) fn encode_to(picture: &Picture, target: Target, guess: u8) -> Result<Encoded, EncodeError> {
    let mut search = Search::default();
    let mut quality = guess.clamp(1, 100);
    for round in 1.. {
        search.add(quality, encode(picture, quality)?, target.bytes);
        match search.next(target.bytes, round) {
            Some(next) => quality = next,
            None => break,
        }
    }
    search.choose(target)
}

/// Encodes at one quality, with the chroma resolution that the picture has.
fn encode(picture: &Picture, quality: u8) -> Result<Vec<u8>, EncodingError> {
    let mut jpeg = Vec::with_capacity(256 << 10);
    let mut encoder = Encoder::new(&mut jpeg, quality);
    encoder.set_sampling_factor(match picture.rows_per_chroma {
        1 => SamplingFactor::F_2_1,
        _ => SamplingFactor::F_2_2,
    });
    encoder.encode_image(Rows(picture))?;
    Ok(jpeg)
}

/// Hands a picture to the encoder row by row. The encoder takes the first chroma sample of each
/// group, and all samples of a group are the same one.
struct Rows<'a>(&'a Picture);

impl ImageBuffer for Rows<'_> {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        JpegColorType::Ycbcr
    }

    fn width(&self) -> u16 {
        self.0.width
    }

    fn height(&self) -> u16 {
        self.0.height
    }

    fn fill_buffers(&self, y: u16, buffers: &mut [Vec<u8>; 4]) {
        let width = usize::from(self.0.width);
        let row = |plane: &[u8], row: usize| row * width..((row + 1) * width).min(plane.len());
        let [luma, cb, cr, _] = buffers;
        let y = usize::from(y);
        luma.extend_from_slice(&self.0.luma[row(&self.0.luma, y)]);
        for (out, plane) in [cb, cr].into_iter().zip(&self.0.chroma) {
            out.extend_from_slice(&plane[row(plane, y / self.0.rows_per_chroma)]);
        }
    }
}

/// The two encodings that enclose the target so far.
#[derive(Default)]
struct Search {
    below: Option<(u8, Vec<u8>)>,
    above: Option<(u8, Vec<u8>)>,
}

impl Search {
    fn add(&mut self, quality: u8, jpeg: Vec<u8>, target: u32) {
        let side = match jpeg.len() as u64 <= u64::from(target) {
            true => &mut self.below,
            false => &mut self.above,
        };
        *side = Some((quality, jpeg));
    }

    /// The quality to try next, or `None` when the two sides are neighbours.
    fn next(&self, target: u32, round: u32) -> Option<u8> {
        let first = self.below.as_ref().map_or(1, |(quality, _)| quality + 1);
        let last = self.above.as_ref().map_or(100, |(quality, _)| quality - 1);
        if first > last {
            return None;
        }
        let guess = match round {
            ..=CURVE_GUESSES => self.on_curve(f64::from(target)),
            _ => first.midpoint(last),
        };
        Some(guess.clamp(first, last))
    }

    /// Where the curve through the known sizes meets the target.
    fn on_curve(&self, target: f64) -> u8 {
        let point = |(quality, jpeg): &(u8, Vec<u8>)| (scale(*quality).ln(), (jpeg.len() as f64).ln());
        let below = self.below.as_ref().map(point);
        let above = self.above.as_ref().map(point);
        let (x, y) = below.or(above).unwrap_or((0.0, target.ln()));
        let slope = match (below, above) {
            (Some(a), Some(b)) if a.0 != b.0 => (b.1 - a.1) / (b.0 - a.0),
            _ => -EXPONENT_GUESS,
        };
        quality((x + (target.ln() - y) / slope.min(-0.05)).exp())
    }

    /// The closer side, if it lies inside the bounds.
    fn choose(self, target: Target) -> Result<Encoded, EncodeError> {
        let bytes = |side: &(u8, Vec<u8>)| u32::try_from(side.1.len()).unwrap_or(u32::MAX);
        let below = self.below.as_ref().map(bytes);
        let above = self.above.as_ref().map(bytes);
        let gap_below = below.filter(|&n| n >= target.bytes_min).map(|n| target.bytes - n);
        let gap_above = above.filter(|&n| n <= target.bytes_max).map(|n| n - target.bytes);
        let takes_above = match (gap_below, gap_above) {
            (Some(below), Some(above)) => above < below,
            (None, above) => above.is_some(),
            (Some(_), None) => false,
        };
        let side = if takes_above { self.above } else { self.below };
        let Some((quality, jpeg)) = side else {
            return Err(EncodeError::Unreachable { bytes_smallest: above.unwrap_or(u32::MAX) });
        };
        if takes_above || gap_below.is_some() {
            return Ok(Encoded { jpeg, quality, padded: false });
        }
        Ok(Encoded { jpeg: pad::to(jpeg, target.bytes as usize), quality, padded: true })
    }
}

/// Quantiser scale in percent at a quality, as the encoder (like the IJG library) defines it.
fn scale(quality: u8) -> f64 {
    let quality = f64::from(quality);
    match quality < 50.0 {
        true => 5_000.0 / quality,
        false => (200.0 - 2.0 * quality).max(1.0),
    }
}

/// The largest quality whose scale is at least `scale`.
fn quality(scale: f64) -> u8 {
    let quality = match scale > 100.0 {
        true => 5_000.0 / scale,
        false => (200.0 - scale) / 2.0,
    };
    quality.clamp(1.0, 100.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jpeg;

    /// A picture with detail everywhere: pseudo-random luma over a gradient.
    fn noisy(width: u16, height: u16) -> Picture {
        let (w, h) = (usize::from(width), usize::from(height));
        let mut state = 1u32;
        let luma = (0..w * h).map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((at % w) as u32 * 128 / w as u32 + (state >> 25)) as u8
        });
        Picture {
            width,
            height,
            luma: luma.collect(),
            chroma: [vec![110; w * h.div_ceil(2)], vec![140; w * h.div_ceil(2)]],
            rows_per_chroma: 2,
        }
    }

    fn flat() -> Picture {
        Picture { luma: vec![90; 64 * 48], ..noisy(64, 48) }
    }

    fn target(bytes_min: u32, bytes: u32, bytes_max: u32) -> Target {
        Target { bytes, bytes_min, bytes_max }
    }

    #[test]
    fn finds_the_closest_quality_from_any_guess() {
        let picture = noisy(160, 120);
        let want = target(5_000, 9_000, 16_000);
        let sizes: Vec<_> = (1..=100).map(|q| encode(&picture, q).unwrap().len()).collect();
        let best = sizes.iter().map(|n| n.abs_diff(9_000)).min().unwrap();
        for guess in [1, 20, 50, 80, 95, 100] {
            let found = encode_to(&picture, want, guess).unwrap();
            assert_eq!(found.jpeg.len().abs_diff(9_000), best, "guess {guess}");
            assert!(!found.padded);
        }
    }

    #[test]
    fn the_curve_saves_encodings() {
        let picture = noisy(160, 120);
        let mut search = Search::default();
        let (mut quality, mut rounds) = (QUALITY_GUESS, 0);
        loop {
            rounds += 1;
            search.add(quality, encode(&picture, quality).unwrap(), 9_000);
            match search.next(9_000, rounds) {
                Some(next) => quality = next,
                None => break,
            }
        }
        assert!(rounds <= 6, "{rounds} encodings");
    }

    #[test]
    fn smooth_pictures_are_padded_to_their_target() {
        for bytes in [2_000, 2_001, 66_000, 140_001] {
            let found = encode_to(&flat(), target(2_000, bytes, 200_000), 80).unwrap();
            assert_eq!(found.jpeg.len(), bytes as usize);
            assert!(found.padded);
            let info = jpeg::decode(&found.jpeg).expect("still a JPEG");
            assert_eq!((info.width, info.height), (64, 48));
        }
    }

    #[test]
    fn a_bound_below_the_smallest_picture_is_named() {
        let error = encode_to(&noisy(160, 120), target(100, 500, 1_000), 80).unwrap_err();
        match error {
            EncodeError::Unreachable { bytes_smallest } => assert!(bytes_smallest > 1_000),
            EncodeError::Refused(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn a_size_above_the_target_is_taken_when_it_is_the_only_one_inside() {
        let picture = noisy(160, 120);
        let smallest = u32::try_from(encode(&picture, 1).unwrap().len()).unwrap();
        let found = encode_to(&picture, target(100, smallest - 10, smallest + 10), 80).unwrap();
        assert_eq!((found.jpeg.len(), found.quality), (smallest as usize, 1));
    }
}
