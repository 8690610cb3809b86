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
    lost: Mutex<Vec<(String, String)>>,
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

    /// A node in another process has ended before its time, and `why`: the run is stopped, and its verdict says so.
    pub fn lose(&self, node: &str, why: String) {
        self.0.lost.lock().unwrap_or_else(PoisonError::into_inner).push((node.to_owned(), why));
        self.0.told.notify_one();
    }

    /// Nodes that were lost since the last call.
    pub(crate) fn lost(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.0.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often it was asked to stop.
    pub(crate) fn times(&self) -> u32 {
        self.0.times.load(Ordering::SeqCst)
    }

    /// The first reason given.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.0.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when it was asked to stop, or a node was lost, since the last call.
    pub(crate) async fn told(&self) {
        self.0.told.notified().await;
    }
}
