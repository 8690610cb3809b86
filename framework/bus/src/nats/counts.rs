//! What happens on a connection: counted, and what the server does not permit kept, for it is told as an event alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::{Event, ServerError};
use tokio::sync::{Notify, watch};

use super::error::Violation;

/// Different violations that are kept. All are counted.
const VIOLATIONS_MAX: usize = 64;
/// Last token of subjects on which only the server's answer counts: a refusal is one too.
pub(super) const QUESTION: &str = "settled";

/// What happened on a connection so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub sent: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub received: AtomicU64,
    pub received_bytes: AtomicU64,
    pub dropped: AtomicU64,
    pub unsent: AtomicU64,
    disconnects: AtomicU64,
    refusals: AtomicU64,
    violations: Mutex<Vec<Violation>>,
    /// Subjects of [`QUESTION`] that were not permitted, until who asked has seen it.
    questions: Mutex<Vec<String>>,
    /// Wakes who waits for one of those, or for a violation.
    pub answered: Notify,
    /// Times that the connection was lost, for who waits for it.
    pub lost: watch::Sender<u64>,
}

/// The same, read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages published.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that came in.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages that came in and found a full buffer, ours or the client library's.
    pub dropped: u64,
    /// Messages that did not leave because the server had been away for long.
    pub unsent: u64,
    /// Times that the connection was lost.
    pub disconnects: u64,
    /// Errors that the server told, such as a subject that is not permitted.
    pub refusals: u64,
}

impl Counts {
    pub fn note(&self, event: &Event) {
        let count = match event {
            Event::SlowConsumer(_) => &self.dropped,
            Event::Disconnected => &self.disconnects,
            // what the client library says of its tries to connect again is in the disconnects
            Event::ServerError(_) => &self.refusals,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if matches!(event, Event::Disconnected) {
            self.lost.send_modify(|times| *times += 1);
        }
        if let Event::ServerError(ServerError::Other(said)) = event
            && let Some(violation) = Violation::parse(said)
        {
            self.keep(violation);
        }
    }

    pub fn add(count: &AtomicU64, bytes_count: &AtomicU64, bytes: usize) {
        count.fetch_add(1, Ordering::Relaxed);
        bytes_count.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// In the order in which they were first told.
    pub fn violations(&self) -> Vec<Violation> {
        lock(&self.violations).clone()
    }

    /// Whether this question was answered with a refusal.
    pub fn is_refused(&self, question: &str) -> bool {
        let mut all = lock(&self.questions);
        let before = all.len();
        all.retain(|subject| subject != question);
        all.len() < before
    }

    /// Waits until the server refuses this subject, for ever if it never does.
    pub async fn refused(&self, subject: &str) -> Violation {
        loop {
            let mut told = std::pin::pin!(self.answered.notified());
            told.as_mut().enable();
            if let Some(violation) = lock(&self.violations).iter().find(|v| v.subject == subject) {
                return violation.clone();
            }
            told.await;
        }
    }

    fn keep(&self, violation: Violation) {
        if violation.subject.ends_with(QUESTION) {
            let mut all = lock(&self.questions);
            if all.len() < VIOLATIONS_MAX {
                all.push(violation.subject);
            }
            self.answered.notify_waiters();
            return;
        }
        let mut all = lock(&self.violations);
        if all.len() < VIOLATIONS_MAX && !all.contains(&violation) {
            all.push(violation);
        }
        drop(all);
        self.answered.notify_waiters();
    }

    pub fn traffic(&self) -> Traffic {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            sent: read(&self.sent),
            sent_bytes: read(&self.sent_bytes),
            received: read(&self.received),
            received_bytes: read(&self.received_bytes),
            dropped: read(&self.dropped),
            unsent: read(&self.unsent),
            disconnects: read(&self.disconnects),
            refusals: read(&self.refusals),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
