//! The sending end: connections by (sending node, target address, link), the one used last taken first.
//!
//! Each attempt under way has a task, a *line*. Over HTTP/1.1 a line is a connection: it takes its next attempt out of a cell
//! of its own, or from its route's queue when it comes back; there is no channel and no lock. Bare bytes to targets outside go
//! the same way, datagrams by a socket for each line. Over HTTP/2 and HTTP/3 a line
//! is a stream: as many as the link allows, on connections that the lines of a route share. With
//! `connection = "per-request"` a line opens a connection for each attempt.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use rehearsal_core::Status;
use rehearsal_core::parts::slab::Slab;

use crate::shard::Shard;
use crate::wake::Sleeper;

mod bare;
mod connection;
mod link;
mod one;
mod request;
mod shared;
mod target;
mod three;
mod two;

use link::Lingering;
#[cfg(test)]
pub(super) use one::write_head;
use shared::Pool;
pub(crate) use target::{Target, name as server_name};
pub(super) use three::{offered, transport};

/// Connections used once that may wait for their peer to close them, in a shard; further ones are closed here.
pub(crate) const LINGERING_MAX: usize = 256;

/// All connections of a shard to receivers.
pub(crate) struct Client {
    routes: Vec<Lane>,
    lanes: BTreeMap<target::Key, Route>,
    lines: Slab<Rc<Line>>,
    /// Lines that are connections of their own, and how many there may be.
    alone: usize,
    limit: usize,
    waiting: usize,
    lingering: Lingering,
    endpoints: three::Endpoints,
}

/// A row of routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route(usize);

/// A line's slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId(u32, u32);

/// An attempt's slot and generation.
type Job = (u32, u32);

struct Lane {
    target: Rc<Target>,
    /// Where its lines share connections: those, and how many lines there may be.
    pool: Option<(Rc<Pool>, usize)>,
    lines: usize,
    /// Lines that wait for an attempt, the one used last at the end.
    idle: Vec<ConnectionId>,
    /// Attempts that wait for a line.
    queue: VecDeque<Job>,
}

impl Lane {
    /// Whether its lines are streams, and one more may be opened.
    fn has_stream(&self) -> Option<bool> {
        self.pool.as_ref().map(|(_, most)| self.lines < *most)
    }
}

/// What a shard and a line's task tell each other.
pub(crate) struct Line {
    route: Route,
    job: Cell<Option<Job>>,
    idle: Cell<bool>,
    /// How its attempt ended without it.
    cut: Cell<Option<Status>>,
    closing: Cell<bool>,
    sleeper: Sleeper,
}

/// What all lines of a shard use.
struct Commons {
    pool: Option<Rc<Pool>>,
    lingering: Lingering,
    endpoints: three::Endpoints,
}

impl Client {
    /// No connections yet, at most `limit` ever.
    pub(crate) fn new(limit: usize) -> Self {
        Client {
            routes: Vec::new(),
            lanes: BTreeMap::new(),
            lines: Slab::default(),
            alone: 0,
            limit,
            waiting: 0,
            lingering: Lingering::default(),
            endpoints: three::Endpoints::default(),
        }
    }

    /// The way to a target, made if there is none.
    pub(crate) fn open_route(&mut self, target: Target) -> Route {
        *self.lanes.entry(target.key()).or_insert_with(|| {
            let pool = target.streams().map(|most| (Rc::default(), most));
            let target = Rc::new(target);
            self.routes.push(Lane { target, pool, lines: 0, idle: Vec::new(), queue: VecDeque::new() });
            Route(self.routes.len() - 1)
        })
    }

    /// Whether requests on a route share connections: then one is sent when it is given to the route, and a wait for a
    /// stream is part of its service.
    pub(crate) fn shares(&self, route: Route) -> bool {
        self.routes[route.0].pool.is_some()
    }

    /// Gives an attempt to a line of its route: one that waits, a new one, or the first that comes back.
    pub(crate) fn dispatch(&mut self, route: Route, job: Job, shard: &Weak<RefCell<Shard>>) {
        let lane = &mut self.routes[route.0];
        while let Some(id) = lane.idle.pop() {
            if let Some(line) = self.lines.get(id.0, id.1).filter(|l| !l.closing.get()) {
                line.idle.set(false);
                line.job.set(Some(job));
                return line.sleeper.wake();
            }
        }
        match lane.has_stream() {
            Some(true) => self.open(route, Some(job), shard),
            Some(false) => lane.queue.push_back(job),
            None if self.alone < self.limit => self.open(route, Some(job), shard),
            None => {
                lane.queue.push_back(job);
                self.waiting += 1;
                self.make_room();
            }
        }
    }

    /// Closes a connection that is not needed where it is.
    fn make_room(&mut self) {
        let mut alone = self.routes.iter_mut().filter(|lane| lane.pool.is_none());
        let idle = alone.find_map(|lane| (!lane.idle.is_empty()).then(|| lane.idle.remove(0)));
        if let Some(line) = idle.and_then(|id| self.lines.get(id.0, id.1)) {
            line.closing.set(true);
            line.sleeper.wake();
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
            sleeper: Sleeper::default(),
        });
        let slot = self.lines.insert(line.clone());
        let id = ConnectionId(slot, self.lines.generation(slot));
        let lane = &mut self.routes[route.0];
        lane.lines += 1;
        let pool = lane.pool.as_ref().map(|(pool, _)| pool.clone());
        self.alone += usize::from(pool.is_none());
        let commons = Commons { pool, lingering: self.lingering.clone(), endpoints: self.endpoints.clone() };
        tokio::task::spawn_local(connection::run(shard, id, line, lane.target.clone(), commons));
    }

    /// What a line is to do next; `None`: close.
    pub(crate) fn next(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<Option<Job>> {
        let line = self.lines.at(id.0).clone();
        line.sleeper.listen(cx);
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
        let alone = lane.pool.is_none();
        if let Some(job) = lane.queue.pop_front() {
            self.waiting -= usize::from(alone);
            return Poll::Ready(Some(job));
        }
        if alone && self.waiting > 0 {
            // another route wants the place
            line.closing.set(true);
            return Poll::Ready(None);
        }
        line.idle.set(true);
        lane.idle.push(id);
        Poll::Pending
    }

    /// A line is done with an attempt and could take the next, which its outcome may well bring about.
    pub(crate) fn free(&mut self, id: ConnectionId) {
        let line = self.lines.at(id.0);
        let lane = &mut self.routes[line.route.0];
        let wanted = if lane.pool.is_some() { !lane.queue.is_empty() } else { self.waiting > 0 };
        if !wanted && !line.closing.get() {
            line.idle.set(true);
            lane.idle.push(id);
        }
    }

    /// An attempt ended without its line, which has to break it off.
    pub(crate) fn cut(&mut self, id: ConnectionId, status: Status) {
        if let Some(line) = self.lines.get(id.0, id.1) {
            line.cut.set(Some(status));
            line.sleeper.wake();
        }
    }

    /// A line has ended; who waits for a place may have it.
    pub(crate) fn closed(&mut self, id: ConnectionId, shard: &Weak<RefCell<Shard>>) {
        let line = self.lines.remove(id.0);
        let lane = &mut self.routes[line.route.0];
        lane.lines -= 1;
        lane.idle.retain(|other| *other != id);
        let alone = lane.pool.is_none();
        self.alone -= usize::from(alone);
        if let Some(job) = line.job.take() {
            lane.queue.push_front(job);
            self.waiting += usize::from(alone);
        }
        let open = match alone {
            true if self.waiting == 0 => None,
            true => self.routes.iter().position(|lane| lane.pool.is_none() && !lane.queue.is_empty()).map(Route),
            false => (!lane.queue.is_empty()).then_some(line.route),
        };
        if let Some(route) = open {
            self.open(route, None, shard);
        }
    }

    /// Nobody waits for a line any more: those who did.
    pub(crate) fn forget_waiting(&mut self) -> Vec<(u32, u32)> {
        self.waiting = 0;
        self.routes.iter_mut().flat_map(|lane| lane.queue.drain(..)).collect()
    }
}
