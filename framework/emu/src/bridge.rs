//! The way to the other processes of a run: what they hear goes out over NATS, what comes in goes to the shards here.
//!
//! It runs on the supervisor's thread, apart from the traffic. The life cycle passes through it: a node's addresses go
//! out before its `ready`, everybody's before `start-at`; what the engines say to each other at the end is kept in
//! [`Heard`] for the supervisor to see.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rehearsal_bus::nats::Nats;
use rehearsal_bus::stream::RunStream;
use rehearsal_bus::{Inbox, Port};
use rehearsal_core::run::RunEnd;
use rehearsal_core::subject::{HOST, PREFIX, Pattern, Plane, subject};
use rehearsal_core::{ActorId, Body, SubjectId, Time};
use serde_bytes::ByteBuf;

use crate::error::EmuError;
use crate::notes::Notes;
use crate::options::Remote;
use crate::world::World;

mod addresses;
mod beat;
mod closing;
mod collect;
mod ending;
mod inbound;
mod outbound;
mod outbox;
mod pieces;
mod repeat;
mod screen;
mod states;
mod stored;

use beat::Pulse;
use collect::Collector;
use ending::Endings;
use outbox::Outbox;
use repeat::Repeat;
use stored::Stored;

/// How long a word of the life cycle may take to leave. The run ends in any case.
const LEAVE: Duration = Duration::from_secs(1);
/// Messages of the life cycle that an engine hears without an actor's having subscribed to them.
const ENGINE_HEARS: [&str; 2] = ["start", "stop"];

/// A process's part in a run of several.
pub(crate) struct Bridge {
    world: Arc<World>,
    nats: Nats,
    leads: bool,
    /// The node that it speaks for: its own, or the controller's.
    node: String,
    /// Nodes that other processes run, but for the one that stores.
    others: BTreeSet<String>,
    /// What this process tells of itself.
    outbox: Rc<Outbox>,
    /// What others tell of themselves, if it is stored here.
    collector: Option<Collector>,
    /// Number of the next event of this process: none of an earlier process had it.
    next_event: Cell<u64>,
    repeat: Rc<Repeat>,
    stored: Stored,
    pulse: Pulse,
    /// The node that the controller runs in.
    leader: Option<String>,
    /// Receivers elsewhere that senders here aim at.
    aims: BTreeSet<ActorId>,
    notes: Notes,
    heard: RefCell<Heard>,
}

/// What other processes said, and what is open between them and this one.
#[derive(Default)]
pub(crate) struct Heard {
    /// Nodes with nothing under way.
    pub drained: BTreeSet<String>,
    /// How nodes ended.
    pub ends: BTreeMap<String, RunEnd>,
    endings: Endings,
    /// Whether the books are to be closed.
    pub close: bool,
    /// When each node was last heard.
    pub last: BTreeMap<String, Time>,
    listen: BTreeMap<String, SocketAddr>,
    /// Authorities that others made for the run.
    authorities: Vec<ByteBuf>,
    sent: BTreeMap<String, u64>,
    received: BTreeMap<String, u64>,
    missed: u64,
    ignored: u64,
    /// What the server did not permit, as far as it was told.
    forbidden: usize,
    refused: Vec<SocketAddr>,
}

/// The subjects that go out: heard by a group elsewhere, or by every engine.
pub(crate) fn outgoing(assembly: &rehearsal_core::assembly::Assembly) -> Vec<bool> {
    let run = &assembly.plan.info.run;
    let life = ENGINE_HEARS.map(|verb| Pattern::new(&format!("{PREFIX}.{run}.ctl.*.*.{verb}")).expect("a pattern"));
    let heard = assembly.heard_elsewhere();
    let names = assembly.subjects.names();
    names.zip(heard).map(|(name, heard)| heard || life.iter().any(|pattern| pattern.matches(&name))).collect()
}

impl Bridge {
    /// Connects and subscribes; both directions then run on the present thread until the runtime ends.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub(crate) async fn open(
        remote: &Remote,
        world: &Arc<World>,
        aims: BTreeSet<ActorId>,
        (port, inbox): (Port, Inbox),
        notes: &Notes,
    ) -> Result<Rc<Bridge>, EmuError> {
        let nodes = &world.plan.nodes;
        let node = nodes.iter().find(|n| n.local).map(|n| n.name.clone()).unwrap_or_default();
        let (nats, queue) = Nats::connect(&remote.nats, &format!("rehearsal {node}")).await?;
        let run = &world.plan.info.run;
        // all that a publisher says on a plane: so its order holds, and a gap in its numbers is a loss
        for pattern in heard_here(world, &port, remote.leads) {
            nats.subscribe(&format!("{PREFIX}.{run}.{pattern}")).await?;
        }
        nats.permitted(LEAVE).await?;
        let stream = RunStream::of(&nats, run);
        let outside = nats.clone();
        let elsewhere =
            nodes.iter().filter(|n| !n.local && n.outside.is_none() && remote.apart.as_ref() != Some(&n.name));
        let bridge = Rc::new(Bridge {
            world: world.clone(),
            outbox: Outbox::open(stream.clone(), move || outside.is_connected()),
            collector: remote.reader.as_ref().map(|reader| Collector::new(stream, reader)),
            next_event: Cell::new(world.clock.now().as_nanos()),
            repeat: Rc::default(),
            stored: Stored::default(),
            pulse: Pulse::default(),
            leader: beat::leader(run, world.subjects.names()),
            nats,
            leads: remote.leads,
            node,
            others: elsewhere.map(|n| n.name.clone()).collect(),
            aims,
            notes: notes.clone(),
            heard: RefCell::default(),
        });
        let (port, nats) = (Rc::new(port), bridge.nats.clone());
        tokio::task::spawn_local(bridge.clone().forward(inbox));
        tokio::task::spawn_local(bridge.clone().hear(queue, port.clone()));
        tokio::task::spawn_local(bridge.clone().collect(port.clone()));
        if bridge.collector.is_some() {
            tokio::task::spawn_local(bridge.clone().tell_stored());
        }
        tokio::task::spawn_local(bridge.clone().watch_connection(port));
        tokio::task::spawn_local(bridge.clone().beat());
        tokio::task::spawn_local(Repeat::run(bridge.repeat.clone(), nats));
        Ok(bridge)
    }

    /// Whether the controller runs here.
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// Whether this process stores what the others tell, and nothing else: it goes on until it is told to end.
    pub(crate) fn stores_alone(&self) -> bool {
        self.collector.is_some() && !self.leads
    }

    /// Nodes that other processes run, but for the one that stores.
    pub(crate) fn others(&self) -> &BTreeSet<String> {
        &self.others
    }

    /// The node that it speaks for.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Looks at what was said.
    pub(crate) fn heard<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.heard.borrow_mut())
    }

    /// Whether the server keeps all that this process told, and all that others told is stored, if that is done here.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let collected = self.collector.as_ref().is_none_or(|c| c.open_messages() == Some(0));
        self.outbox.open_messages() == 0 && collected
    }

    /// Says something to the other engines, on this one's own subject.
    pub(crate) async fn tell(&self, verb: &str, body: &Body) {
        let name = self.own(verb);
        match verb {
            "stop" => ["start", "addresses", "done"].iter().for_each(|verb| self.repeat.end(verb)),
            "close" => self.repeat.end("stop"),
            _ => {}
        }
        if matches!(verb, "stop" | "close") {
            self.repeat.begin(&name, body.to_wire(&self.header(&name)));
            return self.repeat.say(&self.nats).await;
        }
        // a server that is away would keep the run from ending; that it was away is in the notes
        let _ = tokio::time::timeout(LEAVE, self.publish(&name, body)).await;
    }

    /// Answers a question.
    pub(crate) async fn reply(&self, reply: &str, body: &Body) {
        let payload = body.to_wire(&self.header(&self.own("answer")));
        // who asked asks again if the answer is lost
        let _ = tokio::time::timeout(LEAVE, self.nats.publish(reply, payload)).await;
    }

    fn own(&self, verb: &str) -> String {
        subject(&self.world.plan.info.run, Plane::Control, &self.node, HOST, verb)
    }

    /// What the server did not permit since this was last asked: what it concerns was lost without another word.
    pub(crate) fn forbidden(&self) -> Vec<String> {
        let all = self.nats.violations();
        let told = std::mem::replace(&mut self.heard.borrow_mut().forbidden, all.len());
        all.iter().skip(told).map(ToString::to_string).collect()
    }
}

/// `node.actor` out of a subject.
fn publisher(name: &str) -> &str {
    let mut dots = name.match_indices('.').map(|(at, _)| at);
    let (from, to) = (dots.nth(3), dots.nth(1));
    from.map_or("", |from| &name[from + 1..to.unwrap_or(name.len())])
}

/// The node out of a subject.
fn node_of(name: &str) -> &str {
    name.split('.').nth(4).unwrap_or_default()
}

/// Where other processes say what is heard here. On the control plane the process that leads hears everybody; the others
/// hear those whom their actors hear, for with many nodes nobody can listen to each one's beats, and every engine's stop.
fn heard_here(world: &World, port: &Port, leads: bool) -> BTreeSet<String> {
    let here = |name: &str| world.plan.nodes.iter().any(|n| n.local && n.name == node_of(name));
    let names = world.subjects.names().zip(0..);
    let told = names.filter(|(name, id)| port.is_heard_elsewhere(SubjectId(*id)) && !here(name));
    let (control, traffic) = (Plane::Control.token(), Plane::Traffic.token());
    // where an experiment is led from its engine speaks too, whoever hears the actors
    let leading = world.plan.nodes.iter().filter(|n| !n.measured && !n.local && n.outside.is_none());
    let mut patterns: BTreeSet<String> = leading.map(|n| format!("{control}.{}.>", n.name)).collect();
    for (name, _) in told {
        match name.split('.').nth(3) {
            Some(plane) if plane == control => _ = patterns.insert(format!("{control}.{}.>", node_of(&name))),
            Some(plane) if plane == traffic => _ = patterns.insert(format!("{traffic}.>")),
            // telemetry comes out of the run's stream
            _ => {}
        }
    }
    if leads {
        patterns.retain(|pattern| !pattern.starts_with(control));
        patterns.insert(format!("{control}.>"));
    } else {
        patterns.insert(format!("{control}.*.{HOST}.stop"));
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_its_publisher() {
        assert_eq!(publisher("lab.v1.trial.ctl.camera-1.logger.ready"), "camera-1.logger");
        assert_eq!(publisher("lab.v1.trial.tel.camera-1.host"), "camera-1.host");
        assert_eq!(publisher("lab.v1"), "");
        assert_eq!(node_of("lab.v1.trial.tel.camera-1.host"), "camera-1");
    }
}
