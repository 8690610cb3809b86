//! What a network namespace counted: datagrams and segments that had no room, and ports in use. From `/proc/net`, as
//! proc_pid_net(5) and RFC 1213, RFC 4113 and RFC 4022 name them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

/// Sockets of a namespace up to which its ports are counted one by one.
const LISTED_MAX: u64 = 8192;
/// A listing of ports that took more CPU time is the last one: on a machine with much memory the kernel goes through long
/// tables. Assumed: one per cent of a core.
const LISTING_NS: i64 = 10_000_000;

/// A network namespace, by its folder in `/proc`.
#[derive(Clone, Debug)]
pub struct Namespace {
    folder: PathBuf,
    /// Its settings can be read from this process.
    own: bool,
    /// Counting ports takes too long here.
    slow: bool,
}

/// Errors since the namespace was made. What the kernel does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// UDP `InErrors`, IPv4 and IPv6: datagrams that came in and were not delivered.
    pub udp_in_errors: Option<u64>,
    /// UDP `RcvbufErrors`, IPv4 and IPv6: those among them for which a receive buffer had no room.
    pub udp_receive_buffer_errors: Option<u64>,
    /// UDP `SndbufErrors`, IPv4 and IPv6: a send buffer had no room.
    pub udp_send_buffer_errors: Option<u64>,
    /// TCP `RetransSegs`: segments sent again.
    pub tcp_retransmitted: Option<u64>,
    /// TCP `ListenOverflows`: a queue of `listen` had no room.
    pub tcp_listen_overflows: Option<u64>,
    /// TCP `ListenDrops`: a listening socket dropped a connection, for whatever reason.
    pub tcp_listen_drops: Option<u64>,
    /// TCP `RcvPruned` and `TCPRcvQDrop`: a receive buffer had no room.
    pub tcp_receive_buffer_drops: Option<u64>,
}

/// Sockets and ports in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Sockets of all kinds.
    pub sockets: Option<u64>,
    /// Local TCP ports in use out of the ephemeral range, those in TIME-WAIT among them; `None` where there are more than 8192
    /// sockets, or it takes too long to count them.
    pub used: Option<u64>,
    /// How many the ephemeral range has.
    pub limit: Option<u64>,
}

impl Namespace {
    /// That of this process.
    pub fn own() -> Namespace {
        Namespace { folder: PathBuf::from("/proc/self/net"), own: true, slow: false }
    }

    /// That of the machine: of its first process. Its counters are unknown where we may not read them.
    pub fn machine() -> Namespace {
        Namespace { folder: PathBuf::from("/proc/1/net"), own: false, slow: false }
    }

    /// Its counters now.
    pub fn counters(&self) -> Counters {
        let text = |file: &str| read(&self.folder.join(file));
        counters(&text("snmp"), &text("snmp6"), &text("netstat"))
    }

    /// Its sockets and ports now.
    pub fn ports(&mut self) -> Ports {
        let sockstat = read(&self.folder.join("sockstat"));
        let (tcp, sockets) = (of(&sockstat, "TCP", "alloc"), of(&sockstat, "sockets", "used"));
        let range = if self.own { range(&read(Path::new("/proc/sys/net/ipv4/ip_local_port_range"))) } else { None };
        let listed = tcp.zip(of(&sockstat, "TCP", "tw")).map(|(alloc, waiting)| alloc + waiting);
        let used = range.filter(|_| !self.slow && listed.is_some_and(|n| n <= LISTED_MAX)).map(|range| {
            let begun = cpu_ns();
            let used = used(&[read(&self.folder.join("tcp")), read(&self.folder.join("tcp6"))], range);
            self.slow = cpu_ns() - begun > LISTING_NS;
            used
        });
        Ports { sockets, used, limit: range.map(|(low, high)| u64::from(high - low) + 1) }
    }
}

impl Counters {
    /// What came since `last`; `None` where either is unknown.
    #[must_use]
    pub fn since(&self, last: &Counters) -> Counters {
        let grown = |now: Option<u64>, last: Option<u64>| Some(now?.saturating_sub(last?));
        Counters {
            udp_in_errors: grown(self.udp_in_errors, last.udp_in_errors),
            udp_receive_buffer_errors: grown(self.udp_receive_buffer_errors, last.udp_receive_buffer_errors),
            udp_send_buffer_errors: grown(self.udp_send_buffer_errors, last.udp_send_buffer_errors),
            tcp_retransmitted: grown(self.tcp_retransmitted, last.tcp_retransmitted),
            tcp_listen_overflows: grown(self.tcp_listen_overflows, last.tcp_listen_overflows),
            tcp_listen_drops: grown(self.tcp_listen_drops, last.tcp_listen_drops),
            tcp_receive_buffer_drops: grown(self.tcp_receive_buffer_drops, last.tcp_receive_buffer_drops),
        }
    }
}

fn counters(snmp: &str, snmp6: &str, netstat: &str) -> Counters {
    let six = |name: &str| {
        let mut lines = snmp6.lines().filter_map(|line| line.split_once(char::is_whitespace));
        lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    let (udp, tcp, more) = (table(snmp, "Udp"), table(snmp, "Tcp"), table(netstat, "TcpExt"));
    // a kernel without IPv6 has no such errors
    let both = |name: &str| Some(udp.get(name)?.saturating_add(six(&format!("Udp6{name}")).unwrap_or(0)));
    Counters {
        udp_in_errors: both("InErrors"),
        udp_receive_buffer_errors: both("RcvbufErrors"),
        udp_send_buffer_errors: both("SndbufErrors"),
        tcp_retransmitted: tcp.get("RetransSegs").copied(),
        tcp_listen_overflows: more.get("ListenOverflows").copied(),
        tcp_listen_drops: more.get("ListenDrops").copied(),
        tcp_receive_buffer_drops: more
            .get("RcvPruned")
            .map(|pruned| pruned.saturating_add(more.get("TCPRcvQDrop").copied().unwrap_or(0))),
    }
}

/// Two lines `Udp: names` and `Udp: numbers`. Some numbers are negative; those are left out.
fn table<'a>(text: &'a str, name: &str) -> BTreeMap<&'a str, u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let (names, numbers) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pairs = names.split_whitespace().zip(numbers.split_whitespace());
    pairs.filter_map(|(name, number)| Some((name, number.parse().ok()?))).collect()
}

/// `TCP: inuse 102 orphan 0 tw 0 alloc 102 mem 172`
fn of(text: &str, line: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

fn range(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_whitespace();
    let (low, high) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (low <= high).then_some((low, high))
}

/// Local ports within `range`, each once: `0: 0100007F:9F07 00000000:0000 0A …`, the number after the colon in hexadecimal.
fn used(listings: &[String; 2], range: (u16, u16)) -> u64 {
    let mut seen = vec![false; 1 << 16];
    for line in listings.iter().flat_map(|text| text.lines().skip(1)) {
        let port =
            line.split_whitespace().nth(1).and_then(|local| u16::from_str_radix(local.rsplit(':').next()?, 16).ok());
        if let Some(port) = port.filter(|port| (range.0..=range.1).contains(port)) {
            seen[usize::from(port)] = true;
        }
    }
    seen.into_iter().filter(|seen| *seen).count() as u64
}

/// CPU time of this thread: others that run meanwhile are no reason to stop counting.
fn cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    const SNMP: &str = "Tcp: RtoMax MaxConn RetransSegs\nTcp: 120000 -1 31\n\
                        Udp: InDatagrams NoPorts InErrors RcvbufErrors SndbufErrors\nUdp: 32 1 9 7 2\nUdpLite: InErrors\n";
    const SNMP6: &str = "Udp6InErrors                    \t4\nUdp6RcvbufErrors                \t3\n";
    const NETSTAT: &str =
        "TcpExt: RcvPruned ListenOverflows ListenDrops TCPRcvQDrop\nTcpExt: 5 11 12 6\nIpExt: x\nIpExt: 1\n";

    #[test]
    fn the_kernels_tables_are_understood() {
        let all = Counters {
            udp_in_errors: Some(13),
            udp_receive_buffer_errors: Some(10),
            udp_send_buffer_errors: Some(2),
            tcp_retransmitted: Some(31),
            tcp_listen_overflows: Some(11),
            tcp_listen_drops: Some(12),
            tcp_receive_buffer_drops: Some(11),
        };
        assert_eq!(counters(SNMP, SNMP6, NETSTAT), all);
        let four = counters(SNMP, "", "");
        assert_eq!((four.udp_in_errors, four.tcp_listen_drops, four.tcp_receive_buffer_drops), (Some(9), None, None));
        assert_eq!(counters("", SNMP6, ""), Counters::default(), "unknown, not zero");
        let since = all.since(&four);
        assert_eq!((since.udp_in_errors, since.tcp_retransmitted, since.tcp_listen_drops), (Some(4), Some(0), None));
    }

    #[test]
    fn sockets_and_ports_are_understood() {
        let sockstat = "sockets: used 132\nTCP: inuse 102 orphan 0 tw 3 alloc 104 mem 172\n";
        assert_eq!(
            [("TCP", "tw"), ("sockets", "used"), ("UDP", "mem")].map(|(l, n)| of(sockstat, l, n)),
            [Some(3), Some(132), None]
        );
        assert_eq!((range("32768\t60999\n"), range("9 1"), range("")), (Some((32768, 60999)), None, None));
        let four = "  sl  local\n   0: 0100007F:9F07 0:0000 0A\n   1: 0100007F:9F07 0:0001 01\n   2: 0:0050 0:0 0A\n";
        let six = "  sl  local\n   0: 00000000000000000000000001000000:9F08 0:0 0A\n";
        assert_eq!(used(&[four.to_owned(), six.to_owned()], (32768, 60999)), 2);
    }

    #[test]
    fn ports_of_this_namespace_are_counted() {
        let mut space = Namespace::own();
        let before = space.ports();
        let held: Vec<TcpListener> = (0..50).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let after = space.ports();
        assert!(after.limit > Some(50) && after.sockets > Some(50), "{after:?}");
        if let Some((before, after)) = before.used.zip(after.used) {
            // others on this machine take and leave ports too
            assert!(after >= 50 && after.abs_diff(before) >= 10, "{before} {after}");
        }
        drop(held);
    }

    /// A receive buffer that nobody empties: the kernel counts what finds no room.
    #[test]
    fn datagrams_without_room_are_counted() {
        let space = Namespace::own();
        let before = space.counters();
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = receiver.local_addr().expect("its address");
        (0..2000).for_each(|_| drop(sender.send_to(&[0; 1400], to)));
        let since = space.counters().since(&before);
        assert!(since.udp_receive_buffer_errors > Some(500), "{since:?}");
        assert!(since.udp_in_errors >= since.udp_receive_buffer_errors, "{since:?}");
    }
}
