//! The sending end: connections kept by (sending node, target address), the one used last taken first.
//!
//! A connection is a task. It takes its next attempt out of a cell of its own, or from its route's queue when it comes
//! back; there is no channel and no lock. With `connection = "per-request"` a task opens a connection for each attempt.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use hyper::header::HeaderValue;
use rehearsal_core::parts::slab::Slab;
use rehearsal_core::plan::Connection;
use rehearsal_core::{Status, SubjectId};

use crate::shard::Shard;

mod connection;

/// Connections used once that may wait for their peer to close them, in a shard; further ones are closed here.
pub(crate) const LINGERING_MAX: usize = 256;

/// All connections of a shard to receivers.
pub(crate) struct Client {
    routes: Vec<Lane>,
    known: BTreeMap<(usize, SubjectId), Route>,
    lanes: BTreeMap<(usize, SocketAddr, bool), Route>,
    connections: Slab<Rc<Line>>,
    limit: usize,
    waiting: usize,
    lingering: Rc<Cell<usize>>,
}

/// A row of routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route(usize);

/// A connection's slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId(u32, u32);

/// An attempt's slot and generation.
type Job = (u32, u32);

struct Lane {
    target: Rc<Target>,
    /// Connections that wait for an attempt, the one used last at the end.
    idle: Vec<ConnectionId>,
    /// Attempts that wait for a connection.
    queue: VecDeque<Job>,
}

/// Where a lane goes, and how.
pub(crate) struct Target {
    /// The row of the sending node.
    node: usize,
    address: SocketAddr,
    host: HeaderValue,
    connection: Connection,
}

/// What a shard and a connection's task tell each other.
pub(crate) struct Line {
    route: Route,
    job: Cell<Option<Job>>,
    idle: Cell<bool>,
    /// How its attempt ended without it.
    cut: Cell<Option<Status>>,
    closing: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Client {
    /// No connections yet, at most `limit` ever.
    pub(crate) fn new(limit: usize) -> Self {
        Client {
            routes: Vec::new(),
            known: BTreeMap::new(),
            lanes: BTreeMap::new(),
            connections: Slab::default(),
            limit,
            waiting: 0,
            lingering: Rc::default(),
        }
    }

    /// The way from a node to a subject, if it was opened.
    #[inline]
    pub(crate) fn route(&self, node: usize, to: SubjectId) -> Option<&Route> {
        self.known.get(&(node, to))
    }

    /// Opens the way from a node to a subject that is served at `address`.
    pub(crate) fn open_route(
        &mut self,
        node: usize,
        to: SubjectId,
        address: SocketAddr,
        connection: Connection,
    ) -> Route {
        let lane = *self.lanes.entry((node, address, connection == Connection::KeepAlive)).or_insert_with(|| {
            let host = HeaderValue::try_from(address.to_string()).expect("an address is a header's value");
            let target = Rc::new(Target { node, address, host, connection });
            self.routes.push(Lane { target, idle: Vec::new(), queue: VecDeque::new() });
            Route(self.routes.len() - 1)
        });
        self.known.insert((node, to), lane);
        lane
    }

    /// Gives an attempt to a connection of its route: one that waits, a new one, or the first that comes back.
    pub(crate) fn dispatch(&mut self, route: Route, job: Job, shard: &Weak<RefCell<Shard>>) {
        let lane = &mut self.routes[route.0];
        while let Some(id) = lane.idle.pop() {
            if let Some(line) = self.connections.get(id.0, id.1).filter(|l| !l.closing.get()) {
                line.idle.set(false);
                line.job.set(Some(job));
                return line.wake();
            }
        }
        if self.connections.len() < self.limit {
            return self.open(route, Some(job), shard);
        }
        lane.queue.push_back(job);
        self.waiting += 1;
        self.make_room();
    }

    /// Closes a connection that is not needed where it is.
    fn make_room(&mut self) {
        let idle = self.routes.iter_mut().find_map(|lane| (!lane.idle.is_empty()).then(|| lane.idle.remove(0)));
        if let Some(line) = idle.and_then(|id| self.connections.get(id.0, id.1)) {
            line.closing.set(true);
            line.wake();
        }
    }

    fn open(&mut self, route: Route, job: Option<Job>, shard: &Weak<RefCell<Shard>>) {
        let Some(shard) = shard.upgrade() else { return };
        let line = Rc::new(Line {
            route,
            job: Cell::new(job),
            idle: Cell::new(false),
            cut: Cell::new(None),
            closing: Cell::new(false),
            waker: RefCell::new(None),
        });
        let slot = self.connections.insert(line.clone());
        let id = ConnectionId(slot, self.connections.generation(slot));
        let target = self.routes[route.0].target.clone();
        tokio::task::spawn_local(connection::run(shard, id, line, target, self.lingering.clone()));
    }

    /// What a connection is to do next; `None`: close.
    pub(crate) fn next(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<Option<Job>> {
        let line = self.connections.at(id.0).clone();
        line.listen(cx);
        if let Some(job) = line.job.take() {
            return Poll::Ready(Some(job));
        }
        if line.closing.get() {
            return Poll::Ready(None);
        }
        if line.idle.get() {
            return Poll::Pending;
        }
        let lane = &mut self.routes[line.route.0];
        if let Some(job) = lane.queue.pop_front() {
            self.waiting -= 1;
            return Poll::Ready(Some(job));
        }
        if self.waiting > 0 {
            // another route wants the place
            line.closing.set(true);
            return Poll::Ready(None);
        }
        line.idle.set(true);
        lane.idle.push(id);
        Poll::Pending
    }

    /// A connection is done with an attempt and could take the next, which its outcome may well bring about.
    pub(crate) fn free(&mut self, id: ConnectionId) {
        let line = self.connections.at(id.0);
        let lane = &mut self.routes[line.route.0];
        if self.waiting == 0 && !line.closing.get() {
            line.idle.set(true);
            lane.idle.push(id);
        }
    }

    /// An attempt ended without its connection, which has to close.
    pub(crate) fn cut(&mut self, id: ConnectionId, status: Status) {
        if let Some(line) = self.connections.get(id.0, id.1) {
            line.cut.set(Some(status));
            line.wake();
        }
    }

    /// A connection has closed; who waits for a place may have it.
    pub(crate) fn closed(&mut self, id: ConnectionId, shard: &Weak<RefCell<Shard>>) {
        let line = self.connections.remove(id.0);
        let lane = &mut self.routes[line.route.0];
        lane.idle.retain(|other| *other != id);
        if let Some(job) = line.job.take() {
            lane.queue.push_front(job);
            self.waiting += 1;
        }
        if self.waiting > 0
            && let Some(route) = self.routes.iter().position(|lane| !lane.queue.is_empty())
        {
            self.open(Route(route), None, shard);
        }
    }

    /// Nobody waits for a connection any more.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting = 0;
        self.routes.iter_mut().for_each(|lane| lane.queue.clear());
    }
}

impl Line {
    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    fn listen(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }
}
