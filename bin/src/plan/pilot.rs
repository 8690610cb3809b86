//! A short dry run in memory: what a file alone does not tell, such as the pace of closed loops and the sizes of frames.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use rehearsal_core::Body;
use rehearsal_core::calibration::Calibration;
use rehearsal_core::messages::NodeReport;
use rehearsal_core::plan::{Plan, Stop};
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::time::Span;
use rehearsal_core::units::Fraction;
use rehearsal_scenario::Experiment;
use rehearsal_sim::{SimOptions, Simulation};

use super::arithmetic::quantile;
use crate::clips::Use;
use crate::experiment::assemble;

/// Requests that are simulated, about. Assumed: enough for a mean to three digits, in less than a second.
const REQUESTS: f64 = 20_000.0;
/// Requests of each stream, at least, if it has so many. Assumed: a clip of 90 frames is seen once.
const EACH: u64 = 90;
/// Events after which the dry run is given up. Assumed: some seconds.
const EVENTS_MAX: u64 = 20_000_000;
/// Virtual time stands still if it takes less than this for all of them, seconds. Assumed: a million requests a second, each
/// of which costs nothing.
const STILL_S: f64 = 0.02;
/// Seconds of virtual time, where the file gives a duration.
const SECONDS: [f64; 2] = [2.0, 30.0];

/// What came out.
#[derive(Debug)]
pub struct Pilot {
    /// From the first traffic to the stop, seconds.
    pub seconds: f64,
    /// Sending actors by `(node, actor)` of the file, over all instances.
    pub sent: BTreeMap<(String, String), Sent>,
    /// Why it did not come to its end.
    pub fault: Option<String>,
    /// The calibration it was made with.
    pub calibration: Option<String>,
}

/// What one sending actor did.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Exchanges that came due.
    pub generated: u64,
    /// Attempts that left.
    pub attempts: u64,
    /// Exchanges that were answered as wanted.
    pub success: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes of answers.
    pub bytes_replied: u64,
    /// Bytes of each second.
    pub seconds: Vec<f64>,
}

impl Sent {
    /// Payload of an attempt, bytes.
    pub fn request_bytes(&self) -> f64 {
        share(self.bytes_sent, self.attempts)
    }

    /// Payload of an answer, bytes.
    pub fn answer_bytes(&self) -> f64 {
        share(self.bytes_replied, self.success)
    }

    /// Attempts for each exchange.
    pub fn attempts(&self) -> f64 {
        if self.generated == 0 { 1.0 } else { share(self.attempts, self.generated) }
    }

    /// How much the 99th percentile of the seconds is above their mean, as a factor of at least one. The first and the
    /// last second are not whole.
    pub fn peak(&self) -> f64 {
        let begun = self.seconds.iter().position(|bytes| *bytes > 0.0).unwrap_or(0);
        let Some([_, whole @ .., _]) = self.seconds.get(begun..) else { return 1.0 };
        let mean = whole.iter().sum::<f64>() / whole.len().max(1) as f64;
        if mean > 0.0 { (quantile(&mut whole.to_vec(), 0.99) / mean).max(1.0) } else { 1.0 }
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

impl Pilot {
    /// Requests per second of all senders; `None` if virtual time stood still.
    pub fn rate(&self) -> Option<f64> {
        let generated: u64 = self.sent.values().map(|sent| sent.generated).sum();
        (self.seconds > STILL_S && generated > 0 && self.fault.is_none()).then(|| generated as f64 / self.seconds)
    }

    /// Runs it.
    ///
    /// # Errors
    /// What the experiment cannot be built from, or that virtual time would not get to its end.
    pub fn run(experiment: &Experiment, calibration: Option<Arc<Calibration>>) -> Result<Self> {
        experiment.ends_in_virtual_time()?;
        let (assembly, _) = assemble(experiment, shortened(experiment), Use::Simulation, false)?;
        let named = |group: &rehearsal_core::assembly::Group| {
            (assembly.plan.nodes[group.node].template.clone(), group.actor.clone(), group.streams.is_some())
        };
        let rows: Vec<_> = assembly.groups.iter().map(named).collect();
        let templates = assembly.plan.nodes.iter().map(|n| (n.name.clone(), n.template.clone())).collect();
        let mut seconds = Seconds { templates, ..Seconds::default() };
        let title = calibration.as_ref().map(|calibration| calibration.title());
        let options = SimOptions {
            calibration,
            events_max: EVENTS_MAX,
            beat_events_max: EVENTS_MAX / 10,
            ..SimOptions::default()
        };
        let end = Simulation::new(assembly, options).run(&mut seconds, &mut |_| {});
        let mut sent: BTreeMap<(String, String), Sent> = BTreeMap::new();
        for group in &end.groups {
            let (node, actor, sends) = &rows[group.group];
            if *sends {
                let of = sent.entry((node.clone(), actor.clone())).or_default();
                of.generated += group.tally.generated;
                of.attempts += group.tally.attempts;
                of.success += group.tally.success;
                of.bytes_sent += group.tally.bytes_sent;
                of.bytes_replied += group.tally.bytes_replied;
            }
        }
        for (key, of) in &mut sent {
            of.seconds = seconds.bytes.remove(key).unwrap_or_default();
        }
        let lasted = end.start.map_or(0.0, |start| end.stop.since(start).as_secs_f64());
        Ok(Pilot {
            seconds: lasted,
            sent,
            fault: end.faults.first().map(|fault| fault.text.clone()),
            calibration: title,
        })
    }
}

/// The first repetition with fewer requests, or a shorter duration; nothing else is changed.
fn shortened(experiment: &Experiment) -> Plan {
    let mut plan = experiment.plan(0);
    let totals = experiment.totals();
    (plan.info.warmup, plan.info.cooldown, plan.record_requests) = (Span::ZERO, Span::ZERO, Fraction(0.0));
    match plan.info.stop {
        Stop::AllRequestsDone => {
            let share = (REQUESTS / totals.requests.map_or(REQUESTS, |n| n as f64)).min(1.0);
            let senders = plan.nodes.iter_mut().flat_map(|n| &mut n.groups).filter_map(|g| g.sender.as_mut());
            for requests in senders.filter_map(|sender| sender.requests.as_mut()) {
                *requests = ((*requests as f64 * share).ceil() as u64).max(EACH.min(*requests));
            }
        }
        Stop::After(duration) => {
            let seconds = totals.rate.map_or(SECONDS[1] / 3.0, |rate| REQUESTS / rate.max(f64::MIN_POSITIVE));
            let seconds = seconds.clamp(SECONDS[0], SECONDS[1]).min(duration.as_secs_f64());
            plan.info.stop = Stop::After(Span::from_secs_f64(seconds));
        }
    }
    plan
}

/// Keeps the bytes that left in each second, by `(node, actor)` of the file.
#[derive(Default)]
struct Seconds {
    templates: BTreeMap<String, String>,
    before: BTreeMap<(String, String), u64>,
    bytes: BTreeMap<(String, String), Vec<f64>>,
}

impl Sink for Seconds {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        let Ok(report) = record.get::<NodeReport>() else { return Ok(()) };
        let Some(template) = self.templates.get(&report.node) else { return Ok(()) };
        for group in report.groups.iter().filter(|group| group.totals.bytes_sent > 0) {
            let before = self.before.entry((report.node.clone(), group.actor.clone())).or_default();
            let sent = group.totals.bytes_sent.saturating_sub(*before);
            *before = group.totals.bytes_sent;
            let seconds = self.bytes.entry((template.clone(), group.actor.clone())).or_default();
            let at = report.second as usize;
            if seconds.len() <= at {
                seconds.resize(at + 1, 0.0);
            }
            seconds[at] += sent as f64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_of_whole_seconds() {
        let sent = |seconds: &[f64]| Sent { seconds: seconds.to_vec(), ..Sent::default() };
        assert_eq!(sent(&[0.0, 1.0, 100.0, 100.0, 130.0, 110.0, 900.0]).peak(), 130.0 / 110.0);
        assert_eq!((sent(&[5.0, 900.0]).peak(), sent(&[]).peak(), sent(&[1.0, 0.0, 1.0]).peak()), (1.0, 1.0, 1.0));
    }
}
