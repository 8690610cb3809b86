//! An experiment in several processes (`--only`, `--without`): who must be found, and what can be measured here.

use crate::experiment::Experiment;
use crate::threshold::Threshold;

/// Metrics that receivers measure alone.
const OF_RECEIVERS: [&str; 4] = ["handling", "served", "refused", "unserved"];
/// Metrics for which both ends are needed.
const OF_BOTH: [&str; 1] = ["one-way"];
/// What receivers count, and what it is a share of is counted by senders.
const RECEIVED: &str = "received";

impl Experiment {
    /// Receivers of this process, `node/actor`, that senders elsewhere have no way to find: they have no fixed `listen`.
    pub fn hidden_receivers(&self) -> Vec<String> {
        let here = self.receivers().filter(|(node, actor)| node.is_here() && actor.listen().is_none());
        let paths = here.map(|(node, actor)| node.path(actor));
        paths.filter(|path| self.senders().any(|(node, _, sender)| node.is_elsewhere() && sender.to == *path)).collect()
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
        } else {
            self.sends_here()
        }
    }
}
