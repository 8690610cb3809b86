//! Whether somebody sets the wall clock while a run goes on. No time of a run is read from it, so none changes; but who
//! joins a run with the logs of others should know.

use crate::clock::{monotonic_ns, unix_ns};

/// A smaller step is not told, whatever the verdict's limit. Assumed: a clock that is steered moves by at most 0.5 ms in a
/// second (adjtimex(2): 500 ppm), looks are a second apart and a few more on a busy machine, and one that is interrupted
/// between both clocks errs by less than 1 ms.
const STEP_NS_MIN: u64 = 5_000_000;
/// Looks that are tried again because they were interrupted.
const TRIES: usize = 3;
/// A look that takes no longer than this was not interrupted.
const LOOK_NS_MAX: u64 = 1_000_000;

/// Looks at the wall clock once a second.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Unix time less CLOCK_MONOTONIC at the last look, ns.
    last: Option<i128>,
}

impl Steps {
    /// How far the clock was set since the last look, ns; `None` if it was not.
    pub(crate) fn look(&mut self) -> Option<i128> {
        self.seen(difference()?)
    }

    fn seen(&mut self, now: i128) -> Option<i128> {
        let moved = now - self.last.replace(now)?;
        (moved.unsigned_abs() >= u128::from(STEP_NS_MIN)).then_some(moved)
    }
}

/// What an event says of a step.
pub(crate) fn says(moved: i128) -> String {
    let seconds = moved as f64 / 1e9;
    format!("the wall clock was set by {seconds:+.3} s; times are of CLOCK_MONOTONIC and do not change")
}

fn difference() -> Option<i128> {
    let look = || {
        let before = monotonic_ns();
        let wall = unix_ns();
        let after = monotonic_ns();
        (after.saturating_sub(before) <= LOOK_NS_MAX).then(|| i128::from(wall) - i128::from(before))
    };
    (0..TRIES).find_map(|_| look())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_and_steering_is_not() {
        let mut steps = Steps::default();
        assert_eq!(steps.seen(1_000), None, "the first look has nothing to compare with");
        assert_eq!(steps.seen(501_000), None, "steered");
        assert_eq!(steps.seen(5_000_501_000), Some(5_000_000_000));
        assert_eq!(steps.seen(5_000_501_000), None, "told once");
        assert_eq!(steps.seen(-175_000_000_000), Some(-180_000_501_000));
        assert!(says(-180_000_501_000).starts_with("the wall clock was set by -180.001 s"));
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let mut steps = Steps::default();
        (0..100).for_each(|_| _ = steps.look());
        assert!(steps.last.is_some());
    }
}
