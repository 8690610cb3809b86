//! What the interface itself counts: the third opinion beside who sent and who received.

use std::fs;

use serde::Serialize;

/// Counters of an interface (netdevice statistics), or their difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets dropped on receiving.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets dropped on sending.
    pub tx_dropped: u64,
}

impl Counters {
    /// Those of an interface in the calling thread's network namespace; `None` when it is not there.
    pub fn read(name: &str) -> Option<Self> {
        // below /sys is the namespace of who mounted it; this file follows the thread
        Self::find(&fs::read_to_string("/proc/thread-self/net/dev").ok()?, name)
    }

    /// How much they grew since `before`.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
            rx_dropped: self.rx_dropped.saturating_sub(before.rx_dropped),
            tx_packets: self.tx_packets.saturating_sub(before.tx_packets),
            tx_errors: self.tx_errors.saturating_sub(before.tx_errors),
            tx_dropped: self.tx_dropped.saturating_sub(before.tx_dropped),
        }
    }

    fn find(text: &str, name: &str) -> Option<Self> {
        let (_, numbers) = lines(text).find(|(interface, _)| *interface == name)?;
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        // proc_pid_net(5): bytes packets errs drop fifo frame compressed multicast, then bytes packets errs drop …
        let at = |column: usize| numbers.get(column).copied();
        Some(Counters {
            rx_packets: at(1)?,
            rx_dropped: at(3)?,
            tx_packets: at(9)?,
            tx_errors: at(10)?,
            tx_dropped: at(11)?,
        })
    }
}

/// The interfaces that the calling thread's network namespace has.
pub fn names() -> Vec<String> {
    // without the file there is nothing to name
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    lines(&text).map(|(name, _)| name.to_owned()).collect()
}

/// Name and numbers of each interface; two lines of headings have no colon.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.trim_start().rsplit_once(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_the_whole_name() {
        let text = "Inter-|   Receive\n face |bytes packets\n  va0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n   va:9 8 7 6 5 4 3 2 1 0 1 2 3 4 5 6\n";
        let va = Counters::find(text, "va").expect("it is there");
        assert_eq!((va.rx_packets, va.rx_dropped, va.tx_packets, va.tx_errors, va.tx_dropped), (8, 6, 0, 1, 2));
        assert_eq!(Counters::find(text, "va0").map(|c| c.since(&va).tx_packets), Some(10));
        assert_eq!(Counters::find(text, "v"), None);
        assert!(Counters::read("lo").is_some());
    }
}
