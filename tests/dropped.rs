//! Datagrams that a receiving host is made to drop: the books have as many as the kernel counts that dropped them.

use std::process::{Command, Stdio};

use crate::agents::hosts::ip;
use crate::support::{Bundle, PROGRAM, Running, Scenario, Scratch, beside};

const PORT: u16 = 7000;
/// Bytes of a payload; with the head that the receiver reads it by, and those of IPv4 and UDP, as the kernel counts it.
const BYTES: u64 = 1000;
const HEADS: u64 = 28;
const REQUESTS: u64 = 700;
/// One in so many is dropped.
const ONE_IN: u64 = 7;

/// A namespace whose host drops one datagram in [`ONE_IN`]; it goes with this.
struct Leaky(String);

impl Leaky {
    /// `None`, and a word about it, where this machine cannot have any.
    fn new() -> Option<Leaky> {
        if !rustix::process::geteuid().is_root() || !ip(&["netns", "list"]) {
            eprintln!("skipped: network namespaces need root and `ip`");
            return None;
        }
        let leaky = Leaky(format!("rhleak{}", std::process::id()));
        assert!(ip(&["netns", "add", &leaky.0]) && ip(&["-n", &leaky.0, "link", "set", "lo", "up"]));
        let (port, one_in) = (PORT.to_string(), ONE_IN.to_string());
        let rule = ["add", "rule", "ip", "leak", "in", "udp", "dport", &port, "numgen", "inc", "mod", &one_in, "0"];
        let chain = ["add", "chain", "ip", "leak", "in", "{ type filter hook input priority 0; }"];
        let rules = [&["add", "table", "ip", "leak"][..], &chain, &[&rule[..], &["counter", "drop"]].concat()];
        if !rules.iter().all(|rule| leaky.nft(rule).is_some()) {
            eprintln!("skipped: there is no nft, or the kernel drops none by their number");
            return None;
        }
        Some(leaky)
    }

    fn nft(&self, args: &[&str]) -> Option<String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, "nft"]).args(args).stdin(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    }

    /// Datagrams that were dropped. Those that left together may be one packet to the kernel, which counts its bytes.
    fn dropped(&self) -> u64 {
        let listing = self.nft(&["list", "chain", "ip", "leak", "in"]).expect("it is there");
        let words: Vec<&str> = listing.split_whitespace().collect();
        let after = |word: &str| {
            let at = words.iter().position(|found| *found == word).expect("the rule counts");
            words[at + 1].parse::<u64>().expect("a number")
        };
        let payload = after("bytes") - HEADS * after("packets");
        assert_eq!(payload % BYTES, 0, "{listing}");
        payload / BYTES
    }
}

impl Drop for Leaky {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

#[test]
fn losses_are_those_that_the_receiving_host_dropped() {
    let _busy = beside();
    let Some(leaky) = Leaky::new() else { return };
    let scratch = Scratch::new();
    let scenario = Scenario {
        receiver: format!("listen = \"127.0.0.1:{PORT}\""),
        link: "carrier = \"udp\"".to_owned(),
        ..Scenario::sensor(&format!("rate = \"500/s\"\nrequests = {REQUESTS}\nbytes = \"1kB\""))
    };
    scratch.write("trial.toml", scenario.toml());
    let args = ["netns", "exec", &leaky.0, PROGRAM, "emulate", "trial.toml", "--quiet", "--out", "b"];
    let done = Running::spawn(scratch.command("ip", &args)).wait();
    // lost datagrams lower the verdict
    assert!(matches!(done.code, Some(0 | 10 | 20)), "{}", done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    let dropped = leaky.dropped();
    assert!(dropped > 0 && dropped < REQUESTS / 2, "one in {ONE_IN} of {REQUESTS}: {dropped}");
    assert_eq!((bundle.total("generated"), bundle.total("lost")), (REQUESTS, dropped));
    assert_eq!(bundle.total("success"), REQUESTS - dropped);
    assert_eq!(bundle.total_of("receiver", "datagrams_received"), REQUESTS - dropped);
    assert_eq!(bundle.total_of("receiver", "datagrams_duplicate"), 0);
}
