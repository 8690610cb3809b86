//! Adds the services that every experiment has: a logger in each node, one controller, one aggregator.

use rehearsal_core::kind::Role;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Problems;
use crate::experiment::{ActorSpec, Experiment, NodeSpec};
use crate::registry::Registry;
use crate::suggest;
use crate::validate::names::{CONTROL, LOGGER};

/// The kinds that lead an experiment. A node with one of them is not measured.
pub(crate) const LEADING: [&str; 2] = ["controller", "aggregator"];

/// Adds what the file leaves out.
pub(super) fn add(experiment: &mut Experiment, registry: &Registry, problems: &mut Problems<'_>) {
    let has = |kind: &str| experiment.nodes.iter().flat_map(|node| &node.actors).any(|actor| actor.kind == kind);
    let missing: Vec<&str> = LEADING.into_iter().filter(|kind| !has(kind)).collect();
    if !missing.is_empty() {
        let actors = missing.into_iter().filter_map(|kind| service(kind, registry, problems)).collect();
        experiment.nodes.push(NodeSpec {
            name: CONTROL.to_owned(),
            host: None,
            vcpu: None,
            memory: None,
            measured: false,
            foreign: false,
            local: vec![true],
            actors,
        });
    }
    for node in &mut experiment.nodes {
        if !node.actors.iter().any(|actor| actor.kind == LOGGER) {
            node.actors.extend(service(LOGGER, registry, problems));
        }
    }
}

impl Experiment {
    /// Gives the aggregator a node of its own, where the controller and it were both left to be added: it can then run in
    /// a process of its own. Where the file itself places them they stay. Gives the aggregator's node if it has one.
    pub fn set_aggregator_apart(&mut self) -> Option<String> {
        let [controller, aggregator] = LEADING;
        let holds = |node: &NodeSpec, kind: &str| node.actors.iter().any(|actor| actor.kind == kind);
        let row = self.nodes.iter().position(|node| holds(node, aggregator))?;
        if !holds(&self.nodes[row], controller) {
            return Some(self.nodes[row].instance(0));
        }
        let added = self.nodes[row].actors.iter().all(|actor| actor.keys.is_none());
        if !added || self.nodes.iter().any(|node| (0..node.count()).any(|i| node.instance(i) == aggregator)) {
            return None;
        }
        let mut apart = NodeSpec { name: aggregator.to_owned(), ..self.nodes[row].clone() };
        apart.actors.retain(|actor| actor.kind != controller);
        self.nodes[row].actors.retain(|actor| actor.kind != aggregator);
        self.nodes.push(apart);
        Some(aggregator.to_owned())
    }
}

/// A service under the name of its kind, with every default.
fn service(name: &str, registry: &Registry, problems: &mut Problems<'_>) -> Option<ActorSpec> {
    let Some(kind) = registry.get(name) else {
        let known = suggest::help("", registry.kinds().map(|kind| kind.name));
        problems.flag("kinds", format!("this program has no kind `{name}`, which every experiment needs"), known);
        return None;
    };
    let own = match kind.decode(Spanned::new(0..0, DeValue::Table(DeTable::new()))) {
        Ok(own) => own,
        Err(error) => {
            problems.flag("kinds", format!("`{name}` cannot do without keys: {}", error.message()), None);
            return None;
        }
    };
    Some(ActorSpec {
        name: name.to_owned(),
        kind: kind.name,
        role: Role::Service,
        count: 1,
        sender: None,
        request_bytes: None,
        own: own.table,
        offers: None,
        build: own.build,
        keys: None,
    })
}
