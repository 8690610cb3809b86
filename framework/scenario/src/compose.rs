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
use crate::read::DEFAULT_LINK;
use crate::registry::Registry;
use crate::source::Sources;
use crate::tables::HostTable;

mod files;
pub(crate) mod outside;
mod placement;
mod scale;
mod services;

pub(crate) use services::LEADING;

/// The experiment that a draft without problems describes. `None` after a problem with an option.
pub(crate) fn experiment(
    mut draft: Draft,
    path: &Path,
    sources: Arc<Sources>,
    registry: &Registry,
    options: &LoadOptions,
    problems: &mut Problems<'_>,
) -> Option<Experiment> {
    let mut notes = notes::of_draft(&draft);
    let base = options.base.clone().unwrap_or_else(|| path.parent().unwrap_or(Path::new("")).to_path_buf());
    if options.files {
        files::check(&draft, &base, problems);
    }
    crate::trace::load(&mut draft, &base, problems);
    crate::arrivals::load(&mut draft, &base, problems);
    crate::model::traces(&mut draft, &base, registry, problems);
    let table = draft.experiment?.table;
    let (links, routes) = links(draft.link.link, draft.links);
    let hosts: Vec<HostPlan> = draft.hosts.into_iter().map(|host| host_plan(host.name, host.table)).collect();
    let nodes = draft.nodes.into_iter().map(|node| node_spec(node, &hosts)).collect();
    let mut experiment = Experiment {
        source: path.to_path_buf(),
        base,
        name: table.name,
        description: table.description,
        repetitions: table.repetitions,
        seed: table.seed,
        stop: table.duration.map_or(Stop::AllRequestsDone, Stop::After),
        warmup: table.warmup,
        cooldown: table.cooldown,
        lead: table.lead,
        grace: table.grace,
        on_loss: table.on_loss,
        control: crate::control::planned(&table.control),
        record_requests: table.record_requests,
        calibration: table.calibration,
        latency_interval: table.latency_interval,
        hosts,
        nodes,
        links,
        routes,
        thresholds: draft.thresholds.into_iter().map(|limit| limit.threshold).collect(),
        provision: draft.provision.map(|entry| entry.table),
        verdict: draft.verdict.map(|entry| entry.table).unwrap_or_default(),
        notes: Vec::new(),
        outside: Vec::new(),
        sources,
    };
    services::add(&mut experiment, registry, problems);
    if let Some(factor) = options.scale {
        notes.extend(scale::apply(&mut experiment, factor, problems));
    }
    outside::add(&mut experiment, registry, problems);
    placement::apply(&mut experiment, options, problems);
    notes.extend(notes::of(&experiment));
    experiment.notes = notes;
    problems.is_empty().then_some(experiment)
}

fn host_plan(name: String, table: HostTable) -> HostPlan {
    let HostTable { cores, memory, labels, agent } = table;
    HostPlan { name, cores, memory, labels, agent }
}

type Routes = Vec<(String, String, usize)>;

fn links(default: LinkSpec, drafts: Vec<crate::draft::LinkDraft>) -> (Vec<LinkSpec>, Routes) {
    let mut links = vec![LinkSpec { name: DEFAULT_LINK.to_owned(), ..default }];
    let mut routes = Vec::new();
    for draft in drafts {
        routes.extend(draft.pairs.into_iter().map(|(from, to)| (from, to, links.len())));
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
        foreign: node.table.foreign,
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
        offers: draft.own.build.offers(),
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
