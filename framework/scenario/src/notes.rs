//! What is allowed in an experiment but worth knowing before it is run.

use rehearsal_core::plan::{Carrier, Connection, DatagramMode, Handshake, HostPlan, Impose, JitterShape, Stop};
use rehearsal_core::sender::SenderParams;

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
            if draft.is_exchange(&node.node.name, sender) {
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
    notes.extend(too_late(experiment));
    notes.extend(experiment.endless_notes());
    notes.extend(datagrams(experiment));
    notes.extend(links(experiment));
    notes.extend(addresses(experiment));
    notes.extend(experiment.unjudged_notes());
    notes.extend(foreign(experiment));
    notes.extend(inside(experiment));
    if !experiment.nodes.iter().any(NodeSpec::sends) {
        notes.push("no actor sends anything".to_owned());
    }
    let placed = experiment.nodes.iter().filter(|node| node.measured);
    for node in placed.filter(|node| node.host.is_none() && node.vcpu.is_none() && !experiment.hosts.is_empty()) {
        notes.push(format!("node `{}` is on no host, so its CPU is not limited", node.name));
    }
    notes
}

/// Keys of targets outside on senders to actors.
fn inside(experiment: &Experiment) -> Option<String> {
    let unused = |sender: &SenderParams| {
        let asked = sender.request.as_deref().is_some_and(|request| {
            let rest = rehearsal_core::outside::RequestSpec { body: None, ..request.clone() };
            rest != rehearsal_core::outside::RequestSpec::default()
        });
        !rehearsal_core::outside::Url::is(&sender.to) && (asked || sender.service.is_some())
    };
    let senders = experiment.senders().filter(|(_, _, sender)| unused(sender));
    let names: Vec<String> = senders.map(|(node, actor, _)| node.path(actor)).collect();
    let text =
        "what `request` and `service` say is used where `to` is a URL; an actor is asked in the carrier's own way";
    (!names.is_empty()).then(|| format!("{}: {text}", names.join(", ")))
}

/// Nodes that this program does not run.
fn foreign(experiment: &Experiment) -> Option<String> {
    let names: Vec<&str> = experiment.nodes.iter().filter(|n| n.foreign).map(|n| n.name.as_str()).collect();
    let of = crate::suggest::quoted(&names);
    let text =
        format!("{of}: a program of yours is waited for in `--placement processes`; a dry run simulates the keys here");
    (!names.is_empty()).then_some(text)
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

/// Thresholds that would end the run only after it has ended.
fn too_late(experiment: &Experiment) -> Vec<String> {
    let Stop::After(duration) = experiment.stop else { return Vec::new() };
    let late =
        experiment.thresholds.iter().filter_map(|t| Some((t, t.abort_after.filter(|after| *after >= duration)?)));
    late.map(|(threshold, after)| {
        format!(
            "threshold `{threshold}` never ends the run: it may from {} on (`after`), and the run takes {}",
            words(after),
            words(duration)
        )
    })
    .collect()
}

/// What has no meaning for traffic without answers.
fn datagrams(experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    let exchanges = |from: &NodeSpec, to: &str| {
        let link = experiment.link_to(&from.name, to);
        link.is_answered() && link.is_exchange()
    };
    let of_udp: Vec<String> = experiment
        .senders()
        .filter(|(node, _, sender)| !exchanges(node, &sender.to))
        .map(|(node, actor, _)| node.path(actor))
        .collect();
    if of_udp.is_empty() {
        return notes;
    }
    let all = experiment.senders().count() == of_udp.len();
    if experiment.record_requests.0 > 0.0 {
        let whose = of_udp.join(", ");
        notes.push(format!("`record_requests` keeps exchanges: none of {whose}, whose datagrams have no answer"));
    }
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

/// Keys of links that come to nothing.
fn links(experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    let classes = experiment.links.iter().any(|link| !link.classes.is_empty());
    let marks = |(node, actor, sender): (&NodeSpec, &crate::experiment::ActorSpec, &SenderParams)| {
        (!sender.dscp.is_default()).then(|| node.path(actor))
    };
    let marked: Vec<String> = experiment.senders().filter_map(marks).collect();
    if !classes && !marked.is_empty() {
        notes.push(format!(
            "{}: `dscp` marks packets of an emulation, and means nothing to a dry run where no link has `classes`",
            marked.join(", ")
        ));
    }
    for (name, link) in experiment.named_links() {
        let mut say = |text: &str| notes.push(format!("link `{name}`: {text}"));
        if matches!(link.carrier, Carrier::Nats | Carrier::Mqtt) && link.connection == Connection::PerRequest {
            let word = if link.carrier == Carrier::Nats { "nats" } else { "mqtt" };
            say(&format!("`connection` means nothing over `{word}`, where all requests of a node share one"));
        }
        if !matches!(link.carrier, Carrier::Http1 | Carrier::Http2) && link.handshake != Handshake::default() {
            say("`handshake` means nothing here: only `http1` and `http2` open connections of TCP on the way");
        }
        for key in crate::validate::secure::idle(link) {
            say(&format!("`{key}` means nothing here: only requests over `http2` and `http3` share connections"));
        }
        if link.pipeline > 1 && (link.carrier != Carrier::Tcp || link.connection == Connection::PerRequest) {
            say(
                "`pipeline` means nothing here: only connections of `tcp` that are kept have several requests under way",
            );
        }
        if link.mode != DatagramMode::OneWay && link.carrier != Carrier::Udp {
            say("`mode` means nothing here: it is of `udp`");
        }
        if link.mqtt.is_some() && link.carrier != Carrier::Mqtt {
            say("`mqtt` means nothing without `carrier = \"mqtt\"`");
        }
        if link.jitter_shape != JitterShape::default() && link.jitter.is_zero() {
            say("`jitter_shape` means nothing without `jitter`");
        }
        if link.reorder && !link.varies() {
            say("`reorder` means nothing without `jitter`");
        }
        if link.impose != Impose::None && !link.shapes() {
            say("`impose` means nothing without `rate`, `delay`, `jitter` or `loss`");
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
