//! What one run holds of a host: resources, a lease that its leader renews, and the processes of its nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rehearsal_bus::nats::ConnectSettings;
use rehearsal_core::fleet::{Card, Collected, Held, Launch, Need, Reserve, Standing};
use rehearsal_core::life::Succession;
use rehearsal_core::plan::NodePlan;
use rehearsal_core::units::ByteSize;
use rehearsal_host::cgroup::Cgroups;
use rehearsal_scenario::{LoadOptions, parse};

use super::policy::{Load, Policy};
use crate::node::Orders;
use crate::processes::{Crew, Home};
use crate::registry::registry;

/// Lines of stderr that are kept of one node.
const LINES_MAX: usize = 200;
/// Characters that are kept of one line.
const LINE_CHARS_MAX: usize = 400;
/// Lines that are kept of all nodes of a run: what they come to fits into one message.
const LINES_SUM_MAX: usize = 600;
/// Longest lease.
const LEASE_MAX: Duration = Duration::from_secs(600);

/// How far a run is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Resources are held.
    Reserved,
    /// Files come, processes start.
    Launching,
    /// Each node has, or had, a process.
    Running,
    /// It could not be launched.
    Failed(String),
}

/// A run's hold on this host. Its nodes end when this is dropped, and its folder goes.
pub(super) struct Booking {
    run: String,
    leader: String,
    nodes: Vec<Need>,
    lease: Duration,
    left: Duration,
    stage: Stage,
    folder: PathBuf,
    crew: Option<Crew>,
    ended: BTreeMap<String, String>,
    load: Load,
    said: Arc<Mutex<Collected>>,
}

impl Booking {
    pub(super) fn new(asked: &Reserve, folder: PathBuf) -> Booking {
        let lease = Duration::from_millis(asked.lease_ms).min(LEASE_MAX);
        Booking {
            run: asked.run.clone(),
            leader: asked.leader.clone(),
            nodes: asked.nodes.clone(),
            lease,
            left: lease,
            stage: Stage::Reserved,
            folder,
            crew: None,
            ended: BTreeMap::new(),
            load: Load::default(),
            said: Arc::default(),
        }
    }

    pub(super) fn held(&self) -> Held {
        Held {
            run: self.run.clone(),
            leader: self.leader.clone(),
            vcpu: self.nodes.iter().map(|need| need.vcpu).sum(),
            memory: ByteSize(self.nodes.iter().fold(0, |sum, need| sum.saturating_add(need.memory.0))),
            nodes: self.nodes.iter().map(|need| need.node.clone()).collect(),
        }
    }

    /// What its senders offer at most.
    pub(super) fn load(&self) -> Load {
        self.load
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage.clone()
    }

    pub(super) fn set(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// The same reservation again renews the lease; another one for the same run is a mistake.
    pub(super) fn renew_for(&mut self, asked: &Reserve) -> Result<(), String> {
        if self.nodes != asked.nodes {
            return Err(format!("run {} has reserved other nodes here", self.run));
        }
        self.renew();
        Ok(())
    }

    fn renew(&mut self) {
        self.left = self.lease;
    }

    /// Time passes; whether the lease is over.
    pub(super) fn tick(&mut self, by: Duration) -> bool {
        self.look();
        self.left = self.left.saturating_sub(by);
        self.left.is_zero()
    }

    fn look(&mut self) {
        let ended = self.crew.iter().flat_map(Crew::ended);
        self.ended.extend(ended.map(|(node, how)| (node, how.to_string())).collect::<Vec<_>>());
    }

    /// How its nodes stand; who asks is alive.
    pub(super) fn standing(&mut self) -> Standing {
        self.renew();
        self.look();
        let nodes = self.nodes.iter().map(|need| need.node.clone());
        let running = nodes.filter(|node| self.crew.is_some() && !self.ended.contains_key(node)).collect();
        Standing { known: true, running, ended: self.ended.clone() }
    }

    /// Starts one node again.
    pub(super) fn relaunch(&mut self, node: &str, succession: Succession) -> Result<(), String> {
        self.renew();
        let crew = self.crew.as_ref().ok_or("its nodes were not launched")?;
        crew.restart(node, |orders| orders.succession = succession).map_err(|why| format!("{why:#}"))?;
        self.ended.remove(node);
        Ok(())
    }

    /// Ends its processes.
    pub(super) fn halt(&mut self) {
        if let Some(crew) = self.crew.take() {
            crew.end(Duration::ZERO);
        }
    }

    /// What its nodes left.
    pub(super) fn collected(&mut self) -> Collected {
        self.renew();
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a process for each node.
    pub(super) fn launch(
        &mut self,
        asked: &Launch,
        card: &Card,
        policy: &Policy,
        children: &ConnectSettings,
        groups: Option<Cgroups>,
        others: Load,
    ) -> Result<(), String> {
        let orders = self.orders(asked, card, policy, children)?;
        let load = LoadOptions { base: Some(orders.base.clone()), ..LoadOptions::default() };
        let experiment = parse(&orders.source, orders.experiment.clone(), &registry(), &load);
        let experiment = experiment
            .map_err(|why| format!("its experiment is not understood, is the leader another version? {why}"))?;
        let plan = experiment.plan(orders.repetition);
        let named =
            |need: &Need| plan.nodes.iter().find(|node| node.name == need.node).ok_or_else(|| need.node.clone());
        let nodes: Result<Vec<&NodePlan>, String> = self.nodes.iter().map(named).collect();
        let nodes = nodes.map_err(|name| format!("the experiment has no node `{name}`"))?;
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        self.load = policy.judge(&experiment, &names, &asked.peers, others).map_err(|why| why.to_string())?;
        let said = self.said.clone();
        let home = Home::new(move |node, line| note(&said, node, line)).map_err(|why| format!("{why:#}"))?;
        let crew = Crew::new(home.named(&card.agent).within(groups));
        for node in nodes {
            if let Err(why) = crew.launch(orders.of(node)) {
                crew.end(Duration::ZERO);
                return Err(format!("{why:#}"));
            }
        }
        self.crew = Some(crew);
        self.renew();
        Ok(())
    }

    /// The leader's orders with what only this host knows: where the server is from here, what its clock shows, what its
    /// operator permits.
    fn orders(
        &self,
        asked: &Launch,
        card: &Card,
        policy: &Policy,
        children: &ConnectSettings,
    ) -> Result<Orders, String> {
        let told =
            |why: serde_json::Error| format!("its orders are not understood, is the leader another version? {why}");
        let mut orders: serde_json::Value = serde_json::from_str(&asked.orders).map_err(told)?;
        orders["nats"] = serde_json::to_value(children).map_err(told)?;
        orders["epoch_ns"] = asked.epoch_ns.into();
        orders["base"] = serde_json::to_value(&self.folder).map_err(told)?;
        orders["allow"] = policy.allowed().into();
        orders["interface"] = policy.interface.clone().into();
        orders["listen"] = card.address.to_string().into();
        if let Some(name) = &asked.experiment {
            let path = self.folder.join(name);
            let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            orders["experiment"] = text.into();
        }
        serde_json::from_value(orders).map_err(told)
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        self.halt();
        // a folder that stays is named after its run, and harms nobody
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn note(said: &Mutex<Collected>, node: &str, line: &str) {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let all: usize = said.said.values().map(Vec::len).sum();
    let lines = said.said.entry(node.to_owned()).or_default();
    if lines.len() < LINES_MAX && all < LINES_SUM_MAX {
        lines.push(line.chars().take(LINE_CHARS_MAX).collect());
    } else {
        said.more += 1;
    }
}
