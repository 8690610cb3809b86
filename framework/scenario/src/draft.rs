//! What was read from a file before its parts are checked against each other, with the place of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rehearsal_core::kind::Role;
use rehearsal_core::outside::{OUTSIDE, Url};
use rehearsal_core::plan::LinkSpec;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::ByteRange;

use crate::decode::Keys;
use crate::registry::OwnParams;
use crate::tables::{ActorTable, ExperimentTable, HostTable, NodeTable, ProvisionTable};
use crate::threshold::Threshold;
use crate::verdict::VerdictTable;

/// The tables of a file that could be decoded.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) experiment: Option<Entry<ExperimentTable>>,
    pub(crate) hosts: Vec<Entry<HostTable>>,
    pub(crate) nodes: Vec<NodeDraft>,
    /// `links.default`, as far as it is written.
    pub(crate) link: LinkDraft,
    pub(crate) links: Vec<LinkDraft>,
    pub(crate) thresholds: Vec<Limit>,
    pub(crate) provision: Option<Entry<ProvisionTable>>,
    pub(crate) verdict: Option<Entry<VerdictTable>>,
    pub(crate) names: Names,
}

/// A threshold, and where its name stands.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) threshold: Threshold,
    pub(crate) span: Range<usize>,
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

/// A link: of one pair of nodes, of the members of a cell, or the default one, which names no pair.
#[derive(Debug, Default)]
pub(crate) struct LinkDraft {
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) span: Range<usize>,
    pub(crate) link: LinkSpec,
    pub(crate) keys: Keys,
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
        let joins = |link: &&LinkDraft| link.pairs.iter().any(|(f, t)| f == from && t == node);
        self.links.iter().find(joins).map_or(&self.link.link, |link| &link.link)
    }

    /// Whether what a node sends to its sender's target has an outcome.
    pub(crate) fn is_exchange(&self, from: &str, sender: &SenderParams) -> bool {
        let to = sender.to.as_str();
        let link = self.link_to(from, if Url::is(to) { OUTSIDE } else { to });
        match Url::read(to) {
            Ok(url) => url.link(link, sender.request.as_deref()).is_exchange(),
            Err(_) => link.is_exchange(),
        }
    }
}
