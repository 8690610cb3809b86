//! The receiver's side: is this body a JPEG, and which picture does it hold?
//!
//! [`check_header`] reads a few hundred bytes and is meant for every request. [`decode`] decodes
//! the whole picture and is meant for an analyzer that does what a real one would.
//!
//! Source of the layout: ITU-T T.81 Annex B.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::SIDE_MAX;

/// Bytes of a body's beginning that hold the frame header of every picture made by this crate
/// (it ends at byte 39), with room for other encoders' tables. Pictures with embedded previews
/// may need more.
pub const HEAD_BYTES: usize = 1_024;

/// Bytes of a body's end that [`check_header`] looks at.
pub const TAIL_BYTES: usize = 2;

/// What a JPEG's headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JpegInfo {
    /// Width, in pixels.
    pub width: u16,
    /// Height, in pixels.
    pub height: u16,
}

/// Why a body is not a JPEG picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not start with the SOI marker.
    #[error("no start-of-image marker")]
    NoStart,
    /// There is no marker where one must be, or its segment is too short.
    #[error("malformed segment at byte {offset}")]
    BadSegment {
        /// Where, counted from the start of the picture.
        offset: usize,
    },
    /// The frame header is not within the bytes that were given.
    #[error("no frame header within {bytes} bytes")]
    NoFrameHeader {
        /// How many bytes were given.
        bytes: usize,
    },
    /// The frame header announces no pixels.
    #[error("picture of {width}x{height} pixels")]
    NoPixels {
        /// Width, in pixels.
        width: u16,
        /// Height, in pixels.
        height: u16,
    },
    /// It does not end with the EOI marker: cut off, or with something behind it.
    #[error("no end-of-image marker at the end")]
    NoEnd,
    /// The decoder refused it.
    #[error("not decodable: {reason}")]
    Undecodable {
        /// What the decoder said.
        reason: String,
    },
}

/// Checks the structure of a picture from its first and its last bytes, without decoding it:
/// SOI, a clean walk over segments to the frame header, EOI at the very end.
///
/// `head` are the first bytes (best at least [`HEAD_BYTES`], or all), `tail` the last (at least
/// [`TAIL_BYTES`]); they may overlap or be the same slice. Constant time for a given head.
///
/// # Errors
///
/// The first [`Fault`] that is found; never [`Fault::Undecodable`].
pub fn check_header(head: &[u8], tail: &[u8]) -> Result<JpegInfo, Fault> {
    if !tail.ends_with(&[0xff, 0xd9]) {
        return Err(match head.starts_with(&[0xff, 0xd8]) {
            true => Fault::NoEnd,
            false => Fault::NoStart,
        });
    }
    let mut walk = Walk::new(head)?;
    while let Some(segment) = walk.next_segment()? {
        match segment.marker {
            0xc0..=0xcf if !matches!(segment.marker, 0xc4 | 0xc8 | 0xcc) => {
                return frame_header(segment);
            }
            // A scan or the end before any frame header.
            0xd9 | 0xda => {
                return Err(Fault::BadSegment { offset: segment.offset });
            }
            _ => {}
        }
    }
    Err(Fault::NoFrameHeader { bytes: head.len() })
}

/// Decodes a picture in full, with one thread, and throws the pixels away.
///
/// # Errors
///
/// A [`Fault`] of [`check_header`], or [`Fault::Undecodable`] with the decoder's reason. Pictures
/// with a side above [`SIDE_MAX`] are refused.
pub fn decode(jpeg: &[u8]) -> Result<JpegInfo, Fault> {
    let info = check_header(jpeg, jpeg)?;
    let side_max = SIDE_MAX as usize;
    let options = DecoderOptions::default().set_strict_mode(true).set_max_width(side_max).set_max_height(side_max);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(jpeg), options);
    let undecodable = |reason: String| Fault::Undecodable { reason };
    catch_unwind(AssertUnwindSafe(|| decoder.decode()))
        .map_err(|_| undecodable("the decoder panicked".into()))?
        .map_err(|error| undecodable(error.to_string()))?;
    Ok(info)
}

/// Where the first scan header's marker begins.
pub(crate) fn scan_offset(jpeg: &[u8]) -> Option<usize> {
    let mut walk = Walk::new(jpeg).ok()?;
    while let Some(segment) = walk.next_segment().ok()? {
        if segment.marker == 0xda {
            return Some(segment.offset);
        }
    }
    None
}

/// Reads the picture's size from a frame header (T.81 §B.2.2).
fn frame_header(segment: Segment<'_>) -> Result<JpegInfo, Fault> {
    let bad = Fault::BadSegment { offset: segment.offset };
    let &[_, h0, h1, w0, w1, components, ref rest @ ..] = segment.body else {
        return Err(bad);
    };
    if components == 0 || rest.len() != usize::from(components) * 3 {
        return Err(bad);
    }
    let width = u16::from_be_bytes([w0, w1]);
    let height = u16::from_be_bytes([h0, h1]);
    match width > 0 && height > 0 {
        true => Ok(JpegInfo { width, height }),
        false => Err(Fault::NoPixels { width, height }),
    }
}

/// One marker segment.
struct Segment<'a> {
    /// The byte after 0xFF.
    marker: u8,
    /// Where that 0xFF is.
    offset: usize,
    /// The segment without marker and length.
    body: &'a [u8],
}

/// Steps from segment to segment; not past a scan header.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        match bytes.starts_with(&[0xff, 0xd8]) {
            true => Ok(Self { bytes, at: 2 }),
            false => Err(Fault::NoStart),
        }
    }

    /// The next segment that is there in full, or `None` when the bytes end first.
    fn next_segment(&mut self) -> Result<Option<Segment<'a>>, Fault> {
        let bad = |offset| Err(Fault::BadSegment { offset });
        match self.bytes.get(self.at) {
            Some(0xff) => {}
            Some(_) => return bad(self.at),
            None => return Ok(None),
        }
        // Any number of fill bytes may stand in front of a marker.
        let fill = self.bytes[self.at..].iter().take_while(|&&byte| byte == 0xff);
        let code = self.at + fill.count();
        let Some(&marker) = self.bytes.get(code) else {
            return Ok(None);
        };
        let offset = code - 1;
        let body = match marker {
            0x00 | 0x02..=0xbf | 0xd0..=0xd8 => return bad(offset),
            0x01 | 0xd9 => code + 1..code + 1,
            _ => {
                let Some(&[high, low]) = self.bytes.get(code + 1..code + 3) else {
                    return Ok(None);
                };
                let length = usize::from(u16::from_be_bytes([high, low]));
                if length < 2 {
                    return bad(offset);
                }
                code + 3..code + 1 + length
            }
        };
        self.at = body.end;
        let segment = |body| Segment { marker, offset, body };
        Ok(self.bytes.get(body).map(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOI, a comment, a 640 × 480 frame header with one component, EOI.
    const SMALL: [u8; 25] =
        [0xff, 0xd8, 0xff, 0xfe, 0, 6, 1, 2, 3, 4, 0xff, 0xc0, 0, 11, 8, 1, 0xe0, 2, 0x80, 1, 1, 0x11, 0, 0xff, 0xd9];

    #[test]
    fn reads_the_size_from_the_frame_header() {
        let info = JpegInfo { width: 640, height: 480 };
        assert_eq!(check_header(&SMALL, &SMALL), Ok(info));
        assert_eq!(check_header(&SMALL[..23], &SMALL[23..]), Ok(info));
        assert_eq!(check_header(&SMALL[..22], &SMALL[23..]), Err(Fault::NoFrameHeader { bytes: 22 }));
    }

    #[test]
    fn names_each_fault() {
        let with = |at: usize, byte: u8| {
            let mut bytes = SMALL;
            bytes[at] = byte;
            check_header(&bytes, &bytes)
        };
        assert_eq!(check_header(&[], &[]), Err(Fault::NoStart));
        assert_eq!(with(1, 0xd7), Err(Fault::NoStart));
        assert_eq!(with(24, 0xd8), Err(Fault::NoEnd));
        assert_eq!(with(2, 0x00), Err(Fault::BadSegment { offset: 2 }));
        assert_eq!(with(5, 1), Err(Fault::BadSegment { offset: 2 }));
        assert_eq!(with(11, 0xda), Err(Fault::BadSegment { offset: 10 }));
        assert_eq!(with(19, 2), Err(Fault::BadSegment { offset: 10 }));
        assert_eq!(with(11, 0xc4), Err(Fault::BadSegment { offset: 23 }));
    }

    #[test]
    fn a_picture_without_pixels_is_a_fault() {
        let mut bytes = SMALL;
        bytes[17..19].fill(0);
        assert_eq!(check_header(&bytes, &bytes), Err(Fault::NoPixels { width: 0, height: 480 }));
    }

    #[test]
    fn headers_alone_do_not_decode() {
        assert!(matches!(decode(&SMALL), Err(Fault::Undecodable { .. })));
        assert_eq!(decode(b"hello"), Err(Fault::NoStart));
    }
}
