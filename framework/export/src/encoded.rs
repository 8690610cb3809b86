//! Histograms as reports hold them: HdrHistogram V2, plain or compressed, as bytes or in base64 as other languages'
//! libraries write it. What a broken or hostile one could cost is bounded before it is decoded.

use std::borrow::Cow;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rehearsal_core::parts::buckets::{NS_MAX, Shape, V2_COOKIE, V2_HEADER_BYTES, encode_v2};
use thiserror::Error;

use crate::merged::Merged;

/// First bytes of the plain form, with words of 8 bytes.
const PLAIN: [u8; 4] = V2_COOKIE.to_be_bytes();
/// First bytes of the compressed form.
pub(crate) const COMPRESSED: [u8; 4] = [0x1C, 0x84, 0x93, 0x14];
/// What base64 makes of either.
const BASE64: &[u8] = b"HIST";
/// Length of the plain form before its counts.
const HEADER: usize = V2_HEADER_BYTES;
/// Longest plain form, bytes: all counts that three digits tell apart in 64 bits, each of the longest form.
const BYTES_MAX: usize = 1 << 20;
/// Significant digits, as in our own: memory grows tenfold with each.
const DIGITS_MAX: u32 = 3;
/// Values in one second of one metric. Assumed: a thousand times what any generator records.
const VALUES_MAX: u64 = 1 << 32;

/// Why bytes are no histogram that a report may hold.
#[derive(Debug, Error)]
pub(crate) enum EncodedError {
    /// No form that is known.
    #[error("it is no HdrHistogram V2, neither plain nor compressed nor in base64")]
    Form,
    /// Not the base64 that it seems to be.
    #[error("its base64 is broken: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Not the zlib that it says it is.
    #[error("it cannot be decompressed: {0}")]
    Zlib(#[from] std::io::Error),
    /// More than any histogram needs.
    #[error("it is longer than {BYTES_MAX} bytes")]
    Long,
    /// Shorter or longer than it says.
    #[error("its length is not what it says")]
    Length,
    /// More digits than are kept.
    #[error("it has {digits} significant digits, at most {DIGITS_MAX} are taken")]
    Digits {
        /// What it has.
        digits: u32,
    },
    /// Counts that no second can hold.
    #[error("its counts are beyond {VALUES_MAX}")]
    Counts,
    /// What the library says.
    #[error("{0}")]
    Library(String),
}

/// Reads any of the forms into buckets of `shape`.
///
/// # Errors
/// [`EncodedError`] says what is wrong with it.
pub(crate) fn decode(bytes: &[u8], shape: Shape, decoder: &mut Deserializer) -> Result<Merged, EncodedError> {
    if bytes.len() > BYTES_MAX {
        return Err(EncodedError::Long);
    }
    let bytes = if bytes.starts_with(BASE64) { Cow::Owned(STANDARD.decode(bytes)?) } else { Cow::Borrowed(bytes) };
    let plain = if bytes.starts_with(&COMPRESSED) { Cow::Owned(inflate(&bytes)?) } else { bytes };
    check(&plain)?;
    if let Some(buckets) = own(&plain, shape) {
        return Ok(buckets);
    }
    let histogram: Result<Histogram<u64>, _> = decoder.deserialize(&mut &*plain);
    let histogram = histogram.map_err(|why| EncodedError::Library(why.to_string()))?;
    let values = histogram.iter_recorded().map(|b| (b.value_iterated_to(), b.count_since_last_iteration()));
    Ok(Merged::of(shape, values))
}

/// What has the shape that is wanted, and so the header that we write, needs no library to be read.
fn own(plain: &[u8], shape: Shape) -> Option<Merged> {
    let mut ours = Vec::new();
    encode_v2(shape, std::iter::empty(), &mut ours);
    // all but its length
    let alike = plain[..4] == ours[..4] && plain[8..HEADER] == ours[8..HEADER];
    let (mut left, mut next, mut buckets) = (plain.get(HEADER..)?, 0_usize, Vec::new());
    while alike && !left.is_empty() {
        let (number, used) = leb128(left)?;
        left = &left[used..];
        if number % 2 == 1 {
            next = next.checked_add(usize::try_from(number / 2 + 1).ok()?)?;
        } else {
            buckets.push((next, number / 2));
            next = next.checked_add(1)?;
        }
    }
    // beyond the last bucket it is broken: the library says how
    (alike && next <= shape.index(NS_MAX) + 1).then(|| Merged::of_indices(shape, buckets.into_iter()))
}

/// Cookie, length, then zlib.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, EncodedError> {
    let length = word(bytes, 4).ok_or(EncodedError::Length)? as usize;
    let packed = bytes.get(8..).filter(|packed| packed.len() == length).ok_or(EncodedError::Length)?;
    let mut plain = Vec::new();
    ZlibDecoder::new(packed).take(BYTES_MAX as u64 + 1).read_to_end(&mut plain)?;
    if plain.len() > BYTES_MAX { Err(EncodedError::Long) } else { Ok(plain) }
}

/// Cookie, length of the counts, offset, digits, then three words of 8 bytes; the library makes room for what these say.
fn check(plain: &[u8]) -> Result<(), EncodedError> {
    if !plain.starts_with(&PLAIN) {
        return Err(EncodedError::Form);
    }
    let (length, digits) = (word(plain, 4), word(plain, 12).ok_or(EncodedError::Length)?);
    let counts =
        plain.get(HEADER..).filter(|counts| length == Some(counts.len() as u32)).ok_or(EncodedError::Length)?;
    if digits > DIGITS_MAX {
        return Err(EncodedError::Digits { digits });
    }
    let (mut total, mut left) = (0_u64, counts);
    while !left.is_empty() {
        let (number, used) = leb128(left).ok_or(EncodedError::Length)?;
        // even numbers are counts, odd ones runs of zeros
        let count = if number % 2 == 0 { number / 2 } else { 0 };
        total = total.saturating_add(count);
        if total > VALUES_MAX || number == u64::MAX {
            return Err(EncodedError::Counts);
        }
        left = &left[used..];
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number in groups of 7 bits, the lowest first; a ninth byte is taken whole. And the bytes that it took.
fn leb128(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        let whole = at == 8;
        number |= u64::from(if whole { *byte } else { byte & 0x7F }) << (7 * at);
        if whole || byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;
    use rehearsal_core::parts::ledger::histogram;

    use super::*;

    fn filled(values: impl Iterator<Item = u64>) -> Histogram<u64> {
        let mut h = histogram();
        values.for_each(|value| h.record(value).expect("below an hour"));
        h
    }

    fn plain(h: &Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(h, &mut bytes).expect("memory is the only limit");
        bytes
    }

    fn compressed(h: &Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(h, &mut bytes).expect("memory is the only limit");
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Merged, EncodedError> {
        decode(bytes, Shape::of(3), &mut Deserializer::new())
    }

    fn merged(h: &Histogram<u64>) -> Merged {
        let values = h.iter_recorded().map(|b| (b.value_iterated_to(), b.count_since_last_iteration()));
        Merged::of(Shape::of(3), values)
    }

    #[test]
    fn every_form_is_the_same_histogram() {
        let h = filled((0..5000).map(|i| i * 977_777));
        for bytes in [plain(&h), compressed(&h)] {
            assert_eq!(read(&bytes).expect("as bytes"), merged(&h));
            assert_eq!(read(STANDARD.encode(&bytes).as_bytes()).expect("in base64"), merged(&h));
        }
    }

    /// `HdrHistogram(1, 3600 * 10**9, 3)` of Python's package `hdrhistogram`, with one value of 5.
    #[test]
    fn what_python_writes_is_read() {
        let h = read(b"HISTFAAAACN4nJNpmSzMwMDAxAABzFCaEch0M9ixgMH+A0SAkwkAVykEWA==").expect("a histogram");
        assert_eq!(h, Merged::of(Shape::of(3), [(5, 1)].into_iter()));
    }

    #[test]
    fn what_would_cost_too_much_is_refused() {
        let h = filled(1..100);
        let with = |at: usize, word: u32| {
            let mut bytes = plain(&h);
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            read(&bytes).expect_err("a lie").to_string()
        };
        assert_eq!(with(4, u32::MAX), "its length is not what it says");
        assert_eq!(with(12, 5), "it has 5 significant digits, at most 3 are taken");
        assert_eq!(read(&[0; 2_000_000]).expect_err("long").to_string(), "it is longer than 1048576 bytes");
        let mut counts = plain(&h)[..HEADER].to_vec();
        counts[4..8].copy_from_slice(&9_u32.to_be_bytes());
        counts.extend([0xFF; 9]);
        assert_eq!(read(&counts).expect_err("a run of zeros").to_string(), "its counts are beyond 4294967296");
        // a megabyte of zeros in a few bytes
        let mut bomb = Vec::from(COMPRESSED);
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut packed, &vec![0; 64 << 20]).expect("memory is the only limit");
        let packed = packed.finish().expect("memory is the only limit");
        bomb.extend((packed.len() as u32).to_be_bytes());
        bomb.extend(packed);
        assert_eq!(read(&bomb).expect_err("a bomb").to_string(), "it is longer than 1048576 bytes");
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), form in 0_u8..4) {
            let start: &[u8] = match form {
                0 => &[],
                1 => &PLAIN,
                2 => &COMPRESSED,
                _ => BASE64,
            };
            let _ = read(&[start, &bytes].concat());
        }

        #[test]
        fn a_spoiled_histogram_never_panics(at in 0_usize..200, byte in any::<u8>(), cut in 0_usize..200) {
            let mut bytes = plain(&filled((1..50).map(|i| i * i * 1_000_003)));
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = read(&bytes);
            bytes.truncate(cut);
            let _ = read(&bytes);
        }
    }
}
