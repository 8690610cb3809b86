//! Puts a run together: interns subjects, builds every group's pool, resolves routes. Both engines start from an [`Assembly`].

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use crate::actor::Pool;
use crate::dialogue::{Casting, Repertoire};
use crate::ids::{ActorId, RecipeId, SubjectId};
use crate::kind::{BuildError, GroupContext, MetricName, Role, StreamSpec, Weight};
use crate::payload::Recipe;
use crate::plan::{LinkSpec, Plan};
use crate::recording::{Recorded, TemplateRequest};
use crate::subject::Pattern;
use crate::time::Span;
use crate::units::ByteRange;

mod names;
mod subjects;
mod wiring;

pub use subjects::Subjects;
use wiring::{Declared, GroupWiring};

/// A run that is ready to be driven.
pub struct Assembly {
    /// What it was made from.
    pub plan: Plan,
    /// One per actor group and node instance, in the order of the plan; pools have contiguous actor ids.
    pub groups: Vec<Group>,
    /// Names of subjects, and whose they are.
    pub subjects: Subjects,
    /// How payloads are made.
    pub recipes: Vec<Arc<dyn Recipe>>,
    /// Encoders of clips that are encoded during the run; `None` in a simulation.
    pub media: Vec<Option<Arc<dyn LiveMedia>>>,
    /// Sizes of each clip's prepared frames.
    pub frame_sizes: Vec<Arc<[u32]>>,
    /// The recipe of each clip's frames.
    pub media_recipes: Vec<RecipeId>,
    subscriptions: Vec<Subscription>,
}

/// The members of one actor in one node instance.
pub struct Group {
    /// Row of [`Plan::nodes`].
    pub node: usize,
    /// Row of the node's groups.
    pub row: usize,
    /// The actor's name in the file.
    pub actor: String,
    /// Its kind.
    pub kind: &'static str,
    /// What the kind does.
    pub role: Role,
    /// The first member's id.
    pub base: ActorId,
    /// Their numbers, counted over all instances of the node.
    pub members: Range<u32>,
    /// The actors. Built in every process, run only where the node is local.
    pub pool: Box<dyn Pool>,
    /// Its streams, if it sends.
    pub streams: Option<StreamSpec>,
    /// What its exchanges weigh, if its kind says so.
    pub weight: Option<Weight>,
    /// Whether it receives, and where it must listen.
    pub serve: Option<Serve>,
    /// Names of its own counters, from [`crate::MetricId::FIRST_OWN`] on.
    pub metrics: Vec<MetricName>,
    /// The recipe of the frames it sends, if it sends whole frames: by it a receiver knows them again.
    pub frames: Option<RecipeId>,
    /// Where its snapshots are published.
    pub snapshot: SubjectId,
}

/// How a group receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serve {
    /// A fixed address, or the engine's choice.
    pub listen: Option<SocketAddr>,
}

/// Encodes frames while a run goes on. Called away from pacing threads.
pub trait LiveMedia: Send + Sync + std::fmt::Debug {
    /// Encodes frame `frame` and keeps its bytes for the recipe to send; returns their number.
    ///
    /// # Errors
    /// When the clip cannot be decoded any further.
    fn encode(&self, frame: u64) -> Result<u32, String>;
}

/// A clip's frames as a media source hands them over.
#[derive(Debug)]
pub struct ClipFrames {
    /// Renders frame `seq`.
    pub recipe: Arc<dyn Recipe>,
    /// Bytes of each prepared frame; never empty.
    pub sizes: Arc<[u32]>,
    /// Encodes during the run, when asked for and not simulated.
    pub live: Option<Arc<dyn LiveMedia>>,
}

/// A template as a media source hands it over.
#[derive(Debug)]
pub struct RecordedPackets {
    /// See [`crate::recording::Recording::recipe`].
    pub recipe: Arc<dyn Recipe>,
    /// See [`crate::recording::Recording::packets`].
    pub packets: Arc<[Recorded]>,
    /// See [`crate::recording::Recording::streams`].
    pub streams: Arc<[u32]>,
    /// See [`crate::recording::Recording::period`].
    pub period: Span,
}

/// One side of a template's conversations as a media source hands it over.
#[derive(Debug)]
pub struct CastPackets {
    /// See [`crate::dialogue::Conversations::recipe`].
    pub recipe: Arc<dyn Recipe>,
    /// See [`crate::dialogue::Conversations::repertoire`].
    pub repertoire: Repertoire,
    /// See [`crate::dialogue::Conversations::bytes`].
    pub bytes: Arc<[Vec<u32>]>,
    /// See [`crate::dialogue::Conversations::count`].
    pub count: u32,
}

/// Where clips come from: implemented by the binary over the media library.
pub trait MediaSource {
    /// Frames of the clip at `path`, each within `bytes`.
    ///
    /// # Errors
    /// When it cannot be read, decoded, or brought within the bounds.
    fn clip(&mut self, path: &Path, bytes: ByteRange, live: bool) -> Result<ClipFrames, String>;

    /// The same for a group that another process runs: nobody here needs the bytes, so they can stay away.
    ///
    /// # Errors
    /// As of [`MediaSource::clip`].
    fn clip_elsewhere(&mut self, path: &Path, bytes: ByteRange) -> Result<ClipFrames, String> {
        self.clip(path, bytes, false)
    }

    /// The bytes of a file that is sent as it is, at most [`FILE_BYTES_MAX`].
    ///
    /// # Errors
    /// When it cannot be read.
    fn file(&mut self, path: &Path) -> Result<Bytes, String> {
        Err(format!("{}: this run reads no files", path.display()))
    }

    /// The packets of a template; a file is looked for below `base`.
    ///
    /// # Errors
    /// When it cannot be found or read, or its packets do not fit what is asked for.
    fn recording(&mut self, base: &Path, request: &TemplateRequest) -> Result<RecordedPackets, BuildError> {
        let _ = base;
        Err(BuildError::of("template", format!("`{}`: this run has no templates", request.template)))
    }

    /// What one side of a template's conversations says; a file is looked for below `base`.
    ///
    /// # Errors
    /// When it cannot be found or read, or holds no conversations.
    fn conversations(
        &mut self,
        base: &Path,
        request: &TemplateRequest,
        casting: &Casting,
    ) -> Result<CastPackets, BuildError> {
        let _ = (base, casting);
        Err(BuildError::of("template", format!("`{}`: this run has no templates", request.template)))
    }
}

/// Largest file that is sent as it is, bytes. Assumed: as the largest body that is made.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A media source for runs without clips.
#[derive(Debug, Default)]
pub struct NoMedia;

impl MediaSource for NoMedia {
    fn clip(&mut self, path: &Path, _: ByteRange, _: bool) -> Result<ClipFrames, String> {
        Err(format!("{}: this run has no media library", path.display()))
    }
}

/// A group could not be built.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[error("{node}/{actor}: {source}")]
pub struct AssemblyError {
    /// The node's name in the file.
    pub node: String,
    /// The actor's name in the file.
    pub actor: String,
    /// Why.
    pub source: BuildError,
}

struct Subscription {
    pattern: Pattern,
    group: usize,
}

impl Assembly {
    /// Builds every group of `plan`.
    ///
    /// # Errors
    /// [`AssemblyError`] names the actor and key that cannot be satisfied.
    pub fn build(plan: Plan, media: &mut dyn MediaSource) -> Result<Self, AssemblyError> {
        let mut assembly = Assembly {
            subjects: Subjects::of(&plan),
            groups: Vec::new(),
            recipes: Vec::new(),
            media: Vec::new(),
            frame_sizes: Vec::new(),
            media_recipes: Vec::new(),
            subscriptions: Vec::new(),
            plan,
        };
        let plan = assembly.plan.clone();
        let mut base = 0;
        for (node, row) in
            plan.nodes.iter().enumerate().flat_map(|(n, node)| (0..node.groups.len()).map(move |r| (n, r)))
        {
            let group = assembly.group(&plan, node, row, ActorId(base), media)?;
            base += group.pool.len();
            assembly.groups.push(group);
        }
        Ok(assembly)
    }

    fn group(
        &mut self,
        plan: &Plan,
        node: usize,
        row: usize,
        base: ActorId,
        media: &mut dyn MediaSource,
    ) -> Result<Group, AssemblyError> {
        let (at, group) = (&plan.nodes[node], &plan.nodes[node].groups[row]);
        let members = group.first..group.first + group.count;
        let cx = GroupContext {
            node: &at.name,
            actor: &group.actor,
            members: members.clone(),
            sender: group.sender.as_ref(),
            run: &plan.info,
        };
        let number = self.groups.len();
        let mut wiring = GroupWiring::new(self, plan, node, row, number, media);
        let pool = group.build.build(&cx, &mut wiring).map_err(|source| AssemblyError {
            node: at.template.clone(),
            actor: group.actor.clone(),
            source,
        })?;
        let Declared { streams, weight, serve, metrics, frames } = wiring.finish();
        assert_eq!(pool.len(), group.count, "a kind builds exactly the members it was asked for");
        let snapshot = self.subjects.snapshot(&plan.info.run, &at.name, &group.actor);
        Ok(Group {
            node,
            row,
            actor: group.actor.clone(),
            kind: group.kind,
            role: group.role,
            base,
            members,
            pool,
            streams,
            weight,
            serve,
            metrics,
            frames,
            snapshot,
        })
    }

    /// For every subject, who hears it; rows of local groups only. Call it when all subjects are known.
    pub fn routes(&self) -> Routes {
        let here: Vec<&Subscription> = self.subscriptions.iter().filter(|s| self.is_local(s.group)).collect();
        let patterns: Vec<&Pattern> = here.iter().map(|s| &s.pattern).collect();
        let mut sets: Vec<Vec<ActorId>> = vec![Vec::new()];
        let mut known: BTreeMap<Vec<usize>, u32> = BTreeMap::from([(Vec::new(), 0)]);
        let mut of = Vec::with_capacity(self.subjects.len() as usize);
        self.subjects.each_alike(&patterns, |ids, name| {
            let mut hearers: Vec<usize> = here.iter().filter(|s| s.pattern.matches(name)).map(|s| s.group).collect();
            hearers.dedup();
            let set = *known.entry(hearers).or_insert_with_key(|groups| {
                let members = groups.iter().flat_map(|g| {
                    let group = &self.groups[*g];
                    (0..group.pool.len()).map(|i| ActorId(group.base.0 + i))
                });
                sets.push(members.collect());
                sets.len() as u32 - 1
            });
            of.resize(ids.end as usize, set);
        });
        Routes { of, sets }
    }

    /// For every subject, whether a group that another process runs hears it.
    pub fn heard_elsewhere(&self) -> Vec<bool> {
        let there = self.subscriptions.iter().filter(|s| !self.is_local(s.group));
        let patterns: Vec<&Pattern> = there.map(|s| &s.pattern).collect();
        let mut heard = Vec::with_capacity(self.subjects.len() as usize);
        self.subjects.each_alike(&patterns, |ids, name| {
            heard.resize(ids.end as usize, patterns.iter().any(|pattern| pattern.matches(name)));
        });
        heard
    }

    /// Whether this process runs the group.
    pub fn is_local(&self, group: usize) -> bool {
        self.plan.nodes[self.groups[group].node].local
    }

    /// The row of [`Assembly::groups`] that an actor belongs to.
    pub fn group_of(&self, actor: ActorId) -> usize {
        self.groups.partition_point(|g| g.base.0 <= actor.0) - 1
    }

    /// The link between two node instances.
    pub fn link(&self, from: usize, to: usize) -> &LinkSpec {
        self.plan.link(from, to)
    }

    /// Number of actors.
    pub fn actors(&self) -> u32 {
        self.groups.last().map_or(0, |g| g.base.0 + g.pool.len())
    }
}

/// Who hears each subject: an index by [`SubjectId`] into shared sets of actors.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    of: Vec<u32>,
    sets: Vec<Vec<ActorId>>,
}

impl Routes {
    /// Who hears `subject`.
    #[inline]
    pub fn hearers(&self, subject: SubjectId) -> &[ActorId] {
        &self.sets[self.of[subject.0 as usize] as usize]
    }
}
