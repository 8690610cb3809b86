//! The hosts of a template, and what becomes of each: a node, or an address drawn at random.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest as _, Sha256};

use super::rules::network;
use super::{EditError, headers};
use crate::template::Template;

/// Nodes at most. Assumed: more than a lab has.
const NODES_MAX: u64 = 65_536;

/// Hosts by the order in which they are first seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    numbers: BTreeMap<IpAddr, u64>,
    /// Of IPv4 and of IPv6.
    counts: [u64; 2],
}

impl Hosts {
    /// Looks through all packets: every IP header, ARP, and what errors of ICMP quote.
    pub(super) fn of(template: &Template) -> Hosts {
        let (mut hosts, mut frame) = (Hosts::default(), Vec::new());
        for packet in template.packets() {
            frame.clear();
            frame.extend_from_slice(packet.bytes);
            headers::addresses(&mut frame, |address| {
                hosts.note(address);
                address
            });
        }
        hosts
    }

    fn note(&mut self, address: IpAddr) {
        if is_host(address) {
            let count = &mut self.counts[usize::from(address.is_ipv6())];
            self.numbers.entry(address).or_insert_with(|| {
                *count += 1;
                *count - 1
            });
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.numbers.keys().copied()
    }
}

/// Whether an address is one host's. Groups, broadcast and "any" stay what they are.
pub(crate) fn is_host(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(address.is_multicast() || address.is_unspecified() || broadcast)
}

/// k hosts onto n nodes: the i-th host that is seen becomes node i mod n of its version of IP.
pub(super) fn onto_nodes(hosts: &Hosts, nodes: &[String]) -> Result<BTreeMap<IpAddr, IpAddr>, EditError> {
    let wrong = |what: String| EditError::new("nodes", what);
    let mut all: [Vec<IpAddr>; 2] = [Vec::new(), Vec::new()];
    for text in nodes {
        let (address, length) = network(text).map_err(wrong)?;
        let range = Range::of(address, length);
        let before = all.iter().map(Vec::len).sum::<usize>() as u64;
        if range.size.saturating_add(before) > NODES_MAX {
            return Err(wrong(format!("{text} makes more than {NODES_MAX} nodes; write a smaller network")));
        }
        all[usize::from(address.is_ipv6())].extend((0..range.size).map(|at| range.at(at)));
    }
    for (version, word) in ["IPv4", "IPv6"].into_iter().enumerate() {
        if hosts.counts[version] > 0 && all[version].is_empty() {
            let count = hosts.counts[version];
            return Err(wrong(format!(
                "the template has {count} hosts of {word}, but no node has an address of {word}; add one"
            )));
        }
    }
    let map = |(host, number): (&IpAddr, &u64)| {
        let nodes = &all[usize::from(host.is_ipv6())];
        (*host, nodes[(number % nodes.len() as u64) as usize])
    };
    Ok(hosts.numbers.iter().map(map).collect())
}

/// Addresses drawn without repetition from networks.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    hosts: Hosts,
    ranges: [Option<Range>; 2],
    keys: [u64; 4],
    unique: bool,
}

impl Drawn {
    pub(super) fn new(hosts: Hosts, networks: &[String], seed: u64, unique: bool) -> Result<Drawn, EditError> {
        let wrong = |what: String| EditError::new("random_hosts", what);
        let mut ranges = [None, None];
        for text in networks {
            let (address, length) = network(text).map_err(wrong)?;
            let (range, version) = (Range::of(address, length), usize::from(address.is_ipv6()));
            let count = hosts.counts[version];
            if range.size < count {
                let size = range.size;
                return Err(wrong(format!(
                    "{text} has {size} addresses, but the template has {count} hosts; write a larger network"
                )));
            }
            if ranges[version].replace(range).is_some() {
                return Err(wrong("two networks of one version of IP; write one of each at most".to_owned()));
            }
        }
        let bare = |version: usize| ranges[version].is_none() && hosts.counts[version] > 0;
        if let Some(version) = [0, 1].into_iter().find(|version| unique && bare(*version)) {
            let (count, name, like) =
                (hosts.counts[version], ["IPv4", "IPv6"][version], ["10.0.0.0/8", "fd00::/8"][version]);
            return Err(wrong(format!(
                "{count} hosts of the template are of {name}, and no network of {name} is given: they would be the same in every lap; write also `random_hosts={like}`"
            )));
        }
        let hash = Sha256::new().chain_update(b"rehearsal random hosts").chain_update(seed.to_le_bytes()).finalize();
        let word = |at: usize| crate::frame::array(&hash, at * 8).map_or(0, u64::from_le_bytes);
        Ok(Drawn { hosts, ranges, keys: [word(0), word(1), word(2), word(3)], unique })
    }

    /// The address of a host in a lap.
    pub(super) fn of(&self, address: IpAddr, lap: u64) -> Option<IpAddr> {
        let number = *self.hosts.numbers.get(&address)?;
        let version = usize::from(address.is_ipv6());
        let range = self.ranges[version].as_ref()?;
        let lap = if self.unique { lap } else { 0 };
        let position = u128::from(lap) * u128::from(self.hosts.counts[version]) + u128::from(number);
        Some(range.at(self.shuffled((position % u128::from(range.size)) as u64, range.size)))
    }

    /// Laps after which addresses come again.
    pub(super) fn laps(&self) -> Option<u64> {
        let laps = self.ranges.iter().zip(self.hosts.counts);
        let laps = laps.filter_map(|(range, count)| range.as_ref()?.size.checked_div(count));
        laps.min().filter(|_| self.unique)
    }

    /// A permutation of the numbers below `size`: a Feistel network over the next even number of bits, walked until it is
    /// inside (Black and Rogaway 2002). Four rounds of a mixer; it is to look random, not to hide anything.
    fn shuffled(&self, number: u64, size: u64) -> u64 {
        let half = (64 - (size - 1).leading_zeros()).div_ceil(2).max(1);
        let mask = (1 << half) - 1;
        let mut at = number;
        loop {
            let (mut left, mut right) = (at >> half, at & mask);
            for key in self.keys {
                (left, right) = (right, left ^ mixed(right ^ key) & mask);
            }
            at = left << half | right;
            // the walk is on a cycle through `number`, which is inside: it ends
            if at < size {
                return at;
            }
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
const fn mixed(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The addresses of hosts in a network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    first: IpAddr,
    /// How many, at most 2^62.
    pub(crate) size: u64,
}

impl Range {
    /// Without the addresses of the network itself and, in IPv4, of all its hosts, where a network has such.
    pub(crate) fn of(net: IpAddr, length: u8) -> Range {
        let bits = if net.is_ipv4() { 32 - u32::from(length) } else { 128 - u32::from(length) };
        let all = 1_u64 << bits.min(62);
        let (skip, size) = match (net.is_ipv4(), bits) {
            (_, 0 | 1) => (0, all),
            (true, _) => (1, all - 2),
            (false, _) => (1, all - 1),
        };
        Range { first: plus(net, skip), size }
    }

    /// One of them, from 0.
    pub(crate) fn at(&self, number: u64) -> IpAddr {
        plus(self.first, number)
    }
}

fn plus(address: IpAddr, number: u64) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().wrapping_add(number as u32)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().wrapping_add(u128::from(number))).into(),
    }
}
