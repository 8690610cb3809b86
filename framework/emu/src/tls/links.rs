//! Which links are encrypted and how, as far as this process has one of their ends.

use std::collections::{BTreeMap, BTreeSet};

use rehearsal_core::Role;
use rehearsal_core::assembly::{Assembly, Group};
use rehearsal_core::plan::{Carrier, LinkSpec, TlsSpec};

use super::files::Files;
use crate::error::EmuError;
use crate::world::World;

/// What a receiver takes in: its links that go over HTTP, by their rows in the plan.
#[derive(Debug, Default)]
pub(crate) struct Doors(Vec<(usize, LinkSpec, Option<TlsSpec>)>);

impl Doors {
    /// Of a receiving actor.
    pub(crate) fn of(world: &World, actor: u32) -> Doors {
        let group = &world.groups[world.group_of(actor)];
        let to = &world.plan.nodes[group.node];
        let target = format!("{}/{}", to.template, group.actor);
        let senders = world.plan.nodes.iter().filter(|node| {
            node.groups.iter().any(|group| group.sender.as_ref().is_some_and(|sender| sender.to == target))
        });
        let rows: BTreeSet<usize> = senders.map(|from| world.plan.link_row(&from.template, &to.template)).collect();
        let link = |row: usize| {
            let link = &world.plan.links[row];
            is_http(link.carrier).then(|| (row, link.clone(), link.security()))
        };
        Doors(rows.into_iter().filter_map(link).collect())
    }

    /// Rows, carriers and keys of those that are encrypted.
    pub(super) fn encrypted(&self) -> impl Iterator<Item = (usize, Carrier, &TlsSpec)> {
        self.0.iter().filter_map(|(row, link, spec)| Some((*row, link.carrier, spec.as_ref()?)))
    }

    /// Whether any comes over TCP encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted().any(|(_, carrier, _)| carrier != Carrier::Http3)
    }

    /// Whether any comes over TCP in clear; clients that nobody announced do.
    pub(crate) fn is_clear(&self) -> bool {
        let clear =
            |(_, link, spec): &(usize, LinkSpec, Option<TlsSpec>)| spec.is_none() && link.carrier != Carrier::Http3;
        self.0.is_empty() || self.0.iter().any(clear)
    }

    /// Whether any asks for that version of HTTP.
    pub(crate) fn speaks(&self, carrier: Carrier) -> bool {
        self.0.iter().any(|(_, link, _)| link.carrier == carrier)
    }

    /// Most streams, and widest windows of a stream and a connection, of the links with that carrier.
    pub(crate) fn bounds(&self, carrier: Carrier) -> Option<(u32, u32, u32)> {
        let window = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let of = |link: &LinkSpec| (link.streams(), window(link.windows().0.0), window(link.windows().1.0));
        let links = self.0.iter().filter(|(_, link, _)| link.carrier == carrier).map(|(_, link, _)| of(link));
        links.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1), a.2.max(b.2)))
    }
}

/// Reads the files of all encrypted links that have an end here; nothing is kept.
///
/// # Errors
/// When one cannot be read, or holds something else.
pub(crate) fn check(assembly: &Assembly) -> Result<(), EmuError> {
    files(assembly).map(|_| ())
}

/// The files of encrypted links that have an end here, by their rows.
pub(super) fn files(assembly: &Assembly) -> Result<BTreeMap<usize, Files>, EmuError> {
    let plan = &assembly.plan;
    let mut found = BTreeMap::new();
    for sender in assembly.groups.iter().filter(|group| group.role == Role::Sender) {
        let to = plan.nodes[sender.node].groups[sender.row].sender.as_ref();
        let to = to.and_then(|sender| plan.path_to(&sender.to));
        let is_target = |group: &&Group| {
            let node = &plan.nodes[group.node];
            to.as_ref().and_then(|to| to.split_once('/')) == Some((&node.template, &group.actor))
        };
        for target in assembly.groups.iter().filter(is_target) {
            let (from, to) = (&plan.nodes[sender.node], &plan.nodes[target.node]);
            let row = plan.link_row(&from.template, &to.template);
            let link = &plan.links[row];
            let Some(spec) = link.security().filter(|_| from.local || to.local) else { continue };
            if let std::collections::btree_map::Entry::Vacant(place) = found.entry(row) {
                place.insert(Files::read(&plan.base, link, &spec)?);
            }
        }
    }
    Ok(found)
}

fn is_http(carrier: Carrier) -> bool {
    matches!(carrier, Carrier::Http1 | Carrier::Http2 | Carrier::Http3)
}
