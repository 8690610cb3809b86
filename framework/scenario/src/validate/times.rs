//! Bounds of durations: what makes no sense at zero, and what would outrun a 64-bit clock of nanoseconds.

use std::ops::Range;

use rehearsal_core::sender::SenderParams;
use rehearsal_core::time::Span;

use crate::draft::{ActorDraft, Entry};
use crate::error::Problems;
use crate::table::duration as words;
use crate::tables::ExperimentTable;

/// The longest run. Assumed: a year; the clock itself holds 584.
pub(crate) const RUN_MAX: Span = Span::from_secs(366 * 24 * 3600);
/// The longest wait inside a run. Assumed: nobody waits a day for an answer.
pub(super) const WAIT_MAX: Span = Span::from_secs(24 * 3600);

/// Durations of `[experiment]`.
pub(super) fn experiment(entry: &Entry<ExperimentTable>, problems: &mut Problems<'_>) {
    let table = &entry.table;
    let spans =
        [("duration", table.duration.unwrap_or(Span::ZERO)), ("warmup", table.warmup), ("cooldown", table.cooldown)];
    for (key, span) in spans.into_iter().chain([("lead", table.lead), ("grace", table.grace)]) {
        at_most(RUN_MAX, key, span, entry.keys.at(key), problems);
    }
}

/// Durations of a sender.
pub(super) fn sender(actor: &ActorDraft, problems: &mut Problems<'_>) {
    let Some(sender) = &actor.sender else { return };
    let keys = &actor.actor.keys;
    if sender.timeout == Span::ZERO {
        problems.rule(keys.at("timeout"), "`timeout` must be above zero, or no answer could be in time", None);
    }
    if sender.limit.is_some_and(|limit| limit.deadline == Span::ZERO) {
        problems.rule(keys.at("limit"), "`deadline` must be above zero, or every request would miss it", None);
    }
    at_most(WAIT_MAX, "timeout", sender.timeout, keys.at("timeout"), problems);
    at_most(WAIT_MAX, "backoff", sender.backoff, keys.at("backoff"), problems);
    if let Some(limit) = sender.limit {
        at_most(WAIT_MAX, "deadline", limit.deadline, keys.at("limit"), problems);
    }
    if let Some(paced) = paced(sender).filter(|paced| *paced > RUN_MAX) {
        let reason =
            format!("so many requests at this rate take {}, at most {} are possible", words(paced), words(RUN_MAX));
        let key = if sender.requests.is_some() { "requests" } else { "rate" };
        problems.rule(keys.at(key), reason, None);
    }
}

/// How long one stream needs for its requests at its rate, or for its first one if there is no count.
pub(crate) fn paced(sender: &SenderParams) -> Option<Span> {
    sender.mean_rate().map(|rate| rate.offset(sender.requests.unwrap_or(1)))
}

pub(super) fn at_most(bound: Span, key: &str, span: Span, at: &Range<usize>, problems: &mut Problems<'_>) {
    if span > bound {
        problems.rule(at, format!("`{key}` is {}, at most {} are possible", words(span), words(bound)), None);
    }
}
