//! A checked experiment: everything resolved, ready to become a plan for each repetition.

use std::path::PathBuf;
use std::sync::Arc;

use rehearsal_core::kind::{Build, Offer, Role};
use rehearsal_core::life::OnLoss;
use rehearsal_core::plan::{
    Carrier, GroupPlan, HostPlan, LatencyInterval, LinkSpec, NodeInfo, NodePlan, Plan, RunInfo, Stop,
};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::steer::PlannedSteer;
use rehearsal_core::subject;
use rehearsal_core::time::Span;
use rehearsal_core::units::{ByteRange, ByteSize, Fraction};

use crate::compose::outside::{self, OutsideSpec};
use crate::decode::Keys;
use crate::source::Sources;
use crate::tables::ProvisionTable;
use crate::threshold::Threshold;
use crate::verdict::VerdictTable;

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
    /// What follows when a node in another process is lost.
    pub on_loss: OnLoss,
    /// What is done to the load on the way, in the order of time.
    pub control: Vec<PlannedSteer>,
    /// Share of all exchanges that are kept one by one, for `requests.parquet`.
    pub record_requests: Fraction,
    /// The calibration of its dry runs, relative to [`Experiment::base`].
    pub calibration: Option<String>,
    /// Seconds that share an interval of `latency.hlog`.
    pub latency_interval: LatencyInterval,
    /// The machines, in the order of the file.
    pub hosts: Vec<HostPlan>,
    /// The nodes in the order of the file; a control node that was added comes last.
    pub nodes: Vec<NodeSpec>,
    /// The links; row 0 is the default.
    pub links: Vec<LinkSpec>,
    /// `(from, to, row)` where the default does not hold.
    pub routes: Vec<(String, String, usize)>,
    /// Commands that make its hosts, and take them away.
    pub provision: Option<ProvisionTable>,
    /// Limits on the results, in the order of the file.
    pub thresholds: Vec<Threshold>,
    /// Limits of the verdict that are not the usual ones.
    pub verdict: VerdictTable,
    /// What is allowed but worth knowing.
    pub notes: Vec<String>,
    /// Targets outside of it, in the order in which they are named.
    pub outside: Vec<OutsideSpec>,
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
    /// Whether somebody else's program runs its instances.
    pub foreign: bool,
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
    /// What one instance offers, of a sender that paces itself.
    pub offers: Option<Offer>,
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

impl ActorSpec {
    /// Whether it replays a template.
    pub fn replays(&self) -> bool {
        self.build.template(false).is_some()
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
            on_loss: self.on_loss,
            control: self.control.clone(),
            nodes: infos.collect(),
        };
        let mut plan = Plan {
            info,
            seed: self.seed,
            record_requests: self.record_requests,
            repetition,
            base: self.base.clone(),
            hosts: self.hosts.clone(),
            nodes,
            links: self.links.clone(),
            routes: self.routes.clone(),
        };
        outside::join(&self.outside, &mut plan);
        plan
    }

    /// The link from a node to a sender's target.
    pub fn link_to(&self, from: &str, to: &str) -> &LinkSpec {
        if let Some(link) = self.outside_of(to).and_then(|outside| outside.link_from(from)) {
            return link;
        }
        let node = to.split('/').next().unwrap_or_default();
        let route = self.routes.iter().find(|(f, t, _)| f == from && t == node);
        &self.links[route.map_or(0, |(_, _, row)| *row)]
    }

    /// The carrier from a node to a sender's target.
    pub fn carrier_to(&self, from: &str, to: &str) -> Carrier {
        self.link_to(from, to).carrier
    }
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
        foreign: node.foreign,
        outside: None,
        groups: groups.collect(),
    }
}
