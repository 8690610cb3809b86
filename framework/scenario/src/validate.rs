//! Checks the parts of a draft against each other: names, references, and rules over several keys.

use rehearsal_core::kind::Role;
use rehearsal_core::time::{NANOS_PER_SECOND, Span};

use crate::compose::LEADING;
use crate::draft::{ActorDraft, Draft, Entry, NodeDraft};
use crate::error::Problems;
use crate::tables::{ExperimentTable, NodeTable};

mod links;
pub(crate) mod names;
mod outside;
pub(crate) mod secure;
mod size;
pub(crate) mod times;
mod traffic;

/// Notes everything that contradicts something else.
pub(crate) fn draft(draft: &Draft, problems: &mut Problems<'_>) {
    names::check(draft, problems);
    if let Some(experiment) = &draft.experiment {
        end(experiment, draft, problems);
        times::experiment(experiment, problems);
        crate::control::check(experiment, draft, problems);
    }
    for host in &draft.hosts {
        not_zero(host.table.memory.map(|m| m.0), host, "memory", problems);
    }
    size::check(draft, problems);
    for node in &draft.nodes {
        not_zero(node.node.table.memory.map(|m| m.0), &node.node, "memory", problems);
        for actor in &node.actors {
            traffic::sizes(&node.node, actor, problems);
            traffic::target(&node.node.name, actor, draft, problems);
            outside::sender(actor, problems);
            times::sender(actor, problems);
            traffic::carrier(&node.node.name, actor, draft, problems);
        }
    }
    outside::targets(draft, problems);
    links::check(draft, problems);
    secure::check(draft, problems);
    if let Some(verdict) = &draft.verdict {
        crate::verdict::VerdictTable::check(verdict, problems);
    }
    traffic::aborting(draft, problems);
    services(draft, problems);
}

/// A quantity that makes no sense at zero.
fn not_zero<T>(value: Option<u64>, entry: &Entry<T>, key: &str, problems: &mut Problems<'_>) {
    if value == Some(0) {
        problems.rule(entry.keys.at(key), format!("`{key}` must be above zero"), None);
    }
}

/// When the run ends, and what is left out of its summary.
fn end(experiment: &Entry<ExperimentTable>, draft: &Draft, problems: &mut Problems<'_>) {
    let (table, keys) = (&experiment.table, &experiment.keys);
    let choose = Some("keep `duration = \"60s\"` or `stop = \"all-requests-done\"`, whichever is meant");
    match (table.stop, table.duration) {
        (Some(_), Some(_)) => {
            problems.rule(keys.at("duration"), "`stop` and `duration` cannot both say when a run ends", choose);
        }
        (None, None) => {
            let help = "write `duration = \"60s\"`, or `stop = \"all-requests-done\"` if every sender has `requests`";
            problems.rule(&experiment.span, "nothing says when a run ends", Some(help));
        }
        (None, Some(Span::ZERO)) => problems.rule(keys.at("duration"), "`duration` must be above zero", None),
        (None, Some(duration)) => left_out(experiment, duration, problems),
        (Some(_), None) => counted(experiment, draft, problems),
    }
}

fn left_out(experiment: &Entry<ExperimentTable>, duration: Span, problems: &mut Problems<'_>) {
    let (warmup, cooldown) = (experiment.table.warmup, experiment.table.cooldown);
    let out = warmup.as_nanos().saturating_add(cooldown.as_nanos());
    // what is measured are whole seconds
    let from = warmup.as_nanos().div_ceil(NANOS_PER_SECOND);
    let to = duration.as_nanos().saturating_sub(whole_seconds_up(cooldown)) / NANOS_PER_SECOND;
    let left = match out {
        0 => return,
        out if out >= duration.as_nanos() => "nothing",
        _ if from >= to => "no whole second",
        _ => return,
    };
    let key = if experiment.keys.has("warmup") { "warmup" } else { "cooldown" };
    let reason = format!("`warmup` ({warmup}) and `cooldown` ({cooldown}) leave {left} of the {duration} to measure");
    let help = "make the run longer or these shorter: what is measured are whole seconds";
    problems.rule(experiment.keys.at(key), reason, Some(help));
}

/// A length rounded up to whole seconds, ns.
fn whole_seconds_up(span: Span) -> u64 {
    span.as_nanos().div_ceil(NANOS_PER_SECOND).saturating_mul(NANOS_PER_SECOND)
}

/// A run that ends by count needs a count from every sender.
fn counted(experiment: &Entry<ExperimentTable>, draft: &Draft, problems: &mut Problems<'_>) {
    let mut senders = 0;
    for (node, actor) in actors(draft) {
        let Some(sender) = &actor.sender else { continue };
        senders += 1;
        // a template has an end
        if sender.requests.is_none() && actor.own.build.template(false).is_none() {
            let name = &actor.actor.name;
            let reason = format!("`{node}/{name}` has no `requests`, so this experiment would never end");
            let help = "give it `requests`, or give the experiment a `duration` in place of `stop`";
            problems.rule(&actor.actor.span, reason, Some(help));
        }
    }
    let all_known = draft.names.nodes.values().flat_map(|actors| actors.values());
    let any_sender = all_known.clone().any(|role| role.is_none_or(|role| role == Role::Sender));
    if senders == 0 && !any_sender {
        let reason = "there is no sender, so all requests are done before the first";
        problems.rule(experiment.keys.at("stop"), reason, Some("add a sender, or use `duration`"));
    }
}

/// One controller leads an experiment and one aggregator stores its telemetry.
fn services(draft: &Draft, problems: &mut Problems<'_>) {
    for kind in LEADING {
        let mut seen = false;
        for (_, actor) in actors(draft).filter(|(_, actor)| actor.kind == kind) {
            let several = actor.actor.table.count > 1 || node_count(draft, actor) > 1;
            if seen || several {
                problems.rule(&actor.actor.span, format!("an experiment has one {kind}"), Some("leave the others out"));
            }
            seen = true;
        }
    }
    for (node, kind) in draft.nodes.iter().filter(|n| n.node.table.foreign).flat_map(leading) {
        let reason = format!("a foreign node has no {kind}: this program leads the experiment");
        problems.rule(
            node.keys.at("foreign"),
            reason,
            Some("leave `foreign` out, or give the actor a node of its own"),
        );
    }
}

/// The kinds of a node that lead the experiment.
fn leading(node: &NodeDraft) -> impl Iterator<Item = (&Entry<NodeTable>, &'static str)> {
    let kinds = node.actors.iter().map(|actor| actor.kind);
    kinds.filter(|kind| LEADING.contains(kind)).map(move |kind| (&node.node, kind))
}

fn node_count(draft: &Draft, actor: &ActorDraft) -> u32 {
    let holds = |node: &&crate::draft::NodeDraft| node.actors.iter().any(|a| std::ptr::eq(a, actor));
    draft.nodes.iter().find(holds).map_or(1, |node| node.node.table.count)
}

/// Every actor with its node's name.
fn actors(draft: &Draft) -> impl Iterator<Item = (&str, &ActorDraft)> {
    draft.nodes.iter().flat_map(|node| node.actors.iter().map(|actor| (node.node.name.as_str(), actor)))
}
