//! Whom to wake: the task that waits for what its shard hands it.

use std::cell::RefCell;
use std::task::{Context, Waker};

/// A place for one task.
#[derive(Debug, Default)]
pub(crate) struct Sleeper(RefCell<Option<Waker>>);

impl Sleeper {
    /// Wakes the task, if one has waited.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.0.borrow() {
            waker.wake_by_ref();
        }
    }

    /// The task of this context waits from now on.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
        let mut waker = self.0.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }
}
