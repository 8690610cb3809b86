//! Two network namespaces with a veth pair between them, and captures to send over it.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::agents::hosts::ip;
use crate::support::{Done, PROGRAM, Running, Scratch};

/// The near end, and the far one.
pub const NEAR: &str = "va";
pub const FAR: &str = "vb";

/// The pair; it goes with this.
pub struct Wire {
    pub near: String,
    pub far: String,
}

impl Wire {
    /// `None`, and a word about it, where this machine cannot have any.
    pub fn new() -> Option<Wire> {
        if !rustix::process::geteuid().is_root() || !ip(&["netns", "list"]) {
            eprintln!("skipped: network namespaces need root and `ip`");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rhwire{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let wire = Wire { near: format!("{name}a"), far: format!("{name}b") };
        assert!(ip(&["netns", "add", &wire.near]) && ip(&["netns", "add", &wire.far]));
        let queues = ["numtxqueues", "2", "numrxqueues", "2"];
        let link = [&["link", "add", NEAR][..], &queues, &["netns", &wire.near, "type", "veth", "peer", "name", FAR]];
        assert!(ip(&[&link.concat()[..], &queues, &["netns", &wire.far]].concat()), "a veth pair");
        for (space, name) in [(&wire.near, NEAR), (&wire.far, FAR)] {
            // neighbours that nobody asked for would be counted as packets
            let quiet = ["netns", "exec", space, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"];
            ip(&quiet);
            assert!(ip(&["-n", space, "link", "set", name, "up"]));
        }
        Some(wire)
    }

    /// Runs `rehearsal replay` at the near end to its end.
    pub fn replay(&self, scratch: &Scratch, args: &[&str]) -> Done {
        self.start(scratch, args).wait()
    }

    /// Starts it.
    pub fn start(&self, scratch: &Scratch, args: &[&str]) -> Running {
        Running::spawn(self.command(scratch, &[], args))
    }

    /// The same behind another program, such as one that takes privileges away.
    pub fn command(&self, scratch: &Scratch, behind: &[&str], args: &[&str]) -> Command {
        let before = [&["netns", "exec", &self.near], behind, &[PROGRAM, "replay"]].concat();
        scratch.command("ip", &[&before[..], args].concat())
    }

    /// Arguments that send out of the near end and listen at the far one.
    pub fn ends(&self) -> [&str; 6] {
        ["--interface", NEAR, "--receive", FAR, "--receive-in", &self.far]
    }

    /// Removes the pair, not the namespaces.
    pub fn cut(&self) {
        assert!(ip(&["-n", &self.far, "link", "delete", FAR]));
    }

    /// Whether an XDP program is at the far end.
    pub fn has_program(&self) -> bool {
        let told = Command::new("ip").args(["-n", &self.far, "-details", "link", "show", FAR]).output();
        String::from_utf8_lossy(&told.expect("ip").stdout).contains("prog/xdp")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "delete", space]).status();
        }
    }
}

/// A frame with a datagram of UDP to port 9000: `len` bytes in all, its payload begins with a number.
pub fn datagram(flow: u16, number: u32, len: usize) -> Vec<u8> {
    let total = u16::try_from(len - 14).expect("a packet");
    let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 8, 0, 0x45, 0];
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    frame.extend((10_000 + flow).to_be_bytes());
    frame.extend(9_000u16.to_be_bytes());
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, 0x5a);
    frame
}

/// A capture: nanoseconds and frame of each packet.
pub fn capture(scratch: &Scratch, name: &str, packets: &[(u64, Vec<u8>)]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d_u32, 2 | 4 << 16, 0, 0, 262_144, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (at, frame) in packets {
        let len = frame.len() as u32;
        for word in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    scratch.write(name, bytes);
}

/// So many packets of eight flows, `gap` nanoseconds apart, lengths from 60 bytes up.
pub fn mixed(count: u32, gap: u64) -> Vec<(u64, Vec<u8>)> {
    let frame = |n: u32| datagram((n % 8) as u16, n, 60 + (n as usize * 37) % 1_400);
    (0..count).map(|n| (u64::from(n) * gap, frame(n))).collect()
}

/// The packets of a capture that this program wrote, with their nanoseconds.
pub fn read(scratch: &Scratch, name: &str) -> Vec<(u64, Vec<u8>)> {
    let bytes = fs::read(scratch.path(name)).expect("a capture");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 1));
    let (mut packets, mut at) = (Vec::new(), 24);
    while at < bytes.len() {
        let len = word(at + 8) as usize;
        packets.push((
            u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)),
            bytes[at + 16..at + 16 + len].to_vec(),
        ));
        at += 16 + len;
    }
    packets
}
