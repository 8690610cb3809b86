//! Addresses as people write them.

use std::net::IpAddr;

/// An address, and the length of its network: all of it, if none is written.
pub(crate) fn net(word: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match word.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (word, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(most);
    (length <= most).then_some((address, length))
}

/// An Ethernet address of six pairs of hexadecimal digits with colons.
pub fn mac(word: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = word.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}
