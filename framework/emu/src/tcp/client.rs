//! The sending end: connections kept by (sending node, target address), filled up to `pipeline` before another is opened.
//!
//! A connection is a task. The shard hands it attempts through its [`Line`]; the task writes all that are there in one go
//! and hands answers back, matched by their id. There is no channel and no lock.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

use rehearsal_core::dscp::Dscp;
use rehearsal_core::parts::slab::Slab;
use rehearsal_core::plan::{Connection, LinkSpec};

use crate::shard::Shard;
use crate::wake::Sleeper;
use crate::world::World;

mod connection;

/// All connections of a shard to receivers.
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    known: BTreeMap<Target, LaneId>,
    connections: Slab<Rc<Line>>,
    limit: usize,
    waiting: usize,
}

/// A row of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneId(usize);

/// A connection's slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LineId(u32, u32);

/// An attempt's slot and generation.
type Job = (u32, u32);

/// The mark of an attempt in its frame.
pub(crate) fn mark((slot, generation): Job) -> u64 {
    u64::from(slot) << 32 | u64::from(generation)
}

fn job(mark: u64) -> Job {
    ((mark >> 32) as u32, mark as u32)
}

struct Lane {
    target: Rc<Target>,
    /// Connections that have room for another attempt, the one used last at the end.
    ready: Vec<LineId>,
    /// Attempts that wait for one.
    queue: VecDeque<Job>,
}

/// Where a lane goes, and how.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    /// The row of the sending node.
    pub node: usize,
    /// The row of the receiving one.
    pub to: usize,
    pub address: SocketAddr,
    /// Whether a connection is used for one attempt alone.
    pub once: bool,
    /// Attempts that one connection may have under way.
    pub pipeline: u32,
    /// What its packets are marked with.
    pub dscp: Dscp,
}

impl Target {
    /// As the link between two nodes has it.
    pub(crate) fn of(world: &World, (node, to): (usize, usize), address: SocketAddr, dscp: Dscp) -> Self {
        let LinkSpec { connection, pipeline, .. } = *world.plan.link(node, to);
        let once = connection == Connection::PerRequest;
        Target { node, to, address, once, pipeline: if once { 1 } else { pipeline.max(1) }, dscp }
    }
}

/// What a shard and a connection's task tell each other.
pub(crate) struct Line {
    lane: LaneId,
    /// Attempts that are to be written.
    jobs: RefCell<VecDeque<Job>>,
    /// Attempts that were written and are not answered.
    under_way: RefCell<Vec<Job>>,
    /// It is among those that have room.
    listed: Cell<bool>,
    /// It takes no more attempts, and ends when none is left.
    closing: Cell<bool>,
    /// The deadline of one of its attempts has passed.
    late: Cell<bool>,
    sleeper: Sleeper,
}

impl Line {
    fn load(&self) -> usize {
        self.jobs.borrow().len() + self.under_way.borrow().len()
    }

    fn is_over(&self) -> bool {
        self.closing.get() && self.load() == 0
    }

    /// Forgets an attempt; whether it was under way.
    fn forget(&self, job: Job) -> bool {
        self.jobs.borrow_mut().retain(|other| *other != job);
        let mut under_way = self.under_way.borrow_mut();
        let known = under_way.iter().position(|other| *other == job);
        known.map(|at| under_way.swap_remove(at)).is_some()
    }
}

impl Lanes {
    /// No connections yet, at most `limit` ever.
    pub(crate) fn new(limit: usize) -> Self {
        Lanes { lanes: Vec::new(), known: BTreeMap::new(), connections: Slab::default(), limit, waiting: 0 }
    }

    /// The way to `target`, made if there is none.
    pub(crate) fn lane(&mut self, target: Target) -> LaneId {
        let lanes = &mut self.lanes;
        *self.known.entry(target.clone()).or_insert_with(|| {
            lanes.push(Lane { target: Rc::new(target), ready: Vec::new(), queue: VecDeque::new() });
            LaneId(lanes.len() - 1)
        })
    }

    /// Gives an attempt to a connection of its lane: one that has room, a new one, or the first that has.
    pub(crate) fn dispatch(&mut self, lane: LaneId, job: Job, shard: &Weak<RefCell<Shard>>) {
        while let Some(id) = self.lanes[lane.0].ready.pop() {
            let Some(line) = self.connections.get(id.0, id.1).cloned() else { continue };
            line.listed.set(false);
            if !line.closing.get() {
                self.give(id, &line, job);
                return;
            }
        }
        if self.connections.len() < self.limit {
            return self.open(lane, job, shard);
        }
        self.lanes[lane.0].queue.push_back(job);
        self.waiting += 1;
        self.make_room();
    }

    fn give(&mut self, id: LineId, line: &Line, job: Job) {
        line.jobs.borrow_mut().push_back(job);
        line.sleeper.wake();
        self.offer(id, line);
    }

    /// Puts a connection that has room among those that have.
    fn offer(&mut self, id: LineId, line: &Line) {
        let lane = &mut self.lanes[line.lane.0];
        if lane.target.once {
            line.closing.set(true);
        } else if line.load() < lane.target.pipeline as usize && !line.closing.get() && !line.listed.replace(true) {
            lane.ready.push(id);
        }
    }

    /// Closes a connection that nobody uses where it is.
    fn make_room(&mut self) {
        for lane in &mut self.lanes {
            let connections = &self.connections;
            let unused = |id: &LineId| connections.get(id.0, id.1).is_some_and(|line| line.load() == 0);
            if let Some(at) = lane.ready.iter().position(unused) {
                let id = lane.ready.remove(at);
                let line = connections.at(id.0);
                line.listed.set(false);
                line.closing.set(true);
                return line.sleeper.wake();
            }
        }
    }

    fn open(&mut self, lane: LaneId, job: Job, shard: &Weak<RefCell<Shard>>) {
        let Some(shard) = shard.upgrade() else { return };
        let line = Rc::new(Line {
            lane,
            jobs: RefCell::new(VecDeque::from([job])),
            under_way: RefCell::default(),
            listed: Cell::new(false),
            closing: Cell::new(false),
            late: Cell::new(false),
            sleeper: Sleeper::default(),
        });
        let slot = self.connections.insert(line.clone());
        let id = LineId(slot, self.connections.generation(slot));
        self.offer(id, &line);
        let target = self.lanes[lane.0].target.clone();
        tokio::task::spawn_local(connection::run(shard, id, line, target));
    }

    /// Attempts that a connection is to write.
    pub(crate) fn given(&self, id: LineId) -> Vec<Job> {
        self.connections.at(id.0).jobs.borrow().iter().copied().collect()
    }

    /// The next attempt that a connection is to write.
    pub(crate) fn next(&mut self, id: LineId) -> Option<Job> {
        self.connections.at(id.0).jobs.borrow_mut().pop_front()
    }

    /// An attempt is written.
    pub(crate) fn written(&mut self, id: LineId, job: Job) {
        self.connections.at(id.0).under_way.borrow_mut().push(job);
    }

    /// An attempt has left a connection: answered, or never sent. Whether it was there.
    pub(crate) fn free(&mut self, id: LineId, job: Option<Job>) -> bool {
        let line = self.connections.at(id.0).clone();
        let known = job.is_none_or(|job| line.forget(job));
        if known && !line.closing.get() {
            let lane = &mut self.lanes[line.lane.0];
            if let Some(next) = lane.queue.pop_front() {
                self.waiting -= 1;
                line.jobs.borrow_mut().push_back(next);
                line.sleeper.wake();
            } else if self.waiting > 0 && line.load() == 0 {
                // another lane wants the place
                line.closing.set(true);
                line.sleeper.wake();
            } else if !line.listed.replace(true) {
                lane.ready.push(id);
            }
        }
        known
    }

    /// An attempt ended without its connection, which takes no more and closes when it has none left.
    pub(crate) fn cut(&mut self, id: LineId, job: Job, late: bool) {
        if let Some(line) = self.connections.get(id.0, id.1) {
            line.forget(job);
            line.closing.set(true);
            line.late.set(line.late.get() || late);
            line.sleeper.wake();
        }
    }

    /// A connection has closed: who waits for a place may have its own. Returns its lane and what it had not written.
    pub(crate) fn closed(&mut self, id: LineId, shard: &Weak<RefCell<Shard>>) -> (LaneId, VecDeque<Job>) {
        let line = self.connections.remove(id.0);
        self.lanes[line.lane.0].ready.retain(|other| *other != id);
        self.fill_places(shard);
        (line.lane, line.jobs.take())
    }

    fn fill_places(&mut self, shard: &Weak<RefCell<Shard>>) {
        while self.waiting > 0 && self.connections.len() < self.limit {
            let Some(row) = self.lanes.iter().position(|lane| !lane.queue.is_empty()) else { return };
            let Some(job) = self.lanes[row].queue.pop_front() else { return };
            self.waiting -= 1;
            self.open(LaneId(row), job, shard);
        }
    }

    /// Nobody waits for a connection any more: those who did.
    pub(crate) fn forget_waiting(&mut self) -> Vec<Job> {
        self.waiting = 0;
        self.lanes.iter_mut().flat_map(|lane| lane.queue.drain(..)).collect()
    }
}
