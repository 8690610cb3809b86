//! What all shards of a run read and none changes, and the few counters they share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rehearsal_core::assembly::{Assembly, LiveMedia, Serve, Subjects};
use rehearsal_core::dscp::Dscp;
use rehearsal_core::kind::{MetricName, StreamSpec};
use rehearsal_core::payload::Recipe;
use rehearsal_core::plan::Plan;
use rehearsal_core::subject::instance;
use rehearsal_core::{ActorId, Pool, RecipeId, Role, SubjectId, Time};

use crate::clock::Clock;
use crate::http::form::Form;
use crate::http::step::{Steps, steps};
use crate::options::EmuOptions;
use crate::tls::Trust;

/// A run as its shards see it.
pub(crate) struct World {
    pub plan: Plan,
    pub options: EmuOptions,
    pub clock: Clock,
    pub subjects: Subjects,
    pub recipes: Vec<Arc<dyn Recipe>>,
    /// Those of them that are steps of users' scripts.
    pub steps: Steps,
    pub media: Vec<Option<Arc<dyn LiveMedia>>>,
    pub media_recipes: Vec<RecipeId>,
    pub frame_sizes: Vec<Arc<[u32]>>,
    pub groups: Vec<GroupInfo>,
    /// Where receivers listen, as far as it was known at the beginning.
    pub addresses: BTreeMap<ActorId, SocketAddr>,
    /// Where receivers in other processes listen, known before traffic begins.
    pub addresses_elsewhere: OnceLock<BTreeMap<ActorId, SocketAddr>>,
    /// The shard of each node.
    pub shard_of: Vec<usize>,
    pub shards: usize,
    /// Tells this run's datagrams from others.
    pub run_hash: u16,
    pub shared: Shared,
    /// Who this process is to its peers, and whom it trusts.
    pub trust: Trust,
    group_of: Vec<u32>,
}

/// A group without its actors.
pub(crate) struct GroupInfo {
    pub node: usize,
    pub actor: String,
    pub kind: &'static str,
    pub role: Role,
    pub base: u32,
    pub members: Range<u32>,
    pub streams: Option<StreamSpec>,
    pub serve: Option<Serve>,
    pub metrics: Vec<MetricName>,
    pub snapshot: SubjectId,
    pub timers: u32,
    /// The class of what it sends.
    pub dscp: Dscp,
    /// What its requests look like, if they go to a target outside.
    pub form: Option<Arc<Form>>,
    /// By what the whole frames that it sends are known again.
    pub frames: Option<RecipeId>,
}

/// Counters that shards share. None is touched for each request.
pub(crate) struct Shared {
    start: AtomicU64,
    /// When the last shard woke for the beginning of traffic, ns; 0 as long as none has.
    begun: AtomicU64,
    /// Datagrams that arrived, each counted once, by the group that sent them.
    pub arrived: Vec<AtomicU64>,
    /// Whether a receiver in another process has moved, and where to: a new process of it could not listen at the same
    /// address. Not looked at before one has.
    moved: AtomicBool,
    moved_to: Mutex<BTreeMap<ActorId, SocketAddr>>,
    /// Records that the sink has not stored yet.
    pub stores: AtomicU64,
    /// When each shard's pacer last ran, ns: a watchdog's food.
    pub beats: Vec<AtomicU64>,
}

/// A group's number and its actors, which go to one shard.
pub(crate) type Actors = (usize, Box<dyn Pool>);

impl World {
    /// Takes an assembly apart: what all shards read, and the actors of local nodes.
    pub(crate) fn new(
        assembly: Assembly,
        options: EmuOptions,
        shard_of: Vec<usize>,
        shards: usize,
        addresses: BTreeMap<ActorId, SocketAddr>,
    ) -> (World, Vec<Actors>) {
        let Assembly { plan, groups, subjects, recipes, media, media_recipes, frame_sizes, .. } = assembly;
        let (mut infos, mut actors, mut group_of) = (Vec::new(), Vec::new(), Vec::new());
        for (row, group) in groups.into_iter().enumerate() {
            group_of.extend(std::iter::repeat_n(row as u32, group.pool.len() as usize));
            infos.push(GroupInfo {
                node: group.node,
                actor: group.actor,
                kind: group.kind,
                role: group.role,
                base: group.base.0,
                members: group.members,
                streams: group.streams,
                serve: group.serve,
                metrics: group.metrics,
                snapshot: group.snapshot,
                timers: group.pool.timers(),
                dscp: plan.dscp(group.node, group.row),
                form: form(&plan, group.node, group.row),
                frames: group.frames,
            });
            if plan.nodes[group.node].local {
                actors.push((row, group.pool));
            }
        }
        let shared = Shared {
            start: AtomicU64::new(u64::MAX),
            begun: AtomicU64::new(0),
            arrived: infos.iter().map(|_| AtomicU64::new(0)).collect(),
            moved: AtomicBool::new(false),
            moved_to: Mutex::default(),
            stores: AtomicU64::new(0),
            beats: (0..shards).map(|_| AtomicU64::new(0)).collect(),
        };
        let run_hash = fnv(plan.info.run.as_bytes()) ^ plan.repetition as u16;
        let clock = options.remote.as_ref().map_or_else(Clock::start, |remote| Clock::since(remote.epoch_ns));
        let world = World {
            plan,
            options,
            clock,
            subjects,
            steps: steps(&recipes),
            recipes,
            media,
            media_recipes,
            frame_sizes,
            groups: infos,
            addresses,
            addresses_elsewhere: OnceLock::new(),
            shard_of,
            shards,
            run_hash,
            shared,
            trust: Trust::none(),
            group_of,
        };
        (world, actors)
    }

    /// The number of an actor's group.
    #[inline]
    pub(crate) fn group_of(&self, actor: u32) -> usize {
        self.group_of[actor as usize] as usize
    }

    /// Whether there is such an actor: numbers that came over a network are asked first.
    pub(crate) fn knows(&self, actor: ActorId) -> bool {
        (actor.0 as usize) < self.group_of.len()
    }

    /// The shard of an actor.
    pub(crate) fn shard_of(&self, actor: ActorId) -> usize {
        self.shard_of[self.groups[self.group_of(actor.0)].node]
    }

    /// Shards that have a sender; at least one.
    pub(crate) fn sending_shards(&self) -> usize {
        let sending = self.groups.iter().filter(|g| g.role == Role::Sender && self.plan.nodes[g.node].local);
        sending.map(|g| self.shard_of[g.node]).collect::<BTreeSet<_>>().len().max(1)
    }

    /// Where a receiver listens, if that is known.
    pub(crate) fn address(&self, actor: ActorId) -> Option<SocketAddr> {
        if self.shared.moved.load(Ordering::Acquire)
            && let Some(address) = self.lock_moved().get(&actor)
        {
            return Some(*address);
        }
        let known = self.addresses.get(&actor).or_else(|| self.addresses_elsewhere.get()?.get(&actor));
        known.copied()
    }

    /// Whether a receiver has moved: what was known of addresses may be wrong.
    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        self.shared.moved.load(Ordering::Acquire)
    }

    /// Receivers in other processes listen at `known`; those that listened elsewhere before have moved.
    pub(crate) fn learn(&self, known: BTreeMap<ActorId, SocketAddr>) {
        if let Err(known) = self.addresses_elsewhere.set(known) {
            for (actor, address) in known.into_iter().filter(|(actor, address)| self.address(*actor) != Some(*address))
            {
                self.lock_moved().insert(actor, address);
                self.shared.moved.store(true, Ordering::Release);
            }
        }
    }

    fn lock_moved(&self) -> std::sync::MutexGuard<'_, BTreeMap<ActorId, SocketAddr>> {
        self.shared.moved_to.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Which process of its node this is, from 0.
    pub(crate) fn incarnation(&self) -> u32 {
        self.options.remote.as_ref().map_or(0, |remote| remote.succession.incarnation)
    }

    /// Whether this process runs the group at `row`.
    pub(crate) fn is_local(&self, row: usize) -> bool {
        self.plan.nodes[self.groups[row].node].local
    }

    /// The instance names of an actor's node and of itself.
    pub(crate) fn names(&self, actor: u32) -> (&str, String) {
        let group = &self.groups[self.group_of(actor)];
        let count = group.members.end - group.members.start;
        (&self.plan.nodes[group.node].name, instance(&group.actor, actor - group.base, count))
    }

    /// When traffic begins, once that is known.
    #[inline]
    pub(crate) fn start(&self) -> Option<Time> {
        match self.shared.start.load(Ordering::Acquire) {
            u64::MAX => None,
            ns => Some(Time::from_nanos(ns)),
        }
    }

    /// A shard has woken for the beginning of traffic.
    pub(crate) fn has_begun(&self, now: Time) {
        self.shared.begun.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// When the last shard had, if any has.
    pub(crate) fn begun(&self) -> Option<Time> {
        Some(Time::from_nanos(self.shared.begun.load(Ordering::Acquire))).filter(|at| *at > Time::ZERO)
    }

    /// Traffic begins at `at`; the first to say so is heard. True if it is this one.
    pub(crate) fn begin(&self, at: Time) -> bool {
        let ns = at.as_nanos();
        self.shared.start.compare_exchange(u64::MAX, ns, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// What requests of a group look like, if they go to a target outside.
fn form(plan: &Plan, node: usize, row: usize) -> Option<Arc<Form>> {
    let (node, group) = (&plan.nodes[node], &plan.nodes[node].groups[row]);
    Form::of(group.sender.as_ref()?, &node.name, &group.actor).map(Arc::new)
}

/// FNV-1a folded to 16 bits.
fn fnv(bytes: &[u8]) -> u16 {
    let hash = bytes.iter().fold(0x811C_9DC5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    (hash >> 16) as u16 ^ hash as u16
}
