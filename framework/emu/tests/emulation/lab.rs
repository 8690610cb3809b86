//! A small laboratory: plans and actors that tests put together, and what comes of a run.

use std::sync::{Arc, Mutex, PoisonError};

use rehearsal_core::assembly::{Assembly, NoMedia};
use rehearsal_core::kind::{Build, StreamSpec};
pub use rehearsal_core::plan::by_hand::built;
use rehearsal_core::plan::{Carrier, Connection, GroupPlan, LinkSpec, NodeInfo, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::run::{GroupEnd, RunEnd};
use rehearsal_core::sender::{OnLate, SenderParams, Spread};
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::units::Fraction;
use rehearsal_core::{Body, Role, Span};
use rehearsal_emu::{Control, EmuOptions, run};

/// One group named `main`, alone in its node.
pub fn node(name: &str, role: Role, count: u32, sender: Option<SenderParams>, build: Arc<dyn Build>) -> NodePlan {
    let group = GroupPlan { sender, ..GroupPlan::by_hand("main", role, count, build) };
    NodePlan { measured: role != Role::Service, ..NodePlan::by_hand(name, vec![group]) }
}

/// A plan of these nodes over one link.
pub fn plan(nodes: Vec<NodePlan>, carrier: Carrier, connection: Connection, stop: Stop) -> Plan {
    let infos =
        nodes.iter().map(|n| NodeInfo { name: n.name.clone(), sends: n.groups.iter().any(|g| g.role == Role::Sender) });
    let info = RunInfo {
        lead: Span::from_millis(20),
        grace: Span::from_secs(2),
        nodes: infos.collect(),
        ..RunInfo::by_hand("test", stop)
    };
    Plan::by_hand(info, nodes, LinkSpec { carrier, connection, ..LinkSpec::default() })
}

/// The common keys of a sender to `to`.
pub fn sender(to: &str, requests: u64) -> SenderParams {
    SenderParams {
        to: to.to_owned(),
        spread: Spread::RoundRobin,
        streams: 1,
        requests: Some(requests),
        rate: None,
        arrivals: None,
        in_flight: 1,
        on_late: OnLate::Queue,
        queue: 1000,
        timeout: Span::from_secs(10),
        retries: 0,
        backoff: Span::from_millis(1),
        limit: None,
        malformed: Fraction(0.0),
        dscp: rehearsal_core::dscp::Dscp::DF,
        request: None,
        service: None,
    }
}

/// Streams as the engine is told of them.
pub fn streams(params: &SenderParams) -> StreamSpec {
    StreamSpec {
        per_member: params.streams,
        in_flight: params.in_flight,
        queue: params.queue,
        burst: params.on_late == OnLate::Burst,
        gap: params.rate.map(|r| r.gap()),
        requests: params.requests,
        threshold: None,
        scatter: None,
        offered: None,
        ports: 1,
    }
}

/// Keeps every record.
#[derive(Clone, Default)]
pub struct Records(pub Arc<Mutex<Vec<Body>>>);

impl Records {
    pub fn all(&self) -> Vec<Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for Records {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record.clone());
        Ok(())
    }
}

/// Runs a plan to its end.
pub fn emulate(plan: Plan, options: EmuOptions, records: &Records, control: Control) -> RunEnd {
    let assembly = Assembly::build(plan, &mut NoMedia).expect("a plan that can be built");
    run(assembly, options, Box::new(records.clone()), control, Box::new(|_| {})).expect("a run that may start")
}

/// What every end must keep, whatever happened.
pub fn check_identities(end: &RunEnd) {
    for group in &end.groups {
        let t = &group.tally;
        assert!(t.consistent(), "group {}: {t:?}", group.group);
        assert_eq!((t.open(), t.open_attempts()), (0, 0), "group {}: nothing is open at the end: {t:?}", group.group);
        assert_eq!(t.generated, t.success + t.invalid + t.failed + t.lost + t.aborted);
    }
}

/// The group at `row` of the plan.
pub fn group(end: &RunEnd, row: usize) -> &GroupEnd {
    end.groups.iter().find(|g| g.group == row).expect("a group that ran")
}
