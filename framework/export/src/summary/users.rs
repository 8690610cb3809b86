//! Users of populations by state, from the counters of user-time that they keep.

use serde::Serialize;

use super::Summary;

/// Users in one state over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Occupancy {
    /// Node and actor as the file names them.
    pub actor: String,
    /// The state.
    pub state: String,
    /// Users in it, mean over the run.
    pub seen: f64,
    /// Users that the model has in it in the long run, for as many users as there were to be: answers are taken to come at
    /// once. `None` if the model has no long run.
    pub expected: Option<f64>,
}

impl Occupancy {
    /// Those of all populations, by actor and state.
    pub fn of(summary: &Summary) -> Vec<Occupancy> {
        let seconds = summary.duration_seconds;
        let mut rows = Vec::new();
        for row in summary.templates.iter().filter(|_| seconds > 0.0) {
            let counts = &row.measures.counts;
            let mean = |name: String| counts.get(&name).map(|ms| *ms as f64 / 1e3 / seconds);
            let states = counts.keys().filter_map(|name| name.strip_prefix("users_in.")?.strip_suffix(".ms"));
            rows.extend(states.filter_map(|state| {
                Some(Occupancy {
                    actor: format!("{}/{}", row.template, row.actor),
                    state: state.to_owned(),
                    seen: mean(format!("users_in.{state}.ms"))?,
                    expected: mean(format!("users_in.{state}.expected_ms")),
                })
            }));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Measures, TemplateSummary};

    #[test]
    fn user_time_over_the_run_is_users() {
        let counts =
            [("users_in.call.ms", 90_000), ("users_in.call.expected_ms", 100_000), ("users_in.idle.ms", 10_000)];
        let counts = counts.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        let row = TemplateSummary {
            template: "phones".to_owned(),
            actor: "main".to_owned(),
            kind: "population".to_owned(),
            role: "sender".to_owned(),
            nodes: 1,
            target: None,
            measures: Measures { counts, ..Measures::default() },
        };
        let summary = Summary { duration_seconds: 10.0, templates: vec![row], ..Summary::default() };
        let told: Vec<_> =
            Occupancy::of(&summary).into_iter().map(|row| (row.actor, row.state, row.seen, row.expected)).collect();
        let actor = || "phones/main".to_owned();
        assert_eq!(told, [(actor(), "call".to_owned(), 9.0, Some(10.0)), (actor(), "idle".to_owned(), 1.0, None)]);
    }
}
