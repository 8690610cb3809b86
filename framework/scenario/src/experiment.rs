//! A checked experiment: everything resolved, ready to become a plan for each repetition.

use std::path::PathBuf;
use std::sync::Arc;

use rehearsal_core::kind::{Build, Role};
use rehearsal_core::plan::{Carrier, GroupPlan, HostPlan, LinkSpec, NodeInfo, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::subject;
use rehearsal_core::time::Span;
use rehearsal_core::units::{ByteRange, ByteSize};

use crate::decode::Keys;
use crate::source::Sources;
use crate::threshold::Threshold;

/// An experiment as it will be run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The file it was read from.
    pub source: PathBuf,
    /// The folder that media and other files are relative to.
    pub base: PathBuf,
    /// Its name, which is the run's token in subjects too.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// How often it is run, at least once.
    pub repetitions: u32,
    /// Its seed.
    pub seed: u64,
    /// When a run ends.
    pub stop: Stop,
    /// Left out of the summary at the beginning.
    pub warmup: Span,
    /// Left out of the summary at the end.
    pub cooldown: Span,
    /// From "all ready" to the first traffic.
    pub lead: Span,
    /// From the stop to the end.
    pub grace: Span,
    /// The machines, in the order of the file.
    pub hosts: Vec<HostPlan>,
    /// The nodes in the order of the file; a control node that was added comes last.
    pub nodes: Vec<NodeSpec>,
    /// The links; row 0 is the default.
    pub links: Vec<LinkSpec>,
    /// `(from, to, row)` where the default does not hold.
    pub routes: Vec<(String, String, usize)>,
    /// Limits on the results, in the order of the file.
    pub thresholds: Vec<Threshold>,
    /// What is allowed but worth knowing.
    pub notes: Vec<String>,
    /// What it was read from, for errors that show up when it is built.
    pub(crate) sources: Arc<Sources>,
}

/// A node and all its instances.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its name in the file.
    pub name: String,
    /// Row of [`Experiment::hosts`].
    pub host: Option<usize>,
    /// Cores that one instance may use; `None` is unlimited.
    pub vcpu: Option<f64>,
    /// Memory that one instance may use.
    pub memory: Option<ByteSize>,
    /// Nodes with a controller or aggregator are not measured.
    pub measured: bool,
    /// For each instance, whether this process runs it. As long as there are instances.
    pub local: Vec<bool>,
    /// Its actors in the order of the file; a logger that was added comes last.
    pub actors: Vec<ActorSpec>,
}

/// An actor and all its instances.
#[derive(Clone, Debug)]
pub struct ActorSpec {
    /// Its name in the file.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// What the kind does.
    pub role: Role,
    /// Instances in each instance of the node.
    pub count: u32,
    /// The common sender keys.
    pub sender: Option<SenderParams>,
    /// Bytes of one request, where the actor's keys tell.
    pub request_bytes: Option<ByteRange>,
    /// Its own keys, as they are written.
    pub own: toml::Table,
    pub(crate) build: Arc<dyn Build>,
    /// Where it stands; `None` if it was added.
    pub(crate) keys: Option<Keys>,
}

impl NodeSpec {
    /// How many instances there are.
    pub fn count(&self) -> u32 {
        u32::try_from(self.local.len()).expect("the count was a u32 when it was read")
    }

    /// The name of instance `index`, from 0.
    pub fn instance(&self, index: u32) -> String {
        subject::instance(&self.name, index, self.count())
    }

    /// Whether any of its actors sends.
    pub fn sends(&self) -> bool {
        self.actors.iter().any(|actor| actor.role == Role::Sender)
    }
}

impl Experiment {
    /// The plan of one repetition, counted from 0.
    pub fn plan(&self, repetition: u32) -> Plan {
        let nodes: Vec<NodePlan> =
            self.nodes.iter().flat_map(|node| (0..node.count()).map(|index| node_plan(node, index))).collect();
        let local = nodes.iter().filter(|node| node.local);
        let infos = local.map(|node| NodeInfo { name: node.name.clone(), sends: sends(node) });
        // receivers alone serve senders elsewhere, whose start and end they do not know: they end when they are told to
        let elsewhere = nodes.iter().any(|node| !node.local && sends(node));
        let stop = if elsewhere && !nodes.iter().any(|node| node.local && sends(node)) {
            Stop::AllRequestsDone
        } else {
            self.stop
        };
        let info = RunInfo {
            run: self.name.clone(),
            stop,
            warmup: self.warmup,
            cooldown: self.cooldown,
            lead: self.lead,
            grace: self.grace,
            nodes: infos.collect(),
        };
        Plan {
            info,
            seed: self.seed,
            repetition,
            base: self.base.clone(),
            hosts: self.hosts.clone(),
            nodes,
            links: self.links.clone(),
            routes: self.routes.clone(),
        }
    }

    /// The link from a node to a sender's target. A URL is reached over the default link.
    pub fn link_to(&self, from: &str, to: &str) -> &LinkSpec {
        let node = to.split('/').next().unwrap_or_default();
        let route = self.routes.iter().find(|(f, t, _)| f == from && t == node && !is_url(to));
        &self.links[route.map_or(0, |(_, _, row)| *row)]
    }

    /// The carrier from a node to a sender's target.
    pub fn carrier_to(&self, from: &str, to: &str) -> Carrier {
        self.link_to(from, to).carrier
    }
}

/// Whether a `to` names a place outside the experiment.
pub(crate) fn is_url(to: &str) -> bool {
    to.contains("://")
}

fn sends(node: &NodePlan) -> bool {
    node.groups.iter().any(|group| group.role == Role::Sender)
}

fn node_plan(node: &NodeSpec, index: u32) -> NodePlan {
    let groups = node.actors.iter().map(|actor| GroupPlan {
        actor: actor.name.clone(),
        kind: actor.kind,
        role: actor.role,
        count: actor.count,
        first: index * actor.count,
        sender: actor.sender.clone(),
        build: Arc::clone(&actor.build),
    });
    NodePlan {
        name: node.instance(index),
        template: node.name.clone(),
        host: node.host,
        vcpu: node.vcpu,
        memory: node.memory,
        measured: node.measured,
        local: node.local[index as usize],
        groups: groups.collect(),
    }
}
