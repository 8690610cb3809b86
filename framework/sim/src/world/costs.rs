//! What a calibration says of messages: what it costs to send and to take them, and how long they wait to be looked at.
//! Without a calibration all of it is free, and none of this is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use rehearsal_core::calibration::{Calibration, CarrierCosts, WhenFull};
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{Carrier, Connection, NodePlan, Plan};
use rehearsal_core::rng::{RngStream, Seed};
use rehearsal_core::units::ByteSize;
use rehearsal_core::{Status, Time};
use rehearsal_models::compute::{Lane, Memory};

use super::class::{Class, words};
use super::cores::Task;
use super::{What, World};

/// Messages that may wait at a node to be received; the next ones are dropped and counted. Assumed: sockets hold far
/// fewer of any size.
const WAITING_MAX: usize = 65_536;

/// What is known of costs, and what was done with it.
#[derive(Debug)]
pub(super) struct Costs {
    pub calibration: Arc<Calibration>,
    /// By carrier: the smallest and the largest payload.
    payloads: BTreeMap<Carrier, (u32, u32)>,
    /// Messages that found no room at their receiver's node.
    pub dropped: u64,
    /// Highest use of a node's cores in a second, per cent, and the node.
    pub cpu_percent: (f64, u32),
    /// By path: whether its connections are kept.
    kept: BTreeMap<u32, bool>,
}

/// What a node has, beside its cores.
#[derive(Debug)]
pub(super) struct Store {
    pub memory: Memory,
    pub random: RngStream,
    /// Connections that are in use.
    open: u64,
    /// Most connections that were in use at the same time and are kept.
    kept: u64,
    /// When the thread that is being woken begins with what woke it.
    waking: Time,
    /// Core time and held-back time at the last sample, and when that was.
    pub seen: (f64, u64, Time),
}

/// Which way a message comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Way {
    Request = 0,
    Reply = 1,
    Datagram = 2,
}

impl Costs {
    pub(super) fn new(calibration: Arc<Calibration>) -> Self {
        Costs { calibration, payloads: BTreeMap::new(), dropped: 0, cpu_percent: (0.0, 0), kept: BTreeMap::new() }
    }

    /// What messages over `carrier` cost; notes that there was one of `bytes`, unless it is a reply and replies have costs of
    /// their own, which were measured together with those of requests.
    fn of(&mut self, way: Way, carrier: Carrier, bytes: u32) -> Option<&CarrierCosts> {
        let costs = self.calibration.carriers.get(&carrier);
        if way != Way::Reply || costs.is_none_or(|costs| costs.reply.is_none()) {
            let seen = self.payloads.entry(carrier).or_insert((bytes, bytes));
            *seen = (seen.0.min(bytes), seen.1.max(bytes));
        }
        costs
    }
}

impl Store {
    pub(super) fn of(plan: &Plan, node: &NodePlan, calibration: Option<&Calibration>) -> Self {
        let rules = calibration.map(|c| c.memory).unwrap_or_default();
        let actors: u64 = node.groups.iter().map(|group| u64::from(group.count)).sum();
        let base = rules.base.0.saturating_add(rules.actor.0.saturating_mul(actors));
        let host = node.host.and_then(|row| plan.hosts[row].memory);
        let limit = node.memory.or(host).map(|limit| limit.0);
        let (seed, repetition, group) = (plan.seed, plan.repetition, node.name.as_str());
        let random = RngStream::new(Seed { seed, repetition, group, member: 0, stream: 0, purpose: "costs" });
        Store {
            memory: Memory::new(base, rules.connection.0, limit),
            random,
            open: 0,
            kept: 0,
            waking: Time::ZERO,
            seen: (0.0, 0, Time::ZERO),
        }
    }
}

impl World {
    /// The row of an actor's node.
    #[inline]
    pub(super) fn node_of(&self, actor: u32) -> u32 {
        self.groups[self.seats[actor as usize].group as usize].node
    }

    /// Core time to send `bytes` over `carrier` from `node`, with a connection if there is none; `None` if it is free.
    #[inline]
    pub(super) fn send_cost(&mut self, node: u32, carrier: Carrier, bytes: u32, connect: bool) -> Option<f64> {
        let costs = self.costs.as_mut()?.of(Way::Request, carrier, bytes)?;
        let state = &mut self.nodes[node as usize];
        let (load, random) = (state.desk.load(self.now), &mut state.store.random);
        let mut nanos = costs.send.draw(bytes, load, random);
        if connect {
            nanos += costs.connect.draw(bytes, load, random) * (1.0 - costs.closing);
        }
        (nanos > 0.0).then_some(nanos)
    }

    /// Core time to send the reply of an exchange from `node`, ns.
    pub(super) fn reply_cost(&mut self, node: u32, carrier: Carrier, slot: u32) -> f64 {
        let x = self.exchanges.at(slot);
        let (bytes, asked, paused) = (x.outcome.reply_bytes, x.request.payload.bytes, x.arrived < self.now);
        let Some(costs) = self.costs.as_mut().and_then(|costs| costs.of(Way::Reply, carrier, bytes)) else {
            return 0.0;
        };
        let state = &mut self.nodes[node as usize];
        let (load, random) = (state.desk.load(self.now), &mut state.store.random);
        let mut nanos = costs.reply.as_ref().map_or(&costs.send, |reply| &reply.send).draw(bytes, load, random);
        if let Some(more) = costs.paused.as_ref().filter(|_| paused) {
            self.exchanges.at_mut(slot).paused = true;
            nanos += more.send.draw(asked, load, random);
        }
        nanos
    }

    /// Whether each attempt on a path opens a connection of its own.
    pub(super) fn connects(&mut self, path: u32, from: u32, to: u32) -> bool {
        let Some(costs) = &mut self.costs else { return false };
        let plan = &self.plan;
        let kept = *costs.kept.entry(path).or_insert_with(|| {
            let link = plan.link(from as usize, to as usize);
            !link.carrier.is_addressed() || link.carrier == Carrier::Udp || link.connection == Connection::KeepAlive
        });
        !kept
    }

    /// A message has come to `node`: when somebody looks at it, the work begins.
    #[inline]
    pub(super) fn receive(&mut self, way: Way, node: u32, slot: u32) {
        let (carrier, bytes) = self.message(way, slot);
        let Some(costs) = self.costs.as_mut().and_then(|costs| costs.of(way, carrier, bytes)) else {
            return self.received(way, slot);
        };
        let state = &mut self.nodes[node as usize];
        let (idle, now) = (state.desk.cores.idle(), self.now);
        // a thread is woken once: what comes meanwhile is looked at together with what woke it
        let wait = if idle && state.store.waking > now {
            state.store.waking.since(now)
        } else {
            costs.wake.draw(idle.then(|| state.desk.slept(now)), &mut state.store.random)
        };
        if idle {
            state.store.waking = now.saturating_add(wait);
        }
        if wait.is_zero() {
            self.received(way, slot);
        } else {
            self.push(self.now.saturating_add(wait), Class::Wake, self.engine(), words(way as u32, slot));
        }
    }

    /// The wait is over.
    #[inline]
    pub(super) fn wake(&mut self, way: u32, slot: u32) -> Option<(u32, What)> {
        self.received([Way::Request, Way::Reply, Way::Datagram][way as usize % 3], slot);
        None
    }

    /// Carrier and size of what comes in.
    fn message(&mut self, way: Way, slot: u32) -> (Carrier, u32) {
        match way {
            Way::Datagram => (self.carrier_of(slot), self.flights.at(slot).datagram.payload.bytes),
            Way::Request | Way::Reply => {
                let x = self.exchanges.at(slot);
                let bytes = if way == Way::Request { x.request.payload.bytes } else { x.outcome.reply_bytes };
                (self.links.at(x.path).carrier, bytes)
            }
        }
    }

    /// Puts the work of receiving on the node's cores, or drops what came because too much waits already.
    fn received(&mut self, way: Way, slot: u32) {
        let (carrier, bytes) = self.message(way, slot);
        let (actor, task) = match way {
            Way::Request => (self.exchanges.at(slot).to, Task::Take(slot)),
            Way::Reply => (self.exchanges.at(slot).from, Task::Hear(slot)),
            Way::Datagram => (self.flights.at(slot).to, Task::TakeDatagram(slot)),
        };
        let node = self.node_of(actor);
        if self.nodes[node as usize].desk.cores.waiting(Lane::Traffic) >= WAITING_MAX {
            return self.overrun(way, slot);
        }
        let mut nanos = 0.0;
        let fresh = way == Way::Request && self.fresh(slot);
        let paused = way == Way::Reply && self.exchanges.at(slot).paused;
        let asked = if paused { self.exchanges.at(slot).request.payload.bytes } else { 0 };
        if let Some(costs) = self.costs.as_mut().and_then(|costs| costs.of(way, carrier, bytes)) {
            let state = &mut self.nodes[node as usize];
            let (load, random) = (state.desk.load(self.now), &mut state.store.random);
            let reply = costs.reply.as_ref().filter(|_| way == Way::Reply);
            nanos = reply.map_or(&costs.receive, |reply| &reply.receive).draw(bytes, load, random);
            if let Some(more) = costs.paused.as_ref().filter(|_| paused) {
                nanos += more.receive.draw(asked, load, random);
            }
            if fresh {
                nanos +=
                    costs.accept.as_ref().unwrap_or(&costs.connect).draw(bytes, load, random) * (1.0 - costs.closing);
            }
        }
        self.compute(node, Lane::Traffic, nanos, task);
    }

    fn fresh(&mut self, slot: u32) -> bool {
        let x = self.exchanges.at(slot);
        let (path, from, to) = (x.path, x.from, x.to);
        let (from, to) = (self.node_of(from), self.node_of(to));
        self.connects(path, from, to)
    }

    /// Too much waits: the sender learns of it by its deadline, or never.
    #[cold]
    fn overrun(&mut self, way: Way, slot: u32) {
        if let Some(costs) = &mut self.costs {
            costs.dropped += 1;
        }
        if way == Way::Datagram {
            return self.vanish(slot);
        }
        let x = self.exchanges.at_mut(slot);
        (x.moving, x.answered) = (false, true);
        self.close(slot);
    }

    /// The work of sending a reply is done: it goes onto its link, and what nobody sees of an exchange is still to do.
    pub(super) fn replied(&mut self, slot: u32) -> Option<(u32, What)> {
        let x = self.exchanges.at(slot);
        let (to, path) = (x.to, x.path);
        let carrier = self.links.at(path).carrier;
        let calibration = self.costs.as_ref().map(|costs| &costs.calibration);
        let hidden = calibration.and_then(|c| c.carriers.get(&carrier)?.saturation).map_or(0.0, |s| s.hidden_ns);
        if hidden > 0.0 {
            self.compute(self.node_of(to), Lane::Traffic, hidden, Task::Unseen);
        }
        self.closed(slot, false);
        self.carry(slot)
    }

    /// An end of an exchange is through: a connection of its own is closed there.
    pub(super) fn closed(&mut self, slot: u32, sender: bool) {
        let x = self.exchanges.at(slot);
        let (path, bytes, node) = (x.path, x.request.payload.bytes, self.node_of(if sender { x.from } else { x.to }));
        let carrier = self.links.at(path).carrier;
        let Some(costs) = self.costs.as_ref().and_then(|costs| costs.calibration.carriers.get(&carrier)) else {
            return;
        };
        let (share, accept) = (costs.closing, costs.accept.as_ref().unwrap_or(&costs.connect));
        let cost = if sender { &costs.connect } else { accept };
        if share <= 0.0 || cost.is_free() {
            return;
        }
        let load = self.nodes[node as usize].desk.load(self.now);
        let nanos = cost.mean(bytes.into(), load) * share;
        if self.fresh(slot) {
            self.compute(node, Lane::Traffic, nanos, Task::Unseen);
        }
    }

    /// The sender's node holds the payload until the attempt ends, and both ends have a connection for it.
    pub(super) fn connected(&mut self, slot: u32) {
        if self.costs.is_none() {
            return;
        }
        let x = self.exchanges.at_mut(slot);
        x.connected = true;
        let (from, to, path, bytes) = (x.from, x.to, x.path, u64::from(x.request.payload.bytes));
        let (from, to) = (self.node_of(from), self.node_of(to));
        let kept = !self.connects(path, from, to);
        self.nodes[from as usize].store.memory.take(bytes);
        for node in [from, to] {
            let store = &mut self.nodes[node as usize].store;
            store.open += 1;
            if kept {
                store.kept = store.kept.max(store.open);
            }
            store.memory.connected(store.kept.max(store.open));
        }
    }

    /// Both ends are done with an exchange.
    pub(super) fn disconnected(&mut self, slot: u32) {
        let x = self.exchanges.at(slot);
        if !x.connected {
            return;
        }
        let (from, to, bytes) = (x.from, x.to, u64::from(x.request.payload.bytes));
        let (from, to) = (self.node_of(from), self.node_of(to));
        self.nodes[from as usize].store.memory.give(bytes);
        for node in [from, to] {
            let store = &mut self.nodes[node as usize].store;
            store.open -= 1;
            store.memory.connected(store.kept.max(store.open));
        }
    }

    /// Room for a request at its receiver's node; false if it is turned away, or the node is no more.
    pub(super) fn admit_bytes(&mut self, slot: u32) -> bool {
        let Some(costs) = &self.costs else { return true };
        let when_full = costs.calibration.memory.when_full;
        let x = self.exchanges.at(slot);
        let (to, bytes) = (x.to, u64::from(x.request.payload.bytes));
        let node = self.node_of(to);
        let memory = &mut self.nodes[node as usize].store.memory;
        if memory.fits(bytes) {
            memory.take(bytes);
            self.exchanges.at_mut(slot).held = true;
            return true;
        }
        match when_full {
            WhenFull::Reject => self.answer(slot, Status::Rejected, 0),
            WhenFull::Kill => {
                let (used, limit) = (memory.used() + bytes, memory.limit().unwrap_or(u64::MAX));
                self.kill(node, to, used, limit);
            }
        }
        false
    }

    /// The receiver needs the payload no more.
    pub(super) fn free_bytes(&mut self, slot: u32) {
        let x = self.exchanges.at_mut(slot);
        if std::mem::replace(&mut x.held, false) {
            let (to, bytes) = (x.to, u64::from(x.request.payload.bytes));
            let node = self.node_of(to);
            self.nodes[node as usize].store.memory.give(bytes);
        }
    }

    /// Out of memory: the kernel ends the node, and the run ends with a fault.
    #[cold]
    fn kill(&mut self, node: u32, actor: u32, used: u64, limit: u64) {
        let name = &self.nodes[node as usize].name;
        let (used, limit) = (ByteSize(used), ByteSize(limit));
        self.fault(actor, format!("{name} is out of memory: it would hold {used} of {limit}"));
        for actor in 0..self.actors() {
            if self.node_of(actor) == node {
                self.bury(actor);
            }
        }
        self.stop_wanted.get_or_insert(StopReason::Fault);
    }

    /// What was simulated beyond what the calibration covers.
    pub(super) fn outside_calibration(&self) -> Vec<String> {
        let Some(costs) = &self.costs else { return Vec::new() };
        let Calibration { valid, carriers, .. } = &*costs.calibration;
        let mut outside = Vec::new();
        for (carrier, (least, most)) in &costs.payloads {
            if !carriers.contains_key(carrier) {
                outside.push(format!("it says nothing of the carrier {carrier:?}").to_lowercase());
                continue;
            }
            let (least, most) = (ByteSize(u64::from(*least)), ByteSize(u64::from(*most)));
            if least < valid.payload_min {
                outside.push(format!("payloads of {least}, the smallest it holds for is {}", valid.payload_min));
            }
            if let Some(max) = valid.payload_max.filter(|max| most > *max) {
                outside.push(format!("payloads of {most}, the largest it holds for is {max}"));
            }
        }
        let widest = self.nodes.iter().filter_map(|node| Some((node.desk.allowed?, &node.name)));
        if let Some(max) = valid.cores_max
            && let Some((cores, name)) = widest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(c, _)| *c > f64::from(max))
        {
            outside.push(format!("node {name} has {cores} cores, it holds for {max}"));
        }
        let (percent, node) = costs.cpu_percent;
        if let Some(max) = valid.cpu_percent_max.filter(|max| percent > *max) {
            let name = &self.nodes[node as usize].name;
            outside.push(format!("node {name} used {percent:.0} % of its cores, it holds up to {max:.0} %"));
        }
        outside
    }
}
