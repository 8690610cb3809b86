//! Makes a JPEG larger without changing its picture.
//!
//! Comment segments go before the scan header, a place where tables and miscellaneous segments
//! are allowed (T.81 §B.2.1) and after the frame header, so that a receiver that looks at the
//! first bytes still finds the picture's size. One to three bytes, too few for a segment, become
//! fill bytes in front of a marker (T.81 §B.1.1.2).

use crate::jpeg;

/// Largest segment with its marker: the length field counts itself and has 16 bits.
const SEGMENT_MAX: usize = 2 + 0xffff;

/// Smallest segment with its marker: marker, length, nothing.
const SEGMENT_MIN: usize = 4;

/// Inserts padding so that the file has `bytes` bytes. A file that is already as large stays.
pub(super) fn to(jpeg: Vec<u8>, bytes: usize) -> Vec<u8> {
    let at = jpeg::scan_offset(&jpeg).expect("the encoder writes a scan header");
    let mut missing = bytes.saturating_sub(jpeg.len());
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&jpeg[..at]);
    while missing >= SEGMENT_MIN {
        let mut take = missing.min(SEGMENT_MAX);
        if (1..SEGMENT_MIN).contains(&(missing - take)) {
            take -= SEGMENT_MIN;
        }
        let length = u16::try_from(take - 2).expect("take is at most SEGMENT_MAX");
        out.extend_from_slice(&[0xff, 0xfe]);
        out.extend_from_slice(&length.to_be_bytes());
        out.resize(out.len() + take - SEGMENT_MIN, 0);
        missing -= take;
    }
    out.resize(out.len() + missing, 0xff);
    out.extend_from_slice(&jpeg[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shortest thing that has a frame header and a scan header.
    fn tiny() -> Vec<u8> {
        let mut jpeg = vec![0xff, 0xd8];
        jpeg.extend([0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0]);
        jpeg.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x7f, 0xff, 0xd9]);
        jpeg
    }

    #[test]
    fn every_amount_is_reached_exactly_and_parses() {
        let plain = tiny();
        let amounts = (0..40).chain(65_530..65_550).chain([131_073, 131_074, 131_075, 200_000]);
        for amount in amounts {
            let padded = to(plain.clone(), plain.len() + amount);
            assert_eq!(padded.len(), plain.len() + amount);
            let scan = jpeg::scan_offset(&padded).expect("still walks to the scan");
            assert_eq!(padded[scan..], plain[15..], "amount {amount}");
            assert!(jpeg::check_header(&padded, &padded).is_ok());
        }
    }

    #[test]
    fn a_file_that_is_large_enough_stays() {
        assert_eq!(to(tiny(), 10), tiny());
    }
}
