//! Puts small experiments together, runs them, and keeps what they tell.

use std::sync::Arc;

use rehearsal_core::assembly::{Assembly, ClipFrames, MediaSource};
use rehearsal_core::kind::{BuildError, GroupContext, Role, Wiring};
use rehearsal_core::messages::{GroupSnapshot, HostSample};
use rehearsal_core::plan::by_hand::built;
use rehearsal_core::plan::{GroupPlan, LinkSpec, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::units::ByteRange;
use rehearsal_core::{Actor, Body, Event, Outbox, Pool, Span, Time};
use rehearsal_sim::{SimOptions, Simulation};

/// One actor of a node.
pub fn group(
    actor: &str,
    role: Role,
    count: u32,
    build: impl Fn(&GroupContext<'_>, &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> + Send + Sync + 'static,
) -> GroupPlan {
    GroupPlan::by_hand(actor, role, count, built(build))
}

/// An actor that is a closure, with one timer.
pub struct Act<F>(pub F);

impl<F: FnMut(Time, Event<'_>, &mut Outbox) + Send> Actor for Act<F> {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        (self.0)(now, event, out);
    }
}

/// A pool of one such actor.
pub fn act<F: FnMut(Time, Event<'_>, &mut Outbox) + Send + 'static>(f: F) -> Result<Box<dyn Pool>, BuildError> {
    Ok(Box::new(vec![Act(f)]))
}

/// One node instance.
pub fn node(name: &str, groups: Vec<GroupPlan>) -> NodePlan {
    NodePlan::by_hand(name, groups)
}

/// An experiment on one default link, with a grace of one second.
pub fn plan(nodes: Vec<NodePlan>, link: LinkSpec) -> Plan {
    let info = RunInfo { grace: Span::from_secs(1), ..RunInfo::by_hand("t", Stop::AllRequestsDone) };
    Plan { seed: 7, ..Plan::by_hand(info, nodes, link) }
}

/// Everything that was stored, in order.
#[derive(Default)]
pub struct Kept {
    pub snapshots: Vec<GroupSnapshot>,
    pub hosts: Vec<HostSample>,
    pub refuse: bool,
}

impl Sink for Kept {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        if self.refuse {
            return Err(SinkError("the disk is full".to_owned()));
        }
        if let Ok(snapshot) = record.get::<GroupSnapshot>() {
            self.snapshots.push(snapshot.into_owned());
        } else if let Ok(host) = record.get::<HostSample>() {
            self.hosts.push(host.into_owned());
        } else {
            return Err(SinkError("what is this?".to_owned()));
        }
        Ok(())
    }
}

/// A clip of three frames.
pub struct ThreeFrames;

impl MediaSource for ThreeFrames {
    fn clip(&mut self, _: &std::path::Path, _: ByteRange, _: bool) -> Result<ClipFrames, String> {
        let recipe = Arc::new(crate::actors::Plain { malformed: false });
        Ok(ClipFrames { recipe, sizes: Arc::from([100, 200, 300]), live: None })
    }
}

/// Runs a plan to its end.
pub fn run_with(plan: Plan, options: SimOptions, kept: &mut Kept) -> RunEnd {
    let assembly = Assembly::build(plan, &mut ThreeFrames).expect("a plan of ours can be built");
    Simulation::new(assembly, options).run(kept, &mut |_| {})
}

/// Runs a plan to its end; what was stored is returned too.
pub fn run(plan: Plan) -> (RunEnd, Kept) {
    let mut kept = Kept::default();
    let end = run_with(plan, SimOptions::default(), &mut kept);
    (end, kept)
}
