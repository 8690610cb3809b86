//! How somebody outside acts on a run: a signal handler, a person who watches, whoever starts the nodes' processes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use rehearsal_core::life::Succession;
use rehearsal_core::messages::StopReason;
use rehearsal_core::steer::{Answer, Ask};
use tokio::sync::Notify;

/// Questions that may wait for their answer.
const ASKS_MAX: usize = 64;

/// Acts on a run from any thread. Make one, give [`crate::run`] a clone.
#[derive(Clone, Default)]
pub struct Control(Arc<Asked>);

impl Default for Asked {
    fn default() -> Self {
        Asked {
            times: AtomicU32::new(0),
            reason: Mutex::default(),
            told: Notify::new(),
            lost: Mutex::default(),
            beyond_help: Mutex::default(),
            asks: Mutex::new(Some(VecDeque::new())),
            restart: Mutex::default(),
        }
    }
}

struct Asked {
    times: AtomicU32,
    reason: Mutex<Option<StopReason>>,
    told: Notify,
    lost: Mutex<Vec<(String, String)>>,
    beyond_help: Mutex<Vec<(String, String)>>,
    asks: Mutex<Asks>,
    restart: Mutex<Option<Arc<Restart>>>,
}

/// Questions that wait; `None` once the run is over.
type Asks = Option<VecDeque<(Ask, mpsc::SyncSender<Answer>)>>;

/// Starts the process of a node again; why it cannot.
pub(crate) type Restart = dyn Fn(&str, &Succession) -> Result<(), String> + Send + Sync;

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("times", &self.times()).field("reason", &self.reason()).finish_non_exhaustive()
    }
}

impl Control {
    /// A control of a run that nobody has stopped.
    pub fn new() -> Self {
        Control::default()
    }

    /// The first call drains: what is under way may end, then the run does. The second ends at once: what is under way
    /// is aborted, records that are not yet stored are lost.
    pub fn stop(&self, reason: StopReason) {
        lock(&self.0.reason).get_or_insert(reason);
        self.0.times.fetch_add(1, Ordering::SeqCst);
        self.0.told.notify_one();
    }

    /// Lets the run end as the first [`Control::stop`] does, if nothing has ended it yet; a stop after it is still the first.
    pub fn conclude(&self, reason: StopReason) {
        lock(&self.0.reason).get_or_insert(reason);
        self.0.told.notify_one();
    }

    /// A node's process in another place has ended before its time, and `why`. What follows is the experiment's to say
    /// (`on_loss`).
    pub fn lose(&self, node: &str, why: String) {
        lock(&self.0.lost).push((node.to_owned(), why));
        self.0.told.notify_one();
    }

    /// Asks the controller to steer the load, or how the run stands, and waits for its answer.
    ///
    /// # Errors
    /// Why there is none: the controller does not run in this process, or the run is over.
    pub fn ask(&self, ask: Ask, patience: Duration) -> Result<Answer, String> {
        let over = || "the run does not answer: its controller runs elsewhere, or it is over".to_owned();
        let (reply, answer) = mpsc::sync_channel(1);
        match &mut *lock(&self.0.asks) {
            None => return Err(over()),
            Some(asks) if asks.len() >= ASKS_MAX => return Err(format!("{ASKS_MAX} others wait for their answer")),
            Some(asks) => asks.push_back((ask, reply)),
        }
        self.0.told.notify_one();
        answer.recv_timeout(patience).map_err(|_| over())
    }

    /// Names who starts the process of a lost node again, and gives it what it must know of the earlier ones. It is called
    /// on a thread of its own, and makes sure that the earlier process has ended.
    pub fn on_restart(&self, restart: impl Fn(&str, &Succession) -> Result<(), String> + Send + Sync + 'static) {
        *lock(&self.0.restart) = Some(Arc::new(restart));
    }

    /// Who starts a node again.
    pub(crate) fn restart(&self) -> Option<Arc<Restart>> {
        lock(&self.0.restart).clone()
    }

    /// Nodes that were lost since the last call.
    pub(crate) fn lost(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *lock(&self.0.lost))
    }

    /// A lost node cannot be started again, and `why`.
    pub(crate) fn give_up(&self, node: &str, why: String) {
        lock(&self.0.beyond_help).push((node.to_owned(), why));
        self.0.told.notify_one();
    }

    /// Nodes that were given up since the last call.
    pub(crate) fn beyond_help(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *lock(&self.0.beyond_help))
    }

    /// Questions since the last call.
    pub(crate) fn asks(&self) -> VecDeque<(Ask, mpsc::SyncSender<Answer>)> {
        lock(&self.0.asks).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The run is over: who waits for an answer gets none, and nobody is asked any more.
    pub(crate) fn end(&self) {
        *lock(&self.0.asks) = None;
    }

    /// How often it was asked to stop.
    pub(crate) fn times(&self) -> u32 {
        self.0.times.load(Ordering::SeqCst)
    }

    /// The first reason given.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *lock(&self.0.reason)
    }

    /// Returns when somebody has said something since the last call.
    pub(crate) async fn told(&self) {
        self.0.told.notified().await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn status() -> Ask {
        Ask { id: 0, node: None, step: None }
    }

    #[test]
    fn a_question_is_answered_or_refused_and_nobody_waits_for_a_run_that_is_over() {
        let control = Control::new();
        let asker = control.clone();
        let asked = std::thread::spawn(move || asker.ask(status(), LONG));
        let reply = loop {
            if let Some((_, reply)) = control.asks().pop_front() {
                break reply;
            }
            std::thread::yield_now();
        };
        let answer = Answer { id: 0, accepted: true, text: "runs".to_owned() };
        reply.send(answer.clone()).expect("it waits");
        assert_eq!(asked.join().expect("no panic"), Ok(answer));
        let waiting: Vec<_> = (0..ASKS_MAX)
            .map(|_| {
                let asker = control.clone();
                std::thread::spawn(move || asker.ask(status(), LONG))
            })
            .collect();
        while lock(&control.0.asks).as_ref().is_some_and(|asks| asks.len() < ASKS_MAX) {
            std::thread::yield_now();
        }
        assert_eq!(control.ask(status(), LONG), Err("64 others wait for their answer".to_owned()));
        control.end();
        for one in waiting {
            assert!(one.join().expect("no panic").is_err());
        }
        assert!(control.ask(status(), LONG).is_err_and(|why| why.contains("it is over")));
    }
}
