//! `--scale 0.01`: the same experiment with fewer requests or a shorter duration.

use rehearsal_core::plan::Stop;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::time::Span;

use super::scaled;
use crate::error::Problems;
use crate::experiment::Experiment;
use crate::table::duration as words;
use crate::validate::times::{RUN_MAX, paced};

const FLAG: &str = "--scale";
/// Most requests of one stream: larger counts cannot be told apart as floats.
const REQUESTS_MAX: f64 = 9_007_199_254_740_991.0;

/// Multiplies requests (at least 1) and the duration (at least 1 s). Gives notes on what it did.
pub(super) fn apply(experiment: &mut Experiment, factor: f64, problems: &mut Problems<'_>) -> Vec<String> {
    if !(factor.is_finite() && factor > 0.0) {
        let help = Some("write for instance `--scale 0.01`".to_owned());
        problems.flag(FLAG, format!("{factor} is out of range: a factor is a number above zero"), help);
        return Vec::new();
    }
    let mut notes = vec![format!("scaled by {}: requests and durations differ from the file", plain(factor))];
    for node in &mut experiment.nodes {
        let count = node.count();
        for actor in &mut node.actors {
            let name = format!("{}/{}", node.name, actor.name);
            let members = u64::from(count) * u64::from(actor.count);
            let Some(sender) = &mut actor.sender else { continue };
            match requests(sender, members, factor) {
                Ok(true) => notes.push(format!("{name}: requests scaled to 1 per stream, the least there is")),
                Ok(false) => {}
                Err(why) => problems.flag(FLAG, format!("{} is out of range: {name} {why}", plain(factor)), None),
            }
        }
    }
    if let Stop::After(whole) = experiment.stop {
        if whole.as_nanos() as f64 * factor > RUN_MAX.as_nanos() as f64 {
            let reason = format!("{} is out of range: a run takes at most {}", plain(factor), words(RUN_MAX));
            problems.flag(FLAG, reason, None);
            return notes;
        }
        notes.extend(duration(experiment, whole, factor));
    }
    notes
}

/// Scales the requests of one stream; whether they are held at one.
fn requests(sender: &mut SenderParams, members: u64, factor: f64) -> Result<bool, String> {
    let Some(requests) = &mut sender.requests else { return Ok(false) };
    let wanted = (*requests as f64 * factor).round();
    let streams = members.saturating_mul(u64::from(sender.streams)).max(1);
    if wanted > REQUESTS_MAX || (wanted as u64).checked_mul(streams).is_none() {
        return Err("would send more requests than can be counted".to_owned());
    }
    *requests = wanted.max(1.0) as u64;
    match paced(sender).filter(|paced| *paced > RUN_MAX) {
        Some(_) => Err(format!("would take longer than {}", words(RUN_MAX))),
        None => Ok(wanted < 1.0),
    }
}

/// Scales the duration, and what is left out of it.
fn duration(experiment: &mut Experiment, whole: Span, factor: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let shorter = scaled(whole, factor);
    if whole.as_nanos() as f64 * factor < shorter.as_nanos() as f64 * 0.999 {
        notes.push(format!("duration scaled to {}, the least there is", words(shorter)));
    }
    experiment.stop = Stop::After(shorter);
    // warm-up and cool-down keep their share of the duration
    let share = shorter.as_secs_f64() / whole.as_secs_f64();
    for step in &mut experiment.control {
        step.at = Span::from_nanos((step.at.as_nanos() as f64 * share) as u64);
    }
    if share < 1.0 {
        experiment.warmup = part(experiment.warmup, share);
        experiment.cooldown = part(experiment.cooldown, share);
        let (warmup, cooldown) = (words(experiment.warmup), words(experiment.cooldown));
        notes.push(format!("warm-up {warmup} and cool-down {cooldown} keep their share"));
    }
    notes
}

/// In whole seconds: the summary leaves out whole seconds, and a part of one would take it all.
fn part(span: Span, share: f64) -> Span {
    Span::from_secs((span.as_secs_f64() * share) as u64)
}

/// A factor without hundreds of zeros.
fn plain(factor: f64) -> String {
    if (1e-9..1e9).contains(&factor) { factor.to_string() } else { format!("{factor:e}") }
}
