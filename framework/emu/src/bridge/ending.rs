//! How a node ended, in as many messages as it takes: each group and each link has a part in it, and one message may be
//! too small for all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use rehearsal_core::Body;
use rehearsal_core::message::Header;
use rehearsal_core::messages::NodeEnd;
use rehearsal_core::run::RunEnd;

use super::{Bridge, publisher};

/// Parts that the end of a node may have.
const PARTS_MAX: usize = 1024;
/// Between two times that one is told.
const AGAIN: Duration = Duration::from_millis(20);

impl Bridge {
    /// The end of this process's node, in messages that fit.
    pub(crate) fn endings(&self, end: &RunEnd) -> Vec<Body> {
        let name = self.own("end");
        // of a number as long as any
        let header = Header { run: &self.world.plan.info.run, from: publisher(&name), seq: u64::MAX, t_ns: u64::MAX };
        let mut parts = Vec::new();
        divide(end.clone(), &|end| bytes(&self.node, end, &header) <= self.outbox.payload_max(), &mut parts);
        let count = parts.len();
        let number = |row: usize| if count == 1 { 0 } else { row as u32 };
        let parts = parts.into_iter().enumerate().map(|(row, end)| NodeEnd {
            node: self.node.clone(),
            end,
            part: number(row),
            parts: number(count),
        });
        parts.map(Body::new).collect()
    }

    /// Tells the leader one of them, each time under the same number; whether it answered within `patience`, before the
    /// `tries` were over.
    pub(crate) async fn tell_ending(&self, ending: &Body, tries: &mut u32, patience: Duration) -> bool {
        let name = self.own("end");
        let payload = ending.to_wire(&self.header(&name));
        while *tries > 0 {
            if self.nats.request(&name, payload.clone(), patience).await.is_ok() {
                return true;
            }
            *tries -= 1;
            tokio::time::sleep(AGAIN).await;
        }
        false
    }
}

fn bytes(node: &str, end: &RunEnd, header: &Header<'_>) -> usize {
    let most = u32::MAX;
    Body::new(NodeEnd { node: node.to_owned(), end: end.clone(), part: most, parts: most }).to_wire(header).len()
}

/// Halves the longest list until each part fits, or holds nothing that could be halved.
fn divide(mut end: RunEnd, fits: &impl Fn(&RunEnd) -> bool, parts: &mut Vec<RunEnd>) {
    let mut rest = RunEnd::default();
    let longest = [end.groups.len(), end.links.len(), end.arrivals.len(), end.faults.len(), end.notes.len()];
    let most = longest.into_iter().max().unwrap_or_default();
    if fits(&end) || most < 2 || parts.len() >= PARTS_MAX {
        return parts.push(end);
    }
    match longest.into_iter().position(|n| n == most) {
        Some(0) => rest.groups = end.groups.split_off(most / 2),
        Some(1) => rest.links = end.links.split_off(most / 2),
        Some(2) => rest.arrivals = end.arrivals.split_off(most / 2),
        Some(3) => rest.faults = end.faults.split_off(most / 2),
        _ => rest.notes = end.notes.split_off(most / 2),
    }
    divide(end, fits, parts);
    divide(rest, fits, parts);
}

/// Ends whose other parts have not come yet.
#[derive(Default)]
pub(super) struct Endings(BTreeMap<String, BTreeMap<u32, RunEnd>>);

impl Endings {
    /// Takes an end, or a part of one; gives the whole once it is complete.
    pub fn add(&mut self, told: NodeEnd) -> Option<RunEnd> {
        let NodeEnd { node, end, part, parts } = told;
        if parts <= 1 {
            return Some(end);
        }
        if part >= parts || parts as usize > PARTS_MAX + 1 {
            return None;
        }
        let known = self.0.entry(node.clone()).or_default();
        known.insert(part, end);
        if known.len() < parts as usize {
            return None;
        }
        let mut all = self.0.remove(&node)?.into_values();
        let mut whole = all.next()?;
        for part in all {
            whole.groups.extend(part.groups);
            whole.links.extend(part.links);
            whole.arrivals.extend(part.arrivals);
            whole.faults.extend(part.faults);
            whole.notes.extend(part.notes);
        }
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::parts::tally::Tally;
    use rehearsal_core::run::GroupEnd;

    use super::*;

    fn group(group: usize) -> GroupEnd {
        let tally = Tally { generated: group as u64, ..Tally::default() };
        GroupEnd { group, tally, schedule: 1, counts: Vec::new(), datagrams_elsewhere: 0, listen: None }
    }

    #[test]
    fn parts_fit_and_make_the_end_again() {
        let notes = (0..9).map(|n| format!("note {n}")).collect();
        let end = RunEnd { groups: (0..50).map(group).collect(), notes, events: 7, ..RunEnd::default() };
        for most in [1, 3, 7, 20, 60, 100] {
            let mut parts = Vec::new();
            divide(end.clone(), &|end| end.groups.len() + end.notes.len() <= most, &mut parts);
            assert_eq!(parts.len() == 1, most >= 59, "{most}");
            let (count, mut endings) = (parts.len() as u32, Endings::default());
            let mut whole = None;
            for (part, end) in parts.into_iter().enumerate().rev() {
                assert_eq!(whole, None);
                let (node, parts) = ("camera-1".to_owned(), if count == 1 { 0 } else { count });
                whole = endings.add(NodeEnd { node, end, part: part as u32, parts });
            }
            assert_eq!(whole.as_ref(), Some(&end), "{most}");
        }
    }
}
