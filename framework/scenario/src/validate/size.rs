//! What could never be: nodes larger than their host, and more actors than can be told apart.

use crate::draft::{Draft, Entry};
use crate::error::Problems;
use crate::tables::NodeTable;

/// Most actors of one experiment. Assumed: sixteen times the million that a dry run is made for; each takes about 200 B.
const ACTORS_MAX: u64 = 16_000_000;

/// Checks quotas and counts.
pub(super) fn check(draft: &Draft, problems: &mut Problems<'_>) {
    let mut actors = 0_u64;
    for node in &draft.nodes {
        quota(&node.node, draft, problems);
        let nodes = u64::from(node.node.table.count);
        for actor in &node.actors {
            let count = u64::from(actor.actor.table.count);
            let before = actors;
            actors = actors.saturating_add(nodes.saturating_mul(count));
            if before <= ACTORS_MAX && actors > ACTORS_MAX {
                let name = format!("{}/{}", node.node.name, actor.actor.name);
                let reason = format!(
                    "with {nodes} × {count} of `{name}` there are {actors} actors, at most {ACTORS_MAX} can be"
                );
                let key = if count > 1 { actor.actor.keys.at("count") } else { node.node.keys.at("count") };
                let help = "lower a `count`; one actor can stand for many sources by `streams`";
                problems.rule(key, reason, Some(help));
            }
        }
    }
}

/// A quota that no host can grant.
fn quota(node: &Entry<NodeTable>, draft: &Draft, problems: &mut Problems<'_>) {
    let (Some(vcpu), Some(name)) = (node.table.vcpu, &node.table.host) else { return };
    let Some(host) = draft.hosts.iter().find(|host| host.name == *name) else { return };
    let cores = host.table.cores;
    if vcpu > f64::from(cores) {
        let reason = format!("`vcpu` is {vcpu}, but host `{name}` has {cores} cores");
        problems.rule(
            node.keys.at("vcpu"),
            reason,
            Some(&format!("write at most {cores}, or put it on a larger host")),
        );
    }
}
