//! The experiment with every default filled in, as text that loads to the same plan again.

use std::path::Path;

use rehearsal_core::plan::{LinkSpec, Stop};
use rehearsal_core::sender::SenderParams;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::blame::MEDIA;
use crate::control::ControlTable;
use crate::experiment::{ActorSpec, Experiment, NodeSpec};
use crate::printable::printable;
use crate::tables::{ActorTable, ExperimentTable, HostTable, NodeTable, ProvisionTable, StopRule};
use crate::threshold::{Threshold, ThresholdTable};
use crate::verdict::VerdictTable;

/// Said of an experiment with media. The folder itself would make bundles of one experiment differ.
const BASE: &str =
    "# Its media are relative to the folder of that file: to run this again, name it with `--base DIR`.\n";

/// The whole file.
#[derive(Serialize)]
struct Resolved<'a> {
    experiment: ExperimentTable,
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    hosts: Ordered<HostTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provision: Option<&'a ProvisionTable>,
    nodes: Ordered<ResolvedNode<'a>>,
    links: Ordered<&'a LinkSpec>,
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    thresholds: Ordered<ResolvedLimit<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'a VerdictTable>,
}

/// A limit as it is shortest written.
#[derive(Serialize)]
#[serde(untagged)]
enum ResolvedLimit<'a> {
    Text(&'a str),
    Table(ThresholdTable),
}

#[derive(Serialize)]
struct ResolvedNode<'a> {
    #[serde(flatten)]
    node: NodeTable,
    actors: Ordered<ResolvedActor<'a>>,
}

#[derive(Serialize)]
struct ResolvedActor<'a> {
    #[serde(flatten)]
    actor: ActorTable,
    #[serde(flatten)]
    sender: Option<&'a SenderParams>,
    #[serde(flatten)]
    own: &'a toml::Table,
}

/// A table whose keys keep their order.
struct Ordered<T>(Vec<(String, T)>);

impl<T> Ordered<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Experiment {
    /// The experiment as a file, with every default, added service and override written out. It loads to the same plan,
    /// save that `--only` and `--without` are options of a process and not part of it.
    pub fn resolved_toml(&self) -> String {
        let resolved = Resolved {
            experiment: self.experiment_table(),
            hosts: Ordered(self.hosts.iter().map(|host| (host.name.clone(), host_table(host))).collect()),
            provision: self.provision.as_ref(),
            nodes: Ordered(self.nodes.iter().map(|node| (node.name.clone(), self.node(node))).collect()),
            links: Ordered(self.named_links()),
            thresholds: Ordered(self.thresholds.iter().map(|t| (t.key(), limit(t))).collect()),
            verdict: Some(&self.verdict).filter(|verdict| !verdict.set().is_empty()),
        };
        let text = toml::to_string(&resolved).expect("names, numbers and texts can all be written as TOML");
        let file = self.source.file_name().map(Path::new).unwrap_or(&self.source);
        format!(
            "# Experiment `{}` with every default filled in, as it was run.\n# It was read from {}.\n{}\n{text}",
            self.name,
            printable(&file.display().to_string()),
            if self.has_media() { BASE } else { "" }
        )
    }

    fn has_media(&self) -> bool {
        self.nodes.iter().flat_map(|node| &node.actors).any(|actor| actor.own.contains_key(MEDIA))
    }

    fn experiment_table(&self) -> ExperimentTable {
        let (stop, duration) = match self.stop {
            Stop::AllRequestsDone => (Some(StopRule::AllRequestsDone), None),
            Stop::After(duration) => (None, Some(duration)),
        };
        ExperimentTable {
            name: self.name.clone(),
            description: self.description.clone(),
            repetitions: self.repetitions,
            seed: self.seed,
            stop,
            duration,
            warmup: self.warmup,
            cooldown: self.cooldown,
            lead: self.lead,
            grace: self.grace,
            on_loss: self.on_loss,
            control: self.control.iter().map(ControlTable::of).collect(),
            record_requests: self.record_requests,
            calibration: self.calibration.clone(),
            latency_interval: self.latency_interval,
        }
    }

    fn node<'a>(&'a self, node: &'a NodeSpec) -> ResolvedNode<'a> {
        let table = NodeTable {
            count: node.count(),
            host: node.host.map(|row| self.hosts[row].name.clone()),
            vcpu: node.vcpu,
            memory: node.memory,
            foreign: node.foreign,
        };
        let actors = node.actors.iter().map(|actor| (actor.name.clone(), resolved_actor(actor))).collect();
        ResolvedNode { node: table, actors: Ordered(actors) }
    }

    /// The links with their names in the file, the default first.
    pub fn named_links(&self) -> Vec<(String, &LinkSpec)> {
        self.links.iter().map(|link| (link.name.clone(), link)).collect()
    }
}

fn limit(threshold: &Threshold) -> ResolvedLimit<'_> {
    let table = |after| ThresholdTable { limit: threshold.text.clone(), abort: true, after };
    threshold.abort_after.map_or(ResolvedLimit::Text(&threshold.text), |after| ResolvedLimit::Table(table(after)))
}

fn host_table(host: &rehearsal_core::plan::HostPlan) -> HostTable {
    HostTable { cores: host.cores, memory: host.memory, labels: host.labels.clone(), agent: host.agent.clone() }
}

fn resolved_actor(actor: &ActorSpec) -> ResolvedActor<'_> {
    ResolvedActor {
        actor: ActorTable { kind: actor.kind.to_owned(), count: actor.count },
        sender: actor.sender.as_ref(),
        own: &actor.own,
    }
}
