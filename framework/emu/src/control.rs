//! How somebody outside stops a run: a signal handler, or a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rehearsal_core::messages::StopReason;
use tokio::sync::Notify;

/// Stops a run from any thread. Make one, give [`crate::run`] a clone.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    times: AtomicU32,
    reason: Mutex<Option<StopReason>>,
    told: Notify,
}

impl Control {
    /// A control of a run that nobody has stopped.
    pub fn new() -> Self {
        Control::default()
    }

    /// The first call drains: what is under way may end, then the run does. The second ends at once: what is under way
    /// is aborted, records that are not yet stored are lost.
    pub fn stop(&self, reason: StopReason) {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.0.times.fetch_add(1, Ordering::SeqCst);
        self.0.told.notify_one();
    }

    /// How often it was asked to stop.
    pub(crate) fn times(&self) -> u32 {
        self.0.times.load(Ordering::SeqCst)
    }

    /// The first reason given.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.0.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when it was asked to stop since the last call.
    pub(crate) async fn told(&self) {
        self.0.told.notified().await;
    }
}
