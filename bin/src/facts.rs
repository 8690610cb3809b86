//! What the bundle must know of a run: the plan before it, the engine's end after it.

use rehearsal_core::Time;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::calibration::Calibration;
use rehearsal_core::kind::Scatter;
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{Plan, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_export::{
    BundleMeta, Clock, Engine, Fault, GroupFacts, HostFacts, NodeStart, Overcommit, RunFacts, Target, TargetAddresses,
};
use rehearsal_scenario::{Experiment, OutsideSpec};

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
        targets: if real { targets(experiment) } else { Vec::new() },
        csv,
        latency_interval: experiment.latency_interval,
        thresholds: crate::thresholds::of(experiment),
        limits: crate::limits::of(experiment),
        attached: crate::attached::of(experiment),
        ..BundleMeta::default()
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

fn targets(experiment: &Experiment) -> Vec<TargetAddresses> {
    let one = |outside: &OutsideSpec| TargetAddresses {
        target: outside.url.origin(),
        addresses: outside.addresses.iter().map(ToString::to_string).collect(),
        used: outside.address.map(|address| address.to_string()).unwrap_or_default(),
    };
    experiment.outside.iter().map(one).collect()
}

/// What a reader of a dry run must know of targets outside.
pub fn outside_notes(experiment: &Experiment) -> Vec<String> {
    let note = |outside: &OutsideSpec| {
        let origin = outside.url.origin();
        match outside.service {
            Some(service) => format!(
                "{origin} was taken to serve {} requests at a time in {} each, as the file says",
                service.workers, service.time
            ),
            None => format!(
                "how long {origin} takes is not known, so times of exchanges with it are not told: give its senders \
                 `service = {{ time = \"5ms\" }}`"
            ),
        }
    };
    experiment.outside.iter().map(note).collect()
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

/// Whether nodes were held to their limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enforcement {
    /// Whether they were.
    pub enforced: bool,
    /// Why not.
    pub why: Option<String>,
    /// Hosts with more enforced vCPU than cores.
    pub overcommitted: Vec<Overcommit>,
}

/// Which groups a run has, kept from before the engine takes the assembly.
pub struct Roster {
    plan: Plan,
    placement: &'static str,
    enforcement: Enforcement,
    /// Of a dry run: what to call its calibration, and whether somebody measured it.
    calibration: Option<(String, bool)>,
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
                    offered_per_second: s.offered.map(|gap| f64::from(instances) / gap.as_secs_f64()),
                    in_flight: s.in_flight,
                    requests: s.requests,
                    stochastic: s.scatter.is_some(),
                    dispersion: match s.scatter {
                        Some(Scatter::Dispersion(thousandths)) => Some(thousandths as f64 / 1e3),
                        Some(Scatter::Unknown) | None => None,
                    },
                }),
                tally: None,
                counts: Vec::new(),
            }
        });
        Roster {
            plan: assembly.plan.clone(),
            placement: "embedded",
            enforcement: Enforcement::default(),
            calibration: None,
            groups: groups.collect(),
        }
    }

    /// The same, with what it gathers from the nodes' own processes.
    pub fn placed(mut self, placement: Placement) -> Self {
        if placement != Placement::Embedded {
            self.placement = if placement == Placement::Agents { "agents" } else { "processes" };
            self.plan.nodes.iter_mut().for_each(|node| node.local = node.outside.is_none());
        }
        self
    }

    /// The same, whose nodes were held to their limits, or not.
    pub fn limited(self, enforcement: Enforcement) -> Self {
        Roster { enforcement, ..self }
    }

    /// The same, of a dry run with a calibration.
    pub fn calibrated(self, calibration: Option<&Calibration>) -> Self {
        Roster { calibration: calibration.map(|c| (c.title(), c.host.measured)), ..self }
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
        notes.extend(crate::foreign::note(&self.plan).filter(|_| !simulated));
        if end.messages_dropped > 0 {
            let messages = messages(end.messages_dropped, "found", "found");
            notes.push(format!("{messages} a full buffer, or got lost on the way"));
        }
        if end.late_replies > 0 {
            let (n, answers) = (end.late_replies, if end.late_replies == 1 { "answer" } else { "answers" });
            notes.push(format!("{n} {answers} came after the deadline"));
        }
        if !simulated {
            notes.extend(crate::links::notes(&self.plan));
            notes.extend(crate::targets::notes(&self.plan));
        }
        RunFacts {
            impose: crate::links::imposed(&self.plan),
            links: end.links.clone(),
            connections: end.connections.clone(),
            started: end.start.unwrap_or(end.stop),
            stopped: end.stop,
            ended: end.end,
            groups,
            events: end.events,
            fingerprint: end.fingerprint.map(|f| format!("{f:016x}")),
            schedule_digest: Some(format!("{schedule:016x}")),
            start_skew_ns: skew(&end).filter(|_| !simulated && self.placement != "embedded"),
            starts: if simulated || self.placement == "embedded" { Vec::new() } else { starts(&end) },
            clocks: Vec::new(),
            faults: faults(&end),
            lost_nodes: end.lost_nodes.clone(),
            on_loss: self.plan.info.on_loss,
            incarnations: end.incarnations.clone(),
            losses: end.losses.clone(),
            steers: end.steers.clone(),
            interrupted: end.reason == StopReason::Interrupted && groups_send(nodes),
            aborted: None,
            clock: Clock::One,
            limits_enforced: limited.then_some(simulated || self.enforcement.enforced),
            limits_why: self.enforcement.why,
            calibrated: simulated.then(|| self.calibration.as_ref().is_some_and(|(_, measured)| *measured)),
            calibration: self.calibration.map(|(title, _)| title),
            outside_calibration: end.outside_calibration.clone(),
            overcommitted: if simulated { overcommitted(&self.plan) } else { self.enforcement.overcommitted },
            placement: if simulated { "virtual" } else { self.placement }.to_owned(),
            notes,
            strict,
        }
    }
}

/// `1 message was`, `2 messages were`.
pub fn messages(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 message {one}") } else { format!("{n} messages {many}") }
}

/// Largest difference between the times that nodes began, ns.
fn skew(end: &RunEnd) -> Option<u64> {
    let times = || end.begun.iter().map(|(_, at)| *at);
    Some(times().max()?.since(times().min()?).as_nanos())
}

/// How late each node began.
fn starts(end: &RunEnd) -> Vec<NodeStart> {
    let start = end.start.unwrap_or_default();
    let late = |(node, at): &(String, Time)| NodeStart { node: node.clone(), late_ns: at.since(start).as_nanos() };
    end.begun.iter().map(late).collect()
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
