//! What must hold of a run's counters: the identities, and that each time was recorded exactly once.

use rehearsal_core::messages::Metric;
use rehearsal_core::parts::tally::Tally;

use super::Check;
use crate::books::{Books, GroupBook, NodeBook};
use crate::meta::RunFacts;

/// A metric has as many values as these counters say; `None` where they do not say.
type Expected = (Metric, &'static str, fn(&Tally) -> Option<u64>);

const EXPECTED: [Expected; 4] = [
    (Metric::Response, "one response time per success", |t| answered(t, t.success)),
    (Metric::Service, "one service time per success", |t| answered(t, t.success)),
    (Metric::Lag, "one lag per attempt", |t| Some(t.attempts)),
    (Metric::Handling, "one handling time per served request", |t| Some(t.served)),
];

/// Datagrams succeed without an answer.
fn answered(t: &Tally, count: u64) -> Option<u64> {
    (t.datagrams_sent == 0).then_some(count)
}

/// All checks.
pub(crate) fn checks(books: &Books, facts: &RunFacts) -> Vec<Check> {
    let mut checks = vec![identities(books)];
    checks.extend(EXPECTED.iter().map(|expected| counted(books, facts, expected)));
    checks
}

fn groups(books: &Books) -> impl Iterator<Item = (String, &NodeBook, &GroupBook)> {
    let all = books.nodes.iter().flat_map(|(name, node)| node.groups.iter().map(move |group| (name, node, group)));
    all.map(|(name, node, (actor, book))| (format!("{name}/{actor}"), node, book))
}

fn identities(books: &Books) -> Check {
    let broken: Vec<String> =
        groups(books).filter_map(|(name, _, book)| Some(format!("{name}: {}", book.broken.as_ref()?))).collect();
    Check {
        name: "nothing is settled that was not generated".to_owned(),
        holds: Some(broken.is_empty()),
        text: broken.join("; "),
    }
}

/// Cannot be told of a node that lost telemetry: its counts are complete, its histograms are not.
fn counted(books: &Books, facts: &RunFacts, (metric, name, expected): &Expected) -> Check {
    let (mut unequal, mut unknown) = (Vec::new(), false);
    for (group, node, book) in groups(books) {
        let Some(want) = expected(&book.totals) else { continue };
        let have = book.recorded.get(metric).copied().unwrap_or(0);
        if have == want {
            continue;
        }
        let node_name = group.split('/').next().unwrap_or_default();
        let incomplete = node.missing() > 0
            || node.dropped > 0
            || book.unreported
            || facts.lost_nodes.iter().any(|lost| lost == node_name)
            || facts.incarnations.contains_key(node_name);
        if incomplete {
            unknown = true;
        } else {
            unequal.push(format!("{group}: {have} times for {want}"));
        }
    }
    let holds = if unequal.is_empty() { (!unknown).then_some(true) } else { Some(false) };
    Check { name: (*name).to_owned(), holds, text: unequal.join("; ") }
}
