//! An experiment in several processes (`--only`, `--without`): who must be found, and what can be measured here.

use crate::experiment::Experiment;
use crate::threshold::Threshold;

/// Metrics that receivers measure alone.
const OF_RECEIVERS: [&str; 5] = ["handling", "ipdv", "served", "refused", "unserved"];
/// Metrics for which both ends are needed.
const OF_BOTH: [&str; 1] = ["one-way"];
/// The metric that receivers measure of datagrams, and senders of responses.
const OF_EITHER: &str = "jitter";
/// What receivers count, and what it is a share of is counted by senders.
const RECEIVED: &str = "received";

impl Experiment {
    /// Receivers of this process, `node/actor`, that senders elsewhere have no way to find: they have no fixed `listen`.
    pub fn hidden_receivers(&self) -> Vec<String> {
        let here = self.receivers().filter(|(node, actor)| node.is_here() && actor.listen().is_none());
        let paths = here.map(|(node, actor)| node.path(actor));
        let hidden = |path: &String| {
            self.senders().any(|(node, _, sender)| {
                let by_address = self.carrier_to(&node.name, path).is_addressed();
                node.is_elsewhere() && sender.to == *path && by_address
            })
        };
        paths.filter(hidden).collect()
    }

    /// Whether this process runs a sender.
    pub fn sends_here(&self) -> bool {
        self.senders().any(|(node, _, _)| node.is_here())
    }

    /// The thresholds that this process can hold against something: both ends may run in different ones.
    pub fn judged(&self) -> impl Iterator<Item = &Threshold> {
        self.thresholds.iter().filter(|threshold| self.is_measured(threshold))
    }

    /// Notes on the others.
    pub(crate) fn unjudged_notes(&self) -> Vec<String> {
        let others = self.thresholds.iter().filter(|threshold| !self.is_measured(threshold));
        others.map(|t| format!("threshold `{t}` is left out: what it needs is measured in another process")).collect()
    }

    fn is_measured(&self, threshold: &Threshold) -> bool {
        let receives = || self.receivers().any(|(node, _)| node.is_here());
        let metric = threshold.metric.as_str();
        if OF_BOTH.contains(&metric) || (metric == RECEIVED && threshold.stat == "ratio") {
            self.sends_here() && receives()
        } else if OF_RECEIVERS.contains(&metric) || metric == RECEIVED {
            receives()
        } else if metric == OF_EITHER {
            self.sends_here() || receives()
        } else {
            self.sends_here()
        }
    }
}
