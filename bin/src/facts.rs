//! What the bundle must know of a run: the plan before it, the engine's end after it.

use rehearsal_core::assembly::Assembly;
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{Plan, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_export::{BundleMeta, Clock, Engine, Fault, GroupFacts, HostFacts, Limits, Overcommit, RunFacts, Target};
use rehearsal_scenario::Experiment;

use crate::cli::Placement;

/// What is known before repetition `plan.repetition` runs.
pub fn meta(experiment: &Experiment, plan: &Plan, engine: Engine, csv: bool) -> BundleMeta {
    let real = engine == Engine::Emulate;
    BundleMeta {
        engine,
        experiment: plan.info.run.clone(),
        resolved: experiment.resolved_toml(),
        seed: plan.seed,
        repetition: plan.repetition,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: hosts(plan),
        warmup: plan.info.warmup,
        cooldown: plan.info.cooldown,
        planned: match plan.info.stop {
            Stop::AllRequestsDone => None,
            Stop::After(span) => Some(span),
        },
        machine: real.then(machine),
        created_unix_ns: real.then(unix_ns),
        csv,
        thresholds: crate::thresholds::of(experiment),
        limits: Limits::default(),
    }
}

fn hosts(plan: &Plan) -> Vec<HostFacts> {
    let named = plan.hosts.iter().enumerate().map(|(row, host)| HostFacts {
        name: host.name.clone(),
        cores: host.cores,
        memory_bytes: host.memory.map(|m| m.0),
        nodes: plan.nodes.iter().filter(|n| n.host == Some(row)).map(|n| n.name.clone()).collect(),
    });
    named.collect()
}

fn machine() -> String {
    let name = rustix::system::uname();
    let text = |c: &core::ffi::CStr| c.to_string_lossy().into_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{}, {} {} {}, {cores} cores",
        text(name.nodename()),
        text(name.sysname()),
        text(name.release()),
        text(name.machine())
    )
}

/// Unix time, ns.
pub fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Which groups a run has, kept from before the engine takes the assembly.
pub struct Roster {
    plan: Plan,
    placement: &'static str,
    groups: Vec<GroupFacts>,
}

impl Roster {
    /// The groups of `assembly` that this process runs.
    pub fn of(assembly: &Assembly) -> Self {
        let groups = assembly.groups.iter().map(|group| {
            let node = &assembly.plan.nodes[group.node];
            let instances = group.members.end - group.members.start;
            GroupFacts {
                node: node.name.clone(),
                template: node.template.clone(),
                actor: group.actor.clone(),
                kind: group.kind.to_owned(),
                role: group.role,
                instances,
                target: group.streams.map(|s| Target {
                    streams: u64::from(instances) * u64::from(s.per_member),
                    gap_ns: s.gap.map(|g| g.as_nanos()),
                    in_flight: s.in_flight,
                    requests: s.requests,
                    stochastic: false,
                }),
                tally: None,
                counts: Vec::new(),
            }
        });
        Roster { plan: assembly.plan.clone(), placement: "embedded", groups: groups.collect() }
    }

    /// The same, with what it gathers from the nodes' own processes.
    pub fn placed(mut self, placement: Placement) -> Self {
        if placement == Placement::Processes {
            self.placement = "processes";
            self.plan.nodes.iter_mut().for_each(|node| node.local = true);
        }
        self
    }

    /// What the bundle is finished with.
    pub fn facts(self, end: RunEnd, engine: Engine, strict: bool) -> RunFacts {
        let schedule = end.schedule_digest();
        let simulated = engine == Engine::Simulate;
        let mut groups = self.groups;
        for at in &end.groups {
            groups[at.group].tally = Some(at.tally);
            groups[at.group].counts.clone_from(&at.counts);
        }
        let nodes = &self.plan.nodes;
        groups.retain(|g| nodes.iter().any(|n| n.local && n.name == g.node));
        let limited = nodes.iter().any(|n| n.local && (n.vcpu.is_some() || n.memory.is_some()));
        let mut notes = end.notes.clone();
        if end.messages_dropped > 0 {
            notes.push(format!("{} messages found a full subscription buffer and were dropped", end.messages_dropped));
        }
        if end.late_replies > 0 {
            notes.push(format!("{} answers came after their deadline", end.late_replies));
        }
        RunFacts {
            started: end.start.unwrap_or(end.stop),
            stopped: end.stop,
            ended: end.end,
            groups,
            events: end.events,
            fingerprint: end.fingerprint.map(|f| format!("{f:016x}")),
            schedule_digest: Some(format!("{schedule:016x}")),
            start_skew_ns: None,
            faults: faults(&end),
            lost_nodes: end.lost_nodes.clone(),
            interrupted: end.reason == StopReason::Interrupted && groups_send(nodes),
            clock: Clock::One,
            limits_enforced: limited.then_some(simulated),
            calibrated: simulated.then_some(false),
            outside_calibration: Vec::new(),
            overcommitted: if simulated { overcommitted(&self.plan) } else { Vec::new() },
            placement: if simulated { "virtual" } else { self.placement }.to_owned(),
            notes,
            strict,
        }
    }
}

/// A process of receivers alone ends by an interrupt: that is no cut.
fn groups_send(nodes: &[rehearsal_core::plan::NodePlan]) -> bool {
    nodes.iter().filter(|n| n.local).flat_map(|n| &n.groups).any(|g| g.sender.is_some())
}

fn faults(end: &RunEnd) -> Vec<Fault> {
    let mut faults: Vec<Fault> = end
        .faults
        .iter()
        .map(|f| Fault { node: f.node.clone(), actor: f.actor.clone(), text: f.text.clone() })
        .collect();
    if end.reason == StopReason::NotReady {
        let text = "a node was never ready; nothing was sent".to_owned();
        faults.push(Fault { node: String::new(), actor: String::new(), text });
    }
    faults
}

fn overcommitted(plan: &Plan) -> Vec<Overcommit> {
    let rows = plan.hosts.iter().enumerate().map(|(row, host)| {
        let vcpu = plan.nodes.iter().filter(|n| n.host == Some(row)).filter_map(|n| n.vcpu).sum();
        Overcommit { host: host.name.clone(), vcpu, cores: host.cores }
    });
    rows.filter(|o| o.vcpu > f64::from(o.cores)).collect()
}
