//! `[[experiment.control]]`: what the experiment does to its own load on the way.

use rehearsal_core::steer::{PlannedSteer, Steering, is_for};
use rehearsal_core::time::Span;
use rehearsal_core::units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::{Draft, Entry};
use crate::error::Problems;
use crate::tables::ExperimentTable;

/// Steps that an experiment may have. Assumed: one a minute for an hour, and as many by hand.
const STEPS_MAX: usize = 64;

/// A step of `[[experiment.control]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlTable {
    /// So long after the start of traffic.
    pub at: Span,
    /// What is done to the load.
    #[serde(rename = "do")]
    pub step: ControlStep,
    /// With `do = "rate"`: so many times the rate that the file gives each stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// With `do = "rate"`: the rate of each stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Only for this node: the name of one instance, or the name that all its instances share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// What is done to the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlStep {
    /// Nothing new is sent; the slots of a schedule that fall into the pause are given up, and counted as `paused`.
    Pause,
    /// Goes on where the schedule would have been without the pause.
    Resume,
    /// Another rate, for streams that have one.
    Rate,
    /// Ends the run, or with `node` the senders of that node.
    Stop,
}

impl ControlTable {
    /// The step as a run knows it; `None` if keys are missing.
    pub(crate) fn planned(&self) -> Option<PlannedSteer> {
        let step = match (self.step, self.factor, self.rate) {
            (ControlStep::Pause, None, None) => Steering::Pause,
            (ControlStep::Resume, None, None) => Steering::Resume,
            (ControlStep::Stop, None, None) => Steering::Stop,
            (ControlStep::Rate, Some(factor), None) => Steering::Factor(factor),
            (ControlStep::Rate, None, Some(rate)) => Steering::Rate(rate),
            _ => return None,
        };
        Some(PlannedSteer { at: self.at, node: self.node.clone(), step })
    }

    /// The step as it is written.
    pub(crate) fn of(planned: &PlannedSteer) -> Self {
        let (step, factor, rate) = match planned.step {
            Steering::Pause => (ControlStep::Pause, None, None),
            Steering::Resume => (ControlStep::Resume, None, None),
            Steering::Stop => (ControlStep::Stop, None, None),
            Steering::Factor(factor) => (ControlStep::Rate, Some(factor), None),
            Steering::Rate(rate) => (ControlStep::Rate, None, Some(rate)),
        };
        ControlTable { at: planned.at, step, factor, rate, node: planned.node.clone() }
    }
}

/// The steps of an experiment in the order of time.
pub(crate) fn planned(steps: &[ControlTable]) -> Vec<PlannedSteer> {
    let mut planned: Vec<PlannedSteer> = steps.iter().filter_map(ControlTable::planned).collect();
    planned.sort_by_key(|step| step.at);
    planned
}

/// Checks each step.
pub(crate) fn check(experiment: &Entry<ExperimentTable>, draft: &Draft, problems: &mut Problems<'_>) {
    let (table, at) = (&experiment.table, experiment.keys.at("control"));
    if table.control.len() > STEPS_MAX {
        let reason = format!("`control` has {} steps, at most {STEPS_MAX} are possible", table.control.len());
        problems.rule(at, reason, None);
    }
    for (row, step) in table.control.iter().enumerate() {
        let number = row + 1;
        if step.planned().is_none() {
            let (reason, help) = match step.step {
                ControlStep::Rate => ("needs either `factor` or `rate`", "write for instance `factor = 0.5`"),
                _ => ("has no `factor` and no `rate`", "leave them out, or write `do = \"rate\"`"),
            };
            problems.rule(at, format!("step {number} of `control` {reason}"), Some(help));
        }
        if step.factor.is_some_and(|factor| !(factor.is_finite() && factor > 0.0)) {
            let reason = format!("step {number} of `control`: `factor` must be above zero");
            problems.rule(at, reason, Some("to send nothing, write `do = \"pause\"`"));
        }
        if table.duration.is_some_and(|duration| step.at >= duration) {
            let reason = format!("step {number} of `control` is at {}, when the run is over", step.at);
            problems.rule(at, reason, Some("let it come earlier, or the run take longer"));
        }
        let Some(name) = &step.node else { continue };
        let known = |(node, count): (&str, u32)| {
            is_for(name, node) || (0..count).any(|i| rehearsal_core::subject::instance(node, i, count) == *name)
        };
        if !draft.nodes.iter().map(|n| (n.node.name.as_str(), n.node.table.count)).any(known) {
            let nodes: Vec<&str> = draft.nodes.iter().map(|n| n.node.name.as_str()).collect();
            let reason = format!("step {number} of `control`: there is no node `{name}`");
            problems.rule(at, reason, Some(&format!("there are {}", nodes.join(", "))));
        }
    }
}
