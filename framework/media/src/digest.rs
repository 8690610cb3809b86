//! SHA-256, as this crate uses it: whole buffers, hexadecimal text, and fair 64-bit draws.

use sha2::{Digest, Sha256};

/// A SHA-256 value.
pub(crate) type Sha = [u8; 32];

/// Hashes the parts one after the other. Parts of variable length must be the last one, or a
/// hash themselves, so that no two lists of parts read the same.
pub(crate) fn sha256(parts: &[&[u8]]) -> Sha {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Lower-case hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The first eight bytes, as a number that is uniform over all of `u64`.
pub(crate) fn draw(sha: &Sha) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *sha;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_vector() {
        // Source: FIPS 180-2, appendix B.1, the message "abc".
        assert_eq!(hex(&sha256(&[b"a", b"bc"])), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
