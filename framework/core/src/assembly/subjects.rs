//! The table of subjects: a name for every id, and the actor behind every traffic address.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::names::Names;
use crate::ids::{ActorId, SubjectId};
use crate::kind::Targets;
use crate::plan::Plan;
use crate::subject::{HOST, Pattern, Plane, family, subject};

/// Names and owners of subjects. Traffic families come first; everything else is interned as it is named.
#[derive(Debug, Default)]
pub struct Subjects {
    names: Names,
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
        let mut by_family: BTreeMap<String, Vec<(u32, ActorId, usize, usize)>> = BTreeMap::new();
        let mut next = 0;
        for (n, node) in plan.nodes.iter().enumerate() {
            for (row, group) in node.groups.iter().enumerate() {
                let key = format!("{}/{}", node.template, group.actor);
                by_family.entry(key).or_default().push((group.first, ActorId(next), n, row));
                next += group.count;
            }
        }
        table.owners.reserve_exact(next as usize);
        for (key, mut groups) in by_family {
            groups.sort_by_key(|group| group.0);
            let (base, node) = (SubjectId(table.names.len()), groups[0].2);
            for (_, first, n, row) in groups {
                let (node, group) = (&plan.nodes[n], &plan.nodes[n].groups[row]);
                table.family(run, Plane::Traffic, (&node.name, &group.actor), "", group.count);
                table.owners.extend((0..group.count).map(|member| ActorId(first.0 + member)));
            }
            table.families.insert(key, Family { base, len: table.names.len() - base.0, node });
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
        self.names.intern(name)
    }

    /// The id of `name`, if it is known.
    pub fn find(&self, name: &str) -> Option<SubjectId> {
        self.names.find(name)
    }

    /// The name of a subject.
    pub fn name(&self, subject: SubjectId) -> Cow<'_, str> {
        self.names.name(subject)
    }

    /// All names, by id.
    pub fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.names.rows().iter().flat_map(|row| (0..row.ids().len() as u32).map(|member| row.name(member)))
    }

    /// How many subjects there are.
    pub fn len(&self) -> u32 {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of the subjects of all `count` members of an actor, one after the other: that of the first.
    pub(super) fn family(
        &mut self,
        run: &str,
        plane: Plane,
        (node, actor): (&str, &str),
        verb: &str,
        count: u32,
    ) -> SubjectId {
        if count == 1 {
            return self.intern(&subject(run, plane, node, actor, verb));
        }
        let (head, tail) = family(run, plane, node, actor, verb);
        self.names.family(&head, &tail, count)
    }

    /// Asks `told` once for all subjects that the patterns treat alike, the first of which is named: their ids, in order.
    pub(super) fn each_alike(&self, patterns: &[&Pattern], mut told: impl FnMut(Range<u32>, &str)) {
        for row in self.names.rows() {
            let ids = row.ids();
            if patterns.iter().any(|pattern| row.is_split_by(pattern)) {
                ids.clone().for_each(|id| told(id..id + 1, &row.name(id - ids.start)));
            } else if !ids.is_empty() {
                told(ids, &row.name(0));
            }
        }
    }

    /// Forgets all names, but not whose the subjects are: a million of them take more memory than their actors.
    pub fn forget_names(&mut self) {
        self.names = Names::default();
        self.families = BTreeMap::new();
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

    /// The ids of the instances of `node/actor`: ranges in order, one for each node instance unless these are neighbours.
    pub(super) fn instances(&self, of: &str) -> Option<Vec<Range<u32>>> {
        let Family { base, len, .. } = *self.families.get(of)?;
        let mut ids: Vec<u32> = (0..len).filter_map(|i| self.owner(base.member(i))).map(|id| id.0).collect();
        ids.sort_unstable();
        let chunks = ids.chunk_by(|a, b| a + 1 == *b);
        Some(chunks.map(|chunk| chunk[0]..chunk[0] + chunk.len() as u32).collect())
    }

    /// The instances of `node/actor`, as reached from the node at row `from`.
    pub(super) fn target(&self, plan: &Plan, from: usize, to: &str) -> Option<Targets> {
        let family = self.families.get(&plan.path_to(to)?)?;
        let link = plan.link(from, family.node);
        let (carrier, exchange, stamps) = (link.carrier, link.is_exchange(), link.stamps_payload());
        Some(Targets { base: family.base, len: family.len, carrier, exchange, stamps })
    }
}
