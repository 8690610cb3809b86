//! Composes a summary from the books and what the engine says.

use std::collections::BTreeMap;

use rehearsal_core::kind::Role;
use rehearsal_core::run::ConnectionEnd;
use rehearsal_core::steer::mean_factor;
use rehearsal_core::time::Span;

use super::checks::checks;
use super::draft::{Draft, Seconds, join};
use super::links::links;
use super::{Achieved, GroupSummary, Measured, SCHEMA_VERSION, Summary, Telemetry, TemplateSummary};
use crate::books::{Books, GroupBook, whole_seconds};
use crate::meta::{BundleMeta, GroupFacts, RunFacts, role_name};

/// The summary of a run whose books are closed.
pub(crate) fn build(meta: &BundleMeta, facts: &RunFacts, books: &mut Books) -> Summary {
    let window = measured(meta, facts, books);
    let traffic = facts.stopped.since(facts.started).as_secs_f64();
    let seconds = Seconds { window: window.seconds, whole: traffic };
    let mut total = Draft::default();
    let mut groups = Vec::new();
    let mut templates: BTreeMap<(String, String), (usize, Draft)> = BTreeMap::new();
    let mut rows: Vec<TemplateSummary> = Vec::new();
    for group in all_groups(facts, books) {
        let Some(book) = book_of(books, &group) else { continue };
        let target = achieved(meta, facts, &group, book);
        let draft = Draft::of(book);
        total.merge(&draft);
        let key = (group.template.clone(), group.actor.clone());
        let (at, merged) = templates.entry(key).or_insert_with(|| {
            rows.push(template_row(&group));
            (rows.len() - 1, Draft::default())
        });
        merged.merge(&draft);
        rows[*at].nodes += 1;
        rows[*at].target = join(rows[*at].target, target);
        groups.push(GroupSummary {
            node: group.node,
            template: group.template,
            actor: group.actor,
            kind: group.kind,
            role: role_name(group.role).to_owned(),
            target,
            measures: draft.measures(seconds),
        });
    }
    for (at, draft) in templates.values() {
        rows[*at].measures = draft.measures(seconds);
    }
    Summary {
        schema_version: SCHEMA_VERSION,
        engine: meta.engine,
        experiment: meta.experiment.clone(),
        seed: meta.seed,
        repetition: meta.repetition_number(),
        duration_seconds: traffic,
        drain_seconds: facts.ended.since(facts.stopped).as_secs_f64(),
        window,
        start_skew_ns: facts.start_skew_ns,
        starts: facts.starts.clone(),
        clocks: facts.clocks.clone(),
        schedule_digest: facts.schedule_digest.clone(),
        fingerprint: facts.fingerprint.clone(),
        calibration: facts.calibration.clone(),
        events: facts.events,
        total: total.measures(seconds),
        templates: rows,
        groups,
        nodes: books.nodes.iter().filter_map(|(name, node)| node.host.resources(name)).collect(),
        machines: books.machines.resources(),
        measuring: books.machines.measuring.over(traffic),
        links: links(&facts.links),
        connections: ConnectionEnd::merge(facts.connections.clone()),
        telemetry: telemetry(books),
        requests: None,
        checks: checks(books, facts),
    }
}

/// Groups in the order of the experiment, then those that only reports know, whose role is what they did.
fn all_groups(facts: &RunFacts, books: &Books) -> Vec<GroupFacts> {
    let mut groups = facts.groups.clone();
    let known = |node: &str, actor: &str| facts.groups.iter().any(|g| g.node == node && g.actor == actor);
    for (node, actors) in &books.nodes {
        for (actor, book) in actors.groups.iter().filter(|(actor, _)| !known(node, actor)) {
            groups.push(GroupFacts::seen(node, actor, book));
        }
    }
    groups
}

impl GroupFacts {
    fn seen(node: &str, actor: &str, book: &GroupBook) -> Self {
        let role = match (book.totals.generated, book.totals.received.saturating_add(book.totals.datagrams_received)) {
            (0, 0) => Role::Service,
            (0, _) => Role::Receiver,
            _ => Role::Sender,
        };
        GroupFacts {
            node: node.to_owned(),
            template: node.to_owned(),
            actor: actor.to_owned(),
            kind: book.kind.clone(),
            role,
            instances: book.instances,
            target: None,
            tally: None,
            counts: Vec::new(),
        }
    }
}

fn book_of<'a>(books: &'a mut Books, group: &GroupFacts) -> Option<&'a mut GroupBook> {
    books.nodes.get_mut(&group.node)?.groups.get_mut(&group.actor)
}

fn template_row(group: &GroupFacts) -> TemplateSummary {
    TemplateSummary {
        template: group.template.clone(),
        actor: group.actor.clone(),
        kind: group.kind.clone(),
        role: role_name(group.role).to_owned(),
        nodes: 0,
        target: None,
        measures: super::Measures::default(),
    }
}

fn measured(meta: &BundleMeta, facts: &RunFacts, books: &Books) -> Measured {
    let trim = meta.trim();
    let length = facts.stopped.since(facts.started);
    let windows = books.nodes.values().flat_map(|node| node.groups.values()).map(|group| group.window.until);
    let until = windows.max().unwrap_or(0).max(trim.warmup);
    match trim.end(length).map(|end| end.max(until)) {
        Some(end) => Measured {
            trimmed: true,
            from_second: trim.warmup,
            to_second: end,
            seconds: f64::from(end.saturating_sub(trim.warmup)),
        },
        None => Measured { trimmed: false, from_second: 0, to_second: until, seconds: length.as_secs_f64() },
    }
}

/// How far a group reached its target in the whole seconds of sending.
fn achieved(meta: &BundleMeta, facts: &RunFacts, group: &GroupFacts, book: &mut GroupBook) -> Option<Achieved> {
    let target = group.target?;
    let per_second = target.per_second();
    let all = target.requests.map(|requests| requests.saturating_mul(target.streams));
    let trim = meta.trim();
    let pace = &mut book.window.pace;
    let finished = all.is_some_and(|all| book.totals.generated >= all);
    if let (Some(planned), false) = (meta.planned, finished) {
        // it should have sent until the end, so what it did not send is missing
        let length = planned.min(facts.stopped.since(facts.started));
        let end = trim.end(length).unwrap_or_else(|| whole_seconds(length));
        if pace.last_until().is_some_and(|until| until <= end) {
            pace.commit();
        }
        pace.until = pace.until.max(end);
    }
    let seconds = pace.until.saturating_sub(trim.warmup);
    let expected = per_second.filter(|_| seconds > 0).map(|rate| {
        let from = facts.started.saturating_add(Span::from_secs(trim.warmup.into()));
        let (gap, to) =
            (Span::from_nanos(target.gap_ns.unwrap_or(0)), from.saturating_add(Span::from_secs(seconds.into())));
        let by_rate = rate * f64::from(seconds) * mean_factor(&facts.steers, &group.node, gap, from, to);
        all.map_or(by_rate, |all| by_rate.min(all as f64))
    });
    let left = expected.map(|_| pace.left.max(0) as f64);
    Some(Achieved { target, per_second, seconds, expected, left })
}

fn telemetry(books: &Books) -> Telemetry {
    let sum = |of: fn(&crate::books::NodeBook) -> u64| books.nodes.values().map(of).fold(0, u64::saturating_add);
    Telemetry {
        reports: sum(|node| node.reports),
        duplicates: books.duplicates,
        missing_seconds: sum(|node| node.missing()),
        dropped: sum(|node| node.dropped),
    }
}
