//! What computes where: pieces of work on the cores of nodes, and hosts that their nodes share.
//!
//! Each node has at most one look planned at its cores. One that turns out too early looks again; one that would come too
//! late is planned anew, and the old one is recognised by its epoch.

use rehearsal_core::calibration::Scheduling;
use rehearsal_core::plan::{NodePlan, Plan};
use rehearsal_core::{Span, Time};
use rehearsal_models::compute::{Allowance, Cores, Lane};

use super::class::{Class, words};
use super::{What, World};
use crate::SimOptions;

/// What a piece of work is for. Numbers are slots.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// An actor's own, which has a result.
    Work(u32),
    /// An attempt is sent.
    Send(u32),
    /// A request is received.
    Take(u32),
    /// A reply is sent.
    Reply(u32),
    /// A reply is received.
    Hear(u32),
    /// A datagram is sent.
    SendDatagram(u32),
    /// A datagram is received.
    TakeDatagram(u32),
    /// Nobody waits for it.
    Unseen,
}

/// A node's cores, and the next look at them.
#[derive(Debug)]
pub(super) struct Desk {
    pub cores: Cores<Task>,
    /// Cores that it is allowed; `None` if nobody says.
    pub allowed: Option<f64>,
    /// Speed of each core beside the others, from the calibration.
    pub speed: f64,
    /// Row of the hosts.
    host: Option<usize>,
    wanted: f64,
    armed: Time,
    epoch: u32,
    /// When a piece of work was done last.
    worked: Option<Time>,
    /// How often it was woken since the last sample.
    pub woken: u64,
    /// Core time of falling asleep and waking up, beside that of the pieces of work, ns.
    pub asleep: f64,
    /// Core time of a timer that was fired just now, ns: it is worked off with what is sent for it.
    pub fired: f64,
    load: Load,
}

/// How busy a node was lately.
#[derive(Debug, Default)]
struct Load {
    /// Beginning of the window that goes on, and the core time used until then.
    since: (Time, f64),
    /// Of the last whole window.
    share: f64,
}

/// How long the load is looked at: some hundred messages of a node at work, and far less than a second of a series. Assumed.
const LOAD_WINDOW: Span = Span::from_millis(10);

/// A machine that nodes share.
#[derive(Debug)]
pub(super) struct Machine {
    cores: f64,
    wanted: f64,
    speed: f64,
    nodes: Vec<u32>,
}

impl Machine {
    /// The machines of `plan`.
    pub(super) fn of(plan: &Plan) -> Vec<Machine> {
        let on = |row: usize| (0_u32..).zip(&plan.nodes).filter(move |(_, node)| node.host == Some(row));
        let machine = |(row, host): (usize, &rehearsal_core::plan::HostPlan)| Machine {
            cores: f64::from(host.cores),
            wanted: 0.0,
            speed: 1.0,
            nodes: on(row).map(|(node, _)| node).collect(),
        };
        plan.hosts.iter().enumerate().map(machine).collect()
    }
}

impl Desk {
    /// The cores of `node`: those of its host, up to its quota over each period; without a host, as many as the quota
    /// needs; without either, as many as it wants.
    pub(super) fn of(plan: &Plan, node: &NodePlan, options: &SimOptions) -> Self {
        let rules = options.calibration.as_deref().map(|c| c.cpu.clone()).unwrap_or_default();
        let host = node.host.map(|row| plan.hosts[row].cores);
        let quota = node.vcpu.filter(|vcpu| *vcpu > 0.0);
        let needed = quota.map(|vcpu| vcpu.ceil() as u32);
        let count = host.or(needed);
        let servers = needed.into_iter().chain(host).min();
        let work = match rules.scheduling {
            Scheduling::Sharing => u32::MAX,
            Scheduling::Fifo => servers.unwrap_or(u32::MAX),
        };
        // nothing is calibrated: traffic costs nothing and waits for nobody
        let traffic = if options.calibration.is_some() { rules.io_threads } else { u32::MAX };
        let cores = Cores::new(Allowance { cores: count, quota, period: rules.period, traffic, work });
        let allowed = quota.or(host.map(f64::from));
        let speed = options.calibration.as_deref().map_or(1.0, |c| c.speed(servers.unwrap_or(1)));
        Desk {
            cores,
            allowed,
            speed,
            host: node.host,
            wanted: 0.0,
            armed: Time::MAX,
            epoch: 0,
            worked: None,
            woken: 0,
            asleep: 0.0,
            fired: 0.0,
            load: Load::default(),
        }
    }
}

impl Desk {
    /// How long ago the last piece of work was done; for ever, if there was none.
    pub(super) fn slept(&self, now: Time) -> Span {
        self.worked.map_or(Span::MAX, |worked| now.since(worked))
    }

    /// The share of the last while for which the node was at work, 0 to 1.
    #[inline]
    pub(super) fn load(&mut self, now: Time) -> f64 {
        let (since, used) = self.load.since;
        let span = now.since(since);
        if span >= LOAD_WINDOW {
            let busy = self.cores.busy(now);
            self.load = Load { since: (now, busy), share: ((busy - used) / span.as_nanos() as f64).min(1.0) };
        }
        self.load.share
    }
}

impl World {
    /// Puts a piece of work on a node's cores that needs `nanos` of a core that runs alone.
    #[inline]
    pub(super) fn compute(&mut self, node: u32, lane: Lane, nanos: f64, task: Task) {
        let nanos = nanos + self.woken(node, lane);
        let desk = &mut self.nodes[node as usize].desk;
        let nanos = (nanos / desk.speed).max(0.0);
        desk.cores.submit(self.now, lane, nanos, task);
        self.planned(node);
    }

    /// Core time of waking up, if the node sleeps: it does when nothing is left to do, and nothing was done just now.
    #[inline]
    fn woken(&mut self, node: u32, lane: Lane) -> f64 {
        let Some(costs) = &self.costs else { return 0.0 };
        let desk = &mut self.nodes[node as usize].desk;
        if lane != Lane::Traffic || !desk.cores.idle() || desk.worked == Some(self.now) {
            return 0.0;
        }
        let rules = &costs.calibration.cpu;
        desk.woken += 1;
        // what was before its first message is nobody's
        let slept = desk.worked.map_or(0.0, |worked| self.now.since(worked).as_nanos() as f64);
        desk.asleep += rules.sleep_ns.min(slept);
        rules.wake_ns
    }

    /// How long that work takes if nothing else is done: whole nanoseconds, as all ends are.
    pub(super) fn alone(&self, node: u32, nanos: f64) -> Span {
        Span::from_nanos((nanos / self.nodes[node as usize].desk.speed).ceil() as u64)
    }

    /// Puts a piece of work on a node's cores that the experiment asks for.
    #[inline]
    pub(super) fn compute_span(&mut self, node: u32, span: Span, task: Task) {
        self.compute(node, Lane::Work, span.as_nanos() as f64, task);
    }

    /// A look at a node's cores: one piece that is done has its consequences.
    #[inline]
    pub(super) fn look(&mut self, epoch: u32, node: u32) -> Option<(u32, What)> {
        let desk = &mut self.nodes[node as usize].desk;
        if desk.epoch != epoch {
            return None;
        }
        desk.armed = Time::MAX;
        let done = desk.cores.pop(self.now);
        if done.is_some() {
            desk.worked = Some(self.now);
        }
        self.planned(node);
        let done = done?;
        if !matches!(done, Task::Work(_)) {
            self.release_timers(node);
        }
        self.done(done)
    }

    fn done(&mut self, task: Task) -> Option<(u32, What)> {
        match task {
            Task::Work(slot) => Some((self.made.at(slot).actor, What::Made { slot })),
            Task::Send(slot) => self.dispatch(slot),
            Task::Take(slot) => self.deliver(slot),
            Task::Reply(slot) => self.replied(slot),
            Task::Hear(slot) => self.heard(slot),
            Task::SendDatagram(slot) => self.launch(slot),
            Task::TakeDatagram(slot) => self.landed(slot),
            Task::Unseen => None,
        }
    }

    /// Something changed at a node's cores: its host is shared anew, and the next look is planned.
    #[inline]
    fn planned(&mut self, node: u32) {
        let desk = &mut self.nodes[node as usize].desk;
        let wanted = desk.cores.wanted();
        if let Some(row) = desk.host
            && wanted != desk.wanted
        {
            let machine = &mut self.machines[row];
            machine.wanted += wanted - desk.wanted;
            desk.wanted = wanted;
            let speed = (machine.cores / machine.wanted).min(1.0);
            if speed != machine.speed {
                machine.speed = speed;
                self.slow(row);
            }
        }
        self.arm(node);
    }

    /// All nodes of a machine run at its speed. Only a machine that is overcommitted comes here.
    #[cold]
    fn slow(&mut self, row: usize) {
        let speed = self.machines[row].speed;
        for place in 0..self.machines[row].nodes.len() {
            let node = self.machines[row].nodes[place];
            self.nodes[node as usize].desk.cores.slow(self.now, speed);
            self.arm(node);
        }
    }

    #[inline]
    fn arm(&mut self, node: u32) {
        let desk = &mut self.nodes[node as usize].desk;
        let Some(at) = desk.cores.next().filter(|at| *at < desk.armed) else { return };
        let at = at.max(self.now);
        desk.armed = at;
        desk.epoch = desk.epoch.wrapping_add(1);
        let epoch = desk.epoch;
        self.push(at, Class::Cores, self.engine(), words(epoch, node));
    }
}
