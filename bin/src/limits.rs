//! Limits of the verdict as the experiment states them, in the form that the bundle judges by.

use rehearsal_export::verdict::Rule;
use rehearsal_export::{Limits, Severity};
use rehearsal_scenario::{Experiment, Gravity};

/// The usual limits, but for those that the experiment sets.
pub fn of(experiment: &Experiment) -> Limits {
    let mut limits = Limits::default();
    for bound in experiment.verdict.set() {
        let rule = Rule::ALL.iter().find(|rule| rule.word() == bound.limit);
        let severity = match bound.gravity {
            Gravity::Note => Severity::Note,
            Gravity::Degraded => Severity::Degraded,
            Gravity::Invalid => Severity::Invalid,
        };
        limits.set(*rule.expect("every key of `[verdict]` is a rule, as a test says"), severity, bound.value);
    }
    limits
}

/// What `check` says of them; empty if all are the usual ones.
pub fn explain(experiment: &Experiment) -> String {
    let changes = of(experiment).changes();
    let line = |change: &rehearsal_export::verdict::Change| {
        format!("  {}{}\n", change.text(), if change.is_loosened() { " (loosened)" } else { "" })
    };
    let lines: String = changes.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nverdict\n{lines}") }
}

#[cfg(test)]
mod tests {
    use rehearsal_export::verdict::Worse;
    use rehearsal_scenario::VerdictTable;

    use super::*;

    #[test]
    fn every_key_is_a_rule_and_says_its_usual_bounds() {
        let keys: Vec<&str> = Rule::ALL.iter().map(|rule| rule.word()).collect();
        assert_eq!(VerdictTable::KEYS, keys);
        let schema = rehearsal_scenario::json_schema(&crate::registry::registry());
        for rule in Rule::ALL {
            let text = schema["properties"]["verdict"]["properties"][rule.word()]["description"].as_str().unwrap();
            let usual = text.split("Usually").nth(1).unwrap_or_else(|| panic!("{rule:?}: {text}")).replace('\n', " ");
            let side = if rule.worse() == Worse::Above { "above" } else { "below" };
            for bound in [rule.usual().note, rule.usual().degraded, rule.usual().invalid].into_iter().flatten() {
                let told = rule.tell(bound);
                let told = told.trim_end_matches(" values");
                assert!(usual.contains(told), "{rule:?}: {told} in `{usual}`");
                assert!(usual.contains(side) || *rule == Rule::GeneratorLateMin, "{rule:?}: {side} in `{usual}`");
            }
        }
    }
}
