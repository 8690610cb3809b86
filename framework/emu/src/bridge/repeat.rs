//! Words of the life cycle that must not be lost: said again until they need no answer any more. A server that restarts
//! loses what was on its way, silently. Each repetition is the same message under the same number, which whoever has heard
//! it drops; a process that comes later hears it for the first time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rehearsal_bus::nats::Nats;

/// Between two repetitions.
const EVERY: Duration = Duration::from_millis(500);
/// How long a repetition may take to leave.
const LEAVE: Duration = Duration::from_millis(250);

/// What is said again and again, by its subject.
#[derive(Default)]
pub(super) struct Repeat(RefCell<BTreeMap<String, Bytes>>);

impl Repeat {
    /// Says `payload` again from now on, in place of what was said on this subject before.
    pub fn begin(&self, subject: &str, payload: Bytes) {
        self.0.borrow_mut().insert(subject.to_owned(), payload);
    }

    /// Says nothing again on subjects that end with `verb`.
    pub fn end(&self, verb: &str) {
        self.0.borrow_mut().retain(|subject, _| subject.rsplit('.').next() != Some(verb));
    }

    /// Says all of it now, if there is a connection.
    pub async fn say(&self, nats: &Nats) {
        let all: Vec<(String, Bytes)> = self.0.borrow().iter().map(|(s, p)| (s.clone(), p.clone())).collect();
        for (subject, payload) in all {
            if nats.is_connected() {
                // it comes again
                let _ = tokio::time::timeout(LEAVE, nats.publish(&subject, payload)).await;
            }
        }
    }

    /// Repeats over `nats` until the runtime ends.
    pub async fn run(repeat: Rc<Repeat>, nats: Nats) {
        loop {
            tokio::time::sleep(EVERY).await;
            repeat.say(&nats).await;
        }
    }
}
