//! The world at the beginning, made from an assembly.

use rehearsal_core::assembly::{Assembly, Group, Routes};
use rehearsal_core::dscp::Dscp;
use rehearsal_core::kind::{Role, StreamSpec};
use rehearsal_core::parts::deadlines::Deadlines;
use rehearsal_core::parts::gates::Gates;
use rehearsal_core::parts::ledger::Ledger;
use rehearsal_core::parts::ledger::Scratch;
use rehearsal_core::parts::queue::Queue;
use rehearsal_core::parts::slab::Slab;
use rehearsal_core::plan::{NodePlan, Plan};
use rehearsal_core::{Pool, Time};
use rehearsal_models::path::Links;
use rehearsal_models::seen::Arrivals;

use super::cores::{Desk, Machine};
use super::costs::{Costs, Store};
use super::messages::CONTROL_LATENCY;
use super::pacing::Pacer;
use super::seats::{GroupState, NodeState, Seat, TIMERS_NEAR};
use super::timers::Timers;
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
        let Assembly { plan, mut subjects, recipes, frame_sizes, media_recipes, .. } = assembly;
        // numbers are enough from here on
        subjects.forget_names();
        let Cast { pools, nodes, groups, seats, timers } = Cast::of(&plan, groups, &options);
        let known = options.calibration.as_deref().map(|c| c.messages).unwrap_or_default();
        let tls = options.calibration.as_deref().map(|c| c.tls).unwrap_or_default();
        let world = World {
            now: Time::ZERO,
            phase: Phase::Running,
            stop_wanted: None,
            steers: Vec::new(),
            sampled: false,
            crossings: None,
            until: Time::MAX,
            until_span: options.until,
            halted_at: None,
            queue: Queue::default(),
            seats,
            groups,
            timers: Timers::new(timers),
            exchanges: Slab::default(),
            deadlines: Deadlines::default(),
            letters: Slab::default(),
            made: Slab::default(),
            flights: Slab::default(),
            flows: Slab::default(),
            links: Links::all(nodes.len()).with_handshakes(tls.full.span(), tls.resumed.span()),
            arrivals: Arrivals::default(),
            broker: options.broker.or(known.broker),
            control: known.control.unwrap_or(CONTROL_LATENCY),
            machines: Machine::of(&plan),
            costs: options.calibration.map(Costs::new),
            brokered: false,
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
            events_before: 0,
            events_end: options.events_max.min(options.beat_events_max),
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
    /// Marks of timers that are in no seat.
    timers: u32,
}

impl Cast {
    fn of(plan: &Plan, groups: Vec<Group>, options: &SimOptions) -> Self {
        let nodes = plan.nodes.iter().map(|node| NodeState::of(plan, node, options)).collect();
        let mut cast = Cast { pools: Vec::new(), nodes, groups: Vec::new(), seats: Vec::new(), timers: 0 };
        // to the actor, and the engine: a table that doubles would waste as much as it holds
        cast.seats.reserve_exact(groups.iter().map(|group| group.pool.len() as usize).sum::<usize>() + 1);
        for (row, group) in groups.into_iter().enumerate() {
            let node = &mut cast.nodes[group.node];
            let (count, stride, local) = (group.pool.len(), group.pool.timers(), node.local);
            // what is outside is in no book, and answers all the same
            let dead = !local && plan.nodes[group.node].outside.is_none();
            if group.role == Role::Sender {
                node.pacer.sends_every(group.streams.as_ref().and_then(|streams| streams.gap));
                node.unfinished += count;
                node.awaited = true;
            }
            cast.seats.extend((0..count).map(|_| Seat { group: row as u32, dead, ..Seat::default() }));
            let mut state = state_of(&group, cast.timers, stride, local);
            state.ledger = Ledger::recording(state.first_member, plan.record_requests);
            let to = plan.nodes[group.node].groups[group.row].sender.as_ref().map(|sender| sender.to.as_str());
            if to.and_then(|to| plan.outside_of(to)).is_some_and(|outside| !outside.known) {
                state.ledger.forget_times();
            }
            state.dscp = plan.dscp(group.node, group.row);
            cast.groups.push(state);
            cast.timers += stride.saturating_sub(TIMERS_NEAR as u32) * count;
            cast.pools.push(group.pool);
        }
        cast.seats.push(Seat { group: u32::MAX, ..Seat::default() });
        assert!(cast.seats.len() <= SOURCES_MAX, "at most 2^28 actors");
        cast
    }
}

impl NodeState {
    fn of(plan: &Plan, node: &NodePlan, options: &SimOptions) -> Self {
        NodeState {
            name: node.name.clone(),
            desk: Desk::of(plan, node, options),
            store: Store::of(plan, node, options.calibration.as_deref()),
            pacer: Pacer::of(options.calibration.as_deref().and_then(|c| c.pacing.quantum).unwrap_or_default()),
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
        dscp: Dscp::DF,
        gates: Gates::lent(group.streams.unwrap_or(StreamSpec::UNDECLARED), count),
        ledger: Ledger::default(),
        delivered: 0,
    }
}
