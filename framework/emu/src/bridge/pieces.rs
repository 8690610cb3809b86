//! A report that is larger than a message may be: taken apart by its groups, and put together again where it is stored.

use std::collections::BTreeMap;

use rehearsal_core::Body;
use rehearsal_core::message::Header;
use rehearsal_core::messages::{GroupSnapshot, NodeReport};

/// Parts that a report may have; a node with more does not exist.
const PARTS_MAX: u32 = 256;
/// Reports that may wait for their other parts.
const WAITING_MAX: usize = 512;

/// A report in parts that each fit, and what had to be left out of it, named.
pub(super) struct Pieces {
    pub parts: Vec<NodeReport>,
    pub left_out: Vec<String>,
}

/// Takes `report` apart so that each part's wire form has at most `bytes_max` bytes. What is too large alone loses its
/// histograms and single requests, and goes as a whole if that is not enough: its counts are totals, and come again.
pub(super) fn take_apart(report: &NodeReport, header: &Header<'_>, bytes_max: usize) -> Pieces {
    if bytes(report, header) <= bytes_max {
        return Pieces { parts: vec![report.clone()], left_out: Vec::new() };
    }
    let empty = NodeReport { groups: Vec::new(), part: PARTS_MAX, parts: PARTS_MAX, ..report.clone() };
    let rest = bytes(&empty, header);
    let mut pieces = Pieces { parts: Vec::new(), left_out: Vec::new() };
    let (mut groups, mut taken) = (Vec::new(), rest);
    for group in &report.groups {
        let Some((group, size)) = fitting(group, &empty, header, bytes_max, &mut pieces.left_out) else { continue };
        // a list's length takes up to five bytes where it took one
        if taken + size + 4 > bytes_max && !groups.is_empty() {
            pieces.parts.push(NodeReport { groups: std::mem::take(&mut groups), ..empty.clone() });
            taken = rest;
        }
        groups.push(group);
        taken += size;
    }
    pieces.parts.push(NodeReport { groups, ..empty });
    number(report, &mut pieces);
    pieces
}

/// The first part alone holds what is not of a group.
fn number(report: &NodeReport, pieces: &mut Pieces) {
    if pieces.parts.len() > PARTS_MAX as usize {
        pieces.left_out.push(format!("`{}`: parts of a report beyond {PARTS_MAX}", report.node));
        pieces.parts.truncate(PARTS_MAX as usize);
    }
    let parts = pieces.parts.len() as u32;
    for (row, part) in pieces.parts.iter_mut().enumerate() {
        (part.part, part.parts) = (row as u32, if parts == 1 { 0 } else { parts });
        part.host = report.host.clone().filter(|_| row == 0);
        part.around = if row == 0 { report.around.clone() } else { Vec::new() };
    }
}

fn fitting(
    group: &GroupSnapshot,
    empty: &NodeReport,
    header: &Header<'_>,
    bytes_max: usize,
    left_out: &mut Vec<String>,
) -> Option<(GroupSnapshot, usize)> {
    let rest = bytes(empty, header);
    let size = |group: &GroupSnapshot| {
        bytes(&NodeReport { groups: vec![group.clone()], ..empty.clone() }, header).saturating_sub(rest)
    };
    let whole = size(group);
    if rest + whole + 4 <= bytes_max {
        return Some((group.clone(), whole));
    }
    let name = format!("`{}/{}`", group.node, group.actor);
    let bare = GroupSnapshot { histograms: Vec::new(), requests: None, ..group.clone() };
    let small = size(&bare);
    if rest + small + 4 <= bytes_max {
        left_out.push(format!("{name}: the times of a second"));
        return Some((bare, small));
    }
    left_out.push(format!("{name}: a second's snapshot"));
    None
}

fn bytes(report: &NodeReport, header: &Header<'_>) -> usize {
    Body::new(report.clone()).to_wire(header).len()
}

/// Reports whose other parts have not come yet, with what each part is acknowledged by.
#[derive(Default)]
pub(super) struct Puzzle {
    waiting: BTreeMap<(String, u32), Half>,
    /// Reports that were given up because too many waited.
    pub given_up: u64,
}

#[derive(Default)]
struct Half {
    parts: BTreeMap<u32, NodeReport>,
    replies: Vec<String>,
}

impl Puzzle {
    /// Whether a report is whole, or one of the parts that it says there are.
    pub fn is_sane(report: &NodeReport) -> bool {
        report.parts <= 1 || (report.part < report.parts && report.parts <= PARTS_MAX)
    }

    /// Takes a report, or a part of one; gives the whole once it is complete, with all that it is acknowledged by. `None`
    /// while parts are missing. Only what [`Puzzle::is_sane`] may be given.
    pub fn add(&mut self, report: NodeReport, reply: String) -> Option<(NodeReport, Vec<String>)> {
        if report.parts <= 1 {
            return Some((report, vec![reply]));
        }
        let key = (report.node.clone(), report.second);
        if self.waiting.len() == WAITING_MAX && !self.waiting.contains_key(&key) {
            // the server delivers its parts again
            self.waiting.pop_first();
            self.given_up += 1;
        }
        let parts = report.parts;
        let half = self.waiting.entry(key.clone()).or_default();
        half.replies.push(reply);
        half.parts.insert(report.part, report);
        if half.parts.len() < parts as usize {
            return None;
        }
        let Half { parts, replies } = self.waiting.remove(&key)?;
        let mut all = parts.into_values();
        let mut whole = all.next()?;
        whole.groups.extend(all.flat_map(|part| part.groups));
        (whole.part, whole.parts) = (0, 0);
        Some((whole, replies))
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::messages::{HistogramPart, HostSample, Metric, Scope};
    use rehearsal_core::parts::tally::Tally;

    use super::*;

    const HEADER: Header<'_> = Header { run: "trial", from: "camera-1.logger", seq: 7, t_ns: 1 << 40 };

    fn group(actor: &str, bytes: usize) -> GroupSnapshot {
        GroupSnapshot {
            node: "camera-1".into(),
            actor: actor.into(),
            kind: "camera".into(),
            instances: 1,
            second: 3,
            totals: Tally::default(),
            queue_length: 0,
            histograms: vec![HistogramPart { metric: Metric::Response, v2: vec![7; bytes].into() }],
            counts: Vec::new(),
            requests: None,
        }
    }

    fn report(groups: Vec<GroupSnapshot>) -> NodeReport {
        let host = Some(HostSample { node: "camera-1".into(), second: 3, ..HostSample::default() });
        let around = vec![HostSample::of(Scope::Machine, "lab", 3)];
        NodeReport { node: "camera-1".into(), second: 3, host, around, groups, dropped: 2, ..NodeReport::default() }
    }

    #[test]
    fn a_report_that_fits_stays_whole() {
        let small = report(vec![group("a", 100), group("b", 100)]);
        let pieces = take_apart(&small, &HEADER, 10_000);
        assert_eq!((pieces.parts, pieces.left_out), (vec![small], vec![]));
    }

    #[test]
    fn parts_fit_and_make_the_report_again_in_any_order() {
        let names: Vec<String> = (0..40).map(|n| format!("actor-{n}")).collect();
        let large = report(names.iter().map(|name| group(name, 900)).collect());
        for bytes_max in [2_500, 5_000, 20_000, 40_000] {
            let Pieces { mut parts, left_out } = take_apart(&large, &HEADER, bytes_max);
            assert!(parts.len() > 1 && left_out.is_empty(), "{bytes_max}: {}", parts.len());
            assert!(parts.iter().all(|part| bytes(part, &HEADER) <= bytes_max), "{bytes_max}");
            parts.reverse();
            let mut puzzle = Puzzle::default();
            let last = parts.len() - 1;
            for (row, part) in parts.into_iter().enumerate() {
                let whole = puzzle.add(part, format!("reply {row}"));
                assert_eq!(whole.is_some(), row == last);
                if let Some((whole, replies)) = whole {
                    assert_eq!((whole, replies.len()), (large.clone(), last + 1));
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_alone_is_named_and_the_rest_goes_on() {
        let large = report(vec![group("a", 100), group("b", 5_000), group("c", 100)]);
        let Pieces { parts, left_out } = take_apart(&large, &HEADER, 2_500);
        assert_eq!(left_out, ["`camera-1/b`: the times of a second"]);
        let groups: Vec<&GroupSnapshot> = parts.iter().flat_map(|part| &part.groups).collect();
        assert_eq!(groups.len(), 3);
        assert_eq!((groups[1].actor.as_str(), groups[1].histograms.len()), ("b", 0));
        let Pieces { left_out, .. } = take_apart(&large, &HEADER, 300);
        assert_eq!(left_out[1], "`camera-1/b`: a second's snapshot");
    }

    #[test]
    fn parts_that_never_come_have_a_bound_and_nonsense_is_refused() {
        let mut puzzle = Puzzle::default();
        let part = |second: u32, part: u32, parts: u32| NodeReport { second, part, parts, ..report(Vec::new()) };
        for second in 0..2 * WAITING_MAX as u32 {
            assert!(puzzle.add(part(second, 0, 2), String::new()).is_none());
        }
        assert_eq!((puzzle.waiting.len(), puzzle.given_up), (WAITING_MAX, WAITING_MAX as u64));
        let sane = [part(0, 5, 2), part(0, 0, PARTS_MAX + 1), part(0, 1, 2), part(0, 0, 0)];
        assert_eq!(sane.map(|part| Puzzle::is_sane(&part)), [false, false, true, true]);
    }
}
