//! Networks between sender and receiver: two namespaces and a third between them, with a bridge or a router in it.
//!
//! ```text
//!   near 198.51.100.1 ── bridge ── 198.51.100.2 far
//!   near 198.51.100.1 ── 198.51.100.254 router, masquerades ── 203.0.113.1 far
//! ```
//!
//! They are what containers of a host have by default: pairs of interfaces on a bridge, and addresses that are translated on
//! the way out.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};

use super::variant::Network;
use crate::bench::machine::said;

/// Addresses of both ends on the bridge (RFC 5737, TEST-NET-2).
pub const BRIDGED: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
/// The router, from the sender.
const GATEWAY: &str = "198.51.100.254";
/// The receiver behind the router, and the router there (TEST-NET-3).
pub const FAR: &str = "203.0.113.1";
const OUTER: &str = "203.0.113.254";
/// What names of namespaces begin with; their owner's process follows.
const NAME: &str = "rhprot";
/// Names of the interfaces at the ends.
const LINK: &str = "eth0";

/// Three namespaces; they go with this.
pub struct Ways {
    spaces: [String; 3],
    network: Network,
}

impl Ways {
    /// Makes them.
    ///
    /// # Errors
    /// Without root or iproute2, and of translated addresses without nftables.
    pub fn new(network: Network) -> Result<Ways> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        sweep();
        let spaces = ["a", "m", "b"].map(|end| format!("{NAME}{}-{number}{end}", std::process::id()));
        let ways = Ways { spaces, network };
        for space in &ways.spaces {
            ip(&["netns", "add", space])?;
            ip(&["-n", space, "link", "set", "lo", "up"])?;
        }
        let [near, middle, far] = &ways.spaces;
        for (space, port) in [(near, "pa"), (far, "pb")] {
            ip(&["-n", space, "link", "add", LINK, "type", "veth", "peer", "name", port, "netns", middle])?;
        }
        match network {
            Network::Nat => ways.translated()?,
            _ => ways.bridged()?,
        }
        Ok(ways)
    }

    fn bridged(&self) -> Result<()> {
        let [near, middle, far] = &self.spaces;
        ip(&["-n", middle, "link", "add", "br0", "type", "bridge"])?;
        for port in ["pa", "pb"] {
            ip(&["-n", middle, "link", "set", port, "master", "br0"])?;
        }
        for port in ["pa", "pb", "br0"] {
            ip(&["-n", middle, "link", "set", port, "up"])?;
        }
        address(near, LINK, BRIDGED[0])?;
        address(far, LINK, BRIDGED[1])
    }

    fn translated(&self) -> Result<()> {
        let [near, middle, far] = &self.spaces;
        for (space, link, own) in
            [(near, LINK, BRIDGED[0]), (middle, "pa", GATEWAY), (middle, "pb", OUTER), (far, LINK, FAR)]
        {
            address(space, link, own)?;
        }
        ip(&["-n", near, "route", "add", "default", "via", GATEWAY])?;
        let forward = ["netns", "exec", middle, "sysctl", "-qw", "net.ipv4.ip_forward=1"];
        ip(&forward)?;
        // the receiver has no way back but by the translated address
        for rule in [
            "add table ip nat",
            "add chain ip nat out { type nat hook postrouting priority 100 ; }",
            "add rule ip nat out oifname pb masquerade",
        ] {
            ip(&[&["netns", "exec", middle, "nft"][..], &rule.split(' ').collect::<Vec<_>>()].concat())?;
        }
        Ok(())
    }

    /// The receiver's address.
    pub fn receiver(&self) -> &'static str {
        if self.network == Network::Nat { FAR } else { BRIDGED[1] }
    }

    /// The same command at the sender's end, or at the receiver's.
    pub fn command(&self, inner: &Command, sender: bool) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.spaces[if sender { 0 } else { 2 }]]);
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        for space in &self.spaces {
            // it may not have been made
            let _ = ip(&["netns", "delete", space]);
        }
    }
}

/// Removes what calls left that were killed.
fn sweep() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let Some(name) = file_name.to_str() else { continue };
        let owner = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-')).map(|(owner, _)| owner);
        let has_gone = |owner: &str| owner.parse::<u32>().is_ok() && !Path::new("/proc").join(owner).exists();
        if owner.is_some_and(has_gone) {
            // another call may be doing the same
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// Whether there is what translates addresses.
pub fn nft() -> Result<()> {
    said("nft", &["--version"]).map(|_| ()).context("nft is not installed (apt-get install nftables)")
}

fn address(space: &str, link: &str, own: &str) -> Result<()> {
    ip(&["-n", space, "address", "add", &format!("{own}/24"), "dev", link])?;
    ip(&["-n", space, "link", "set", link, "up"])
}

/// Asks iproute2 for something.
fn ip(args: &[&str]) -> Result<()> {
    let done = Command::new("ip").args(args).output().context("`ip` (iproute2) is not installed")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "network namespaces need root: ip {}: {}", args.join(" "), said.trim());
    Ok(())
}
