//! Rules of the form `FROM -> TO`, for addresses, Ethernet addresses and ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::EditError;
use crate::capture::filter::within;
use crate::frame::text::{mac, net};

/// Rules of one kind at most. Assumed: they are tried one after the other for each packet.
const RULES_MAX: usize = 4096;

/// One rule for addresses: hosts to a host, or a network to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpRule {
    from: IpAddr,
    length: u8,
    to: IpAddr,
    /// Bits that stand in `to`; the others are kept.
    fixed: u8,
}

/// One rule for values that are the same or are not.
pub(super) type Exact<T> = (T, T);

/// Splits each text at its arrow and reads it.
pub(super) fn read<T>(
    key: &'static str,
    texts: &[String],
    of: impl Fn(&str, &str) -> Result<T, String>,
) -> Result<Vec<T>, EditError> {
    if texts.len() > RULES_MAX {
        return Err(EditError::new(key, format!("more than {RULES_MAX} rules")));
    }
    let one = |text: &String| {
        let (from, to) = text
            .split_once("->")
            .ok_or_else(|| EditError::new(key, format!("`{text}` is no rule; write `FROM -> TO`")))?;
        of(from.trim(), to.trim()).map_err(|what| EditError::new(key, what))
    };
    texts.iter().map(one).collect()
}

/// A rule for addresses.
pub(super) fn ip(from: &str, to: &str) -> Result<IpRule, String> {
    let (old, length) = network(from)?;
    let (new, fixed) = network(to)?;
    if old.is_ipv4() != new.is_ipv4() {
        return Err(format!("{from} and {to} are of different versions of IP"));
    }
    let whole = if new.is_ipv4() { 32 } else { 128 };
    if length == whole && fixed < whole {
        return Err(format!("{from} is a host, {to} is a network; write the host that it becomes"));
    }
    if fixed > length && fixed < whole {
        return Err(format!("{to} has fewer hosts than {from}; write a network of /{length} or larger, or one host"));
    }
    Ok(IpRule { from: old, length, to: new, fixed })
}

/// A rule for Ethernet addresses.
pub(super) fn hardware(from: &str, to: &str) -> Result<Exact<[u8; 6]>, String> {
    let of = |text: &str| {
        mac(text).ok_or_else(|| format!("`{text}` is no Ethernet address; write such as 02:00:00:00:00:01"))
    };
    Ok((of(from)?, of(to)?))
}

/// A rule for ports.
pub(super) fn port(from: &str, to: &str) -> Result<Exact<u16>, String> {
    let of = |text: &str| text.parse().map_err(|_| format!("`{text}` is no port; write a number from 0 to 65535"));
    Ok((of(from)?, of(to)?))
}

impl IpRule {
    /// The new address, if the rule is for this one.
    pub(super) fn of(&self, address: IpAddr) -> Option<IpAddr> {
        within(address, self.from, self.length).then(|| joined(self.to, address, self.fixed))
    }
}

/// The first `length` bits of one address, the others of another of the same version.
pub(super) fn joined(first: IpAddr, rest: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match (first, rest) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let kept = u32::MAX.checked_shr(length).unwrap_or(0);
            Ipv4Addr::from_bits(a.to_bits() & !kept | b.to_bits() & kept).into()
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let kept = u128::MAX.checked_shr(length).unwrap_or(0);
            Ipv6Addr::from_bits(a.to_bits() & !kept | b.to_bits() & kept).into()
        }
        (_, rest) => rest,
    }
}

/// A host, or a network without bits of hosts.
pub(crate) fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let example = "write such as 10.0.0.1, 10.0.0.0/24 or 2001:db8::/64";
    let (address, length) = net(text).ok_or_else(|| format!("`{text}` is no address; {example}"))?;
    let zero = if address.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let clean = joined(address, zero, length);
    if clean != address {
        return Err(format!(
            "{text} is a host in a network; write {address} for the host or {clean}/{length} for the network"
        ));
    }
    Ok((address, length))
}
