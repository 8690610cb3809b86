//! Nodes in other processes that are lost: ended, or silent. What follows is the experiment's to say.
//!
//! ```text
//! abort         the run stops
//! continue      the run does without it; one that was only silent takes part again when it is heard
//! restart-node  its process is started again; the controller brings the new one to where the run is
//! ```

use std::collections::BTreeMap;

use rehearsal_core::life::{LossWindow, NodeBack, OnLoss, RESTARTS_MAX, SILENT_AFTER};
use rehearsal_core::messages::{LifeEvent, StopReason};
use rehearsal_core::run::Fault;
use rehearsal_core::{Body, Span, Time};

use super::Supervisor;
use crate::bridge::Bridge;
use crate::host::Step;

/// How long a new process may take to be heard. Assumed: longer than any node takes to build and bind.
const STARTING: Span = Span::from_secs(30);
/// Silence of the controller's process after which a node ends by itself even if the server does not answer. Assumed:
/// longer than any server takes to come back.
const OUTAGE_MAX: Span = Span::from_secs(60);
/// Loss windows that are kept.
const WINDOWS_MAX: usize = 4096;

/// What is known of lost nodes.
#[derive(Default)]
pub(super) struct Registry {
    /// By node: the window, when the loss was noticed, and whether its process has ended.
    open: BTreeMap<String, Open>,
    windows: Vec<LossWindow>,
    /// Processes that were started again, by node.
    incarnations: BTreeMap<String, u32>,
    /// Whether the controller's process is lost.
    pub leaderless: bool,
}

struct Open {
    window: LossWindow,
    noticed: Time,
    ended: bool,
}

impl Registry {
    /// All windows, and which process of a node is the last.
    pub(super) fn close(&mut self) -> (Vec<LossWindow>, BTreeMap<String, u32>) {
        let open = std::mem::take(&mut self.open).into_values().map(|open| open.window);
        let mut windows = std::mem::take(&mut self.windows);
        windows.extend(open);
        windows.sort_by_key(|window| window.from);
        (windows, std::mem::take(&mut self.incarnations))
    }
}

impl Supervisor {
    pub(super) fn hear_lost(&mut self) {
        for (node, why) in self.control.lost() {
            self.lose(&node, why, true);
        }
        for (node, why) in self.control.beyond_help() {
            self.abort(&node, why);
        }
    }

    /// A node that was heard last too long ago is lost; a lost one that is heard is back.
    pub(super) async fn watch_others(&mut self) {
        let Some(bridge) = self.bridge.clone() else { return };
        if !bridge.leads() {
            return self.watch_leader(&bridge).await;
        }
        self.welcome_back(&bridge);
        let silent = self.silent(&bridge);
        if silent.is_empty() {
            return;
        }
        if !bridge.server_answers().await {
            // nobody can be heard: that is the server's fault, or this process's own
            return bridge.excuse_all();
        }
        for node in silent {
            self.lose(&node, format!("was not heard for {} s", SILENT_AFTER.as_secs_f64()), false);
        }
    }

    /// Nodes that were heard last too long ago.
    fn silent(&self, bridge: &Bridge) -> Vec<String> {
        let Some(start) = self.world.start() else { return Vec::new() };
        let now = self.world.clock.now();
        let last = |node: &String| bridge.heard(|h| h.last.get(node).copied()).unwrap_or(start).max(start);
        let known = |node: &&String| self.losses.open.get(*node).is_some_and(|open| !open.window.restarted);
        let silent = bridge.others().iter().filter(|node| !known(node) && now.since(last(node)) > SILENT_AFTER);
        silent.cloned().collect()
    }

    /// Without the controller nobody says when to stop: a node whose controller is silent drains, and ends.
    async fn watch_leader(&mut self, bridge: &Bridge) {
        let patience = self.world.plan.info.on_loss.leader_silent_after();
        let silent = bridge.leader_silent();
        if bridge.stores_alone() || self.losses.leaderless || silent <= patience {
            return;
        }
        // a server that is away may come back, and the controller with it
        if silent > OUTAGE_MAX || bridge.server_answers().await {
            self.losses.leaderless = true;
            self.fault(format!("the controller was not heard for {:.0} s", silent.as_secs_f64()));
        }
    }

    /// Looks whether lost nodes take part again.
    pub(super) fn welcome_back(&mut self, bridge: &Bridge) {
        let back = |open: &Open| (!open.ended || open.window.restarted) && bridge.is_back(&open.window, open.noticed);
        let back: Vec<String> =
            self.losses.open.iter().filter(|(_, open)| back(open)).map(|(node, _)| node.clone()).collect();
        for node in back {
            let Some(open) = self.losses.open.remove(&node) else { continue };
            self.lost.remove(&node);
            let now = self.world.clock.now();
            let away = now.since(open.window.from).as_secs_f64();
            let (kind, text) = match open.window.restarted {
                true => ("node-restarted", format!("a new process of {node} takes part after {away:.1} s")),
                false => ("node-returned", format!("{node} was heard again after {away:.1} s")),
            };
            self.tell_life(kind, &node, text);
            if !open.window.restarted {
                self.tell_controller("lost", NodeBack { node: node.clone() });
            }
            if self.losses.windows.len() < WINDOWS_MAX {
                self.losses.windows.push(LossWindow { to: Some(now), ..open.window });
            }
        }
    }

    /// A node is lost: its process has `ended`, or it was silent for too long.
    pub(super) fn lose(&mut self, node: &str, why: String, ended: bool) {
        let told = self.bridge.as_ref().is_some_and(|b| b.heard(|h| h.ends.contains_key(node)));
        let known = self.losses.open.get_mut(node);
        if let Some(known) = known {
            known.ended |= ended;
        }
        // one that was started again had its time to be heard
        let waits = self.losses.open.get(node).is_some_and(|open| !open.window.restarted);
        if told || waits {
            return;
        }
        self.lost.insert(node.to_owned());
        let policy = self.world.plan.info.on_loss;
        let stopping = self.reason.is_some();
        self.open_window(node, &why, ended);
        match policy {
            OnLoss::RestartNode if !stopping => self.start_again(node, why),
            OnLoss::Continue | OnLoss::RestartNode => self.tell_lost(node, false),
            OnLoss::Abort => self.abort(node, why),
        }
    }

    fn open_window(&mut self, node: &str, why: &str, ended: bool) {
        let noticed = self.world.clock.now();
        let heard = self.bridge.as_ref().and_then(|b| b.heard(|h| h.last.get(node).copied()));
        let from = heard.unwrap_or(noticed).min(noticed);
        let (node_name, why) = (node.to_owned(), why.to_owned());
        let window = LossWindow { node: node_name, from, to: None, restarted: false, why: why.clone() };
        if !self.losses.open.contains_key(node) {
            self.tell_life("node-lost", node, format!("{node} {why}"));
        }
        let open = self.losses.open.entry(node.to_owned()).or_insert(Open { window, noticed, ended });
        (open.noticed, open.ended) = (noticed, ended);
    }

    fn tell_lost(&mut self, node: &str, again: bool) {
        if let Some(bridge) = &self.bridge {
            self.tell_controller("lost", bridge.obituary(node, again));
        }
    }

    fn abort(&mut self, node: &str, why: String) {
        let at = self.world.clock.now();
        self.faults.push(Fault { at, node: node.to_owned(), actor: String::new(), text: why });
        self.reason.get_or_insert(StopReason::Fault);
    }

    /// Starts the next process of a node, as often as that is allowed.
    fn start_again(&mut self, node: &str, why: String) {
        let count = self.losses.incarnations.get(node).copied().unwrap_or(0);
        if count >= RESTARTS_MAX {
            return self.abort(node, format!("{why}; it was started again {RESTARTS_MAX} times already"));
        }
        // nobody here knows how a program of somebody else is started
        let foreign = self.world.plan.nodes.iter().any(|n| n.foreign && n.name == node);
        let (Some(restart), Some(bridge)) = (self.control.restart().filter(|_| !foreign), self.bridge.clone()) else {
            return self.abort(node, format!("{why}; nobody can start it again here"));
        };
        self.losses.incarnations.insert(node.to_owned(), count + 1);
        if let Some(open) = self.losses.open.get_mut(node) {
            (open.window.restarted, open.ended) = (true, false);
        }
        self.tell_lost(node, true);
        let succession = bridge.succeed(node, STARTING);
        let (control, node) = (self.control.clone(), node.to_owned());
        tokio::task::spawn_blocking(move || {
            if let Err(why) = restart(&node, &succession) {
                control.give_up(&node, format!("cannot be started again: {why}"));
            }
        });
    }

    /// An event of a node that cannot tell it itself.
    fn tell_life(&self, kind: &str, node: &str, text: String) {
        let Some(row) = self.world.plan.nodes.iter().position(|n| n.local) else { return };
        let (at, kind, node) = (self.world.clock.now(), kind.to_owned(), node.to_owned());
        let event = LifeEvent { at, kind, node, text, ..LifeEvent::default() };
        let step = Step::Say(self.world.subjects.event(row), Body::new(event));
        self.hosts[self.world.shard_of[row]].do_send(step);
    }
}
