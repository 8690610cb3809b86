//! Puts small experiments together, runs them, and keeps what they tell.

use std::fmt;
use std::sync::Arc;

use rehearsal_core::assembly::{Assembly, ClipFrames, MediaSource};
use rehearsal_core::kind::{Build, BuildError, GroupContext, Role, Wiring};
use rehearsal_core::messages::{GroupSnapshot, HostSample};
use rehearsal_core::plan::{GroupPlan, LinkSpec, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::units::ByteRange;
use rehearsal_core::{Actor, Body, Event, Outbox, Pool, Span, Time};
use rehearsal_sim::{SimOptions, Simulation};

type Builder = dyn Fn(&GroupContext<'_>, &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> + Send + Sync;

/// A build from a closure.
pub struct Fake(Box<Builder>);

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fake")
    }
}

impl Build for Fake {
    fn build(&self, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        (self.0)(cx, wiring)
    }
}

/// One actor of a node.
pub fn group(
    actor: &str,
    role: Role,
    count: u32,
    build: impl Fn(&GroupContext<'_>, &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> + Send + Sync + 'static,
) -> GroupPlan {
    let build = Arc::new(Fake(Box::new(build)));
    GroupPlan { actor: actor.to_owned(), kind: "fake", role, count, first: 0, sender: None, build }
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
    NodePlan {
        name: name.to_owned(),
        template: name.to_owned(),
        host: None,
        vcpu: None,
        memory: None,
        foreign: false,
        outside: None,
        measured: true,
        local: true,
        groups,
    }
}

/// An experiment on one default link, with a grace of one second.
pub fn plan(nodes: Vec<NodePlan>, link: LinkSpec) -> Plan {
    let info = RunInfo {
        run: "t".to_owned(),
        stop: Stop::AllRequestsDone,
        warmup: Span::ZERO,
        cooldown: Span::ZERO,
        lead: Span::ZERO,
        grace: Span::from_secs(1),
        on_loss: Default::default(),
        control: Vec::new(),
        nodes: Vec::new(),
    };
    Plan {
        info,
        seed: 7,
        record_requests: rehearsal_core::units::Fraction(0.0),
        repetition: 0,
        base: std::path::PathBuf::new(),
        hosts: Vec::new(),
        nodes,
        links: vec![link],
        routes: Vec::new(),
    }
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
