//! A shard: actors, their connections' bookkeeping and their books on one thread, shared with nobody.
//!
//! Whoever has news for an actor (the pacer, a connection, the bus) calls the shard directly, between two awaits.
//! A command never calls an actor: what follows from it here and now goes into a queue that is emptied before the
//! shard is left, so that there is no re-entry. Every entry also fires timers that are due, but only so many: the rest
//! is left to the pacer, which lets other tasks run in between.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use rehearsal_bus::Port;
use rehearsal_core::kind::StreamSpec;
use rehearsal_core::parts::deadlines::Deadlines;
use rehearsal_core::parts::gates::Gates;
use rehearsal_core::parts::ledger::Ledger;
use rehearsal_core::parts::slab::Slab;
use rehearsal_core::plan::Impose;
use rehearsal_core::run::Fault;
use rehearsal_core::{Body, Event, Outbox, Pool, Role, Span, Status, SubjectId, Time, WorkKey, WorkResult};
use rehearsal_models::seen::Arrivals;

use crate::frames::FrameMouth;
use crate::http::client::Client;
use crate::losses::Losses;
use crate::mqtt::Publishers;
use crate::nats::Outbox as NatsOutbox;
use crate::notes::Notes;
use crate::sample::Sampler;
use crate::store::Store;
use crate::tcp::client::Lanes;
use crate::udp::{Sockets, Waiting};
use crate::world::{Actors, World};

mod carriers;
mod commands;
mod datagrams;
mod dialled;
mod doubts;
mod drain;
mod faults;
mod frames;
mod inbound;
mod messages;
mod publications;
mod requests;
mod rides;
mod samples;
pub(crate) mod timers;
mod wire;
mod work;

pub(crate) use carriers::{Answer, Outgoing};
pub(crate) use doubts::Shortage;
pub(crate) use drain::ShardEnd;
pub(crate) use inbound::{Arrival, Rendered};
use timers::{Timers, class};

/// Timers fired in one entry; the rest waits for the pacer, so that overload cannot starve connections.
const FIRES_MAX: usize = 256;
/// Local consequences handled in one entry.
const STEPS_MAX: usize = 4096;
/// Messages that may wait within a shard, as many as between shards.
const MESSAGES_MAX: usize = rehearsal_bus::INBOX_DELIVERIES_MAX;

/// A shard as tasks of its thread hold it.
pub(crate) type Core = Rc<RefCell<Shard>>;

/// Actors and everything that belongs to them.
pub(crate) struct Shard {
    pools: Vec<Box<dyn Pool>>,
    out: Outbox,
    state: State,
}

/// All but the actors: what commands act on.
pub(crate) struct State {
    world: Arc<World>,
    index: usize,
    me: Weak<RefCell<Shard>>,
    books: Vec<Books>,
    row_of: Vec<Option<usize>>,
    nodes: Vec<NodeState>,
    timers: Timers,
    queue: VecDeque<Local>,
    messages_waiting: usize,
    messages_dropped: u64,
    live: Slab<requests::Live>,
    deadlines: Deadlines,
    ways: carriers::Ways,
    client: Client,
    dialled: dialled::Dialled,
    lanes: Lanes,
    nats: Option<NatsOutbox>,
    rides: rides::Rides,
    inbound: Slab<inbound::Inbound>,
    jobs: Slab<work::Job>,
    store: Store,
    udp: Sockets,
    /// Datagrams that leave with the shard.
    waiting: Waiting,
    publishers: Publishers,
    topics: BTreeMap<SubjectId, Rc<str>>,
    flows: Vec<datagrams::Flow>,
    later: Slab<datagrams::Later>,
    arrived: Arrivals,
    /// Sends whole frames, if anybody here does.
    mouth: Option<Box<dyn FrameMouth>>,
    /// Of those that come in, the number expected next, by receiving and sending actor.
    next_frames: BTreeMap<(u32, u32), u64>,
    bus: Port,
    notes: Notes,
    seconds: samples::Seconds,
    stopping: bool,
    closed: bool,
    second: u32,
    sampling: bool,
    dead: BTreeSet<u32>,
    faults: Vec<Fault>,
    late_replies: u64,
    losses: Losses,
    doubts: doubts::Doubts,
    events: u64,
    store_failed: bool,
}

/// The books of one group.
struct Books {
    group: usize,
    base: u32,
    first: u32,
    timers: usize,
    stride: u32,
    spec: StreamSpec,
    gates: Gates,
    ledger: Ledger,
    /// Datagrams to receivers that this process does not run.
    elsewhere: u64,
    /// Datagrams to targets outside.
    outside: datagrams::Outbound,
    /// Publications that a broker has acknowledged, to receivers that this process runs.
    acknowledged: u64,
}

/// A node of this shard.
struct NodeState {
    node: usize,
    /// Senders that have not finished; `None` if it has no senders, or its end was told.
    unfinished: Option<u64>,
    finished: BTreeSet<u32>,
}

/// Something that follows from a command, here and now.
enum Local {
    End {
        slot: u32,
        generation: u32,
        status: Status,
    },
    Unplanned {
        slot: u32,
    },
    Work {
        who: u32,
        key: WorkKey,
        result: WorkResult,
    },
    /// A message for those who hear its subject here, from the `next` of them on.
    Message {
        next: usize,
        subject: SubjectId,
        body: Body,
    },
    NodeDone {
        node: usize,
    },
}

/// What a shard is made of.
pub(crate) struct Parts {
    pub world: Arc<World>,
    pub index: usize,
    pub actors: Vec<Actors>,
    pub bus: Port,
    pub notes: Notes,
    pub store: Store,
    pub udp: Sockets,
    pub mouth: Option<Box<dyn FrameMouth>>,
    pub nats: Option<NatsOutbox>,
}

/// Pools of actors with a row of books each.
struct Staff {
    pools: Vec<Box<dyn Pool>>,
    books: Vec<Books>,
    row_of: Vec<Option<usize>>,
    timers: usize,
}

impl Staff {
    fn of(world: &World, actors: Vec<Actors>) -> Self {
        let (mut pools, mut books, mut row_of) = (Vec::new(), Vec::new(), vec![None; world.groups.len()]);
        let mut timers = 0;
        for (group, pool) in actors {
            let info = &world.groups[group];
            row_of[group] = Some(books.len());
            let spec = info.streams.unwrap_or(StreamSpec::UNDECLARED);
            let (len, stride) = (pool.len(), info.timers);
            let (base, first, gates) = (info.base, info.members.start, Gates::new(spec, len));
            let ledger = Ledger::recording(first, world.plan.record_requests);
            let (elsewhere, acknowledged, outside) = (0, 0, datagrams::Outbound::default());
            books.push(Books {
                group,
                base,
                first,
                timers,
                stride,
                spec,
                gates,
                ledger,
                elsewhere,
                outside,
                acknowledged,
            });
            timers += (len * stride) as usize;
            pools.push(pool);
        }
        Staff { pools, books, row_of, timers }
    }
}

impl Shard {
    /// A shard whose actors have not been told anything yet.
    pub(crate) fn new(parts: Parts) -> Core {
        let Parts { world, index, actors, bus, notes, store, udp, mouth, nats } = parts;
        let Staff { pools, books, row_of, timers } = Staff::of(&world, actors);
        let quantum = quantum(&world, &books);
        let limit = world.options.connections_max / world.sending_shards();
        let nodes = nodes(&world, index);
        let sampler = Sampler::of(&world.plan, &world.options, |node| nodes.iter().any(|n| n.node == node));
        let imposes = world.plan.links.iter().any(|link| link.impose == Impose::Userspace);
        let mut state = State {
            index,
            me: Weak::new(),
            books,
            row_of,
            nodes,
            timers: Timers::new(timers, quantum),
            queue: VecDeque::new(),
            messages_waiting: 0,
            messages_dropped: 0,
            live: Slab::default(),
            deadlines: Deadlines::default(),
            ways: carriers::Ways::new(),
            client: Client::new(limit.max(1)),
            dialled: dialled::Dialled::default(),
            lanes: Lanes::new(limit.max(1)),
            nats,
            rides: rides::Rides::new(world.plan.nodes.len(), imposes),
            inbound: Slab::default(),
            jobs: Slab::default(),
            store,
            udp,
            waiting: Waiting::default(),
            publishers: Publishers::default(),
            topics: BTreeMap::new(),
            flows: Vec::new(),
            later: Slab::default(),
            arrived: Arrivals::default(),
            mouth,
            next_frames: BTreeMap::new(),
            bus,
            notes,
            seconds: samples::Seconds::new(sampler, world.options.spin),
            stopping: false,
            closed: false,
            second: 0,
            sampling: false,
            dead: BTreeSet::new(),
            faults: Vec::new(),
            late_replies: 0,
            losses: Losses::default(),
            doubts: doubts::Doubts::default(),
            events: 0,
            store_failed: false,
            world,
        };
        Rc::new_cyclic(|me| {
            state.me = me.clone();
            RefCell::new(Shard { pools, out: Outbox::default(), state })
        })
    }

    /// Tells every actor that the run is assembled.
    pub(crate) fn start(&mut self) {
        self.tell_all(Event::Start);
        self.settle();
    }

    fn tell_all(&mut self, event: Event<'_>) {
        for row in 0..self.pools.len() {
            for i in 0..self.pools[row].len() {
                self.handle(self.state.books[row].base + i, event);
            }
        }
    }

    /// Fires what is due; when to come again. Called by the pacer.
    pub(crate) fn tick(&mut self) -> Next {
        self.state.beat();
        self.settle();
        if self.state.timers.nudged() {
            return Next::Now;
        }
        self.state.timers.next_wake().map_or(Next::Idle, Next::At)
    }

    /// The shard's timers, for its pacer.
    pub(crate) fn timers(&mut self) -> &mut Timers {
        &mut self.state.timers
    }

    /// Its connections to brokers.
    pub(crate) fn publishers(&mut self) -> &mut Publishers {
        &mut self.state.publishers
    }

    /// What all shards share.
    pub(crate) fn world(&self) -> &Arc<World> {
        &self.state.world
    }

    /// Hands an event to an actor and acts on its wishes. A panic ends the actor, and with it the run.
    fn handle(&mut self, who: u32, event: Event<'_>) {
        let (row, index) = self.state.place(who);
        if self.state.dead.contains(&who) {
            return;
        }
        let now = self.state.now();
        let (pools, out) = (&mut self.pools, &mut self.out);
        let call = catch_unwind(AssertUnwindSafe(|| pools[row].handle(index, now, event, out)));
        self.state.events += 1;
        if let Err(panic) = call {
            self.out.drain();
            self.state.panicked(who, &*panic);
            return;
        }
        for command in self.out.drain() {
            self.state.apply(who, row, command);
        }
    }

    /// Local consequences first, then timers that are due, both up to a bound; then datagrams that waited for others leave.
    pub(crate) fn settle(&mut self) {
        self.settle_within_bounds();
        self.state.send_waiting();
    }

    fn settle_within_bounds(&mut self) {
        let (mut steps, mut fires) = (0, 0);
        loop {
            while let Some(next) = self.state.queue.pop_front() {
                self.follow(next);
                steps += 1;
                if steps >= STEPS_MAX {
                    return self.state.timers.nudge();
                }
            }
            let now = self.state.now();
            let Some(entry) = self.state.timers.pop_due(now) else { break };
            fires += if entry.class() == class::FLOW { datagrams::FIRES } else { 1 };
            self.fire(entry, now);
            if fires >= FIRES_MAX {
                return self.state.timers.nudge();
            }
        }
    }

    fn follow(&mut self, next: Local) {
        match next {
            Local::End { slot, generation, status } => {
                if self.state.live.live(slot, generation) {
                    self.outcome(slot, status, 0);
                }
            }
            Local::Unplanned { slot } => self.unplanned(slot),
            Local::Work { who, key, result } => self.handle(who, Event::WorkDone { key, result: &result }),
            Local::Message { next, subject, body } => {
                let hearers = self.state.bus.here(subject);
                let who = hearers[next].0;
                if next + 1 < hearers.len() {
                    // before what follows from it
                    self.state.queue.push_front(Local::Message { next: next + 1, subject, body: body.clone() });
                } else {
                    self.state.messages_waiting -= 1;
                }
                self.handle(who, Event::Message { subject, body: &body });
            }
            Local::NodeDone { node } => self.state.node_done(node),
        }
    }

    fn fire(&mut self, entry: rehearsal_core::parts::heap::Entry, now: Time) {
        let (who, payload) = (entry.source(), entry.payload);
        match entry.class() {
            class::TIMER => {
                let key = payload as u32;
                let place = self.state.timer(who, key);
                if self.state.timers.take(place, (payload >> 32) as u32) {
                    let due = Time::from_nanos(entry.time());
                    self.handle(who, Event::Timer { key: rehearsal_core::TimerKey(key), due });
                }
            }
            class::SEND => self.state.came_due(payload as u32, (payload >> 32) as u32),
            class::DEADLINE => self.expire(payload as usize, now),
            class::RIDE => self.state.ride_due(payload as u32),
            class::LINK => self.state.visit_link(payload as u32),
            class::WORK => self.state.stage_over(payload as u32, (payload >> 32) as u32),
            class::SAMPLE => self.sample(),
            class::BEGIN => {
                self.state.world.has_begun(self.state.now());
                self.state.seconds.traffic_begins();
            }
            class::FLOW => self.state.depart(payload as usize, now),
            _ => self.state.send_later(payload as u32),
        }
    }
}

/// When the pacer is to come again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// At once, after other tasks had their turn.
    Now,
    /// At this time.
    At(Time),
    /// When somebody wakes it.
    Idle,
}

impl State {
    #[inline]
    fn now(&self) -> Time {
        self.world.clock.now()
    }

    /// An actor's row of books and its place in the pool.
    #[inline]
    fn place(&self, who: u32) -> (usize, u32) {
        let row = self.row_of[self.world.group_of(who)].expect("events go to the shard that has the actor");
        (row, who - self.books[row].base)
    }

    #[inline]
    fn timer(&self, who: u32, key: u32) -> usize {
        let (row, index) = self.place(who);
        let books = &self.books[row];
        debug_assert!(key < books.stride, "an actor sets a timer that it did not declare");
        books.timers + (index * books.stride + key.min(books.stride.saturating_sub(1))) as usize
    }

    fn beat(&self) {
        self.world.shared.beats[self.index].store(self.now().as_nanos(), std::sync::atomic::Ordering::Relaxed);
    }
}

/// The smaller of the option and half the shortest gap of a stream here.
fn quantum(world: &World, books: &[Books]) -> Span {
    let gaps = books.iter().filter_map(|b| b.spec.gap).map(|gap| gap / 2);
    gaps.chain([world.options.quantum]).min().unwrap_or(Span::ZERO)
}

fn nodes(world: &World, shard: usize) -> Vec<NodeState> {
    let here = (0..world.plan.nodes.len()).filter(|n| world.plan.nodes[*n].local && world.shard_of[*n] == shard);
    let node = |node: usize| {
        let groups = world.groups.iter().filter(|g| g.node == node && g.role == Role::Sender);
        let senders: u64 = groups.map(|g| u64::from(g.members.end - g.members.start)).sum();
        NodeState { node, unfinished: (senders > 0).then_some(senders), finished: BTreeSet::new() }
    };
    here.map(node).collect()
}
