//! What an engine hands back at the end of a run: the authoritative totals, and everything that went wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::messages::StopReason;
use crate::parts::tally::Tally;
use crate::time::Time;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Every group that this process ran, in the order of the assembly.
    pub groups: Vec<GroupEnd>,
    /// When traffic began; `None` if it never did.
    pub start: Option<Time>,
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
    /// Facts for the verdict's notes, such as `limits are not enforced in embedded placement`.
    pub notes: Vec<String>,
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
            for note in other.notes {
                notes.entry(note).or_default().push(node.clone());
            }
        }
        self.groups.sort_by_key(|g| g.group);
        self.faults.sort_by_key(|f| f.at);
        self.notes.extend(notes.into_iter().map(|(note, nodes)| format!("{}: {note}", nodes.join(", "))));
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
            if !self.lost_nodes.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn end(groups: Vec<GroupEnd>, arrivals: Vec<(usize, u64)>) -> RunEnd {
        RunEnd {
            groups,
            start: None,
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
    }

    #[test]
    fn what_went_to_a_lost_node_is_aborted() {
        let mut whole = end(vec![sender()], Vec::new());
        whole.lost_nodes.push("receiver".to_owned());
        whole.settle_datagrams();
        assert_eq!((whole.groups[0].tally.aborted, whole.groups[0].tally.lost), (10, 0));
    }
}
