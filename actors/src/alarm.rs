//! The one timer of an actor that has a single next time, set anew only where that time changes.

use rehearsal_core::{Outbox, Time, TimerKey};

/// The timer's key.
const TIMER: TimerKey = TimerKey(0);

/// When it is set for, if it is.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Time>);

impl Alarm {
    /// Sets it for `next`, or not at all.
    pub fn set(&mut self, next: Option<Time>, out: &mut Outbox) {
        if next != self.0 {
            match next {
                Some(at) => out.set_timer(TIMER, at),
                None => out.cancel_timer(TIMER),
            }
            self.0 = next;
        }
    }

    /// It has come due.
    pub fn rang(&mut self) {
        self.0 = None;
    }
}
