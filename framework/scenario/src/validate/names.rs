//! Names: the grammar of subjects, names that are kept for something else, and names that two things would share.

use std::collections::BTreeMap;
use std::ops::Range;

use rehearsal_core::messages::Scope;
use rehearsal_core::outside::{OUTSIDE, Url};
use rehearsal_core::subject::{self, HOST, check_token};

use crate::draft::Draft;
use crate::error::{Problem, Problems};
use crate::suggest;

/// The name that stands in place of a run for agents.
const FLEET: &str = "fleet";
/// The node that is added for a controller and an aggregator.
pub(crate) const CONTROL: &str = "control";
/// What results tell of what is around nodes: the process that they share, and the machine.
const AROUND: [&str; 2] = [Scope::Process.name(), Scope::Machine.name()];
/// The actor that is added to nodes without one of its kind.
pub(crate) const LOGGER: &str = "logger";

pub(super) fn check(draft: &Draft, problems: &mut Problems<'_>) {
    if let Some(experiment) = &draft.experiment {
        let (name, span) = (&experiment.table.name, experiment.keys.at("name"));
        token("experiment", name, span, problems);
        if name == FLEET {
            reserved("an experiment", name, "agents are addressed by it", span, problems);
        }
    }
    for host in &draft.hosts {
        token("host", &host.name, &host.span, problems);
    }
    nodes(draft, problems);
    for node in &draft.nodes {
        actors(node, problems);
    }
    references(draft, problems);
}

fn nodes(draft: &Draft, problems: &mut Problems<'_>) {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for node in draft.nodes.iter().map(|node| &node.node) {
        // the last instance has the longest name
        let count = node.table.count;
        token("node", &subject::instance(&node.name, count - 1, count), &node.span, problems);
        for index in 0..count {
            let instance = subject::instance(&node.name, index, count);
            if let Some(other) = taken.insert(instance.clone(), &node.name) {
                let reason = format!("node `{other}` and node `{}` would both be called `{instance}`", node.name);
                problems.rule(&node.span, reason, Some("rename one of them"));
                break;
            }
        }
    }
    let has = |kind| draft.nodes.iter().flat_map(|node| &node.actors).any(|actor| actor.kind == kind);
    let added = !(has("controller") && has("aggregator"));
    if let Some(node) = draft.nodes.iter().find(|node| added && taken_by(CONTROL, &node.node)) {
        let why = "the controller and the aggregator that this file leaves out get a node of that name";
        reserved("a node", CONTROL, why, &node.node.span, problems);
    }
}

fn taken_by(name: &str, node: &crate::draft::Entry<crate::tables::NodeTable>) -> bool {
    node.name == name && node.table.count == 1
}

fn actors(node: &crate::draft::NodeDraft, problems: &mut Problems<'_>) {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for actor in &node.actors {
        let (entry, count) = (&actor.actor, actor.actor.table.count);
        token("actor", &subject::instance(&entry.name, count - 1, count), &entry.span, problems);
        if entry.name == HOST {
            reserved("an actor", HOST, "the engine speaks there for the node", &entry.span, problems);
        }
        if let Some(name) = AROUND.into_iter().find(|name| entry.name == *name) {
            reserved(
                "an actor",
                name,
                "results have rows of that name for what is around nodes",
                &entry.span,
                problems,
            );
        }
        for index in 0..count {
            let instance = subject::instance(&entry.name, index, count);
            if let Some(other) = taken.insert(instance.clone(), &entry.name) {
                let reason = format!("actor `{other}` and actor `{}` would both be called `{instance}`", entry.name);
                problems.rule(&entry.span, reason, Some("rename one of them"));
                break;
            }
        }
    }
    let logs = node.actors.iter().any(|actor| actor.kind == LOGGER);
    if let Some(actor) = node.actors.iter().find(|actor| !logs && actor.actor.name == LOGGER) {
        reserved("an actor", LOGGER, "the logger that every node gets has that name", &actor.actor.span, problems);
    }
}

/// Hosts of nodes and ends of links.
fn references(draft: &Draft, problems: &mut Problems<'_>) {
    let hosts = || draft.names.hosts.iter().map(String::as_str);
    for node in draft.nodes.iter().map(|node| &node.node) {
        let Some(host) = node.table.host.as_deref().filter(|host| !draft.names.hosts.contains(*host)) else { continue };
        let help =
            suggest::help(host, hosts()).unwrap_or_else(|| format!("add a table `[hosts.{host}]` with its `cores`"));
        let problem = Problem::Unknown { what: "host", name: host.to_owned() };
        problems.helped(node.keys.at("host"), problem, Some(help));
    }
    let nodes = || draft.names.nodes.keys().map(String::as_str);
    let senders = draft.nodes.iter().flat_map(|node| &node.actors).filter_map(|actor| actor.sender.as_ref());
    let outside = senders.into_iter().any(|sender| Url::is(&sender.to));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for link in &draft.links {
        for (from, to) in &link.pairs {
            for end in [from, to].into_iter().filter(|end| !draft.names.nodes.contains_key(*end)) {
                if outside && end == OUTSIDE {
                    continue;
                }
                let problem = Problem::Unknown { what: "node", name: end.clone() };
                problems.helped(&link.span, problem, suggest::help(end, nodes()));
            }
            if seen.contains(&(from, to)) {
                problems.rule(&link.span, format!("the link from `{from}` to `{to}` is given twice"), None);
            }
            seen.push((from, to));
        }
    }
}

fn token(what: &'static str, name: &str, span: &Range<usize>, problems: &mut Problems<'_>) {
    if let Err(reason) = check_token(name) {
        problems.at(span, Problem::Name { what, reason });
    }
}

fn reserved(what: &'static str, name: &str, reason: &str, span: &Range<usize>, problems: &mut Problems<'_>) {
    let problem = Problem::Reserved { what, name: name.to_owned(), reason: reason.to_owned() };
    problems.helped(span, problem, Some("choose another name".to_owned()));
}
