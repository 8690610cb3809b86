//! The table of subjects: a name for every id, and the actor behind every traffic address.

use std::collections::BTreeMap;

use crate::ids::{ActorId, SubjectId};
use crate::kind::Targets;
use crate::plan::Plan;
use crate::subject::{HOST, Plane, instance, subject};

/// Names and owners of subjects. Traffic families come first; everything else is interned as it is named.
#[derive(Debug, Default)]
pub struct Subjects {
    names: Vec<String>,
    ids: BTreeMap<String, SubjectId>,
    owners: Vec<ActorId>,
    families: BTreeMap<String, Family>,
    samples: Vec<SubjectId>,
    dones: Vec<SubjectId>,
    events: Vec<SubjectId>,
}

#[derive(Debug, Clone, Copy)]
struct Family {
    base: SubjectId,
    len: u32,
    node: usize,
}

impl Subjects {
    /// The traffic families of every group, and the engine's own subjects of every node.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut table = Subjects::default();
        let run = &plan.info.run;
        // actors are numbered in the order of nodes; families gather the instances of one actor over all nodes
        let mut by_family: BTreeMap<String, Vec<(u32, String, ActorId, usize)>> = BTreeMap::new();
        let mut next = 0;
        for (n, node) in plan.nodes.iter().enumerate() {
            for group in &node.groups {
                let key = format!("{}/{}", node.template, group.actor);
                let members = by_family.entry(key).or_default();
                for i in 0..group.count {
                    let name = subject(run, Plane::Traffic, &node.name, &instance(&group.actor, i, group.count), "");
                    members.push((group.first + i, name, ActorId(next), n));
                    next += 1;
                }
            }
        }
        for (key, mut members) in by_family {
            members.sort_by_key(|m| m.0);
            let base = SubjectId(table.names.len() as u32);
            let (len, node) = (members.len() as u32, members[0].3);
            for (_, name, owner, _) in members {
                table.intern(&name);
                table.owners.push(owner);
            }
            table.families.insert(key, Family { base, len, node });
        }
        for node in &plan.nodes {
            let host = |plane, verb| subject(run, plane, &node.name, HOST, verb);
            let (sample, done, event) =
                (host(Plane::Telemetry, ""), host(Plane::Control, "done"), host(Plane::Telemetry, "event"));
            let (sample, done, event) = (table.intern(&sample), table.intern(&done), table.intern(&event));
            table.samples.push(sample);
            table.dones.push(done);
            table.events.push(event);
        }
        table
    }

    /// The id of `name`, new or known.
    pub fn intern(&mut self, name: &str) -> SubjectId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = SubjectId(self.names.len() as u32);
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// The id of `name`, if it is known.
    pub fn find(&self, name: &str) -> Option<SubjectId> {
        self.ids.get(name).copied()
    }

    /// All names, by id.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The actor behind a traffic address.
    #[inline]
    pub fn owner(&self, subject: SubjectId) -> Option<ActorId> {
        self.owners.get(subject.0 as usize).copied()
    }

    /// Where the engine publishes a node's host samples, by the node's row.
    pub fn sample(&self, node: usize) -> SubjectId {
        self.samples[node]
    }

    /// Where the engine says that a node's senders have finished.
    pub fn done(&self, node: usize) -> SubjectId {
        self.dones[node]
    }

    /// Where the engine tells what happened to a node.
    pub fn event(&self, node: usize) -> SubjectId {
        self.events[node]
    }

    pub(super) fn snapshot(&mut self, run: &str, node: &str, actor: &str) -> SubjectId {
        self.intern(&subject(run, Plane::Telemetry, node, actor, "snapshot"))
    }

    /// The instances of `node/actor`, as reached from the node at row `from`.
    pub(super) fn target(&self, plan: &Plan, from: usize, to: &str) -> Option<Targets> {
        let family = self.families.get(to)?;
        let carrier = plan.link(from, family.node).carrier;
        Some(Targets { base: family.base, len: family.len, carrier })
    }
}
