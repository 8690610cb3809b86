//! The sending actors of a resolved experiment: where they send, of which class they are, and which codecs they have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rehearsal_core::dscp::Dscp;
use rehearsal_export::Bundle;
use rehearsal_models::diagram::module::Codec;
use serde::Deserialize;

/// One sending actor of the file.
#[derive(Clone, Debug)]
pub struct Sender {
    /// `node/actor`.
    pub name: String,
    /// The class of its traffic, in words.
    pub class: String,
    /// Receiving actors, `node/actor`.
    pub to: BTreeSet<String>,
    /// Codecs by the names of their modules.
    pub codecs: BTreeMap<String, Codec>,
    /// Whether it sends datagrams, for which nobody answers.
    pub datagrams: bool,
    /// Whether somebody else sends to one of its receivers.
    pub shared: bool,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    nodes: BTreeMap<String, Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    actors: BTreeMap<String, Actor>,
}

#[derive(Deserialize)]
struct Actor {
    to: Option<String>,
    #[serde(default)]
    targets: BTreeMap<String, String>,
    #[serde(default)]
    dscp: Dscp,
    #[serde(default)]
    diagram: Diagram,
}

#[derive(Default, Deserialize)]
struct Diagram {
    #[serde(default)]
    modules: BTreeMap<String, Module>,
}

#[derive(Deserialize)]
struct Module {
    codec: Option<Codec>,
}

/// Those that sent something, in the order of their names; none of a file that cannot be read.
pub fn of(bundle: &Bundle) -> Vec<Sender> {
    let text = fs::read_to_string(bundle.path.join("experiment.toml")).unwrap_or_default();
    let Ok(file) = toml::from_str::<File>(&text) else { return Vec::new() };
    let mut all: Vec<Sender> = Vec::new();
    for (node, actors) in file.nodes {
        for (actor, keys) in actors.actors {
            let templates = &bundle.summary.templates;
            let Some(row) = templates.iter().find(|t| (&t.template, &t.actor) == (&node, &actor)) else { continue };
            if row.role != "sender" || row.measures.totals.attempts == 0 {
                continue;
            }
            let codecs = keys.diagram.modules.into_iter().filter_map(|(name, module)| Some((name, module.codec?)));
            all.push(Sender {
                name: format!("{node}/{actor}"),
                class: if keys.dscp.is_default() { "best effort".to_owned() } else { keys.dscp.to_string() },
                to: keys.to.into_iter().chain(keys.targets.into_values()).collect(),
                codecs: codecs.collect(),
                datagrams: row.measures.totals.datagrams_sent > 0,
                shared: false,
            });
        }
    }
    for at in 0..all.len() {
        let others = all.iter().enumerate().filter(|(other, sender)| *other != at && sender.datagrams);
        let shared = others.into_iter().any(|(_, other)| !other.to.is_disjoint(&all[at].to));
        all[at].shared = shared && all[at].datagrams;
    }
    all
}
