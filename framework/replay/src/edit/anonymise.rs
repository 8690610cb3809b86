//! Addresses that tell nothing but which of them are near each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest as _, Sha256};

use super::EditError;

/// Shortest key, bytes. Assumed: shorter ones can be guessed.
const KEY_MIN: usize = 16;

/// Makes addresses anonymous: addresses that share their first n bits still do, and share no more (Xu, Fan, Ammar and Moon
/// 2002). The construction is that of Crypto-PAn with SHA-256 over key, version and bits in the place of AES, so its
/// addresses are not those of other programs.
#[derive(Clone, Debug)]
pub(super) struct Anonymous {
    key: [u8; 32],
}

impl Anonymous {
    pub(super) fn new(key: &str) -> Result<Anonymous, EditError> {
        if key.len() < KEY_MIN {
            return Err(EditError::new("anonymise", format!("a key of {} bytes; write at least {KEY_MIN}", key.len())));
        }
        Ok(Anonymous { key: Sha256::digest(key.as_bytes()).into() })
    }

    pub(super) fn ip(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let bits = self.bits(4, u128::from(v4.to_bits()) << 96, 32) >> 96;
                Ipv4Addr::from_bits(bits as u32).into()
            }
            IpAddr::V6(v6) => Ipv6Addr::from_bits(self.bits(6, v6.to_bits(), 128)).into(),
        }
    }

    /// Each bit is turned or not by a secret function of the bits before it.
    fn bits(&self, version: u8, bits: u128, count: u32) -> u128 {
        let mut turned = 0;
        for bit in 0..count {
            let before = if bit == 0 { 0 } else { bits >> (128 - bit) << (128 - bit) };
            let hash = Sha256::new()
                .chain_update(self.key)
                .chain_update([version, bit as u8])
                .chain_update(before.to_be_bytes())
                .finalize();
            turned |= u128::from(hash[0] & 1) << (127 - bit);
        }
        bits ^ turned
    }

    /// An Ethernet address that says nothing, locally administered. Groups stay.
    pub(super) fn mac(&self, address: [u8; 6]) -> [u8; 6] {
        if address[0] & 1 == 1 {
            return address;
        }
        let hash = Sha256::new().chain_update(self.key).chain_update(b"mac").chain_update(address).finalize();
        [2, hash[0], hash[1], hash[2], hash[3], hash[4]]
    }
}
