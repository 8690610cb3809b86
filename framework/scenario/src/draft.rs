//! What was read from a file before its parts are checked against each other, with the place of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rehearsal_core::kind::Role;
use rehearsal_core::plan::LinkSpec;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::ByteRange;

use crate::decode::Keys;
use crate::registry::OwnParams;
use crate::tables::{ActorTable, ExperimentTable, HostTable, NodeTable};
use crate::threshold::Threshold;

/// The tables of a file that could be decoded.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) experiment: Option<Entry<ExperimentTable>>,
    pub(crate) hosts: Vec<Entry<HostTable>>,
    pub(crate) nodes: Vec<NodeDraft>,
    /// `links.default`, as far as it is written.
    pub(crate) link: LinkDraft,
    pub(crate) links: Vec<LinkDraft>,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) names: Names,
}

/// A decoded table.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) name: String,
    /// Where its name stands.
    pub(crate) span: Range<usize>,
    pub(crate) table: T,
    pub(crate) keys: Keys,
}

#[derive(Debug)]
pub(crate) struct NodeDraft {
    pub(crate) node: Entry<NodeTable>,
    pub(crate) actors: Vec<ActorDraft>,
}

#[derive(Debug)]
pub(crate) struct ActorDraft {
    pub(crate) actor: Entry<ActorTable>,
    pub(crate) kind: &'static str,
    pub(crate) role: Role,
    pub(crate) sender: Option<SenderParams>,
    pub(crate) own: OwnParams,
    /// Bytes of one request, where a sender's own keys tell.
    pub(crate) request_bytes: Option<ByteRange>,
}

/// A link between two nodes; the default one names none.
#[derive(Debug, Default)]
pub(crate) struct LinkDraft {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) span: Range<usize>,
    pub(crate) link: LinkSpec,
}

/// Every name in the file, also of tables that could not be decoded: a second error about those would mislead.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) hosts: BTreeSet<String>,
    /// Node, its actors, and their roles where the kind is known.
    pub(crate) nodes: BTreeMap<String, BTreeMap<String, Option<Role>>>,
}

impl Draft {
    /// The link from a node to a sender's target.
    pub(crate) fn link_to(&self, from: &str, to: &str) -> &LinkSpec {
        let node = to.split('/').next().unwrap_or_default();
        self.links.iter().find(|link| link.from == from && link.to == node).map_or(&self.link.link, |link| &link.link)
    }
}
