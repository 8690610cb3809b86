//! A way that goes dead in the middle of a run: from one moment on no packet comes back, and none is refused.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::agents::hosts::ip;
use crate::support::{Bundle, PROGRAM, Running, Scenario, Scratch, at_once, beside, until};

/// Addresses of sender and receiver (RFC 5737, TEST-NET-2).
const ENDS: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
const CARDS: [&str; 2] = ["02:00:00:00:01:01", "02:00:00:00:01:02"];
/// How long the way lives once the run has begun.
const LIVES: Duration = Duration::from_secs(3);
/// Beyond traffic and drain, for a busy machine.
const EXTRA: Duration = Duration::from_secs(15);

/// Two namespaces that a pair of interfaces joins; they go with this.
struct Way([String; 2]);

impl Way {
    /// `None`, and a word about it, where this machine cannot have any.
    fn new() -> Option<Way> {
        if !rustix::process::geteuid().is_root() || !ip(&["netns", "list"]) {
            eprintln!("skipped: network namespaces need root and `ip`");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let way = Way(["a", "b"].map(|end| format!("rhdead{}-{number}{end}", std::process::id())));
        for space in &way.0 {
            assert!(ip(&["netns", "add", space]));
        }
        let [a, b] = &way.0;
        assert!(ip(&["-n", a, "link", "add", "way", "type", "veth", "peer", "name", "way", "netns", b]));
        for (here, space) in way.0.iter().enumerate() {
            let (own, there) = (format!("{}/24", ENDS[here]), 1 - here);
            let told = ["neighbour", "add", ENDS[there], "lladdr", CARDS[there], "dev", "way", "nud", "permanent"];
            for args in [
                &["link", "set", "way", "address", CARDS[here]][..],
                &["address", "add", &own, "dev", "way"],
                &["link", "set", "lo", "up"],
                &["link", "set", "way", "up"],
                &told,
            ] {
                assert!(ip(&[&["-n", space.as_str()], args].concat()), "ip {args:?}");
            }
        }
        Some(way)
    }

    fn start(&self, end: usize, scratch: &Scratch, args: &[&str]) -> Running {
        let args = [&["netns", "exec", &self.0[end], PROGRAM, "emulate", "trial.toml", "--quiet"][..], args].concat();
        Running::spawn(scratch.command("ip", &args))
    }

    /// What comes to the receiver's address is nobody's from now on, and nobody says so.
    fn dies(&self) {
        let own = format!("{}/24", ENDS[1]);
        assert!(ip(&["-n", &self.0[1], "address", "delete", &own, "dev", "way"]));
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        for space in &self.0 {
            ip(&["netns", "delete", space]);
        }
    }
}

#[test]
fn a_way_that_goes_dead_costs_what_was_under_way_and_the_run_ends_on_time() {
    let _busy = beside();
    at_once(["http1", "http2", "tcp", "udp"], |carrier| {
        let Some(way) = Way::new() else { return };
        let scratch = Scratch::new();
        let mode = if carrier == "udp" { "\nmode = \"echo\"" } else { "" };
        let scenario = Scenario {
            receiver: format!("listen = \"{}:7000\"", ENDS[1]),
            link: format!("carrier = \"{carrier}\"{mode}"),
            ..Scenario::sensor_for("8s", "rate = \"50/s\"\nin_flight = 8\nretries = 0\ntimeout = \"200ms\"")
        };
        scratch.write("trial.toml", scenario.toml());
        let allow = ["--allow", "198.51.100.0/24"];
        let receiver = way.start(1, &scratch, &[&["--only", "receiver", "--out", "r"], &allow[..]].concat());
        until("the receiver is there", || scratch.path("r.partial").exists());
        let begun = Instant::now();
        let sender = way.start(0, &scratch, &[&["--without", "receiver", "--out", "b"], &allow[..]].concat());
        until("the run has begun", || scratch.path("b.partial/latency.hlog").exists());
        std::thread::sleep(LIVES);
        way.dies();
        let done = sender.wait();
        assert!(begun.elapsed() < Duration::from_secs(8) + EXTRA, "{carrier}: it ends on time: {:?}", begun.elapsed());
        assert!(matches!(done.code, Some(0 | 20)), "{carrier}: {}", done.stderr);
        // its counters add up, or it could not be read
        let bundle = Bundle::read(&scratch.path("b"));
        let (success, lost) = (bundle.total("success"), bundle.total("lost"));
        assert!(success > 5 && lost > 8, "{carrier}: {success} before it, {lost} after");
        assert_eq!(bundle.total("failed") + bundle.total("invalid"), 0, "{carrier}: nobody answered otherwise");
        receiver.signal(Signal::INT);
        receiver.wait();
    });
}
