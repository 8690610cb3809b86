//! The facts about a machine that somebody who places nodes on it wants to know: cores, memory, kernel, network
//! interfaces, and how well its clock is kept. What is unknown is `None`; nothing here is an error.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long a program that is asked about the clock may take.
const ANSWER: Duration = Duration::from_secs(2);
/// Between two looks at whether it has answered.
const LOOK: Duration = Duration::from_millis(5);
/// Interfaces that are told of.
const INTERFACES_MAX: usize = 256;

/// The facts about this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Processor architecture, `x86_64` or `aarch64`.
    pub architecture: String,
    /// Kernel and its release.
    pub kernel: String,
    /// Bytes of a page of memory.
    pub page_bytes: u64,
    /// Network interfaces by name, but for the loopback.
    pub interfaces: BTreeMap<String, Interface>,
    /// Its clock.
    pub clock: Clock,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its addresses, if `ip` is there to tell them.
    pub addresses: Vec<IpAddr>,
    /// Its speed, bit/s; virtual ones have none.
    pub speed_bits: Option<u64>,
    /// Whether it has a carrier.
    pub up: bool,
}

/// How well a clock is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// What the kernel counts, such as `tsc`.
    pub source: Option<String>,
    /// Whether something keeps its date right.
    pub synchronised: Option<bool>,
    /// How far it may be off, ns, as whoever keeps it estimates.
    pub error_ns: Option<u64>,
}

impl Facts {
    /// Reads them. Takes up to six seconds where a program that knows the clock does not answer, usually milliseconds.
    pub fn read() -> Facts {
        let name = rustix::system::uname();
        let text = |c: &core::ffi::CStr| c.to_string_lossy().into_owned();
        Facts {
            name: text(name.nodename()),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            memory_bytes: read("/proc/meminfo").and_then(|text| memory(&text)),
            architecture: text(name.machine()),
            kernel: format!("{} {}", text(name.sysname()), text(name.release())),
            page_bytes: rustix::param::page_size() as u64,
            interfaces: interfaces(),
            clock: Clock::read(),
        }
    }
}

/// Network interfaces by name, but for the loopback.
pub fn interfaces() -> BTreeMap<String, Interface> {
    let folder = Path::new("/sys/class/net");
    let names = fs::read_dir(folder).into_iter().flatten().flatten().take(INTERFACES_MAX);
    let names = names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name != "lo");
    let of = |name: &str, file: &str| fs::read_to_string(folder.join(name).join(file)).ok();
    let interface = |name: String| {
        let speed: Option<i64> = of(&name, "speed").and_then(|text| text.trim().parse().ok());
        let up = of(&name, "carrier").is_some_and(|text| text.trim() == "1");
        // -1 where there is none
        let speed_bits = speed.and_then(|mbit| u64::try_from(mbit).ok()).map(|mbit| mbit * 1_000_000);
        (name, Interface { addresses: Vec::new(), speed_bits, up })
    };
    let mut all: BTreeMap<String, Interface> = names.map(interface).collect();
    for (name, address) in answer("ip", &["-o", "addr", "show"]).unwrap_or_default().lines().filter_map(address) {
        if let Some(interface) = all.get_mut(name) {
            interface.addresses.push(address);
        }
    }
    all
}

impl Clock {
    /// Asks whoever may know: chrony, then the kernel by `adjtimex`, then systemd. The kernel's own call is not made here:
    /// it needs `unsafe`.
    pub fn read() -> Clock {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = read(path).map(|text| text.trim().to_owned());
        let kept = answer("chronyc", &["-c", "tracking"])
            .and_then(|text| chrony(&text))
            .or_else(|| answer("adjtimex", &["--print"]).and_then(|text| adjtimex(&text)))
            .or_else(|| answer("timedatectl", &["show", "-p", "NTPSynchronized"]).and_then(|text| systemd(&text)));
        Clock { source, ..kept.unwrap_or_default() }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// What a program says, if it is there and ends well in time.
fn answer(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let reader = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap_or_default());
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if begun.elapsed() < ANSWER => std::thread::sleep(LOOK),
            _ => break None,
        }
    };
    if status.is_none() {
        // it closes its output by this, so the reader ends
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = reader.join().unwrap_or_default();
    status.filter(std::process::ExitStatus::success).map(|_| text)
}

/// `MemTotal` of proc_meminfo(5).
fn memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// `2: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0`; a name may have `@` and its peer behind it.
fn address(line: &str) -> Option<(&str, IpAddr)> {
    let mut words = line.split_whitespace().skip(1);
    let name = words.next()?.split('@').next()?;
    words.next().filter(|family| family.starts_with("inet"))?;
    Some((name, words.next()?.split('/').next()?.parse().ok()?))
}

/// `chronyc -c tracking`: fields between commas; the stratum is the third, root delay and root dispersion are the 11th and
/// 12th, in seconds. The error is at most half the delay and the dispersion together (RFC 5905 §11.2).
fn chrony(text: &str) -> Option<Clock> {
    let fields: Vec<&str> = text.trim().split(',').collect();
    let [delay, dispersion] = [10, 11].map(|row| fields.get(row).and_then(|f| f.parse::<f64>().ok()));
    let synchronised = fields.last().map(|leap| *leap != "Not synchronised")?;
    let error_ns = delay.zip(dispersion).filter(|_| synchronised).map(|(d, e)| ((d / 2.0 + e) * 1e9) as u64);
    (fields.len() >= 12).then_some(Clock { source: None, synchronised: Some(synchronised), error_ns })
}

/// `adjtimex --print`: lines `name: number`; 64 in `status` is STA_UNSYNC, `esterror` is in µs (adjtimex(2)).
fn adjtimex(text: &str) -> Option<Clock> {
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().parse::<u64>().ok()
    };
    let synchronised = of("status")? & 64 == 0;
    let error_ns = of("esterror").filter(|_| synchronised).map(|us| us.saturating_mul(1000));
    Some(Clock { source: None, synchronised: Some(synchronised), error_ns })
}

/// `NTPSynchronized=yes`: what adjtimex(2) says, as systemd understands it.
fn systemd(text: &str) -> Option<Clock> {
    let word = text.trim().strip_prefix("NTPSynchronized=")?;
    Some(Clock { source: None, synchronised: Some(word == "yes"), error_ns: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let facts = Facts::read();
        assert!(facts.cores > 0 && facts.memory_bytes > Some(0) && facts.page_bytes >= 4096, "{facts:?}");
        assert!(facts.kernel.starts_with("Linux "), "{facts:?}");
        assert!(!facts.interfaces.contains_key("lo"));
    }

    #[test]
    fn addresses_are_found_in_what_ip_says() {
        let line = "2: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0\\       valid_lft forever";
        assert_eq!(address(line), Some(("eth0", IpAddr::from([192, 0, 2, 7]))));
        let line = "7: veth1@if6    inet6 fe80::1/64 scope link \\       valid_lft forever";
        assert_eq!(address(line), Some(("veth1", "fe80::1".parse().expect("an address"))));
        assert_eq!(address("1: lo    link 00:00"), None);
    }

    #[test]
    fn clocks_are_understood() {
        let kept =
            "A29FC801,192.0.2.1,3,1700000000.1,0.000001,-0.000002,0.00001,-1.0,0.001,0.02,0.004,0.001,64.2,Normal\n";
        let clock = |synchronised, error_ns| Some(Clock { source: None, synchronised: Some(synchronised), error_ns });
        assert_eq!(chrony(kept), clock(true, Some(3_000_000)));
        let free = "7F7F0101,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n";
        assert_eq!(chrony(free), clock(false, None));
        assert_eq!(adjtimex("  mode: 0\n  esterror: 250\n  status: 8193\n"), clock(true, Some(250_000)));
        assert_eq!(adjtimex("  esterror: 16000000\n  status: 64\n"), clock(false, None));
        assert_eq!(systemd("NTPSynchronized=no\n"), clock(false, None));
        assert_eq!((chrony(""), adjtimex(""), systemd("")), (None, None, None));
    }

    #[test]
    fn a_program_that_does_not_end_is_not_waited_for() {
        let begun = Instant::now();
        assert_eq!(answer("sleep", &["60"]), None);
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(answer("rehearsal-no-such-program", &[]), None);
    }
}
