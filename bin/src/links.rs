//! Links as an emulation has to make them: the NATS server that traffic goes over, and who imposes what.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use anyhow::{Context as _, Result};
use rehearsal_bus::nats::{ConnectSettings, Requests};
use rehearsal_bus::server::Server;
use rehearsal_core::plan::{Carrier, Impose, JitterShape, LinkSpec, Plan, Scheduler};
use rehearsal_core::sender::SenderParams;
use rehearsal_emu::EmuError;
use rehearsal_scenario::{ActorSpec, Experiment, NodeSpec};

use crate::cli::{Emulate, Placement};
use crate::exit::Refused;
use crate::processes::Nats;
use crate::report::chain;

/// Whether any traffic of the experiment goes over NATS.
pub fn over_nats(experiment: &Experiment) -> bool {
    experiment.senders().any(|(node, _, sender)| experiment.carrier_to(&node.name, &sender.to) == Carrier::Nats)
}

/// Whether an embedded run has a use for a server: traffic goes over it, or templates may come from there.
pub fn use_server(experiment: &Experiment) -> bool {
    over_nats(experiment) || experiment.nodes.iter().flat_map(|node| &node.actors).any(ActorSpec::replays)
}

/// The server that traffic of an embedded run goes over: the one that is named, else a private one. Where nodes are
/// processes, traffic goes over the server that they talk over.
///
/// # Errors
/// When none can be started.
pub fn server(args: &Emulate, experiment: &Experiment) -> Result<Nats> {
    if args.placement != Placement::Embedded || !over_nats(experiment) {
        return Ok(Nats::None);
    }
    if let Some(settings) = args.nats.settings()? {
        return Ok(Nats::Given(Box::new(settings)));
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let launcher = [own.into_os_string(), OsString::from("child"), OsString::from("--")];
    Ok(Nats::Own(Box::new(Server::start(&launcher).map_err(|why| Refused(chain(&why)))?)))
}

/// Refuses what this run cannot make: links imposed where nobody can, and payloads that the server would not take.
///
/// # Errors
/// Names the link or the sender, and what to write instead.
pub fn check(experiment: &Experiment, kernel: bool, agents: bool, server: Option<&ConnectSettings>) -> Result<()> {
    let framed = |(node, _, sender): &(&NodeSpec, &ActorSpec, &SenderParams)| {
        experiment.carrier_to(&node.name, &sender.to) == Carrier::Frames
    };
    // an agent judges by its own interface
    if let Some((node, actor, _)) = experiment.senders().find(framed).filter(|_| !kernel && !agents) {
        let actor = format!("{}/{}", node.name, actor.name);
        return Err(Refused(EmuError::Frames { actor }.to_string()).into());
    }
    let imposed = || experiment.named_links().into_iter().filter(|(_, link)| link.impose == Impose::Kernel);
    if let Some((name, _)) = imposed().find(|(_, link)| link.carrier == Carrier::Frames) {
        return Err(Refused(format!(
            "link `{name}` has `impose = \"kernel\"` and `carrier = \"frames\"`: the kernel's disciplines go by the addresses of \
             nodes, and frames have those of their capture; write `impose = \"userspace\"`"
        ))
        .into());
    }
    if let Some((name, _)) = imposed().find(|(_, link)| !link.carrier.is_addressed()) {
        return Err(Refused(format!(
            "link `{name}` has `impose = \"kernel\"`, and its traffic goes over a server, so no kernel sees who it is \
             for: write `impose = \"userspace\"`"
        ))
        .into());
    }
    if let Some((name, key)) = imposed().find_map(|(name, link)| Some((name, beyond_kernel(link)?))) {
        return Err(Refused(format!(
            "link `{name}` has `impose = \"kernel\"` and `{key}`, which the kernel's disciplines are not set up for: write \
             `impose = \"userspace\"`, or leave it out"
        ))
        .into());
    }
    if let Some((name, _)) = imposed().next().filter(|_| !kernel) {
        return Err(Refused(format!(
            "link `{name}` has `impose = \"kernel\"`, which needs a network namespace for each node: add `--placement \
             processes --network namespaces`, or write `impose = \"userspace\"`"
        ))
        .into());
    }
    let Some(settings) = server.filter(|_| over_nats(experiment)) else { return Ok(()) };
    let taken = payload_max(settings)?;
    for (node, actor, sender) in experiment.senders() {
        let largest = actor.request_bytes.map_or(0, |bytes| bytes.max.0);
        if experiment.carrier_to(&node.name, &sender.to) == Carrier::Nats && largest > taken {
            return Err(Refused(format!(
                "`{}/{}` sends up to {largest} bytes over `nats`, and the server takes at most {taken}: lower its size, or \
                 raise `max_payload` in the server's configuration",
                node.name, actor.name
            ))
            .into());
        }
    }
    Ok(())
}

/// A key that the kernel's disciplines, as they are set up here, do not follow.
fn beyond_kernel(link: &LinkSpec) -> Option<&'static str> {
    let keys = [
        ("rate_steps", !link.rate_steps.is_empty()),
        ("jitter_shape", link.jitter_shape != JitterShape::default()),
        ("jitter_quantiles", !link.jitter_quantiles.is_empty()),
        ("gilbert_elliott", link.gilbert_elliott.is_some()),
        ("queue_packets", link.queue_packets.is_some()),
        ("scheduler", link.scheduler != Scheduler::default()),
        ("codel", link.codel.is_some()),
        ("members", !link.members.is_empty()),
        ("shares", link.shares.is_some()),
    ];
    keys.into_iter().find_map(|(key, used)| used.then_some(key))
}

/// Refuses a cell that senders in several processes would share: its queue is in one of them.
///
/// # Errors
/// Names the cell, and what to write instead.
pub fn check_cells(plan: &Plan) -> Result<()> {
    for (row, link) in plan.links.iter().enumerate() {
        let sends = |name: &str| plan.routes.iter().any(|(from, _, at)| plan.queue_row(*at) == row && from == name);
        let senders = plan.nodes.iter().filter(|node| sends(&node.template)).count();
        if link.impose == Impose::Userspace && !link.members.is_empty() && senders > 1 {
            return Err(Refused(format!(
                "link `{}` is shared by {senders} nodes, each in a process of its own, and is imposed by them: leave \
                 `--placement` out, so that they share a process, or leave `impose` out",
                link.name
            ))
            .into());
        }
    }
    Ok(())
}

/// Largest payload that the server takes, bytes; it tells when one connects.
fn payload_max(settings: &ConnectSettings) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let connected = runtime.block_on(Requests::connect(settings, "rehearsal"));
    Ok(connected.map_err(|why| Refused(chain(&why)))?.payload_max() as u64)
}

/// Who imposes each link, by its name in the file.
pub fn imposed(plan: &Plan) -> BTreeMap<String, Impose> {
    plan.links.iter().map(|link| (link.name.clone(), link.impose)).collect()
}

/// What a reader of an emulation must know: which links were made what they say, and which were not.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    let mut say = |impose: Impose, text: &str| {
        let is = |(_, link): &(String, &LinkSpec)| link.impose == impose && link.shapes();
        let names: Vec<String> = used(plan).filter(is).map(|(name, _)| format!("`{name}`")).collect();
        notes.extend((!names.is_empty()).then(|| format!("{text}: {}", names.join(", "))));
    };
    say(
        Impose::None,
        "links whose rate, delay, jitter or loss is stated and not imposed: the traffic met whatever network was there",
    );
    say(Impose::Userspace, "links imposed by their senders, in user space; what they did is in the summary");
    say(Impose::Kernel, "links imposed by the kernel's queueing disciplines");
    let userspace = used(plan).any(|(_, link)| link.impose == Impose::Userspace && link.shapes());
    let foreign: Vec<&str> = plan.nodes.iter().filter(|n| n.foreign).map(|n| n.name.as_str()).collect();
    if userspace && !foreign.is_empty() {
        notes.push(format!("{}: what a foreign program sends is not held back by its links", foreign.join(", ")));
    }
    notes
}

/// Links that traffic takes, there or back.
fn used(plan: &Plan) -> impl Iterator<Item = (String, &LinkSpec)> {
    let mut rows = BTreeSet::new();
    for node in &plan.nodes {
        for sender in node.groups.iter().filter_map(|group| group.sender.as_ref()) {
            let path = plan.path_to(&sender.to).unwrap_or_default();
            let to = path.split('/').next().unwrap_or_default();
            rows.extend([plan.link_row(&node.template, to), plan.link_row(to, &node.template)]);
        }
    }
    let named = plan.links.iter().map(|link| (link.name.clone(), link)).enumerate();
    named.filter(move |(row, _)| rows.contains(row)).map(|(_, link)| link)
}
