//! The way to the other processes of a run: what they hear goes out over NATS, what comes in goes to the shards here.
//!
//! It runs on the supervisor's thread, apart from the traffic. The life cycle passes through it: a node's addresses go
//! out before its `ready`, everybody's before `start-at`; what the engines say to each other at the end is kept in
//! [`Heard`] for the supervisor to see.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rehearsal_bus::nats::Nats;
use rehearsal_bus::{Delivery, Inbox, Port};
use rehearsal_core::message::Header;
use rehearsal_core::messages::{Addresses, NodeReport, Ready, StartAt};
use rehearsal_core::run::RunEnd;
use rehearsal_core::subject::{HOST, PREFIX, Pattern, Plane, subject};
use rehearsal_core::{ActorId, Body, Message, Time};

use crate::error::EmuError;
use crate::notes::Notes;
use crate::options::Remote;
use crate::world::World;

mod inbound;

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
    /// Nodes that other processes run.
    others: BTreeSet<String>,
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
    /// Whether the books are to be closed.
    pub close: bool,
    /// When each node was last heard.
    pub last: BTreeMap<String, Time>,
    /// Reports of nodes here that nobody has acknowledged.
    unacknowledged: BTreeSet<(String, u32)>,
    listen: BTreeMap<String, SocketAddr>,
    sent: BTreeMap<String, u64>,
    received: BTreeMap<String, u64>,
    missed: u64,
    ignored: u64,
    refused: Vec<SocketAddr>,
}

/// The subjects that go out: heard by a group elsewhere, or by every engine.
pub(crate) fn outgoing(assembly: &rehearsal_core::assembly::Assembly) -> Vec<bool> {
    let run = &assembly.plan.info.run;
    let life = ENGINE_HEARS.map(|verb| Pattern::new(&format!("{PREFIX}.{run}.ctl.*.*.{verb}")).expect("a pattern"));
    let heard = assembly.heard_elsewhere();
    let names = assembly.subjects.names().iter();
    names.zip(heard).map(|(name, heard)| heard || life.iter().any(|pattern| pattern.matches(name))).collect()
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
        let (nats, queue) = Nats::connect(&remote.url, &format!("rehearsal {node}")).await?;
        let run = &world.plan.info.run;
        // a plane as a whole: so each publisher's order holds, and a gap in its numbers is a loss
        for plane in planes(world, &port) {
            nats.subscribe(&format!("{PREFIX}.{run}.{}.>", plane.token())).await?;
        }
        nats.settle(LEAVE).await;
        let bridge = Rc::new(Bridge {
            world: world.clone(),
            nats,
            leads: remote.leads,
            node,
            others: nodes.iter().filter(|n| !n.local).map(|n| n.name.clone()).collect(),
            aims,
            notes: notes.clone(),
            heard: RefCell::default(),
        });
        tokio::task::spawn_local(bridge.clone().forward(inbox));
        tokio::task::spawn_local(bridge.clone().hear(queue, port));
        Ok(bridge)
    }

    /// Whether the controller runs here.
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// Nodes that other processes run.
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

    /// Whether every report of this process was acknowledged.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.heard.borrow().unacknowledged.is_empty()
    }

    /// Says something to the other engines, on this one's own subject.
    pub(crate) async fn tell(&self, verb: &str, body: &Body) {
        let name = self.own(verb);
        // a server that is away would keep the run from ending; that it was away is in the notes
        let _ = tokio::time::timeout(LEAVE, self.publish(&name, body)).await;
    }

    /// The same, and waits until it is understood; whether it was.
    pub(crate) async fn ask(&self, verb: &str, body: &Body, patience: Duration) -> bool {
        let name = self.own(verb);
        let payload = body.to_wire(&self.header(&name));
        self.nats.request(&name, payload, patience).await.is_ok()
    }

    fn own(&self, verb: &str) -> String {
        subject(&self.world.plan.info.run, Plane::Control, &self.node, HOST, verb)
    }

    async fn forward(self: Rc<Self>, mut inbox: Inbox) {
        while let Some(Delivery { subject, body }) = inbox.receive().await {
            match body.typed_kind() {
                Some(Ready::KIND) => self.publish(&self.own("listen"), &Body::new(self.addresses_here())).await,
                Some(StartAt::KIND) => self.tell_addresses().await,
                Some(NodeReport::KIND) => {
                    if let Ok(report) = body.get::<NodeReport>() {
                        let id = (report.node.clone(), report.second);
                        self.heard.borrow_mut().unacknowledged.insert(id);
                    }
                }
                _ => {}
            }
            let name = &self.world.subjects.names()[subject.0 as usize];
            self.publish(name, &body).await;
            inbox.handled();
        }
    }

    async fn publish(&self, name: &str, body: &Body) {
        let payload = body.to_wire(&self.header(name));
        if let Err(why) = self.nats.publish(name, payload).await {
            self.notes.note(format!("a message to other processes was lost: {why}"));
        }
    }

    /// A header with the next number of its subject.
    fn header<'a>(&'a self, name: &'a str) -> Header<'a> {
        let mut heard = self.heard.borrow_mut();
        let seq = heard.sent.entry(name.to_owned()).or_default();
        *seq += 1;
        let (seq, t_ns) = (*seq, self.world.clock.now().as_nanos());
        Header { run: &self.world.plan.info.run, from: publisher(name), seq, t_ns }
    }

    /// Where the receivers of this process listen, by their own subjects.
    fn addresses_here(&self) -> Addresses {
        let name = |actor: ActorId| {
            let (node, actor) = self.world.names(actor.0);
            subject(&self.world.plan.info.run, Plane::Traffic, node, &actor, "")
        };
        let here = self.world.addresses.iter().filter(|(actor, _)| self.world.is_local(self.world.group_of(actor.0)));
        Addresses { listen: here.map(|(actor, address)| (name(*actor), *address)).collect() }
    }

    /// The controller is about to start the run: by now every node has told where it listens.
    async fn tell_addresses(&self) {
        let mut all = self.addresses_here();
        all.listen.extend(self.heard.borrow().listen.clone());
        self.publish(&self.own("addresses"), &Body::new(all.clone())).await;
        self.learn(all);
    }

    /// Takes over where receivers elsewhere listen, as far as senders here aim at them and may send there.
    fn learn(&self, all: Addresses) {
        let mut known = BTreeMap::new();
        for (name, address) in all.listen {
            let Some(actor) = self.world.subjects.find(&name).and_then(|id| self.world.subjects.owner(id)) else {
                continue;
            };
            if !self.aims.contains(&actor) {
                continue;
            }
            if self.world.options.allows(address.ip()) {
                known.insert(actor, address);
            } else {
                self.heard.borrow_mut().refused.push(address);
            }
        }
        // once: where a receiver listens does not change during a run
        let _ = self.world.addresses_elsewhere.set(known);
    }

    /// Addresses that others named and this process does not send to.
    pub(crate) fn refused(&self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.heard.borrow_mut().refused)
    }

    /// What the connection went through, for the verdict's notes; the messages that it lost.
    pub(crate) fn close(&self) -> (Vec<String>, u64) {
        let (traffic, heard) = (self.nats.traffic(), self.heard.borrow());
        let mut notes = Vec::new();
        if self.leads {
            notes.push(format!(
                "control and telemetry over NATS: {} messages ({} bytes) from the controller, {} ({} bytes) to it",
                traffic.sent, traffic.sent_bytes, traffic.received, traffic.received_bytes
            ));
        }
        let mut more = |count: u64, what: &str| notes.extend((count > 0).then(|| format!("{count} {what}")));
        more(traffic.disconnects, "times the connection to the NATS server was lost");
        more(traffic.refusals, "errors were told by the NATS server");
        more(heard.ignored, "messages on the run's subjects were not understood and ignored");
        more(heard.missed, "messages of other processes were lost on their way");
        (notes, traffic.dropped.max(heard.missed))
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

/// The planes on which other processes say what is heard here. Control always is: the engine itself hears it.
fn planes(world: &World, port: &Port) -> Vec<Plane> {
    let here = |name: &str| world.plan.nodes.iter().any(|n| n.local && n.name == node_of(name));
    let names = world.subjects.names().iter().enumerate();
    let told: Vec<&str> = names
        .filter(|(id, name)| port.is_heard_elsewhere(rehearsal_core::SubjectId(*id as u32)) && !here(name))
        .filter_map(|(_, name)| name.split('.').nth(3))
        .collect();
    let all = [Plane::Control, Plane::Telemetry, Plane::Traffic];
    all.into_iter().filter(|p| *p == Plane::Control || told.contains(&p.token())).collect()
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
