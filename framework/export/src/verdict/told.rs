//! Doubts that the engines themselves tell, as life-cycle events of a kind that has a code.

use std::collections::BTreeMap;

use rehearsal_core::messages::LifeEvent;

use super::limits::{Limits, Rule};
use super::rules::Findings;
use super::{Code, Evidence, Severity};

/// Nodes whose doubts of one code are kept. Assumed: more than are told one by one.
const NODES_MAX: usize = 64;

/// What the events of a run tell, by code and node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told(BTreeMap<(Code, String), Doubt>);

/// What events of one code and node tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Doubt {
    /// Of the first; of clocks that were set, of the largest step.
    text: String,
    /// How often.
    count: u64,
    /// The largest step of a clock, ns.
    moved_ns: Option<u64>,
}

impl Told {
    /// Takes an event, if its kind has a code.
    pub fn add(&mut self, event: &LifeEvent) {
        let Some(code) = code(&event.kind) else { return };
        let of_code = self.0.keys().filter(|(known, _)| *known == code).count();
        let key = (code, event.node.clone());
        let moved_ns = event.moved_ns.map(i64::unsigned_abs);
        match self.0.get_mut(&key) {
            Some(doubt) => {
                doubt.count += 1;
                if moved_ns > doubt.moved_ns {
                    (doubt.moved_ns, doubt.text) = (moved_ns, event.text.clone());
                }
            }
            None if of_code < NODES_MAX => {
                _ = self.0.insert(key, Doubt { text: event.text.clone(), count: 1, moved_ns });
            }
            None => {}
        }
    }

    /// Whether any event told of this.
    pub fn has(&self, code: Code) -> bool {
        self.0.keys().any(|(known, _)| *known == code)
    }
}

/// The code of a kind of event: its word with hyphens.
fn code(kind: &str) -> Option<Code> {
    match kind {
        "clock-stepped" => Some(Code::ClockStepped),
        "descriptors-exhausted" => Some(Code::DescriptorsExhausted),
        "ports-exhausted" => Some(Code::PortsExhausted),
        "buffers-exhausted" => Some(Code::BuffersExhausted),
        _ => None,
    }
}

/// How grave it is, and what was measured. A clock that was set is held to its limit; one whose step is not told was set by
/// more than any. What a host ran out of, it lost.
fn weighed(code: Code, doubt: &Doubt, limits: &Limits) -> Option<(Severity, Option<(f64, f64)>)> {
    if code != Code::ClockStepped {
        return Some((Severity::Degraded, None));
    }
    let moved = doubt.moved_ns.map(|ns| ns as f64);
    let (severity, limit) = limits.judge(Rule::ClockStepped, moved.unwrap_or(f64::INFINITY))?;
    Some((severity, moved.map(|moved| (moved, limit))))
}

pub(super) fn judge(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    for ((code, node), doubt) in &evidence.told.0 {
        let Some((severity, measured)) = weighed(*code, doubt, limits) else { continue };
        let again = if doubt.count > 1 { format!(" ({} times told)", doubt.count) } else { String::new() };
        let place = if node.is_empty() { String::new() } else { format!("{node}: ") };
        let reason = found.add(*code, severity);
        reason.node = Some(node.clone()).filter(|node| !node.is_empty());
        if let Some((moved, limit)) = measured {
            reason.measured(moved, limit, "ns");
        }
        reason.says(format!("{place}{}{again}", doubt.text));
    }
}
