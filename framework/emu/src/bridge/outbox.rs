//! Telemetry on its way out: published to the run's stream under an id of its own until the server says that it keeps it.
//!
//! Nothing waits for it: who has something to tell puts it here and goes on, in a queue with a bound. What finds no room
//! is counted; a logger tells it again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rehearsal_bus::stream::{RunStream, StreamError};
use tokio::sync::{Notify, Semaphore};

/// Messages that may wait. Assumed: more than a logger keeps, and some events.
const WAITING_MAX: usize = 1024;
/// Messages under way to the server. Below the number of reports that are put back into order.
const WINDOW: usize = 16;
/// Between two tries to have a message kept, and between two looks at whether the server is back.
const AGAIN: Duration = Duration::from_millis(250);
/// Names of what was too large that are kept.
const NAMES_MAX: usize = 64;

/// What waits to be kept by the server.
pub(super) struct Outbox {
    stream: RunStream,
    connected: Box<dyn Fn() -> bool>,
    state: RefCell<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Letter>,
    /// Ids of all that waits or is under way.
    ids: BTreeSet<String>,
    totals: Totals,
    too_large: BTreeMap<String, u64>,
}

/// What became of telemetry that this process sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Messages that the server keeps.
    pub kept: u64,
    /// Tries that had no answer, or a refusal.
    pub retries: u64,
    /// Messages that found no room.
    pub dropped: u64,
}

struct Letter {
    subject: String,
    id: String,
    payload: Bytes,
}

impl Outbox {
    /// An empty one. Messages leave while `connected`, on the present thread, until the runtime ends.
    pub fn open(stream: RunStream, connected: impl Fn() -> bool + 'static) -> Rc<Outbox> {
        let outbox = Outbox { stream, connected: Box::new(connected), state: RefCell::default(), wake: Notify::new() };
        let outbox = Rc::new(outbox);
        tokio::task::spawn_local(outbox.clone().send());
        outbox
    }

    /// Whether a message of this id waits already.
    pub fn holds(&self, id: &str) -> bool {
        self.state.borrow().ids.contains(id)
    }

    /// Puts a message in; never waits.
    pub fn put(&self, subject: &str, id: String, payload: Bytes) {
        let mut state = self.state.borrow_mut();
        if state.ids.contains(&id) {
            return;
        }
        if state.ids.len() == WAITING_MAX {
            state.totals.dropped += 1;
            return;
        }
        state.ids.insert(id.clone());
        state.waiting.push_back(Letter { subject: subject.to_owned(), id, payload });
        self.wake.notify_one();
    }

    /// Something that no message can hold was left out.
    pub fn too_large(&self, what: String) {
        let mut state = self.state.borrow_mut();
        if state.too_large.len() < NAMES_MAX || state.too_large.contains_key(&what) {
            *state.too_large.entry(what).or_default() += 1;
        }
    }

    /// Messages that the server is not known to keep.
    pub fn open_messages(&self) -> usize {
        self.state.borrow().ids.len()
    }

    /// Bytes that one message may have.
    pub fn payload_max(&self) -> usize {
        self.stream.payload_max()
    }

    /// What became of all so far.
    pub fn totals(&self) -> Totals {
        self.state.borrow().totals
    }

    /// What was too large, and how often.
    pub fn left_out(&self) -> Vec<String> {
        self.state.borrow().too_large.iter().map(|(what, n)| format!("{what} ({n} times)")).collect()
    }

    async fn send(self: Rc<Self>) {
        let window = Arc::new(Semaphore::new(WINDOW));
        loop {
            let Ok(permit) = window.clone().acquire_owned().await else { return };
            let letter = loop {
                let first = self.state.borrow_mut().waiting.pop_front();
                match first {
                    Some(letter) => break letter,
                    None => self.wake.notified().await,
                }
            };
            let outbox = self.clone();
            tokio::task::spawn_local(async move {
                outbox.until_kept(letter).await;
                drop(permit);
            });
        }
    }

    /// Tries until the server keeps it. It ends with the run at the latest.
    async fn until_kept(&self, Letter { subject, id, payload }: Letter) {
        loop {
            if (self.connected)() {
                match self.stream.publish(&subject, &id, payload.clone()).await {
                    Ok(()) => break self.state.borrow_mut().totals.kept += 1,
                    Err(StreamError::TooLarge { .. }) => break self.too_large(format!("a message on `{subject}`")),
                    Err(_) => self.state.borrow_mut().totals.retries += 1,
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        self.state.borrow_mut().ids.remove(&id);
    }
}
