//! Addresses that the kernel answers for: it would reset connections that it does not know.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};

/// Those of the calling thread's network namespace.
pub fn addresses() -> BTreeSet<IpAddr> {
    // a kernel without one of the protocols has no such file, and no addresses of it
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    four(&read("fib_trie")).chain(six(&read("if_inet6"))).collect()
}

/// `fib_trie`: an address, and below it what it is.
fn four(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    let pairs = text.lines().zip(text.lines().skip(1));
    let local = pairs.filter(|(_, below)| below.trim() == "/32 host LOCAL");
    local.filter_map(|(line, _)| line.trim().strip_prefix("|-- ")?.parse().ok())
}

/// `if_inet6`: 32 digits, and other fields.
fn six(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    let first = text.lines().filter_map(|line| line.split_whitespace().next());
    first.filter_map(|digits| Some(Ipv6Addr::from_bits(u128::from_str_radix(digits, 16).ok()?).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_found_in_what_the_kernel_tells() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     +-- 10.0.0.0/24 2 0 2\n        |-- 10.0.0.0\n           /24 link UNICAST\n        |-- 10.0.0.7\n           /32 host LOCAL\n        |-- 10.0.0.255\n           /32 link BROADCAST\n";
        assert_eq!(four(trie).collect::<Vec<_>>(), [IpAddr::from([10, 0, 0, 7])]);
        let six: Vec<_> = six("fe800000000000000042acfffe110002 02 40 20 80 eth0\nnonsense\n").collect();
        assert_eq!(six, ["fe80::42:acff:fe11:2".parse::<IpAddr>().expect("an address")]);
        assert!(addresses().contains(&IpAddr::from([127, 0, 0, 1])), "the loopback is there: {:?}", addresses());
    }
}
