//! The wiring of one group while it is built.

use core::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::{Assembly, CastPackets, MediaSource, Serve, Subscription};
use crate::dialogue::{Casting, Conversations};
use crate::ids::{MediaId, MetricId, RecipeId, SubjectId};
use crate::kind::{BuildError, FrameRequest, Frames, MetricName, StreamSpec, Targets, Weight, Wiring};
use crate::payload::{Payload, Recipe};
use crate::plan::Plan;
use crate::recording::{Recording, TemplateRequest};
use crate::rng::{RngStream, Seed};
use crate::subject::{Pattern, Plane};

pub(super) struct GroupWiring<'a> {
    assembly: &'a mut Assembly,
    plan: &'a Plan,
    node: usize,
    row: usize,
    number: usize,
    media: &'a mut dyn MediaSource,
    group: String,
    streams: Option<StreamSpec>,
    weight: Option<Weight>,
    serve: Option<Serve>,
    metrics: Vec<MetricName>,
    frames: Option<RecipeId>,
}

/// What a group has declared of itself.
pub(super) struct Declared {
    pub(super) streams: Option<StreamSpec>,
    pub(super) weight: Option<Weight>,
    pub(super) serve: Option<Serve>,
    pub(super) metrics: Vec<MetricName>,
    pub(super) frames: Option<RecipeId>,
}

impl<'a> GroupWiring<'a> {
    pub(super) fn new(
        assembly: &'a mut Assembly,
        plan: &'a Plan,
        node: usize,
        row: usize,
        number: usize,
        media: &'a mut dyn MediaSource,
    ) -> Self {
        let at = &plan.nodes[node];
        let group = format!("{}/{}", at.template, at.groups[row].actor);
        let (streams, weight, serve, metrics, frames) = (None, None, None, Vec::new(), None);
        GroupWiring { assembly, plan, node, row, number, media, group, streams, weight, serve, metrics, frames }
    }

    pub(super) fn finish(self) -> Declared {
        let GroupWiring { streams, weight, serve, metrics, frames, .. } = self;
        Declared { streams, weight, serve, metrics, frames }
    }
}

impl Wiring for GroupWiring<'_> {
    fn subject(&mut self, name: &str) -> Result<SubjectId, BuildError> {
        let pattern = Pattern::new(name).map_err(|why| BuildError::group(format!("subject `{name}`: {why}")))?;
        if !pattern.is_literal() {
            return Err(BuildError::group(format!("subject `{name}`: a wildcard cannot be published to")));
        }
        Ok(self.assembly.subjects.intern(name))
    }

    fn own(&mut self, plane: Plane, verb: &str) -> SubjectId {
        let at = &self.plan.nodes[self.node];
        let group = &at.groups[self.row];
        self.assembly.subjects.family(&self.plan.info.run, plane, (&at.name, &group.actor), verb, group.count)
    }

    fn subscribe(&mut self, pattern: &str) -> Result<(), BuildError> {
        let pattern = Pattern::new(pattern).map_err(|why| BuildError::group(format!("pattern `{pattern}`: {why}")))?;
        self.assembly.subscriptions.push(Subscription { pattern, group: self.number });
        Ok(())
    }

    fn target(&mut self, to: &str) -> Result<Targets, BuildError> {
        self.assembly
            .subjects
            .target(self.plan, self.node, to)
            .ok_or_else(|| BuildError::of("to", format!("there is no `{to}`; write `node/actor`")))
    }

    fn instances(&mut self, of: &str) -> Result<Vec<Range<u32>>, BuildError> {
        let known = self.assembly.subjects.instances(of);
        known.ok_or_else(|| BuildError::group(format!("there is no `{of}`; write `node/actor`")))
    }

    fn streams(&mut self, spec: StreamSpec) {
        self.streams = Some(spec);
    }

    fn weight(&mut self, weight: Weight) {
        self.weight = Some(weight);
    }

    fn serve(&mut self, listen: Option<SocketAddr>) {
        self.serve = Some(Serve { listen });
    }

    fn recipe(&mut self, recipe: Arc<dyn Recipe>) -> RecipeId {
        let id = RecipeId(self.assembly.recipes.len() as u16);
        assert!(id < Payload::RECEIVED, "at most 65,535 recipes");
        self.assembly.recipes.push(recipe);
        id
    }

    fn frames(&mut self, request: &FrameRequest) -> Result<Frames, BuildError> {
        let path = self.plan.base.join(&request.media);
        let clip = match self.plan.nodes[self.node].local {
            true => self.media.clip(&path, request.bytes, request.live),
            false => self.media.clip_elsewhere(&path, request.bytes),
        };
        let clip = clip.map_err(|why| BuildError::of("media", why))?;
        let recipe = self.recipe(clip.recipe);
        let media = MediaId(self.assembly.media.len() as u16);
        self.assembly.media.push(clip.live);
        self.assembly.frame_sizes.push(clip.sizes.clone());
        self.assembly.media_recipes.push(recipe);
        Ok(Frames { recipe, media, sizes: clip.sizes })
    }

    fn file(&mut self, path: &Path) -> Result<Bytes, BuildError> {
        let path = self.plan.base.join(path);
        self.media.file(&path).map_err(|why| BuildError::of("request", why))
    }

    fn recording(&mut self, request: &TemplateRequest) -> Result<Recording, BuildError> {
        let found = self.media.recording(&self.plan.base, request)?;
        let recipe = self.recipe(found.recipe);
        self.frames = request.frames.then_some(recipe);
        Ok(Recording { recipe, packets: found.packets, streams: found.streams, period: found.period })
    }

    fn conversations(&mut self, request: &TemplateRequest, casting: &Casting) -> Result<Conversations, BuildError> {
        let CastPackets { recipe, repertoire, bytes, count } =
            self.media.conversations(&self.plan.base, request, casting)?;
        let recipe = self.recipe(recipe);
        self.frames = request.frames.then_some(recipe);
        Ok(Conversations { recipe, repertoire, bytes, count })
    }

    fn metric_named(&mut self, name: MetricName) -> MetricId {
        let known = self.metrics.iter().position(|m| *m == name);
        let place = known.unwrap_or_else(|| {
            self.metrics.push(name);
            self.metrics.len() - 1
        });
        MetricId(MetricId::FIRST_OWN + place as u16)
    }

    fn rng(&self, member: u32, stream: u32, purpose: &str) -> RngStream {
        let (seed, repetition, group) = (self.plan.seed, self.plan.repetition, self.group.as_str());
        RngStream::new(Seed { seed, repetition, group, member, stream, purpose })
    }
}
