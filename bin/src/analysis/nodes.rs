//! The seconds of each node: its CPU load beside its rate, and its memory.

use std::collections::{BTreeMap, BTreeSet};

use rehearsal_export::summary::GroupSummary;
use rehearsal_export::{Bundle, ExportError, Frame};
use rehearsal_stats::ndarray::Array1;
use rehearsal_stats::series::RAMP_SECONDS;

const COLUMNS: [&str; 12] = [
    "second",
    "node",
    "actor",
    "kind",
    "cpu_percent",
    "memory_bytes",
    "memory_percent",
    "voluntary_switches",
    "success",
    "sent",
    "served",
    "received",
];
/// The kind of a node's own row.
const HOST: &str = "host";

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It receives.
    Receiver,
    /// It sends.
    Sender,
}

impl Role {
    /// As it is printed.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Receiver => "receiver",
            Role::Sender => "sender",
        }
    }
}

/// One node, second by second from the start of traffic to its end. What is unknown is NaN.
#[derive(Clone, Debug)]
pub struct NodeSeries {
    /// The node instance.
    pub node: String,
    /// Receiver, if any of its actors receives.
    pub role: Role,
    /// CPU load, % of what the node is allowed.
    pub cpu_percent: Vec<f64>,
    /// Requests per second: served and succeeded, or datagrams that came in and left.
    pub rate: Vec<f64>,
    /// Resident memory, bytes.
    pub memory_bytes: Vec<f64>,
    /// The same in % of the node's limit.
    pub memory_percent: Vec<f64>,
    /// How often its threads fell asleep.
    pub sleeps: Vec<f64>,
    /// Seconds for which a group has told its count.
    seen: Vec<bool>,
}

/// Pairs of one node that are both known.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Requests per second.
    pub rate: Array1<f64>,
    /// CPU load, %.
    pub cpu: Array1<f64>,
}

impl NodeSeries {
    /// Adds what one group counted in a second; what one of them does not know, nobody knows.
    fn count(&mut self, second: usize, count: f64) {
        let before = if std::mem::replace(&mut self.seen[second], true) { self.rate[second] } else { 0.0 };
        self.rate[second] = before + count;
    }

    /// The known pairs of some seconds.
    pub fn pairs(&self, from: usize, to: usize) -> Pairs {
        let to = to.min(self.rate.len());
        let range = from.min(to)..to;
        let both = self.rate[range.clone()].iter().zip(&self.cpu_percent[range]);
        let known = both.filter(|(rate, cpu)| rate.is_finite() && cpu.is_finite());
        let (rate, cpu): (Vec<f64>, Vec<f64>) = known.map(|(rate, cpu)| (*rate, *cpu)).unzip();
        Pairs { rate: rate.into(), cpu: cpu.into() }
    }
}

/// Which seconds are told "without ramps": the measured ones if the experiment leaves out a warm-up or cool-down, else
/// all but `ramp` seconds at each end.
pub fn steady(bundle: &Bundle, ramp: Option<usize>) -> (usize, usize) {
    let window = bundle.summary.window;
    if window.trimmed && ramp.is_none() {
        return (window.from_second as usize, window.to_second as usize);
    }
    let ramp = ramp.unwrap_or(RAMP_SECONDS);
    // the last second is seldom a whole one
    let whole = bundle.summary.duration_seconds.floor() as usize;
    (ramp, whole.saturating_sub(ramp))
}

/// What is counted as the rate of one group.
#[derive(Clone, Copy)]
struct Counted {
    column: &'static str,
    role: Role,
}

/// The nodes of a run that send or receive: receivers first, each in the order of the experiment.
///
/// # Errors
/// When the series cannot be read.
pub fn of(bundle: &Bundle) -> Result<Vec<NodeSeries>, ExportError> {
    let frame = Frame::open(&bundle.path, &COLUMNS)?;
    let seconds = bundle.summary.duration_seconds.ceil() as usize;
    let groups = counted(bundle);
    let mut nodes = BTreeMap::<&str, NodeSeries>::new();
    for ((node, _), group) in &groups {
        let series = nodes.entry(node).or_insert_with(|| empty(node, group.role, seconds));
        series.role = series.role.min(group.role);
    }
    // groups whose last row held no counters: the next one holds those of several seconds
    let mut owing = BTreeSet::<(&str, &str)>::new();
    for at in 0..frame.len() {
        let second = frame.number("second")[at] as usize;
        let (node, actor) = (frame.text("node")[at].as_ref(), frame.text("actor")[at].as_ref());
        let Some(series) = nodes.get_mut(node).filter(|_| second < seconds) else { continue };
        if frame.text("kind")[at].as_ref() == HOST {
            series.cpu_percent[second] = frame.number("cpu_percent")[at];
            series.memory_bytes[second] = frame.number("memory_bytes")[at];
            series.memory_percent[second] = frame.number("memory_percent")[at];
            series.sleeps[second] = frame.number("voluntary_switches")[at];
        } else if let Some(group) = groups.get(&(node, actor)) {
            let count = frame.number(group.column)[at];
            let owed = owing.remove(&(node, actor));
            if count.is_nan() {
                owing.insert((node, actor));
            }
            series.count(second, if owed { f64::NAN } else { count });
        }
    }
    let mut nodes: Vec<NodeSeries> = nodes.into_values().collect();
    let place = |node: &str| bundle.summary.groups.iter().position(|g| g.node == node);
    nodes.sort_by_cached_key(|series| (series.role, place(&series.node)));
    Ok(nodes)
}

/// The groups that send or receive, by node and actor.
fn counted(bundle: &Bundle) -> BTreeMap<(&str, &str), Counted> {
    let of = |group: &GroupSummary| {
        let t = &group.measures.totals;
        match group.role.as_str() {
            "receiver" if t.datagrams_received > 0 => Some(Counted { column: "received", role: Role::Receiver }),
            "receiver" => Some(Counted { column: "served", role: Role::Receiver }),
            "sender" if t.datagrams_sent > 0 => Some(Counted { column: "sent", role: Role::Sender }),
            "sender" => Some(Counted { column: "success", role: Role::Sender }),
            _ => None,
        }
    };
    let groups = bundle.summary.groups.iter();
    groups.filter_map(|group| Some(((group.node.as_str(), group.actor.as_str()), of(group)?))).collect()
}

fn empty(node: &str, role: Role, seconds: usize) -> NodeSeries {
    let unknown = || vec![f64::NAN; seconds];
    NodeSeries {
        node: node.to_owned(),
        role,
        cpu_percent: unknown(),
        rate: unknown(),
        memory_bytes: unknown(),
        memory_percent: unknown(),
        sleeps: unknown(),
        seen: vec![false; seconds],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Recipe, Scratch, Second, write};
    use super::*;

    fn series(seconds: &[Second]) -> (Bundle, Vec<NodeSeries>) {
        let scratch = Scratch::new();
        let path = write(
            &scratch.path().join("run"),
            &Recipe { experiment: "e", settings: "", repetition: 0, seconds, fault: false },
        );
        let bundle = Bundle::open(&path).expect("a bundle");
        let nodes = of(&bundle).expect("a series");
        (bundle, nodes)
    }

    #[test]
    fn seconds_are_read_back_and_paired_where_both_are_known() {
        let (bundle, nodes) = series(&[(10, Some(1.0), 64), (20, None, 65), (30, Some(3.0), 66)]);
        let [receiver] = nodes.as_slice() else { panic!("one node") };
        assert_eq!((receiver.node.as_str(), receiver.role), ("receiver", Role::Receiver));
        assert_eq!((receiver.rate.as_slice(), receiver.memory_bytes[2]), (&[10.0, 20.0, 30.0][..], 66e6));
        let pairs = receiver.pairs(0, usize::MAX);
        assert_eq!((pairs.rate.to_vec(), pairs.cpu.to_vec()), (vec![10.0, 30.0], vec![1.0, 3.0]));
        assert_eq!(receiver.pairs(2, 9).rate.len(), 1);
        assert_eq!(receiver.pairs(7, 9).rate.len(), 0);
        assert_eq!((steady(&bundle, None), steady(&bundle, Some(1))), ((5, 0), (1, 2)));
    }

    #[test]
    fn a_second_that_one_group_does_not_know_is_unknown() {
        let mut series = empty("n", Role::Sender, 2);
        for (second, count) in [(0, 3.0), (0, 4.0), (1, 3.0), (1, f64::NAN)] {
            series.count(second, count);
        }
        assert_eq!(series.rate[0], 7.0);
        assert!(series.rate[1].is_nan());
    }
}
