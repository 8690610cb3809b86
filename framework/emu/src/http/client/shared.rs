//! Connections that requests share (HTTP/2, HTTP/3): opened as streams are needed, given up when they are of no use any
//! more.
//!
//! A further connection is opened when all have as many streams as the link allows, up to its `connections`. One that is
//! closing, or on which a deadline passed since it was last heard, takes no new streams; it goes when its last has ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rehearsal_core::plan::{Carrier, Connection};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::connection::{NONE, lost, unopened};
use super::{Target, three, two};
use crate::carried::Unopened;
use crate::losses::Loss;
use crate::shard::{Answer, Core, Outgoing};

/// Times that an attempt goes to another connection because its peer had not begun with it. Assumed: a peer that closes
/// connections in turn does so one after the other.
const AGAIN_MAX: u32 = 2;
/// How long a connection may take to open. Assumed: longer than any deadline of an experiment; Linux gives up after two
/// minutes.
const OPEN: std::time::Duration = std::time::Duration::from_secs(30);

/// The connections of a route.
#[derive(Default)]
pub(super) struct Pool(RefCell<Vec<Rc<Shared>>>);

/// One of them.
pub(super) struct Shared {
    state: RefCell<State>,
    streams: Cell<usize>,
    /// It takes no more streams.
    retired: Cell<bool>,
    /// Why it broke was told.
    told: Cell<bool>,
    /// Why it broke, as far as nobody's request tells.
    why: Cell<Option<Loss>>,
    /// Answers that came over it.
    heard: Cell<u64>,
    news: Notify,
    task: RefCell<Option<AbortHandle>>,
}

enum State {
    Opening,
    Open(Sender),
    Over,
}

/// A connection's own way to send.
#[derive(Clone)]
pub(super) enum Sender {
    Two(two::Sender),
    Three(three::Sender),
}

/// How an attempt ended on its stream.
pub(super) enum Ended {
    Answered(Answer),
    /// The peer has certainly not begun with it.
    Unbegun(Loss),
    /// The peer broke off this one stream.
    Stream(Loss),
    /// Its connection is broken.
    Connection(Loss),
}

impl Shared {
    /// The connection is over: nobody can send on it.
    fn close(&self) {
        self.retired.set(true);
        self.state.replace(State::Over);
        self.news.notify_waiters();
    }

    /// It can be sent on.
    fn open(&self, sender: Sender) {
        self.state.replace(State::Open(sender));
        self.news.notify_waiters();
    }

    /// Its way to send, once it is open; `None` if it came to nothing.
    async fn ready(&self) -> Option<Sender> {
        loop {
            let news = self.news.notified();
            match &*self.state.borrow() {
                State::Open(sender) => return Some(sender.clone()),
                State::Over => return None,
                State::Opening => {}
            }
            news.await;
        }
    }

    fn is_opening(&self) -> bool {
        matches!(&*self.state.borrow(), State::Opening)
    }

    /// One stream less; the last closes a connection that takes no more.
    fn left(&self) {
        self.streams.set(self.streams.get() - 1);
        if self.streams.get() == 0 && self.retired.get() {
            let was = self.state.replace(State::Over);
            if let State::Open(sender) = &was {
                sender.end();
            }
            // HTTP/2 says goodbye by itself when nobody can send any more
            if !matches!(was, State::Open(Sender::Two(_)))
                && let Some(task) = self.task.take()
            {
                task.abort();
            }
        }
    }
}

impl Sender {
    /// Nobody will send on it any more.
    fn end(&self) {
        match self {
            Sender::Two(_) => {}
            Sender::Three(sender) => sender.end(),
        }
    }
}

/// A line's place on a connection of its route.
pub(super) struct Guest {
    pool: Rc<Pool>,
    target: Rc<Target>,
    endpoints: three::Endpoints,
    on: Option<Rc<Shared>>,
    /// What `heard` was when its attempt began.
    heard: u64,
}

/// How far an attempt is: of each connection that it went to, the last.
#[derive(Default)]
pub(super) struct Progress(RefCell<two::Written>);

impl Progress {
    /// Whether it has been written in full.
    pub(super) fn is_written(&self) -> bool {
        self.0.borrow().is_done()
    }

    /// It begins, or begins again.
    fn begin(&self) -> two::Written {
        self.0.replace(two::Written::default());
        self.0.borrow().clone()
    }
}

impl Guest {
    /// Nowhere yet.
    pub(super) fn of(pool: Rc<Pool>, target: Rc<Target>, endpoints: three::Endpoints) -> Guest {
        Guest { pool, target, endpoints, on: None, heard: 0 }
    }

    /// Sends an attempt and reads its answer.
    pub(super) async fn exchange(&mut self, shard: &Core, job: Outgoing, progress: &Progress) -> Answer {
        for again in 0..=AGAIN_MAX {
            self.leave();
            let shared = self.enter(shard);
            self.heard = shared.heard.get();
            let written = progress.begin();
            let Some(mut sender) = shared.ready().await else { return NONE };
            let ended = match &mut sender {
                Sender::Two(sender) => two::exchange(sender, &self.target, &job, &written).await,
                Sender::Three(sender) => three::exchange(sender, &self.target, &job, &written).await,
            };
            let ended = match ended {
                Ended::Unbegun(Loss::Closed) => {
                    // its connection is about to say why it ended
                    tokio::task::yield_now().await;
                    shared.why.get().map_or(ended, Ended::Connection)
                }
                ended => ended,
            };
            match ended {
                Ended::Answered(answer) => {
                    shared.heard.set(shared.heard.get() + 1);
                    return answer;
                }
                Ended::Unbegun(_) if again < AGAIN_MAX => shared.retired.set(true),
                Ended::Stream(loss) | Ended::Unbegun(loss) => {
                    lost(shard, &self.target, loss);
                    return NONE;
                }
                Ended::Connection(loss) => {
                    shared.retired.set(true);
                    if !shared.told.replace(true) {
                        lost(shard, &self.target, loss);
                    }
                    return NONE;
                }
            }
        }
        NONE
    }

    /// Its attempt was cut off, `written` in full or not. What there is to say of its connection, if it had none or the peer
    /// lets nothing through.
    pub(super) fn cut(&mut self, written: bool) -> Option<Loss> {
        let shared = self.on.clone()?;
        let opening = shared.is_opening();
        let silent = shared.heard.get() == self.heard;
        if silent {
            // it may be dead: what comes next goes elsewhere
            shared.retired.set(true);
        }
        let stalled = !opening && !written;
        self.leave();
        match (opening, stalled) {
            (true, _) => (!shared.told.replace(true)).then_some(Loss::Late),
            (false, true) => Some(Loss::Stalled),
            (false, false) => None,
        }
    }

    /// Leaves its connection.
    pub(super) fn leave(&mut self) {
        if let Some(shared) = self.on.take() {
            if self.target.connection == Connection::PerRequest {
                shared.retired.set(true);
            }
            shared.left();
        }
    }

    /// Takes a place on the connection with the fewest streams, or on a new one.
    fn enter(&mut self, shard: &Core) -> Rc<Shared> {
        let mut pool = self.pool.0.borrow_mut();
        pool.retain(|shared| !shared.retired.get());
        let alone = self.target.connection == Connection::PerRequest;
        let free = pool.iter().filter(|_| !alone).min_by_key(|shared| shared.streams.get());
        let full = |shared: &&Rc<Shared>| shared.streams.get() >= self.target.streams;
        let room = alone || pool.len() < self.target.connections;
        let shared = match free.filter(|shared| !(room && full(shared))) {
            Some(shared) => shared.clone(),
            None => {
                let shared = open(shard, &self.target, &self.endpoints);
                if !alone {
                    pool.push(shared.clone());
                }
                shared
            }
        };
        shared.streams.set(shared.streams.get() + 1);
        self.on = Some(shared.clone());
        shared
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Begins to open a connection.
fn open(shard: &Core, target: &Rc<Target>, endpoints: &three::Endpoints) -> Rc<Shared> {
    let shared = Rc::new(Shared {
        state: RefCell::new(State::Opening),
        streams: Cell::new(0),
        retired: Cell::new(false),
        told: Cell::new(false),
        why: Cell::new(None),
        heard: Cell::new(0),
        news: Notify::new(),
        task: RefCell::new(None),
    });
    let task = run(shard.clone(), target.clone(), endpoints.clone(), shared.clone());
    shared.task.replace(Some(tokio::task::spawn_local(task).abort_handle()));
    shared
}

/// A connection from its opening to its end.
async fn run(shard: Core, target: Rc<Target>, endpoints: three::Endpoints, shared: Rc<Shared>) {
    let opening = async {
        match target.carrier {
            Carrier::Http3 => {
                three::open(&shard, &target, &endpoints).await.map(|(s, drive)| (Sender::Three(s), drive))
            }
            _ => two::open(&shard, &target).await.map(|(s, drive)| (Sender::Two(s), drive)),
        }
    };
    let late = || Unopened::Socket(std::io::ErrorKind::TimedOut.into());
    match tokio::time::timeout(OPEN, opening).await.unwrap_or_else(|_| Err(late())) {
        Ok((sender, drive)) => {
            shared.open(sender);
            shared.why.set(drive.await);
        }
        Err(why) => {
            if !shared.told.replace(true) {
                unopened(&shard, &target, &why);
            }
        }
    }
    shared.close();
}
