//! Two network namespaces with a veth pair between them, and captures to send over it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The near end, and the far one.
pub const NEAR: &str = "va";
pub const FAR: &str = "vb";
/// Queues of each end: as many as workers are tried.
const QUEUES: &str = "2";
/// Flows of a capture.
pub const FLOWS: u32 = 64;

/// The pair; it goes with this.
pub struct Wire {
    /// The namespace of the near end.
    pub near: String,
    /// That of the far one.
    pub far: String,
}

impl Wire {
    /// Makes it; nothing but these two namespaces sees what is sent.
    pub fn new() -> Result<Self> {
        let name = format!("rhbench{}", std::process::id());
        let wire = Wire { near: format!("{name}a"), far: format!("{name}b") };
        for space in [&wire.near, &wire.far] {
            ip(&["netns", "add", space])?;
            // neighbours that nobody asked for would be counted as packets
            let quiet = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"];
            ip(&[&["netns", "exec", space, "sysctl", "-qw"], &quiet[..]].concat())?;
        }
        let queues = ["numtxqueues", QUEUES, "numrxqueues", QUEUES];
        let near = [&["link", "add", NEAR][..], &queues, &["netns", &wire.near, "type", "veth"]].concat();
        ip(&[&near[..], &["peer", "name", FAR], &queues, &["netns", &wire.far]].concat())?;
        for (space, link) in [(&wire.near, NEAR), (&wire.far, FAR)] {
            ip(&["-n", space, "link", "set", link, "up"])?;
        }
        Ok(wire)
    }

    /// A program at the near end.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.near]).arg(program);
        command
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            // it may not have been made
            let _ = ip(&["netns", "delete", space]);
        }
    }
}

/// Asks iproute2 for something.
pub fn ip(args: &[&str]) -> Result<()> {
    let done = Command::new("ip").args(args).output().context("`ip` (iproute2) is needed")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "network namespaces need root: ip {}: {}", args.join(" "), said.trim());
    Ok(())
}

/// Writes a capture of `count` datagrams of UDP, `bytes` long as frames, `gap_us` apart; returns where.
pub fn capture(folder: &Path, bytes: usize, count: u32, gap_us: u64) -> Result<PathBuf> {
    let path = folder.join(format!("replay-{bytes}-{count}-{gap_us}.pcap"));
    // pcap with microseconds, which every program reads
    let mut file: Vec<u8> =
        [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 1].into_iter().flat_map(u32::to_le_bytes).collect();
    for number in 0..count {
        let at = u64::from(number) * gap_us;
        let head = [(1_700_000_000 + at / 1_000_000) as u32, (at % 1_000_000) as u32, bytes as u32, bytes as u32];
        file.extend(head.into_iter().flat_map(u32::to_le_bytes));
        file.extend(frame(number, bytes));
    }
    fs::write(&path, file).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A datagram between two hosts that nobody is, with a number in its payload.
fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let total = (bytes - 14) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 8, 0, 0x45, 0];
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    frame.extend((10_000 + (number % FLOWS) as u16).to_be_bytes());
    frame.extend(9_000u16.to_be_bytes());
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(bytes, 0x5a);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_the_length_that_was_asked_for() {
        let folder = std::env::temp_dir().join(format!("xtask-replay-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let path = capture(&folder, 64, 10, 20).expect("a file");
        assert_eq!(fs::metadata(&path).expect("it is there").len(), 24 + 10 * (16 + 64));
        fs::remove_dir_all(&folder).expect("the temporary folder is ours");
    }
}
