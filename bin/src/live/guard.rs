//! Ends a run whose thresholds do not hold: each second, over everything since the warm-up.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rehearsal_export::{Aborted, Judgement, Threshold};

use super::SoFar;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// What is done when a limit does not hold.
type Act = Box<dyn Fn(&Aborted) + Send>;

/// Where it is told that a run is to end. Clones share it; the first to ring it is heard.
#[derive(Clone, Default)]
pub struct Alarm(Arc<Mutex<(Option<Aborted>, Option<Act>)>>);

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Alarm").field(&self.heard()).finish()
    }
}

impl Alarm {
    /// An alarm that lets something be done at once.
    pub fn then(act: impl Fn(&Aborted) + Send + 'static) -> Self {
        Alarm(Arc::new(Mutex::new((None, Some(Box::new(act))))))
    }

    /// Tells it.
    pub fn ring(&self, aborted: Aborted) {
        let (heard, act) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.is_none() {
            let aborted = heard.insert(aborted);
            act.iter().for_each(|act| act(aborted));
        }
    }

    /// What was told.
    pub fn heard(&self) -> Option<Aborted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// Holds limits against a run so far.
pub struct Guard {
    limits: Vec<Threshold>,
    seconds: Option<u64>,
    alarm: Alarm,
    rung: Option<Aborted>,
}

impl Guard {
    /// Judges `limits` over a run of so many seconds, if that is known, and rings `alarm`.
    pub fn new(limits: Vec<Threshold>, seconds: Option<u64>, alarm: Alarm) -> Self {
        Guard { limits, seconds, alarm, rung: None }
    }

    /// The limit that did not hold.
    pub fn rung(&self) -> Option<&Aborted> {
        self.rung.as_ref()
    }

    /// Judges the second that is complete. What nobody knows yet ends nothing.
    pub fn judge(&mut self, run: &SoFar) {
        let seconds = u64::from(run.seconds());
        // after the last second of traffic there is nothing to end
        if self.rung.is_some() || self.seconds.is_some_and(|all| seconds >= all) {
            return;
        }
        let passed = seconds * SECOND_NS;
        let due = |limit: &&Threshold| limit.abort_after_ns.is_some_and(|after| passed >= after);
        let mut due = self.limits.iter().filter(due).peekable();
        if due.peek().is_none() {
            return;
        }
        let Some(measures) = run.measures() else { return };
        for limit in due {
            if let (Some(measured), Judgement::Fail) = limit.judge(&measures) {
                let aborted = Aborted {
                    threshold: limit.text.clone(),
                    seconds: run.seconds(),
                    measured,
                    limit: limit.value,
                    unit: limit.unit().to_owned(),
                };
                self.alarm.ring(aborted.clone());
                self.rung = Some(aborted);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rehearsal_core::time::Span;
    use rehearsal_export::Op;

    use super::super::so_far::tests::report;
    use super::*;

    /// The second after which the limit rings, of ten in which `good` of ten exchanges a second succeed.
    fn rings(after: u64, seconds: Option<u64>, good: impl Fn(u32) -> u64) -> Option<u32> {
        let limit = Threshold {
            text: "success.rate >8/s".to_owned(),
            scope: None,
            metric: "success".to_owned(),
            stat: "rate".to_owned(),
            op: Op::Greater,
            value: 8.0,
            abort_after_ns: Some(after * SECOND_NS),
        };
        let alarm = Alarm::default();
        let mut guard = Guard::new(vec![limit], seconds, alarm.clone());
        let mut run = SoFar::new(Span::from_secs(1), BTreeSet::new(), true);
        let mut success = 0;
        for second in 0..10 {
            success += good(second);
            run.add(&report("a", second, u64::from(second + 1) * 10, success), |_, _, _, _| {});
            guard.judge(&run);
            run.told();
        }
        assert_eq!(alarm.heard(), guard.rung().cloned());
        alarm.heard().map(|aborted| aborted.seconds)
    }

    #[test]
    fn a_limit_rings_once_it_is_due_and_does_not_hold_since_the_warm_up() {
        assert_eq!(rings(0, None, |_| 10), None);
        assert_eq!(rings(0, None, |second| if second == 0 { 0 } else { 10 }), None, "the warm-up is left out");
        assert_eq!(rings(0, None, |_| 0), Some(2), "the first second after the warm-up");
        assert_eq!(rings(4, None, |_| 0), Some(4));
        assert_eq!(rings(0, None, |second| if second < 4 { 10 } else { 0 }), Some(5), "30 in 4 s");
        assert_eq!(rings(0, Some(2), |_| 0), None, "at the end the summary judges");
    }
}
