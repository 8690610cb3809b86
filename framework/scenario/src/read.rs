//! Reads the parsed tables of an experiment file into a [`Draft`].

use std::ops::Range;

use rehearsal_core::plan::LinkSpec;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::check::{Table, article};
use crate::decode::{Keys, decode, filtered};
use crate::draft::{Draft, Entry, LinkDraft, NodeDraft};
use crate::error::{Problem, Problems};
use crate::registry::{Catalogue, Registry};
use crate::shape::Shape;
use crate::suggest;
use crate::tables::NodeTable;

mod actor;
mod threshold;

/// The tables at the top of a file.
const TABLES: [&str; 7] = ["experiment", "hosts", "nodes", "links", "thresholds", "verdict", "provision"];
/// The key of a node under which its actors stand.
pub(crate) const ACTORS: &str = "actors";
/// The name of the link that holds wherever no other is given.
pub(crate) const DEFAULT_LINK: &str = "default";

/// The key of a link that shares another's capacity, and the key that only that other has.
const SHARES: &str = "shares";
const MEMBERS: &str = "members";

/// Keys of which a link has one: where it has written one, it takes none of the others from the default.
const ONE_OF: [&[&str]; 3] =
    [&["rate", "rate_trace", "rate_steps"], &["loss", "gilbert_elliott"], &["jitter", "jitter_quantiles"]];

/// The two ends in `from->to`.
pub(crate) fn pair(name: &str) -> Option<(String, String)> {
    let (from, to) = name.split_once("->")?;
    Some((from.trim().to_owned(), to.trim().to_owned()))
}

/// What reading needs at every step.
pub(crate) struct Reader<'a, 's> {
    pub(crate) registry: &'a Registry,
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) problems: &'a mut Problems<'s>,
}

/// A named table inside another.
struct Named<'t, 'i> {
    name: &'t str,
    span: Range<usize>,
    table: &'t DeTable<'i>,
    table_span: Range<usize>,
}

impl Reader<'_, '_> {
    /// Reads everything that can be read and notes every problem.
    pub(crate) fn read(&mut self, root: &Spanned<DeTable<'_>>) -> Draft {
        let mut draft = Draft::default();
        for key in root.get_ref().keys().filter(|key| !TABLES.contains(&key.get_ref().as_ref())) {
            let problem = Problem::UnknownKey { key: key.get_ref().to_string(), table: "an experiment".into() };
            self.problems.helped(&key.span(), problem, suggest::help(key.get_ref(), TABLES));
        }
        for key in ["experiment", "nodes"].into_iter().filter(|key| !root.get_ref().contains_key(*key)) {
            let problem = Problem::MissingKey { key: key.into(), table: "the file".into() };
            self.problems.helped(
                &(0..0),
                problem,
                Some(format!("add a table `[{key}{}]`", if key == "nodes" { ".X" } else { "" })),
            );
        }
        if let Some((table, span)) = self.subtable(root.get_ref(), "experiment") {
            let shape = self.catalogue.experiment();
            draft.experiment = self.entry("experiment", span.clone(), "`[experiment]`", table, &span, shape);
        }
        if let Some((table, span)) = self.subtable(root.get_ref(), "provision") {
            let shape = self.catalogue.provision();
            draft.provision = self.entry("provision", span.clone(), "`[provision]`", table, &span, shape);
        }
        if let Some((table, span)) = self.subtable(root.get_ref(), "verdict") {
            let shape = self.catalogue.verdict();
            draft.verdict = self.entry("verdict", span.clone(), "`[verdict]`", table, &span, shape);
        }
        for host in self.named(root.get_ref(), "hosts", "host") {
            draft.names.hosts.insert(host.name.to_owned());
            let (label, shape) = (format!("host `{}`", host.name), self.catalogue.host());
            draft.hosts.extend(self.entry(host.name, host.span, &label, host.table, &host.table_span, shape));
        }
        for node in self.named(root.get_ref(), "nodes", "node") {
            let read = self.node(&node, &mut draft);
            draft.nodes.extend(read);
        }
        self.links(root.get_ref(), &mut draft);
        if let Some((table, _)) = self.subtable(root.get_ref(), "thresholds") {
            draft.thresholds = self.thresholds(table);
        }
        draft
    }

    fn node(&mut self, node: &Named<'_, '_>, draft: &mut Draft) -> Option<NodeDraft> {
        let label = format!("node `{}`", node.name);
        let mut actors = Vec::new();
        let names = draft.names.nodes.entry(node.name.to_owned()).or_default();
        for actor in self.named(node.table, ACTORS, "actor") {
            let (role, read) = self.actor(node.name, &actor);
            names.insert(actor.name.to_owned(), role);
            actors.extend(read);
        }
        if names.is_empty() {
            let help = format!("add a table `[nodes.{}.actors.main]` with a `kind`", node.name);
            let problem = Problem::Rule { reason: format!("{label} has no actors") };
            self.problems.helped(&node.span, problem, Some(help));
        }
        // the tables in `actors` have been read
        let table = filtered(node.table, |key| key != ACTORS);
        let shape = self.catalogue.node();
        let entry = self.entry::<NodeTable>(node.name, node.span.clone(), &label, &table, &node.table_span, shape)?;
        Some(NodeDraft { node: entry, actors })
    }

    /// Links take what they leave out from `links.default`.
    fn links(&mut self, root: &DeTable<'_>, draft: &mut Draft) {
        let links = self.named(root, "links", "link");
        let default = links.iter().find(|link| link.name == DEFAULT_LINK).map(|link| link.table.clone());
        for link in &links {
            let mut table = link.table.clone();
            let shared = match link.table.get(SHARES).map(Spanned::get_ref) {
                Some(DeValue::String(name)) => links.iter().find(|other| other.name == name.as_ref()),
                _ => None,
            };
            let shared = shared.map(|cell| filtered(cell.table, |key| key != MEMBERS));
            for (key, value) in shared.iter().chain(&default).flatten() {
                let key_name: &str = key.get_ref();
                let group = ONE_OF.iter().find(|group| group.contains(&key_name));
                let written = |key: &&str| table.contains_key(*key);
                if !written(&key_name) && !group.is_some_and(|group| group.iter().any(written)) {
                    table.insert(key.clone(), value.clone());
                }
            }
            let label = format!("link `{}`", link.name);
            let shape = self.catalogue.link();
            let entry = self.entry::<LinkSpec>(link.name, link.span.clone(), &label, &table, &link.table_span, shape);
            let Some(Entry { table, keys, .. }) = entry else { continue };
            let spec = LinkSpec { name: link.name.to_owned(), ..table };
            let pairs = match pair(link.name) {
                Some(pair) => vec![pair],
                None => spec.members.iter().filter_map(|member| pair(member)).collect(),
            };
            let read = LinkDraft { pairs, span: link.span.clone(), link: spec, keys };
            if link.name == DEFAULT_LINK {
                draft.link = read;
            } else if pair(link.name).is_some() || link.table.contains_key(MEMBERS) {
                draft.links.push(read);
            } else {
                let reason = format!("`{}` does not name the two ends of a link", link.name);
                let help = "write `[links.default]` or `[links.\"from->to\"]` with two names of nodes, or give it \
                            `members = [\"from->to\", …]` that share it";
                self.problems.rule(&link.span, reason, Some(help));
            }
        }
    }

    /// Checks and decodes one table.
    fn entry<T: DeserializeOwned>(
        &mut self,
        name: &str,
        span: Range<usize>,
        label: &str,
        table: &DeTable<'_>,
        table_span: &Range<usize>,
        shape: Shape<'_>,
    ) -> Option<Entry<T>> {
        let bad = Table { name: label, table, span: table_span }.check(&[shape], self.problems);
        let keys = Keys::of(table, table_span.clone());
        let table = decode(table, table_span, &bad, self.problems)?;
        Some(Entry { name: name.to_owned(), span, table, keys })
    }

    /// The table under a key, if it is there and a table.
    fn subtable<'t, 'i>(&mut self, table: &'t DeTable<'i>, key: &str) -> Option<(&'t DeTable<'i>, Range<usize>)> {
        let value = table.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some((table, value.span())),
            other => {
                let reason = format!("a table is needed, not {}", article(other));
                self.problems.at(&value.span(), Problem::Value { key: key.to_owned(), reason });
                None
            }
        }
    }

    /// The tables under a key, in the order of the file.
    fn named<'t, 'i>(&mut self, table: &'t DeTable<'i>, key: &str, what: &'static str) -> Vec<Named<'t, 'i>> {
        let mut found = Vec::new();
        for (name, value) in self.subtable(table, key).map(|(table, _)| table).into_iter().flatten() {
            if let DeValue::Table(table) = value.get_ref() {
                found.push(Named { name: name.get_ref(), span: name.span(), table, table_span: value.span() });
            } else {
                let reason = format!("{what} `{}` must be a table, not {}", name.get_ref(), article(value.get_ref()));
                self.problems.rule(&name.span(), reason, None);
            }
        }
        found.sort_by_key(|named| named.span.start);
        found
    }
}
