//! `--scale 0.01`: the same experiment with fewer requests or a shorter duration.

use rehearsal_core::plan::Stop;
use rehearsal_core::time::Span;

use super::scaled;
use crate::error::Problems;
use crate::experiment::Experiment;

/// Multiplies requests (at least 1) and the duration (at least 1 s). Gives notes on what it did.
pub(super) fn apply(experiment: &mut Experiment, factor: f64, problems: &mut Problems<'_>) -> Vec<String> {
    if !(factor.is_finite() && factor > 0.0) {
        problems.flag("--scale", format!("{factor} is out of range: a factor is above zero"), None);
        return Vec::new();
    }
    for actor in experiment.nodes.iter_mut().flat_map(|node| &mut node.actors) {
        if let Some(requests) = actor.sender.as_mut().and_then(|sender| sender.requests.as_mut()) {
            *requests = (*requests as f64 * factor).round().max(1.0) as u64;
        }
    }
    let mut notes = vec![format!("scaled by {factor}: requests and durations differ from the file")];
    if let Stop::After(duration) = experiment.stop {
        let shorter = scaled(duration, factor);
        experiment.stop = Stop::After(shorter);
        // warm-up and cool-down keep their share of the duration
        let share = shorter.as_secs_f64() / duration.as_secs_f64();
        if share < 1.0 {
            experiment.warmup = part(experiment.warmup, share);
            experiment.cooldown = part(experiment.cooldown, share);
            notes.push(format!("warm-up {} and cool-down {} keep their share", experiment.warmup, experiment.cooldown));
        }
    }
    notes
}

/// In whole seconds: the summary leaves out whole seconds, and a part of one would take it all.
fn part(span: Span, share: f64) -> Span {
    Span::from_secs((span.as_secs_f64() * share) as u64)
}
