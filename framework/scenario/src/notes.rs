//! What is allowed in an experiment but worth knowing before it is run.

use rehearsal_core::plan::{HostPlan, Stop};

use crate::draft::Draft;
use crate::experiment::{Experiment, NodeSpec};
use crate::table::duration as words;
use crate::validate::times::paced;

/// Sender keys that only exchanges understand.
const EXCHANGE_KEYS: [&str; 7] = ["in_flight", "on_late", "queue", "timeout", "retries", "backoff", "limit"];

/// Metrics that end with an answer.
const TIMES_OF_ANSWERS: [&str; 2] = ["response", "service"];

/// Notes that need to know which keys were written.
pub(crate) fn of_draft(draft: &Draft) -> Vec<String> {
    let mut notes = Vec::new();
    for node in &draft.nodes {
        for actor in &node.actors {
            let Some(sender) = &actor.sender else { continue };
            if draft.link_to(&node.node.name, &sender.to).carrier.is_exchange() {
                continue;
            }
            let written: Vec<&str> = EXCHANGE_KEYS.into_iter().filter(|key| actor.actor.keys.has(key)).collect();
            if !written.is_empty() {
                let keys = crate::suggest::quoted(&written);
                let name = format!("{}/{}", node.node.name, actor.actor.name);
                notes.push(format!("{name}: {keys} mean nothing over `udp`, where a datagram has no answer"));
            }
        }
    }
    notes
}

/// Notes on the experiment as a whole.
pub(crate) fn of(experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    for (row, host) in experiment.hosts.iter().enumerate() {
        let nodes: Vec<&NodeSpec> = experiment.nodes.iter().filter(|node| node.host == Some(row)).collect();
        notes.extend(of_host(host, &nodes));
    }
    notes.extend(cut_short(experiment));
    notes.extend(experiment.endless_notes());
    notes.extend(datagrams(experiment));
    notes.extend(addresses(experiment));
    notes.extend(experiment.unjudged_notes());
    if !experiment.nodes.iter().any(NodeSpec::sends) {
        notes.push("no actor sends anything".to_owned());
    }
    let placed = experiment.nodes.iter().filter(|node| node.measured);
    for node in placed.filter(|node| node.host.is_none() && node.vcpu.is_none() && !experiment.hosts.is_empty()) {
        notes.push(format!("node `{}` is on no host, so its CPU is not limited", node.name));
    }
    notes
}

/// Senders whose requests take longer than the run.
fn cut_short(experiment: &Experiment) -> Vec<String> {
    let Stop::After(duration) = experiment.stop else { return Vec::new() };
    let mut notes = Vec::new();
    for node in &experiment.nodes {
        for actor in &node.actors {
            let Some(sender) = actor.sender.as_ref().filter(|sender| sender.requests.is_some()) else { continue };
            if let Some(needed) = paced(sender).filter(|needed| *needed > duration) {
                let name = format!("{}/{}", node.name, actor.name);
                notes.push(format!(
                    "{name}: its requests take {} at their rate, the run only {}",
                    words(needed),
                    words(duration)
                ));
            }
        }
    }
    notes
}

/// What has no meaning for traffic without answers.
fn datagrams(experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    let exchanges = |from: &NodeSpec, to: &str| experiment.carrier_to(&from.name, to).is_exchange();
    let of_udp: Vec<String> = experiment
        .senders()
        .filter(|(node, _, sender)| !exchanges(node, &sender.to))
        .map(|(node, actor, _)| node.path(actor))
        .collect();
    if of_udp.is_empty() {
        return notes;
    }
    let all = experiment.senders().count() == of_udp.len();
    for threshold in experiment.thresholds.iter().filter(|t| TIMES_OF_ANSWERS.contains(&t.metric.as_str())) {
        notes.push(if all {
            format!("threshold `{threshold}` cannot be measured over `udp`, where a datagram has no answer")
        } else {
            format!("threshold `{threshold}` does not cover {}: a datagram has no answer", of_udp.join(", "))
        });
    }
    for (node, actor) in experiment.receivers().filter(|(_, a)| a.analysis().is_some_and(|span| !span.is_zero())) {
        let path = node.path(actor);
        if experiment.senders().any(|(from, _, sender)| sender.to == path && !exchanges(from, &sender.to)) {
            notes.push(format!("{path}: its analyzer does not act on datagrams"));
        }
    }
    notes
}

/// Receivers that others than this machine can reach.
fn addresses(experiment: &Experiment) -> Vec<String> {
    let listening = experiment.receivers().filter_map(|(node, actor)| Some((node.path(actor), actor.listen()?)));
    let open = listening.filter(|(_, address)| !address.ip().is_loopback());
    open.map(|(path, address)| {
        let (ip, bits) = (address.ip(), if address.is_ipv4() { 32 } else { 128 });
        format!("{path} listens on {address}, which is not loopback: `emulate` needs `--allow {ip}/{bits}`")
    })
    .collect()
}

fn of_host(host: &HostPlan, nodes: &[&NodeSpec]) -> Vec<String> {
    let mut notes = Vec::new();
    if nodes.is_empty() {
        notes.push(format!("no node is on host `{}`", host.name));
    }
    let vcpu: f64 = nodes.iter().filter_map(|node| Some(node.vcpu? * f64::from(node.count()))).sum();
    if vcpu > f64::from(host.cores) {
        let cores = host.cores;
        notes.push(format!("host `{}` is overcommitted: its nodes may use {vcpu} vCPU of {cores} cores", host.name));
    }
    let asked = nodes.iter().filter_map(|node| Some(node.memory?.0.saturating_mul(u64::from(node.count()))));
    let asked = asked.fold(0, u64::saturating_add);
    if let Some(memory) = host.memory.filter(|memory| asked > memory.0) {
        let asked = rehearsal_core::units::ByteSize(asked);
        notes.push(format!("host `{}` is overcommitted: its nodes may use {asked} of {memory}", host.name));
    }
    notes
}
