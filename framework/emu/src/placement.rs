//! Which shard runs which node. A node stays whole: what its actors share is shared on one thread.

use rehearsal_core::Role;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::plan::{Impose, Plan};

/// How many shards to run: as asked, else one per core; never more than local nodes, always one.
pub(crate) fn shards(assembly: &Assembly, asked: Option<usize>) -> usize {
    let nodes = assembly.plan.nodes.iter().filter(|n| n.local).count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or(cores).min(nodes).max(1)
}

/// The shard of each node, by its row. Receiving nodes and the experiment's own services take the first shards, sending
/// nodes the others, so that the two ends of an exchange do not wait for one thread where it can be helped.
pub(crate) fn place(assembly: &Assembly, shards: usize) -> Vec<usize> {
    let sends = |node: usize| {
        let mut groups = assembly.groups.iter().filter(|g| g.node == node);
        groups.any(|g| g.role == Role::Sender)
            && !assembly.groups.iter().any(|g| g.node == node && (g.role == Role::Receiver || g.serve.is_some()))
    };
    let serves =
        |node: usize| assembly.groups.iter().any(|g| g.node == node && (g.role == Role::Receiver || g.serve.is_some()));
    let nodes: Vec<usize> = (0..assembly.plan.nodes.len()).collect();
    let senders = nodes.iter().filter(|n| sends(**n)).count();
    let receivers = nodes.iter().filter(|n| serves(**n)).count();
    // half the shards at most receive; without senders, or with one shard, all do everything
    let receiving = if senders == 0 || shards == 1 { shards } else { receivers.clamp(1, shards / 2) };
    let (mut next_sending, mut next_receiving) = (0, 0);
    let shard = |node: usize| {
        if sends(node) && receiving < shards {
            next_sending += 1;
            receiving + (next_sending - 1) % (shards - receiving)
        } else if serves(node) {
            next_receiving += 1;
            (next_receiving - 1) % receiving
        } else {
            0
        }
    };
    let mut placed: Vec<usize> = nodes.into_iter().map(shard).collect();
    // nodes that send into imposed cells share queues there, so they share a thread
    let shares: Vec<usize> = (0..placed.len()).filter(|node| in_a_cell(&assembly.plan, *node)).collect();
    for node in &shares {
        placed[*node] = placed[shares[0]];
    }
    placed
}

fn in_a_cell(plan: &Plan, node: usize) -> bool {
    let name = &plan.nodes[node].template;
    let imposed = |row: usize| plan.links[row].impose == Impose::Userspace && plan.links[row].is_shared();
    plan.routes.iter().any(|(from, _, row)| from == name && imposed(*row))
}
