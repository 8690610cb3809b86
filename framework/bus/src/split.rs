//! Who hears each subject, seen from one shard: its own actors, and the other shards that have a hearer.

use std::collections::BTreeMap;

use rehearsal_core::assembly::Routes;
use rehearsal_core::{ActorId, SubjectId};

/// The routes of a run as one shard needs them. Subjects with the same hearers share a row.
#[derive(Debug, Default)]
pub(crate) struct Split {
    row_of: Vec<u32>,
    rows: Vec<Row>,
}

/// The hearers of some subjects.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Actors of this shard.
    pub here: Vec<ActorId>,
    /// Other shards, and how many actors hear it there.
    pub there: Vec<(usize, u64)>,
}

impl Split {
    /// The view of `shard`; `shard_of` tells where an actor lives, `beyond` who speaks for other processes, and for
    /// which subjects.
    pub(crate) fn new(
        routes: &Routes,
        subjects: u32,
        shard: usize,
        shard_of: &dyn Fn(ActorId) -> usize,
        beyond: Option<(usize, &[bool])>,
    ) -> Self {
        let mut split = Split::default();
        // equal sets are one slice in the routes: its address names it
        let mut known: BTreeMap<(usize, usize, Option<usize>), u32> = BTreeMap::new();
        for subject in 0..subjects {
            let hearers = routes.hearers(SubjectId(subject));
            let out = beyond.filter(|(_, heard)| heard[subject as usize]).map(|(peer, _)| peer);
            let name = (hearers.as_ptr() as usize, hearers.len(), out);
            let row = *known.entry(name).or_insert_with(|| {
                split.rows.push(Row::new(hearers, shard, shard_of, out));
                split.rows.len() as u32 - 1
            });
            split.row_of.push(row);
        }
        split
    }

    #[inline]
    pub(crate) fn row(&self, subject: SubjectId) -> &Row {
        &self.rows[self.row_of[subject.0 as usize] as usize]
    }
}

impl Row {
    fn new(hearers: &[ActorId], shard: usize, shard_of: &dyn Fn(ActorId) -> usize, out: Option<usize>) -> Self {
        let mut row = Row::default();
        let mut there: BTreeMap<usize, u64> = BTreeMap::new();
        for &actor in hearers {
            match shard_of(actor) {
                at if at == shard => row.here.push(actor),
                at => *there.entry(at).or_default() += 1,
            }
        }
        row.there = there.into_iter().chain(out.map(|peer| (peer, 1))).collect();
        row
    }
}
