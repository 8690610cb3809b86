//! A network that swallows: a namespace in which packets to one address leave and arrive nowhere, and are counted.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::agents::hosts::ip;
use crate::support::{PROGRAM, Running, Scratch};

/// The address behind which nobody is (RFC 5737, TEST-NET-1).
pub const NOBODY: &str = "192.0.2.1";
/// The namespace's own address.
const OWN: &str = "192.0.2.2/24";
/// A network card that nobody has; the last bits of the first byte say that it is made up.
const CARD: &str = "02:00:00:00:00:01";

/// The namespace; it goes with this.
pub struct Void(String);

impl Void {
    /// `None`, and a word about it, where this machine cannot have any.
    pub fn new() -> Option<Void> {
        if !rustix::process::geteuid().is_root() || !ip(&["netns", "list"]) {
            eprintln!("skipped: network namespaces need root and `ip`");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let void = Void(format!("rhvoid{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        assert!(ip(&["netns", "add", &void.0]));
        void.ip(&["link", "add", "out", "type", "veth", "peer", "name", "nowhere"]);
        void.ip(&["address", "add", OWN, "dev", "out"]);
        for link in ["lo", "out", "nowhere"] {
            void.ip(&["link", "set", link, "up"]);
        }
        // with a neighbour that is known, no packet waits for an answer to who has the address
        void.ip(&["neighbour", "add", NOBODY, "lladdr", CARD, "dev", "out", "nud", "permanent"]);
        Some(void)
    }

    fn ip(&self, args: &[&str]) {
        assert!(ip(&[&["-n", &self.0], args].concat()), "ip {args:?}");
    }

    /// A command in it.
    pub fn command(&self, scratch: &Scratch, program: &str, args: &[&str]) -> Command {
        scratch.command("ip", &[&["netns", "exec", &self.0, program], args].concat())
    }

    /// Starts the program under test in it.
    pub fn start(&self, scratch: &Scratch, args: &[&str]) -> Running {
        Running::spawn(self.command(scratch, PROGRAM, args))
    }

    /// IPv4 packets that somebody in it wanted to send, wherever to (RFC 4293: `ipSystemStatsOutRequests`).
    pub fn sent(&self, scratch: &Scratch) -> u64 {
        let told = Running::spawn(self.command(scratch, "cat", &["/proc/net/snmp"])).wait().stdout;
        let mut lines = told.lines().filter_map(|line| line.strip_prefix("Ip: ")).map(str::split_whitespace);
        let (names, values) = lines.next().zip(lines.next()).expect("two lines on IPv4");
        let (_, value) = names.zip(values).find(|(name, _)| *name == "OutRequests").expect("packets that were sent");
        value.parse().expect("a number")
    }
}

impl Drop for Void {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
        assert!(!fs::exists(format!("/run/netns/{}", self.0)).unwrap_or(false) || std::thread::panicking());
    }
}
