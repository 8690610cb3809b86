//! What links did that the kernel imposed between the namespaces of nodes, read when a run has ended.

use rehearsal_core::plan::{Impose, Plan};
use rehearsal_core::run::{LinkEnd, RunEnd};
use rehearsal_host::network::{Network, NetworkError};

use super::network::paths;
use crate::report::chain;

/// Adds what they did to the end of a run of `plan`, or a note why that is not known.
pub(super) fn add(plan: &Plan, network: &Network, end: &mut RunEnd) {
    match links(plan, network, end.stop.since(end.start.unwrap_or(end.stop)).as_nanos()) {
        Ok(links) => end.links.extend(links),
        Err(why) => end.notes.push(format!("what the kernel's links did is not known: {}", chain(&why))),
    }
}

fn links(plan: &Plan, network: &Network, active_ns: u64) -> Result<Vec<LinkEnd>, NetworkError> {
    let mut all = Vec::new();
    for (from, paths) in paths(plan, network) {
        let Some(space) = network.space(&from) else { continue };
        for (carried, (address, shape)) in space.carried()?.into_iter().zip(paths) {
            let ends = |name: &str| plan.nodes.iter().find(|n| n.name == name).map(|n| n.template.clone());
            let to = plan.nodes.iter().find(|n| network.space(&n.name).is_some_and(|s| s.address() == address));
            let (Some(from), Some(to)) = (ends(&from), to) else { continue };
            // a queue of bytes drops what finds no room; netem's counter holds its losses too
            let (lost, full) = if shape.needs_netem() { (carried.dropped, 0) } else { (0, carried.dropped) };
            let link = LinkEnd {
                from,
                to: to.template.clone(),
                imposed: Impose::Kernel,
                pairs: 1,
                offered: carried.packets + carried.dropped + carried.waiting,
                delivered: carried.packets,
                lost,
                full,
                open: carried.waiting,
                bytes: carried.bytes,
                active_ns,
                ..LinkEnd::default()
            };
            all.extend((link.offered > 0).then_some(link));
        }
    }
    Ok(all)
}
