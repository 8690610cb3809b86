//! Targets outside: each origin that a `to` names becomes a node of the plan, which no process runs and dry runs model.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use rehearsal_core::kind::{Build, Role};
use rehearsal_core::outside::{OUTSIDE, Outside, SERVICE, ServiceSpec, Url};
use rehearsal_core::plan::{GroupPlan, LinkSpec, NodePlan, Plan};
use rehearsal_core::subject::instance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Problems;
use crate::experiment::Experiment;
use crate::registry::Registry;

/// The kind that models a service in a dry run.
const RECEIVER: &str = "receiver";
/// Requests that may wait at a service whose queue nobody knows. Assumed: more than senders have under way.
const BACKLOG: u32 = 1_000_000;

/// A target outside, as an experiment has it.
#[derive(Clone, Debug)]
pub struct OutsideSpec {
    /// The node that stands for it, `outside` or `outside-1` and so on.
    pub node: String,
    /// The first URL that names it.
    pub url: Url,
    /// What is known of it.
    pub service: Option<ServiceSpec>,
    /// All places where it is, once they have been looked up.
    pub addresses: Vec<SocketAddr>,
    /// The one of them that requests go to.
    pub address: Option<SocketAddr>,
    pub(crate) ways: Vec<Way>,
    build: Arc<dyn Build>,
}

/// The links between a node and a target.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    from: String,
    up: LinkSpec,
    down: LinkSpec,
}

/// Finds the experiment's targets outside, and the links to them.
pub(super) fn add(experiment: &mut Experiment, registry: &Registry, problems: &mut Problems<'_>) {
    let mut urls: Vec<(Url, Option<ServiceSpec>)> = Vec::new();
    for (_, _, sender) in experiment.senders() {
        let Some(url) = Url::is(&sender.to).then(|| Url::read(&sender.to).ok()).flatten() else { continue };
        if !urls.iter().any(|(known, _)| known.origin() == url.origin()) {
            urls.push((url, sender.service));
        }
    }
    let count = u32::try_from(urls.len()).unwrap_or(u32::MAX);
    let mut all = Vec::new();
    for (index, (url, service)) in urls.into_iter().enumerate() {
        let Some(build) = model(service, registry, problems) else { return };
        let node = instance(OUTSIDE, index as u32, count);
        let origin = url.origin();
        let aims = |to: &str| Url::is(to) && Url::read(to).is_ok_and(|url| url.origin() == origin);
        let from: BTreeSet<&str> =
            experiment.senders().filter(|(_, _, s)| aims(&s.to)).map(|(node, _, _)| node.name.as_str()).collect();
        let ways = from.into_iter().map(|from| ways(experiment, from, &url)).collect();
        all.push(OutsideSpec { node, url, service, addresses: Vec::new(), address: None, ways, build });
    }
    experiment.outside = all;
}

/// A receiver that takes the time that the service is said to take; no time if that is not known.
fn model(service: Option<ServiceSpec>, registry: &Registry, problems: &mut Problems<'_>) -> Option<Arc<dyn Build>> {
    let Some(kind) = registry.get(RECEIVER) else {
        problems.flag("kinds", format!("this program has no kind `{RECEIVER}`, which models services"), None);
        return None;
    };
    let (time, workers, bytes) =
        service.map_or(("0s".to_owned(), 1_000_000, 0), |s| (s.time.to_string(), s.workers, s.bytes.0));
    let text = format!(
        "workers = {workers}\nbacklog = {BACKLOG}\nanswer = \"{bytes}B\"\nanalyzer = {{ pause = \"{time}\" }}\n"
    );
    let table: DeTable<'_> = DeTable::parse(&text).ok()?.into_inner();
    match kind.decode(Spanned::new(0..0, DeValue::Table(table))) {
        Ok(own) => Some(own.build),
        Err(error) => {
            problems.flag("kinds", format!("`{RECEIVER}` cannot model a service: {}", error.message()), None);
            None
        }
    }
}

/// The links of a node to a target and back: as the file says of `X->outside`, or as by default, with the carrier of the
/// URL.
fn ways(experiment: &Experiment, from: &str, url: &Url) -> Way {
    let aims = |to: &str| Url::read(to).is_ok_and(|other| other.origin() == url.origin());
    // several actors of a node that aim there say the same of how
    let sender = experiment.senders().find(|(node, _, sender)| node.name == from && aims(&sender.to));
    let request = sender.and_then(|(_, _, sender)| sender.request.as_deref());
    let written = |one: &str, other: &str| {
        let row = experiment.routes.iter().find(|(f, t, _)| f == one && t == other).map_or(0, |(_, _, row)| *row);
        url.link(&experiment.links[row], request)
    };
    Way { from: from.to_owned(), up: written(from, OUTSIDE), down: written(OUTSIDE, from) }
}

impl Experiment {
    /// The target outside that a `to` names.
    pub fn outside_of(&self, to: &str) -> Option<&OutsideSpec> {
        let origin = Url::is(to).then(|| Url::read(to).ok()).flatten()?.origin();
        self.outside.iter().find(|outside| outside.url.origin() == origin)
    }
}

impl OutsideSpec {
    /// The link of the first node that reaches it.
    pub fn link(&self) -> Option<&LinkSpec> {
        self.ways.first().map(|way| &way.up)
    }

    /// The link that a node reaches it over.
    pub(crate) fn link_from(&self, from: &str) -> Option<&LinkSpec> {
        self.ways.iter().find(|way| way.from == from).map(|way| &way.up)
    }
}

/// Adds the targets outside to a plan, and the links to them.
pub(crate) fn join(outside: &[OutsideSpec], plan: &mut Plan) {
    if !outside.is_empty() {
        // they say what the ways below are made of
        plan.routes.retain(|(from, to, _)| from != OUTSIDE && to != OUTSIDE);
    }
    for target in outside {
        plan.nodes.push(node(target));
        for way in &target.ways {
            for (from, to, link) in [(&way.from, &target.node, &way.up), (&target.node, &way.from, &way.down)] {
                let row = plan.links.iter().position(|known| known == link).unwrap_or_else(|| {
                    plan.links.push(link.clone());
                    plan.links.len() - 1
                });
                plan.routes.push((from.clone(), to.clone(), row));
            }
        }
    }
}

/// The node of a plan that stands for a target.
fn node(outside: &OutsideSpec) -> NodePlan {
    let group = GroupPlan {
        actor: SERVICE.to_owned(),
        kind: RECEIVER,
        role: Role::Receiver,
        count: 1,
        first: 0,
        sender: None,
        build: Arc::clone(&outside.build),
    };
    NodePlan {
        name: outside.node.clone(),
        template: outside.node.clone(),
        host: None,
        vcpu: None,
        memory: None,
        measured: false,
        local: false,
        foreign: false,
        outside: Some(Outside {
            origin: outside.url.origin(),
            address: outside.address,
            known: outside.service.is_some(),
        }),
        groups: vec![group],
    }
}
