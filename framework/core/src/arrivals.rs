//! When a stream's exchanges are due, if not evenly: arrivals as an experiment writes them.
//!
//! [`Arrivals::course`] checks them and turns them into a [`Course`], which knows its mean rate, its peak and how bursty it
//! is. Intended times follow from the course and the stream's own random numbers alone: nothing that happens to an
//! exchange moves the next one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::time::Span;
use crate::units::Rate;

mod chain;
mod course;

pub use chain::Chain;
pub use course::{Course, Ramp};

/// Most states of a Markov-modulated process. Assumed: a fit of measured traffic has two to four.
pub const STATES_MAX: usize = 16;
/// Most stages of a ramp. Assumed: more are a trace.
pub const STAGES_MAX: usize = 1_000;
/// Most rows of a trace. Assumed: as many as a resolved experiment can hold in itself, some 1 MB.
pub const ROWS_MAX: usize = 86_400;
/// The shortest mean gap. Assumed: a million exchanges per second and stream are more than any machine sends.
pub const GAP_MIN: Span = Span::from_micros(1);

/// Arrivals of each stream. Which keys there are depends on `process`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// The process.
    pub process: Process,
    /// Rate of `poisson`, and of `stages` at their start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Whether `stages` and a `trace` begin again when they are through. Without it the stream ends there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// How exchanges of `stages` are spaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing: Option<Spacing>,
    /// A file with a duration in each row, relative to the experiment file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What the rows of a trace are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Rows>,
    /// The rows of a trace, as a resolved experiment has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Span>,
    /// Gaps of `renewal`, and of `on-off` while it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Distribution<Span>>,
    /// How long `on-off` is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Distribution<Span>>,
    /// How long `on-off` is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Distribution<Span>>,
    /// Stages of a ramp, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// States of `mmpp`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, State>,
}

/// Processes of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// Independent exponential gaps with a `rate`.
    Poisson,
    /// Independent `gaps` of any distribution.
    Renewal,
    /// `gaps` while it is `on`; their clock stands still while it is `off`.
    OnOff,
    /// A Poisson process whose rate is that of a Markov chain's state (MMPP).
    Mmpp,
    /// A rate that moves in straight lines from one target to the next.
    Stages,
    /// Times or gaps of a file.
    Trace,
}

/// A stage of a ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// How long it takes.
    pub duration: Span,
    /// The rate at its end; without it, nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Rate>,
}

/// A state of a Markov-modulated process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Exchanges per time in this state; without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Transitions per time to other states.
    pub to: BTreeMap<String, Rate>,
}

/// How exchanges of a changing rate are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// One each time that the rate has added up to one.
    #[default]
    Even,
    /// An inhomogeneous Poisson process.
    Poisson,
}

/// What the rows of a trace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rows {
    /// Times since the start, not descending.
    Times,
    /// Gaps, the first from the start.
    Gaps,
}

/// Keys that each process takes; the first so many are needed.
const TAKES: [(Process, &str, &[&str], usize); 6] = [
    (Process::Poisson, "poisson", &["rate"], 1),
    (Process::Renewal, "renewal", &["gaps"], 1),
    (Process::OnOff, "on-off", &["gaps", "on", "off"], 3),
    (Process::Mmpp, "mmpp", &["states"], 1),
    (Process::Stages, "stages", &["stages", "rate", "spacing", "repeat"], 1),
    (Process::Trace, "trace", &["rows", "file", "trace", "repeat"], 1),
];

impl Process {
    /// As it is written.
    pub fn word(self) -> &'static str {
        TAKES.iter().find(|(process, ..)| *process == self).map_or("", |(_, word, ..)| word)
    }
}

impl Arrivals {
    /// Checks the keys.
    ///
    /// # Errors
    /// What is wrong with them, and what to write instead.
    pub fn course(&self) -> Result<Course, String> {
        self.takes()?;
        let course = match self.process {
            Process::Poisson => Course::poisson(self.rate),
            Process::Renewal => Course::Renewal(law("gaps", self.gaps.as_ref())?),
            Process::OnOff => Course::on_off(
                law("gaps", self.gaps.as_ref())?,
                law("on", self.on.as_ref())?,
                law("off", self.off.as_ref())?,
            )?,
            Process::Mmpp => Course::Modulated(Chain::new(&self.states)?),
            Process::Stages => Course::Stages(Ramp::new(self)?),
            Process::Trace => Course::trace(&self.trace, self.rows == Some(Rows::Times), self.repeat)?,
        };
        let gap_ns = 1e9 / course.per_second();
        if gap_ns < GAP_MIN.as_nanos() as f64 {
            return Err(format!("its mean gap is {gap_ns:.0} ns, at least {GAP_MIN} is possible; use more `streams`"));
        }
        Ok(course)
    }

    /// Whether the keys that are there are those of the process.
    fn takes(&self) -> Result<(), String> {
        let there = [
            ("rate", self.rate.is_some()),
            ("repeat", self.repeat),
            ("spacing", self.spacing.is_some()),
            ("file", self.file.is_some()),
            ("rows", self.rows.is_some()),
            ("trace", !self.trace.is_empty()),
            ("gaps", self.gaps.is_some()),
            ("on", self.on.is_some()),
            ("off", self.off.is_some()),
            ("stages", !self.stages.is_empty()),
            ("states", !self.states.is_empty()),
        ];
        let there: Vec<&str> = there.iter().filter(|(_, is)| *is).map(|(key, _)| *key).collect();
        let row = TAKES.iter().find(|(process, ..)| *process == self.process);
        let (_, word, takes, needed) = row.ok_or("an unknown process")?;
        if let Some(key) = there.iter().find(|key| !takes.contains(key)) {
            let keys: Vec<String> = takes.iter().map(|key| format!("`{key}`")).collect();
            return Err(format!("`{word}` has no `{key}`; it takes {}", keys.join(", ")));
        }
        if let Some(key) = takes[..*needed].iter().find(|key| !there.contains(key)) {
            return Err(format!("`{word}` needs `{key}`"));
        }
        Ok(())
    }
}

fn law(key: &str, of: Option<&Distribution<Span>>) -> Result<crate::distribution::Law, String> {
    of.ok_or_else(|| format!("`{key}` is missing"))?.law().map_err(|why| format!("`{key}`: {why}"))
}

#[cfg(test)]
mod tests;
