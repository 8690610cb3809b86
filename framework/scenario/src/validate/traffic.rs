//! Rules for actors that send: whom they reach, over what, and how much.

use rehearsal_core::kind::Role;
use rehearsal_core::outside::Url;
use rehearsal_core::recording::Side;

use crate::draft::{ActorDraft, Draft, Entry, Limit, NodeDraft};
use crate::error::{Problem, Problems};
use crate::suggest;
use crate::tables::NodeTable;
use crate::validate::names::{CONTROL, LOGGER};

/// Most instances of one actor over all instances of its node. Assumed: more than any laboratory's.
pub(crate) const MEMBERS_MAX: u64 = 1_000_000;
/// Most streams of one actor over all its instances. Assumed: 16 bytes of random state each stay below 200 MB.
pub(crate) const STREAMS_MAX: u64 = 10_000_000;

/// Why a service is no target.
const SERVICE: &str = "it is a service and takes no traffic";

/// Products of counts that no engine could hold.
pub(super) fn sizes(node: &Entry<NodeTable>, actor: &ActorDraft, problems: &mut Problems<'_>) {
    let name = format!("{}/{}", node.name, actor.actor.name);
    let members = u64::from(node.table.count) * u64::from(actor.actor.table.count);
    if members > MEMBERS_MAX {
        let reason = format!("`{name}` would have {members} instances, at most {MEMBERS_MAX} are possible");
        problems.rule(actor.actor.keys.at("count"), reason, Some("use `streams` for many sources of one actor"));
    }
    let Some(sender) = &actor.sender else { return };
    let streams = members.saturating_mul(u64::from(sender.streams));
    if streams > STREAMS_MAX {
        let reason = format!("`{name}` would have {streams} streams, at most {STREAMS_MAX} are possible");
        problems.rule(actor.actor.keys.at("streams"), reason, None);
    }
    if sender.requests.is_some_and(|requests| requests.checked_mul(streams.max(1)).is_none()) {
        let reason = format!("`{name}` would send more requests than can be counted");
        problems.rule(actor.actor.keys.at("requests"), reason, None);
    }
}

/// Whom a sender reaches.
pub(super) fn target(node: &str, actor: &ActorDraft, draft: &Draft, problems: &mut Problems<'_>) {
    let Some(sender) = &actor.sender else { return };
    let (to, span) = (sender.to.as_str(), actor.actor.keys.at("to"));
    let cannot = |reason: &str| Problem::NoReceiver { to: to.to_owned(), reason: reason.to_owned() };
    let nodes = &draft.names.nodes;
    let receivers = nodes.iter().flat_map(|(node, actors)| {
        let receivers = actors.iter().filter(|(_, role)| **role == Some(Role::Receiver));
        receivers.map(move |(actor, _)| format!("{node}/{actor}"))
    });
    let receivers: Vec<String> = receivers.collect();
    let help = || {
        let beside = receivers.iter().find(|r| r.split('/').next() == to.split('/').next());
        let beside = beside.filter(|_| to.contains('/')).map(|r| format!("write `{r}`"));
        let near = beside.or_else(|| suggest::help(to, receivers.iter().map(String::as_str)));
        near.or_else(|| Some("add a node with an actor of a receiving kind".to_owned()))
    };
    if Url::is(to) {
        if actor.own.build.meeting().is_some() {
            problems.helped(span, cannot("it is outside: who converses needs another `replayer`"), None);
        }
        return;
    }
    let Some((to_node, to_actor)) = to.split_once('/') else {
        let reason = format!("`{to}` is not of the form `node/actor`");
        return problems.helped(span, Problem::Value { key: "to".into(), reason }, help());
    };
    // services that are added have no line in the file
    let named = |node: &str, actor: &str| nodes.get(node).is_some_and(|actors| actors.contains_key(actor));
    let added = if nodes.contains_key(to_node) { to_actor == LOGGER } else { to_node == CONTROL };
    if added && !named(to_node, to_actor) {
        return problems.helped(span, cannot(SERVICE), help());
    }
    let Some(actors) = nodes.get(to_node) else {
        let known = suggest::help(to_node, nodes.keys().map(String::as_str));
        return problems.helped(span, Problem::Unknown { what: "node", name: to_node.to_owned() }, known);
    };
    match actors.get(to_actor) {
        // a node without actors has been told of
        None if actors.is_empty() => {}
        None => {
            let known = suggest::help(to_actor, actors.keys().map(String::as_str));
            let problem = Problem::Unknown { what: "actor", name: to.to_owned() };
            problems.helped(span, problem, known);
        }
        Some(Some(Role::Sender)) if to_node == node && to_actor == actor.actor.name => {
            problems.helped(span, cannot("it would send to itself"), help());
        }
        Some(Some(Role::Sender)) if converses(node, actor, draft, problems) => {}
        Some(Some(Role::Sender)) => problems.helped(span, cannot("it only sends"), help()),
        Some(Some(Role::Service)) => problems.helped(span, cannot(SERVICE), help()),
        Some(Some(Role::Receiver)) if actor.own.build.meeting().is_some() => {
            problems.helped(span, cannot("it has nothing to say: who converses needs another `replayer`"), None);
        }
        // of an actor whose own table is wrong, that has been told
        Some(Some(Role::Receiver) | None) => {}
    }
}

/// Whether a sender's target is a sender that converses; then whether it does so with this one, and as this one does, is told.
fn converses(node: &str, actor: &ActorDraft, draft: &Draft, problems: &mut Problems<'_>) -> bool {
    let Some(sender) = &actor.sender else { return false };
    let Some((to_node, to_actor)) = sender.to.split_once('/') else { return false };
    let found = draft.nodes.iter().filter(|known| known.node.name == to_node);
    let found = found.flat_map(|known| known.actors.iter().map(move |actor| (known, actor)));
    let Some((there, other)) = found.into_iter().find(|(_, known)| known.actor.name == to_actor) else { return false };
    let Some(theirs) = other.own.build.meeting() else { return false };
    let (me, to) = (format!("{node}/{}", actor.actor.name), &sender.to);
    let keys = &actor.actor.keys;
    let Some(mine) = actor.own.build.meeting() else {
        let reason = format!("`{to}` converses, and hears nobody else");
        problems.rule(
            keys.at("to"),
            reason,
            Some("write `interactive = {}` and the `side` that is not its own, or send to a receiver"),
        );
        return true;
    };
    match other.sender.as_ref().map(|sender| sender.to.as_str()) {
        Some(back) if back != me => {
            let reason = format!("`{to}` converses with `{back}`, not with `{me}`");
            problems.rule(keys.at("to"), reason, Some("each of two that converse is the other's `to`"));
            return true;
        }
        _ => {}
    }
    // the rest is alike for both: once is enough
    if me > *to {
        return true;
    }
    if mine.side == theirs.side && mine.side != Side::Both {
        let help = "write `side = \"client\"` at one of them and `side = \"server\"` at the other";
        problems.rule(keys.at("side"), format!("`{me}` and `{to}` are the same side"), Some(help));
    }
    for ((key, here), (_, over)) in mine.alike.iter().zip(&theirs.alike).filter(|(mine, theirs)| mine != theirs) {
        let reason = format!("`{me}` has another `{key}` than `{to}`: {here} here, {over} there");
        problems.rule(keys.at(key), reason, Some("who converses plays the same: write the same at both"));
    }
    let members = |count: u32, actor: &ActorDraft| u64::from(count) * u64::from(actor.actor.table.count);
    let here = draft.nodes.iter().find(|known| known.node.name == node).map_or(1, |known| known.node.table.count);
    let [mine, theirs] = [members(here, actor), members(there.node.table.count, other)];
    if mine != theirs {
        let reason = format!("`{me}` has {mine} instances and `{to}` {theirs}: each converses with one");
        problems.rule(keys.at("count"), reason, Some("write the same `count` at both"));
    }
    true
}

/// Datagrams have no outcome that a closed loop could wait for.
pub(super) fn carrier(node: &str, actor: &ActorDraft, draft: &Draft, problems: &mut Problems<'_>) {
    let Some(sender) = &actor.sender else { return };
    if !sender.is_paced() && actor.own.build.offers().is_none() && !draft.is_exchange(node, sender) {
        let name = format!("{node}/{}", actor.actor.name);
        let reason = format!("`{name}` sends datagrams without a `rate`: they have no answer that could pace it");
        problems.rule(&actor.actor.span, reason, Some("write for instance `rate = \"100/s\"`"));
    }
}

/// Counters that datagrams add to only when the run has ended.
const SETTLED: [&str; 8] =
    ["success", "invalid", "failed", "lost", "aborted", "unacknowledged", "deadline-missed", "received"];

/// What is known at the end alone cannot end a run before.
pub(super) fn aborting(draft: &Draft, problems: &mut Problems<'_>) {
    let over_udp = |node: &NodeDraft| {
        let targets = node.actors.iter().filter_map(|actor| actor.sender.as_ref());
        targets.into_iter().any(|sender| !draft.is_exchange(&node.node.name, sender))
    };
    if !draft.nodes.iter().any(over_udp) {
        return;
    }
    for Limit { threshold, span } in draft.thresholds.iter().filter(|limit| limit.threshold.abort_after.is_some()) {
        if SETTLED.contains(&threshold.metric.as_str()) {
            let reason = format!(
                "`{}` is known when the run has ended, because datagrams are settled then: it cannot end the run",
                threshold.key()
            );
            let help = "leave `abort` out, or limit `sent.rate` or `lag.p99`, which are known on the way";
            problems.rule(span, reason, Some(help));
        }
    }
}
