//! Addresses for a network: a part of the range that is set aside for tests of networks, which this host has no route to.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{FlockOperation, flock};

use super::NetworkError;

/// The whole range. Source: RFC 2544 appendix C.2.2 and RFC 6890, 198.18.0.0/15 is for benchmarks of networks.
const BASE: u32 = 0xC612_0000;
/// Its prefix.
const BASE_PREFIX: u32 = 15;
/// Networks of [`Range::PREFIX`] in it.
const COUNT: u32 = 1 << (Range::PREFIX - BASE_PREFIX);
/// Whoever looks for a free range holds a lock on it.
const LOCK: &str = "/run/rehearsal-network.lock";

/// The addresses of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    base: u32,
}

impl Range {
    /// Where every range is taken from.
    pub const ALL: &'static str = "198.18.0.0/15";
    /// Length of a range's prefix: 1022 addresses.
    pub const PREFIX: u32 = 22;

    /// One that no route of this host leads to.
    pub(super) fn free() -> Result<Range, NetworkError> {
        let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
        Range::beside(&routes, std::process::id()).ok_or(NetworkError::NoRange)
    }

    /// The first one from number `first` on that overlaps no route in `routes`, the text of `/proc/net/route`.
    fn beside(routes: &str, first: u32) -> Option<Range> {
        let taken: Vec<(u32, u32)> = routes.lines().filter_map(route).filter(|(_, mask)| *mask != 0).collect();
        let range = |number: u32| Range { base: BASE + ((number % COUNT) << (32 - Range::PREFIX)) };
        let overlaps = |range: Range, (to, mask): (u32, u32)| (range.base ^ to) & mask & Range::mask() == 0;
        (0..COUNT).map(|n| range(first.wrapping_add(n))).find(|r| !taken.iter().any(|route| overlaps(*r, *route)))
    }

    fn mask() -> u32 {
        u32::MAX << (32 - Range::PREFIX)
    }

    /// Its address number `host`, from 1.
    pub fn address(self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + host)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.base), Range::PREFIX)
    }
}

/// Destination and mask of a route: fields 2 and 8, hexadecimal, in the byte order of the machine.
fn route(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.split_whitespace().skip(1);
    let mut number = |skip| Some(u32::from_be(u32::from_str_radix(fields.nth(skip)?, 16).ok()?));
    Some((number(0)?, number(5)?))
}

/// Holds a lock until it is dropped. Without one two runs that begin at once may choose the same range, and the second
/// is refused its address; so it does not matter if it cannot be had.
pub(super) fn lock() -> Option<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(LOCK).ok()?;
    flock(&file, FlockOperation::LockExclusive).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `/proc/net/route` as the kernel of this machine writes it.
    fn line(to: [u8; 4], mask: [u8; 4]) -> String {
        let hex = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        format!("eth0\t{}\t0100000A\t0003\t0\t0\t0\t{}\t0\t0\t0\n", hex(to), hex(mask))
    }

    #[test]
    fn a_range_that_is_taken_is_left_out() {
        let none = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        let text = |routes: &str, first| Range::beside(routes, first).map(|r| r.to_string());
        assert_eq!(text(none, 0).as_deref(), Some("198.18.0.0/22"));
        assert_eq!(text(none, 129).as_deref(), Some("198.18.4.0/22"));
        assert_eq!(text(none, 127).as_deref(), Some("198.19.252.0/22"));
        let default = line([0; 4], [0; 4]);
        assert_eq!(text(&default, 0).as_deref(), Some("198.18.0.0/22"), "a default route leads everywhere");
        let taken = [none, &line([198, 18, 1, 0], [255, 255, 255, 0]), &line([198, 18, 4, 0], [255, 255, 252, 0])];
        assert_eq!(text(&taken.concat(), 0).as_deref(), Some("198.18.8.0/22"));
        assert_eq!(text(&line([198, 18, 0, 0], [255, 254, 0, 0]), 7), None);
    }

    #[test]
    fn addresses_are_counted_from_the_base() {
        let range = Range::beside("", 1).expect("nothing is taken");
        assert_eq!((range.address(1), range.address(1001)), ([198, 18, 4, 1].into(), [198, 18, 7, 233].into()));
    }
}
