//! The bytes of a cache file. All numbers are little-endian.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `RHFRAMES` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | frames `n` |
//! | 16 | 8 | width, height of the first frame |
//! | 24 | 8 | frame rate: frames, seconds; 0, 0 if unknown |
//! | 32 | 4 | padded frames |
//! | 36 | 32 | key of the file: clip, bounds, encoder |
//! | 68 | 32 | SHA-256 of all frames |
//! | 100 | 4 n | sizes |
//! | 100 + 4 n | 32 | SHA-256 of everything before |
//! | 132 + 4 n | | the frames, one after the other |

use std::sync::Arc;

use crate::FRAMES_MAX;
use crate::clip::FrameRate;
use crate::digest::{Sha, sha256};
use crate::frames::FrameTable;

const MAGIC: &[u8; 8] = b"RHFRAMES";
const VERSION: u32 = 1;

/// Bytes before the sizes.
const FIXED_BYTES: usize = 100;

/// Most bytes before the frames.
pub(super) const HEAD_BYTES_MAX: u64 = FIXED_BYTES as u64 + 4 * FRAMES_MAX as u64 + 32;

/// Everything before the frames.
pub(super) fn head(key: &Sha, table: &FrameTable) -> Vec<u8> {
    let (rate_frames, rate_seconds) = table.rate.map_or((0, 0), |rate| (rate.frames, rate.seconds));
    let mut head = Vec::with_capacity(FIXED_BYTES + 4 * table.sizes.len() + 32);
    head.extend_from_slice(MAGIC);
    let numbers = [VERSION, table.frames(), table.width, table.height, rate_frames, rate_seconds, table.padded];
    for number in numbers {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(key);
    head.extend_from_slice(&table.payload);
    for size in table.sizes.iter() {
        head.extend_from_slice(&size.to_le_bytes());
    }
    let sha = sha256(&[&head]);
    head.extend_from_slice(&sha);
    head
}

/// Reads what [`head`] wrote, and where the frames begin.
pub(super) fn table(key: &Sha, data: &[u8]) -> Result<(FrameTable, usize), &'static str> {
    const SHORT: &str = "it is cut short";
    let (fixed, rest) = data.split_first_chunk::<FIXED_BYTES>().ok_or(SHORT)?;
    if !fixed.starts_with(MAGIC) || number(fixed, 8) != VERSION {
        return Err("it has another format");
    }
    let frames = number(fixed, 12);
    if frames == 0 || frames > FRAMES_MAX {
        return Err("its number of frames makes no sense");
    }
    let end = FIXED_BYTES + 4 * frames as usize;
    let sizes = rest.get(..4 * frames as usize).ok_or(SHORT)?;
    let sha = data.get(end..end + 32).ok_or(SHORT)?;
    if sha256(&[&data[..end]]) != *sha {
        return Err("its index has changed");
    }
    if fixed[36..68] != *key {
        return Err("it belongs to another clip");
    }
    let rate = FrameRate { frames: number(fixed, 24), seconds: number(fixed, 28) };
    let mut payload = Sha::default();
    payload.copy_from_slice(&fixed[68..100]);
    let table = FrameTable {
        sizes: sizes.chunks_exact(4).map(|size| number(size, 0)).collect::<Arc<[u32]>>(),
        width: number(fixed, 16),
        height: number(fixed, 20),
        rate: (rate.seconds > 0).then_some(rate),
        padded: number(fixed, 32),
        payload,
        notes: Vec::new(),
    };
    Ok((table, end + 32))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FrameTable {
        FrameTable {
            sizes: Arc::from([100u32, 200, 300]),
            width: 1280,
            height: 720,
            rate: Some(FrameRate { frames: 30_000, seconds: 1_001 }),
            padded: 1,
            payload: [9; 32],
            notes: Vec::new(),
        }
    }

    #[test]
    fn reads_what_it_wrote() {
        let head = head(&[5; 32], &sample());
        let (back, start) = table(&[5; 32], &head).unwrap();
        assert_eq!(start, head.len());
        assert_eq!(back.sizes, sample().sizes);
        assert_eq!(back.frame_rate(), sample().frame_rate());
        assert_eq!((back.width, back.height, back.padded), (1280, 720, 1));
        assert_eq!(back.digest(), sample().digest());
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let head = head(&[5; 32], &sample());
        for at in 0..head.len() {
            let mut changed = head.clone();
            changed[at] ^= 1;
            assert!(table(&[5; 32], &changed).is_err(), "byte {at}");
            assert!(table(&[5; 32], &head[..at]).is_err(), "cut at {at}");
        }
        assert!(table(&[6; 32], &head).is_err());
    }
}
