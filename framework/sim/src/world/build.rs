//! The world at the beginning, made from an assembly.

use rehearsal_core::assembly::{Assembly, Group, Routes};
use rehearsal_core::kind::{Role, StreamSpec};
use rehearsal_core::parts::deadlines::Deadlines;
use rehearsal_core::parts::gates::Gates;
use rehearsal_core::parts::ladder::Ladder;
use rehearsal_core::parts::ledger::Ledger;
use rehearsal_core::parts::ledger::Scratch;
use rehearsal_core::parts::slab::Slab;
use rehearsal_core::plan::{NodePlan, Plan};
use rehearsal_core::{Pool, Time};

use super::links::Links;
use super::seats::{GroupState, NodeState, Seat};
use super::timers::Timers;
use super::work::Cores;
use super::{Phase, World};
use crate::SimOptions;

/// Sources that an event's key can tell apart (28 bits), the engine among them.
const SOURCES_MAX: usize = 1 << 28;

impl World {
    /// The world of `assembly`, whose groups were taken out of it, and its actors.
    pub(crate) fn new(
        assembly: Assembly,
        groups: Vec<Group>,
        routes: Routes,
        options: SimOptions,
    ) -> (Vec<Box<dyn Pool>>, World) {
        let Assembly { plan, subjects, recipes, frame_sizes, media_recipes, .. } = assembly;
        let Cast { pools, nodes, groups, seats, timers } = Cast::of(&plan, groups);
        let world = World {
            now: Time::ZERO,
            phase: Phase::Running,
            stop_wanted: None,
            sampled: false,
            queue: Ladder::new(),
            seats,
            groups,
            timers: Timers::new(timers),
            exchanges: Slab::default(),
            deadlines: Deadlines::default(),
            letters: Slab::default(),
            made: Slab::default(),
            flights: Slab::default(),
            flows: Slab::default(),
            links: Links::new(nodes.len()),
            nodes,
            routes,
            subjects,
            plan,
            malformed: recipes.iter().map(|recipe| recipe.malformed()).collect(),
            clips: media_recipes.into_iter().zip(frame_sizes).collect(),
            wire: options.wire,
            events_max: options.events_max,
            beat_events_max: options.beat_events_max,
            events: 0,
            standing: 0,
            fingerprint: 0,
            start: None,
            stop: None,
            grace_over: false,
            closing: None,
            second: 0,
            scratch: Scratch::default(),
            outcomes_due: 0,
            flights_due: 0,
            stores_due: 0,
            messages_dropped: 0,
            late_replies: 0,
            stale_answers: 0,
            flow_changes: 0,
            sink_failed: false,
            faults: Vec::new(),
        };
        (pools, world)
    }
}

/// Who takes part.
struct Cast {
    pools: Vec<Box<dyn Pool>>,
    nodes: Vec<NodeState>,
    groups: Vec<GroupState>,
    /// One for each actor, and the engine's.
    seats: Vec<Seat>,
    /// All timers of all actors.
    timers: u32,
}

impl Cast {
    fn of(plan: &Plan, groups: Vec<Group>) -> Self {
        let nodes = plan.nodes.iter().map(|node| NodeState::of(plan, node)).collect();
        let mut cast = Cast { pools: Vec::new(), nodes, groups: Vec::new(), seats: Vec::new(), timers: 0 };
        for (row, group) in groups.into_iter().enumerate() {
            let node = &mut cast.nodes[group.node];
            let (count, stride, local) = (group.pool.len(), group.pool.timers(), node.local);
            if group.role == Role::Sender {
                node.unfinished += count;
                node.awaited = true;
            }
            cast.seats.extend((0..count).map(|_| Seat { group: row as u32, dead: !local, ..Seat::default() }));
            cast.groups.push(state_of(&group, cast.timers, stride, local));
            cast.timers += stride * count;
            cast.pools.push(group.pool);
        }
        cast.seats.push(Seat { group: u32::MAX, ..Seat::default() });
        assert!(cast.seats.len() <= SOURCES_MAX, "at most 2^28 actors");
        cast
    }
}

impl NodeState {
    fn of(plan: &Plan, node: &NodePlan) -> Self {
        NodeState {
            name: node.name.clone(),
            cores: Cores::of(plan, node),
            unfinished: 0,
            open: 0,
            awaited: false,
            local: node.local,
        }
    }
}

fn state_of(group: &Group, timers: u32, stride: u32, local: bool) -> GroupState {
    let count = group.pool.len();
    GroupState {
        node: group.node as u32,
        base: group.base.0,
        count,
        first_member: group.members.start,
        timers,
        stride,
        local,
        sends: group.role == Role::Sender,
        actor: group.actor.clone(),
        kind: group.kind,
        metrics: group.metrics.clone(),
        snapshot: group.snapshot,
        gates: Gates::new(group.streams.unwrap_or(StreamSpec::UNDECLARED), count),
        ledger: Ledger::default(),
        delivered: 0,
    }
}
