//! What an agent offers: its host's cores, memory, addresses and clock, less what its operator keeps.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result};
use rehearsal_core::fleet::{Card, ClockFacts};
use rehearsal_core::subject::{TOKEN_CHARS_MAX, check_token};
use rehearsal_core::units::{BitRate, ByteSize, Rate};
use rehearsal_emu::Network;
use rehearsal_host::cgroup::Cgroups;
use rehearsal_host::facts::Facts;
use rehearsal_media::default_cache_dir;

use super::cache::Cache;
use super::policy::Policy;
use crate::cli;
use crate::exit::{Refused, UsageError};
use crate::ports;
use crate::report::chain;

/// Labels that one agent may have.
const LABELS_MAX: usize = 32;

/// The offer, and what holds for every run on it.
pub(super) struct Offer {
    pub(super) card: Card,
    pub(super) policy: Policy,
    pub(super) cache: Cache,
    /// Where control groups of nodes are made, if they can be.
    pub(super) groups: Option<Cgroups>,
}

impl Offer {
    pub(super) fn new(args: &cli::Agent) -> Result<Offer> {
        let name = match &args.name {
            Some(name) => check_token(name).map(|()| name.clone()).map_err(|why| usage("--name", &why))?,
            None => own_name(),
        };
        let address: IpAddr = match &args.listen {
            Some(text) => text.parse().map_err(|_| {
                usage("--listen", &format!("`{text}` is no address; write for instance 192.0.2.7, without a port"))
            })?,
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        if address.is_unspecified() {
            let why = "others must know where to send: name the one address that they reach this host at";
            return Err(usage("--listen", &why).into());
        }
        TcpListener::bind((address, 0)).map_err(|why| {
            Refused(format!("--listen: nothing can listen on {address} here ({why}); name an address of this host"))
        })?;
        // its own address too, for nodes that are side by side here
        let mut allow = if address.is_loopback() { Vec::new() } else { vec![Network::host(address)] };
        for text in &args.allow {
            allow.push(text.parse().map_err(|why| usage("--allow", &why))?);
        }
        let rate_max: Option<Rate> = match &args.rate_max {
            Some(text) => Some(text.parse().map_err(|why| usage("--rate-max", &why))?),
            None => None,
        };
        let rate_max = rate_max.map(Rate::as_f64);
        let bit_rate_max: Option<BitRate> = match &args.bit_rate_max {
            Some(text) => Some(text.parse().map_err(|why| usage("--bit-rate-max", &why))?),
            None => None,
        };
        if let Some(name) = &args.interface {
            ports::probe(name).map_err(|why| Refused(format!("--interface {name}: {why}")))?;
        }
        let policy = Policy { allow, interface: args.interface.clone(), rate_max, bit_rate_max };
        let folder = args.cache.clone().unwrap_or_else(|| default_cache_dir().join("agent"));
        let cache = Cache::new(&folder, &name).with_context(|| format!("cannot use {}", folder.display()))?;
        let facts = Facts::read();
        let groups = Cgroups::open();
        if let Err(why) = &groups {
            eprintln!("note: vCPU and memory limits will not be enforced: {}", chain(why));
        }
        let card = Card {
            agent: name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address,
            architecture: facts.architecture,
            kernel: facts.kernel,
            cores: cores(args.cores, facts.cores.into())?,
            host_cores: facts.cores,
            memory: memory(args.memory.as_deref(), facts.memory_bytes)?,
            labels: read_labels(&args.labels)?,
            interfaces: facts.interfaces.into_iter().map(|(name, interface)| (name, interface.addresses)).collect(),
            clock: ClockFacts {
                id: clock_id(),
                source: facts.clock.source.unwrap_or_default(),
                synchronised: facts.clock.synchronised,
            },
            allow: policy.allowed(),
            rate_max,
            bit_rate_max,
            enforces: groups.is_ok(),
            held: Vec::new(),
        };
        Ok(Offer { card, policy, cache, groups: groups.ok() })
    }

    /// In one line.
    pub(super) fn words(&self) -> String {
        let Card { cores, memory, address, labels: named, .. } = &self.card;
        let named = if named.is_empty() { String::new() } else { format!(", {}", labels(named)) };
        format!("{cores} cores, {memory}{named}; receivers listen on {address}")
    }
}

/// `rack=a,radio=5g`.
pub(super) fn labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn read_labels(words: &[String]) -> Result<BTreeMap<String, String>, UsageError> {
    if words.len() > LABELS_MAX {
        return Err(usage("--labels", &format!("at most {LABELS_MAX} are allowed")));
    }
    let pair = |word: &String| match word.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(usage("--labels", &format!("`{word}` is no label; write for instance rack=a,radio=5g"))),
    };
    words.iter().map(pair).collect()
}

/// The host's name as a token of subjects.
fn own_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let kept = name.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' });
    let name: String = kept.take(TOKEN_CHARS_MAX).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "agent".to_owned() } else { name.to_owned() }
}

fn cores(wanted: Option<f64>, have: f64) -> Result<f64, UsageError> {
    match wanted {
        None => Ok(have),
        Some(some) if some > 0.0 && some <= have => Ok(some),
        Some(some) => Err(usage("--cores", &format!("{some} is out of range: this host has {have}"))),
    }
}

fn memory(wanted: Option<&str>, have: Option<u64>) -> Result<ByteSize, UsageError> {
    // in whole MiB, which can be read
    let have = have.map(|bytes| ByteSize((bytes >> 20) << 20));
    let Some(text) = wanted else { return Ok(have.unwrap_or_default()) };
    let some: ByteSize = text.parse().map_err(|why| usage("--memory", &why))?;
    match have.filter(|have| some > *have) {
        Some(have) => Err(usage("--memory", &format!("{some} are more than this host has, {have}"))),
        None => Ok(some),
    }
}

/// What names this host's clock, for the leader to compare.
pub fn clock_id() -> String {
    let namespace = fs::read_link("/proc/self/ns/time").map(|link| link.to_string_lossy().into_owned());
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.unwrap_or_default())
}

fn usage(flag: &str, why: &dyn std::fmt::Display) -> UsageError {
    UsageError(format!("{flag}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(check_token(&own_name()), Ok(()));
        assert!(clock_id().len() > 30, "a boot and a namespace: {}", clock_id());
    }

    #[test]
    fn less_than_there_is_can_be_offered() {
        assert_eq!(
            (cores(None, 4.0).ok(), cores(Some(0.5), 4.0).ok(), cores(Some(5.0), 4.0).ok()),
            (Some(4.0), Some(0.5), None)
        );
        assert_eq!(memory(None, Some((3 << 20) + 7)).ok(), Some(ByteSize(3 << 20)));
        assert_eq!(memory(Some("1MiB"), Some(3 << 20)).ok(), Some(ByteSize(1 << 20)));
        let why = memory(Some("4MiB"), Some(3 << 20)).expect_err("more").to_string();
        assert!(why.contains("more than this host has, 3MiB"), "{why}");
    }

    #[test]
    fn labels_are_pairs() {
        let read = |words: &[&str]| read_labels(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(labels(&read(&["rack=a", "radio=5g"]).expect("two")), "rack=a,radio=5g");
        for bad in ["rack", "=a", "rack="] {
            assert!(read(&[bad]).expect_err(bad).to_string().contains("rack=a,radio=5g"));
        }
    }
}
