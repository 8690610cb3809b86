//! Steps: each by itself, and whether users know what they are to say when they come to one.

use std::collections::{BTreeMap, BTreeSet};

use rehearsal_core::script::StepSpec;

use super::Flaws;
use crate::diagram::{Diagram, State};

/// How users come to a state, in words.
#[derive(Clone, Copy)]
enum Came<'a> {
    /// They begin there.
    Begin,
    /// From a state, which they left in the usual way.
    After(&'a str),
    /// From one whose flow has failed, or was given up.
    Failed(&'a str),
}

impl Diagram {
    /// The names of values that answers give.
    pub fn values_taken(&self) -> BTreeSet<&str> {
        self.steps().flat_map(|(_, step)| step.extract.keys()).map(String::as_str).collect()
    }

    /// The first state whose step uses a value that an answer to another gave, and the value: then users must be told apart.
    pub fn first_use(&self) -> Option<(&str, &str)> {
        let taken = self.values_taken();
        let mut uses = self.steps().flat_map(|(name, step)| step.uses().map(move |value| (name, value)));
        uses.find(|(_, value)| taken.contains(value))
    }

    /// Bytes of a step's body, where nothing is known.
    pub(in crate::diagram) fn usual_body_bytes(&self, step: &StepSpec) -> u32 {
        let all = || self.steps().flat_map(|(_, step)| &step.extract);
        step.usual_body_bytes(&|name| all().find(|(value, _)| *value == name).map(|(_, extract)| extract.bytes()))
    }

    pub(super) fn step(&self, name: &str, state: &State, flaws: &mut Flaws) {
        let Some(step) = &state.step else { return };
        for (key, reason) in step.faults() {
            flaws.at(&["states", name, "step", key], format!("state `{name}`: {reason}"));
        }
        let taken = self.values_taken();
        // the columns of a file are known once it is read
        for value in step.uses().filter(|value| !taken.contains(value) && step.rows.is_none()) {
            let known: Vec<String> = taken.iter().map(|value| format!("`{{{value}}}`")).collect();
            let known = if known.is_empty() { "no step takes any value".to_owned() } else { known.join(", ") };
            let reason = format!(
                "state `{name}`: nothing tells what `{{{value}}}` is ({known}): take it from an earlier answer by `extract`, or from a file by `rows`"
            );
            flaws.at(&["states", name, "step"], reason);
        }
    }

    /// Whether a user may come to a step without a value that it uses.
    pub(super) fn values(&self, flaws: &mut Flaws) {
        for value in self.values_taken() {
            let lacking = self.lacking(value);
            for (name, step) in self.steps() {
                let Some(came) = lacking.get(name) else { continue };
                if !step.uses().any(|used| used == value) {
                    continue;
                }
                let why = match came {
                    Came::Begin => "may begin there: give `start`, which tells where they begin".to_owned(),
                    Came::After(from) => format!(
                        "may come from `{from}` without it: let them pass a step that takes it first, or give `start`"
                    ),
                    Came::Failed(from) => format!(
                        "may come from `{from}` without it, after a failure there: give `{from}` a `failed` that leads elsewhere"
                    ),
                };
                let reason = format!("state `{name}`: its step uses `{{{value}}}`, and users {why}");
                flaws.at(&["states", name, "step"], reason);
            }
        }
    }

    /// The states that users may come to without a value, and how.
    fn lacking(&self, value: &str) -> BTreeMap<&str, Came<'_>> {
        let mut seen: BTreeMap<&str, Came<'_>> = self.beginnings().map(|name| (name, Came::Begin)).collect();
        let mut open: Vec<&str> = seen.keys().copied().collect();
        while let Some(from) = open.pop() {
            let Some((from, state)) = self.states.get_key_value(from) else { continue };
            let or_to = |to: &BTreeMap<String, f64>| if to.is_empty() { state.to.clone() } else { to.clone() };
            let takes = state.step.as_ref().is_some_and(|step| step.extract.contains_key(value));
            let mut ways: Vec<(String, Came<'_>)> = Vec::new();
            if !takes {
                let done = state.to.keys().chain(state.rates.keys()).cloned();
                ways.extend(done.map(|to| (to, Came::After(from.as_str()))));
            }
            if state.talks() {
                let failed = or_to(&state.failed).into_keys();
                ways.extend(failed.map(|to| (to, Came::Failed(from.as_str()))));
                if state.impatience.is_some() {
                    let gave_up = or_to(&state.impatient).into_keys();
                    ways.extend(gave_up.map(|to| (to, Came::Failed(from.as_str()))));
                }
            }
            for (to, came) in ways {
                let Some((to, _)) = self.states.get_key_value(&to) else { continue };
                if !seen.contains_key(to.as_str()) {
                    seen.insert(to, came);
                    open.push(to);
                }
            }
        }
        seen
    }

    /// States that users may begin in.
    fn beginnings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        if !self.start.is_empty() {
            let likely = self.start.iter().filter(|(_, share)| **share > 0.0);
            return Box::new(likely.map(|(name, _)| name.as_str()));
        }
        // in the long run, save that nobody waits for an answer
        let waits = |state: &State| {
            let module = state.module.as_ref().and_then(|module| self.modules.get(module));
            state.step.is_some() || module.is_some_and(|module| module.kind.waits())
        };
        let none = self.states.values().all(waits);
        let some = self.states.iter().filter(move |(_, state)| none || !waits(state));
        Box::new(some.map(|(name, _)| name.as_str()))
    }
}
