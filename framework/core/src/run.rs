//! What an engine hands back at the end of a run: the authoritative totals, and everything that went wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::life::LossWindow;
use crate::messages::StopReason;
use crate::parts::tally::Tally;
use crate::plan::{Carrier, Impose};
use crate::steer::Steer;
use crate::time::Time;

/// Nodes that a note names before it counts the rest.
const NAMES_MAX: usize = 6;

/// The end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunEnd {
    /// Every group that this process ran, in the order of the assembly.
    pub groups: Vec<GroupEnd>,
    /// When traffic began; `None` if it never did.
    pub start: Option<Time>,
    /// When each measured node woke up to begin, by the run's time: a little after `start`. Empty in virtual time.
    pub begun: Vec<(String, Time)>,
    /// When the drain began.
    pub stop: Time,
    /// When the last outcome was in and the last record stored.
    pub end: Time,
    /// Why it stopped.
    pub reason: StopReason,
    /// What went wrong, in the order of time.
    pub faults: Vec<Fault>,
    /// Messages that a full subscription buffer dropped.
    pub messages_dropped: u64,
    /// Answers that came after their deadline.
    pub late_replies: u64,
    /// Events that actors handled.
    pub events: u64,
    /// Digest over the whole event trace; a simulation's alone.
    pub fingerprint: Option<u64>,
    /// Node instances in other processes whose end nobody told; what they did after their last report is not known.
    pub lost_nodes: Vec<String>,
    /// Datagrams that arrived here from groups of other processes: the group's row and their number.
    pub arrivals: Vec<(usize, u64)>,
    /// What links did that were simulated or imposed, by the nodes' names in the file.
    pub links: Vec<LinkEnd>,
    /// Connections that senders opened, by the nodes' names in the file; none over NATS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionEnd>,
    /// Which process of a node told its end, from 0; only those that were started again.
    pub incarnations: BTreeMap<String, u32>,
    /// Times in which nobody knew of a node in another process.
    pub losses: Vec<LossWindow>,
    /// What was done to the load on the way, in the order of time.
    pub steers: Vec<Steer>,
    /// What a simulation did beyond what its calibration covers; nothing in an emulation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside_calibration: Vec<String>,
    /// Facts for the verdict's notes, such as `limits are not enforced in embedded placement`.
    pub notes: Vec<String>,
}

/// What one link did, over all its pairs of node instances. `offered = delivered + lost + full + open`. Simulated, and
/// imposed in user space, messages are counted; imposed by the kernel, packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// Where it begins: a node's name in the file.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Who imposed it; nobody in a simulation.
    pub imposed: Impose,
    /// Pairs of node instances that used it, each with a link of its own.
    pub pairs: u64,
    /// Messages offered, retransmissions among them.
    pub offered: u64,
    /// Messages that it carried to their end.
    pub delivered: u64,
    /// Messages that it lost on the way.
    pub lost: u64,
    /// Messages that found its queue full.
    pub full: u64,
    /// Messages that were on it at the end of the run.
    pub open: u64,
    /// Offers of messages that had been lost or dropped before.
    pub retransmitted: u64,
    /// Bytes that were delivered, headers of the carrier included.
    pub bytes: u64,
    /// From the first offer to the last delivery, ns.
    pub active_ns: u64,
    /// From offer to delivery: waiting, serialisation, propagation and jitter; an HdrHistogram, V2 encoding, values in ns.
    pub delay_v2: ByteBuf,
}

/// Connections that the instances of one node opened to those of another: of each version, suite and protocol that the
/// ends agreed on a row of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEnd {
    /// Who opened them: a node's name in the file.
    pub from: String,
    /// Whose they are.
    pub to: String,
    /// What went over them.
    pub carrier: Carrier,
    /// Connections that were opened, their handshakes done.
    pub opened: u64,
    /// Of them, those whose handshake was one of TLS with certificates.
    pub full: u64,
    /// Of them, those whose handshake was one of TLS with a ticket of an earlier one.
    pub resumed: u64,
    /// Version of TLS, such as `TLS 1.3`; empty in clear.
    pub tls: String,
    /// Cipher suite by its name at IANA; empty in clear, and in a simulation, which does not choose one.
    pub cipher: String,
    /// The protocol that was agreed on (ALPN); empty in clear.
    pub alpn: String,
}

impl ConnectionEnd {
    /// Adds the counts of rows about the same, in the order of their names.
    pub fn merge(all: Vec<ConnectionEnd>) -> Vec<ConnectionEnd> {
        let mut rows: BTreeMap<_, ConnectionEnd> = BTreeMap::new();
        for end in all {
            let key =
                (end.from.clone(), end.to.clone(), end.carrier, end.tls.clone(), end.cipher.clone(), end.alpn.clone());
            match rows.get_mut(&key) {
                None => _ = rows.insert(key, end),
                Some(row) => {
                    row.opened += end.opened;
                    row.full += end.full;
                    row.resumed += end.resumed;
                }
            }
        }
        rows.into_values().collect()
    }
}

/// One group at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupEnd {
    /// Row of the assembly's groups.
    pub group: usize,
    /// Totals since the start; nothing is open any more.
    pub tally: Tally,
    /// Digest of what the group's schedule generated.
    pub schedule: u64,
    /// Its own counters by name.
    pub counts: Vec<(String, u64)>,
    /// Datagrams to receivers in other processes: open until [`RunEnd::settle_datagrams`] where the ends are gathered.
    pub datagrams_elsewhere: u64,
    /// The address it listened on, if it received.
    pub listen: Option<core::net::SocketAddr>,
}

/// A named fault of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When.
    pub at: Time,
    /// The node instance.
    pub node: String,
    /// The actor instance.
    pub actor: String,
    /// What happened.
    pub text: String,
}

/// How far a run is, told about once a second of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run's time now.
    pub at: Time,
    /// When traffic began, once that is known.
    pub start: Option<Time>,
    /// Whether the run drains.
    pub stopping: bool,
    /// Events that actors handled so far.
    pub events: u64,
    /// Exchanges that came due so far, over all local groups.
    pub generated: u64,
    /// Exchanges that are settled so far, over all local groups.
    pub settled: u64,
}

impl RunEnd {
    /// Takes in how other processes ended the same run, by their nodes. A note names the nodes that it is of.
    pub fn join(&mut self, others: BTreeMap<String, RunEnd>) {
        let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (node, other) in others {
            self.groups.extend(other.groups);
            self.faults.extend(other.faults);
            self.messages_dropped += other.messages_dropped;
            self.late_replies += other.late_replies;
            self.events += other.events;
            self.arrivals.extend(other.arrivals);
            self.begun.extend(other.begun);
            self.links.extend(other.links);
            self.connections.extend(other.connections);
            for note in other.notes {
                notes.entry(note).or_default().push(node.clone());
            }
        }
        self.groups.sort_by_key(|g| g.group);
        self.faults.sort_by_key(|f| f.at);
        self.notes.extend(notes.into_iter().map(|(note, nodes)| format!("{}: {note}", named(&nodes))));
    }

    /// Settles datagrams between processes, once all ends are joined: what arrived is a success, the rest is lost. If a
    /// node is lost, nobody knows what arrived there: what was open is aborted.
    pub fn settle_datagrams(&mut self) {
        let arrivals = std::mem::take(&mut self.arrivals);
        for group in &mut self.groups {
            let sent = std::mem::take(&mut group.datagrams_elsewhere);
            let here = arrivals.iter().filter(|(row, _)| *row == group.group);
            let arrived = here.map(|(_, n)| n).sum::<u64>().min(sent);
            let tally = &mut group.tally;
            if !self.lost_nodes.is_empty() || !self.incarnations.is_empty() {
                tally.close();
                continue;
            }
            tally.success += arrived;
            tally.lost += sent - arrived;
            tally.unacknowledged += sent - arrived;
        }
    }

    /// Sum of the groups' schedule digests: equal for the same experiment, seed and repetition, on either engine and
    /// over any number of hosts.
    pub fn schedule_digest(&self) -> u64 {
        self.groups.iter().fold(0, |sum, g| sum.wrapping_add(g.schedule.rotate_left(g.group as u32 % 64)))
    }
}

/// The first few nodes by name, and how many more there are.
fn named(nodes: &[String]) -> String {
    match nodes.get(..NAMES_MAX) {
        Some(first) if nodes.len() > NAMES_MAX => format!("{} and {} more", first.join(", "), nodes.len() - NAMES_MAX),
        _ => nodes.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(groups: Vec<GroupEnd>, arrivals: Vec<(usize, u64)>) -> RunEnd {
        RunEnd {
            groups,
            start: None,
            begun: Vec::new(),
            stop: Time::ZERO,
            end: Time::ZERO,
            reason: StopReason::Done,
            faults: Vec::new(),
            messages_dropped: 1,
            late_replies: 0,
            events: 2,
            fingerprint: None,
            lost_nodes: Vec::new(),
            arrivals,
            incarnations: BTreeMap::new(),
            losses: Vec::new(),
            steers: Vec::new(),
            links: Vec::new(),
            connections: Vec::new(),
            outside_calibration: Vec::new(),
            notes: vec!["fast".to_owned()],
        }
    }

    fn sender() -> GroupEnd {
        let tally = Tally { generated: 10, attempts: 10, datagrams_sent: 10, ..Tally::default() };
        GroupEnd { group: 0, tally, schedule: 5, counts: Vec::new(), datagrams_elsewhere: 10, listen: None }
    }

    #[test]
    fn the_ends_of_two_processes_are_one_end() {
        let receiver = GroupEnd { group: 1, tally: Tally::default(), datagrams_elsewhere: 0, ..sender() };
        let mut whole = end(vec![receiver.clone()], vec![(0, 7)]);
        let others = ["sender", "spare"].map(|node| (node.to_owned(), end(Vec::new(), Vec::new())));
        let mut others = BTreeMap::from(others);
        others.insert("sender".to_owned(), end(vec![sender()], Vec::new()));
        whole.join(others);
        whole.settle_datagrams();
        assert_eq!(whole.groups.iter().map(|g| g.group).collect::<Vec<_>>(), [0, 1]);
        let tally = whole.groups[0].tally;
        assert_eq!((tally.success, tally.lost, tally.aborted, tally.open()), (7, 3, 0, 0));
        assert!(tally.consistent());
        assert_eq!((whole.messages_dropped, whole.events), (3, 6));
        assert_eq!(whole.notes, ["fast", "sender, spare: fast"]);
        let names: Vec<String> = (1..=9).map(|n| format!("s-{n}")).collect();
        assert_eq!(named(&names), "s-1, s-2, s-3, s-4, s-5, s-6 and 3 more");
        assert_eq!(named(&names[..6]), "s-1, s-2, s-3, s-4, s-5, s-6");
    }

    #[test]
    fn what_went_to_a_lost_node_is_aborted() {
        let mut whole = end(vec![sender()], Vec::new());
        whole.lost_nodes.push("receiver".to_owned());
        whole.settle_datagrams();
        assert_eq!((whole.groups[0].tally.aborted, whole.groups[0].tally.lost), (10, 0));
    }
}
