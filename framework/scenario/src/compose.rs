//! Puts the experiment together: adds what every experiment has, and applies what the command line changes.

use std::path::Path;
use std::sync::Arc;

use rehearsal_core::plan::{HostPlan, LinkSpec, Stop};
use rehearsal_core::time::Span;

use crate::draft::{ActorDraft, Draft, NodeDraft};
use crate::error::Problems;
use crate::experiment::{ActorSpec, Experiment, NodeSpec};
use crate::load::LoadOptions;
use crate::notes;
use crate::registry::Registry;
use crate::source::Sources;

mod placement;
mod scale;
mod services;

/// The experiment that a draft without problems describes. `None` after a problem with an option.
pub(crate) fn experiment(
    draft: Draft,
    path: &Path,
    sources: Arc<Sources>,
    registry: &Registry,
    options: &LoadOptions,
    problems: &mut Problems<'_>,
) -> Option<Experiment> {
    let mut notes = notes::of_draft(&draft);
    let table = draft.experiment?.table;
    let (links, routes) = links(draft.link.link, draft.links);
    let hosts: Vec<HostPlan> = draft
        .hosts
        .into_iter()
        .map(|host| HostPlan { name: host.name, cores: host.table.cores, memory: host.table.memory })
        .collect();
    let nodes = draft.nodes.into_iter().map(|node| node_spec(node, &hosts)).collect();
    let mut experiment = Experiment {
        source: path.to_path_buf(),
        base: options.base.clone().unwrap_or_else(|| path.parent().unwrap_or(Path::new("")).to_path_buf()),
        name: table.name,
        description: table.description,
        repetitions: table.repetitions,
        seed: table.seed,
        stop: table.duration.map_or(Stop::AllRequestsDone, Stop::After),
        warmup: table.warmup,
        cooldown: table.cooldown,
        lead: table.lead,
        grace: table.grace,
        hosts,
        nodes,
        links,
        routes,
        thresholds: draft.thresholds,
        notes: Vec::new(),
        sources,
    };
    services::add(&mut experiment, registry, problems);
    if let Some(factor) = options.scale {
        notes.extend(scale::apply(&mut experiment, factor, problems));
    }
    placement::apply(&mut experiment, options, problems);
    notes.extend(notes::of(&experiment));
    experiment.notes = notes;
    problems.is_empty().then_some(experiment)
}

type Routes = Vec<(String, String, usize)>;

fn links(default: LinkSpec, drafts: Vec<crate::draft::LinkDraft>) -> (Vec<LinkSpec>, Routes) {
    let mut links = vec![default];
    let mut routes = Vec::new();
    for draft in drafts {
        routes.push((draft.from, draft.to, links.len()));
        links.push(draft.link);
    }
    (links, routes)
}

fn node_spec(draft: NodeDraft, hosts: &[HostPlan]) -> NodeSpec {
    let NodeDraft { node, actors } = draft;
    NodeSpec {
        host: node.table.host.and_then(|name| hosts.iter().position(|host| host.name == name)),
        name: node.name,
        vcpu: node.table.vcpu,
        memory: node.table.memory,
        measured: !actors.iter().any(|actor| services::LEADING.contains(&actor.kind)),
        local: vec![true; node.table.count as usize],
        actors: actors.into_iter().map(actor_spec).collect(),
    }
}

fn actor_spec(draft: ActorDraft) -> ActorSpec {
    ActorSpec {
        name: draft.actor.name,
        kind: draft.kind,
        role: draft.role,
        count: draft.actor.table.count,
        sender: draft.sender,
        request_bytes: draft.request_bytes,
        own: draft.own.table,
        build: draft.own.build,
        keys: Some(draft.actor.keys),
    }
}

/// `span × factor`, at least one second.
fn scaled(span: Span, factor: f64) -> Span {
    let second = Span::from_secs(1).as_nanos() as f64;
    // a float beyond u64 is held at its largest value by the conversion
    Span::from_nanos((span.as_nanos() as f64 * factor).round().max(second) as u64)
}
