//! Where users were: user-time by state, and beside it what the model has in the long run.

use rehearsal_core::{MetricId, Outbox, Span, Time, Wiring};
use rehearsal_models::diagram::{Chain, Crowd};

/// States whose users are told, at most. Assumed: more are no table, and each snapshot would carry them.
const STATES_MAX: usize = 64;

/// Counters of user-time by state, ms.
#[derive(Debug)]
pub(super) struct Census {
    seen: Vec<MetricId>,
    /// What the long run has, with the share of users; none of a diagram that has no long run.
    expected: Vec<(MetricId, f64)>,
}

/// How many users there were to be, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    users: u32,
    since: Time,
    user_ns: u128,
}

impl Census {
    /// Names the counters: `users_in.STATE.ms` and `users_in.STATE.expected_ms`.
    pub fn new(chain: &Chain, wiring: &mut dyn Wiring) -> Self {
        if chain.states.len() > STATES_MAX {
            return Census { seen: Vec::new(), expected: Vec::new() };
        }
        let mut name = |state: &str, what: &str| wiring.metric_named(format!("users_in.{state}.{what}").into());
        let seen = chain.states.iter().map(|state| name(&state.name, "ms")).collect();
        let shares = chain.stationary().map_or_else(Vec::new, |long| long.shares);
        let rows = chain.states.iter().zip(shares);
        let expected = rows.map(|(state, share)| (name(&state.name, "expected_ms"), share)).collect();
        Census { seen, expected }
    }

    /// Counts all user-time up to `end`, once.
    pub fn tell(&self, crowd: &Crowd, asked: &Asked, end: Time, out: &mut Outbox) {
        let ms = |seconds: f64| (seconds * 1e3).round() as u64;
        for (metric, seconds) in self.seen.iter().zip(crowd.user_seconds(end)) {
            out.count(*metric, ms(seconds));
        }
        let asked = asked.user_seconds(end);
        for (metric, share) in &self.expected {
            out.count(*metric, ms(asked * share));
        }
    }
}

impl Asked {
    /// Nobody yet.
    pub const NONE: Asked = Asked { users: 0, since: Time::ZERO, user_ns: 0 };

    /// From `at` on there are to be so many.
    pub fn change(&mut self, at: Time, users: u32) {
        self.user_ns += u128::from(self.users) * u128::from(self.span(at).as_nanos());
        (self.users, self.since) = (users, at.max(self.since));
    }

    fn user_seconds(&self, end: Time) -> f64 {
        self.user_ns as f64 / 1e9 + f64::from(self.users) * self.span(end).as_secs_f64()
    }

    fn span(&self, at: Time) -> Span {
        at.since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_for_adds_up_over_changes() {
        let at = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let mut asked = Asked::NONE;
        asked.change(at(10), 5);
        asked.change(at(12), 7);
        assert_eq!(asked.user_seconds(at(15)), 2.0 * 5.0 + 3.0 * 7.0);
        // what is late changes nothing that was before
        asked.change(at(11), 1);
        assert_eq!(asked.user_seconds(at(13)), 10.0 + 1.0);
    }
}
