//! What shaped paths have carried, as the kernel counts it.

use std::collections::BTreeMap;

use super::command::run;
use super::shape::CLASS_FIRST;
use super::{NODE_END, NetworkError, Space};

/// What a shaped path did since it was shaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets that left; a packet is a frame here.
    pub packets: u64,
    /// Their bytes, with their Ethernet headers.
    pub bytes: u64,
    /// Packets that were dropped: they found no room, or netem lost them.
    pub dropped: u64,
    /// Packets that wait.
    pub waiting: u64,
}

impl Space {
    /// What each path did, in the order in which they were given to [`Space::shape`].
    ///
    /// # Errors
    /// When `tc` fails.
    pub fn carried(&self) -> Result<Vec<Carried>, NetworkError> {
        let text = run("tc", &["-n", self.name(), "-s", "qdisc", "show", "dev", NODE_END])?;
        Ok(parse(&text).into_values().collect())
    }
}

/// `qdisc bfifo 800a: parent 1:10 limit 5000b`, and below it ` Sent 7294 bytes 7 pkt (dropped 33, …` and
/// ` backlog 0b 0p …`; by the path's row.
fn parse(text: &str) -> BTreeMap<usize, Carried> {
    let mut all: BTreeMap<usize, Carried> = BTreeMap::new();
    let mut row = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["qdisc", ..] => row = parent(&words),
            ["Sent", bytes, "bytes", packets, "pkt", "(dropped", dropped, ..] => {
                let Some(row) = row else { continue };
                let at = all.entry(row).or_default();
                (at.bytes, at.packets, at.dropped) = (number(bytes), number(packets), number(dropped));
            }
            ["backlog", _, packets, ..] => {
                if let Some(at) = row.and_then(|row| all.get_mut(&row)) {
                    at.waiting = number(packets);
                }
            }
            _ => {}
        }
    }
    all
}

/// The row of the path that a queueing discipline belongs to; the root's belongs to none.
fn parent(words: &[&str]) -> Option<usize> {
    let at = words.iter().position(|word| *word == "parent")?;
    let class = words.get(at + 1)?.strip_prefix("1:")?;
    usize::from_str_radix(class, 16).ok()?.checked_sub(CLASS_FIRST)
}

/// The digits at the beginning: `33,`, `12p`.
fn number(word: &str) -> u64 {
    let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    word[..digits].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let text = "\
qdisc htb 1: root refcnt 3 r2q 10 default 0 direct_packets_stat 3 direct_qlen 1000
 Sent 7512 bytes 10 pkt (dropped 33, overlimits 5 requeues 0)
 backlog 0b 0p requeues 0
qdisc bfifo 800a: parent 1:10 limit 5000b
 Sent 7294 bytes 7 pkt (dropped 33, overlimits 0 requeues 0)
 backlog 2084b 2p requeues 0
qdisc netem 800b: parent 1:11 limit 100000 delay 5ms
 Sent 0 bytes 0 pkt (dropped 1, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0";
        let first = Carried { packets: 7, bytes: 7294, dropped: 33, waiting: 2 };
        let second = Carried { dropped: 1, ..Carried::default() };
        assert_eq!(parse(text), BTreeMap::from([(0, first), (1, second)]));
        assert_eq!(parse(""), BTreeMap::new());
    }
}
