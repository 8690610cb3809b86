//! The processes of one run on this host: started together, watched, started again one by one, and brought to an end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rehearsal_core::plan::Plan;
use rehearsal_emu::Control;

use super::member::{Ended, Home, Member};
use crate::node::Orders;

/// Between two looks at whether a process has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long processes may take to end by themselves once the run is over.
const END: Duration = Duration::from_secs(5);

/// The processes of a run. They end when this is dropped.
pub struct Fleet {
    crew: Crew,
    over: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl Fleet {
    /// Starts a process for each node that is not local. One that ends before its time is told to `control`.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn start(home: Home, plan: &Plan, orders: &Orders, control: &Control) -> Result<Fleet> {
        let crew = Crew::new(home);
        let mut fleet = Fleet { crew: crew.clone(), over: Arc::default(), watcher: None };
        for node in plan.nodes.iter().filter(|n| !n.local && !n.foreign && n.measured) {
            crew.launch(orders.of(node))?;
        }
        let again = crew.clone();
        control.on_restart(move |node, succession| {
            again.restart(node, |orders| orders.succession = succession.clone()).map_err(|why| format!("{why:#}"))
        });
        let (over, control) = (fleet.over.clone(), control.clone());
        let watch = move || {
            while !over.load(Ordering::Acquire) {
                for (node, how) in crew.ended() {
                    control.lose(&node, how.to_string());
                }
                thread::sleep(LOOK);
            }
        };
        fleet.watcher = Some(thread::Builder::new().name("fleet".to_owned()).spawn(watch)?);
        Ok(fleet)
    }

    /// The processes, for whoever starts one again while the run goes on.
    pub fn crew(&self) -> Crew {
        self.crew.clone()
    }

    /// Ends the process of `node`, if it still runs, and starts another with the same orders.
    ///
    /// # Errors
    /// When there is none, or it cannot be started.
    pub fn restart(&self, node: &str) -> Result<()> {
        self.crew.restart(node, |_| {})
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(watcher) = self.watcher.take() {
            // it only sleeps and looks
            let _ = watcher.join();
        }
        self.crew.end(END);
    }
}

/// Processes by their nodes. Clones share them.
#[derive(Clone)]
pub struct Crew(Arc<Shared>);

struct Shared {
    home: Home,
    /// The node that speaks for the machine: the first that was started.
    speaks: OnceLock<String>,
    over: AtomicBool,
    members: Mutex<BTreeMap<String, Place>>,
}

struct Place {
    member: Member,
    orders: Orders,
    /// Whether its end has been told.
    told: bool,
}

impl Crew {
    /// No processes yet.
    pub fn new(home: Home) -> Crew {
        Crew(Arc::new(Shared {
            home,
            speaks: OnceLock::new(),
            over: AtomicBool::new(false),
            members: Mutex::default(),
        }))
    }

    /// Starts the process of the node that `orders` name; one of the same node is ended before.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn launch(&self, mut orders: Orders) -> Result<()> {
        // it lets go of the node's control group before another takes it
        drop(self.members().remove(&orders.node));
        if self.0.over.load(Ordering::Acquire) {
            bail!("the run is over: no process is started for `{}`", orders.node);
        }
        let speaks = *self.0.speaks.get_or_init(|| orders.node.clone()) == orders.node;
        orders.machine = speaks.then(|| self.0.home.machine().to_owned());
        let member = self.0.home.launch(&orders)?;
        self.members().insert(orders.node.clone(), Place { member, orders, told: false });
        Ok(())
    }

    /// Ends the process of `node`, if it still runs, and starts another with its orders, which `amend` may change.
    ///
    /// # Errors
    /// When there is none, or it cannot be started.
    pub fn restart(&self, node: &str, amend: impl FnOnce(&mut Orders)) -> Result<()> {
        let Some(mut orders) = self.members().get(node).map(|place| place.orders.clone()) else {
            bail!("there is no process for `{node}`");
        };
        amend(&mut orders);
        self.launch(orders)
    }

    /// Processes that have ended since the last call, and how.
    pub fn ended(&self) -> Vec<(String, Ended)> {
        let mut members = self.members();
        let open = members.iter_mut().filter(|(_, place)| !place.told);
        open.filter_map(|(node, place)| {
            let how = place.member.try_ended()?.clone();
            place.told = true;
            Some((node.clone(), how))
        })
        .collect()
    }

    /// Waits until all have ended, kills those that have not within `patience`, and lets go of them all. No other is started
    /// after that.
    pub fn end(&self, patience: Duration) {
        self.0.over.store(true, Ordering::Release);
        let begun = Instant::now();
        while begun.elapsed() < patience && !self.members().values_mut().all(|p| p.member.try_ended().is_some()) {
            thread::sleep(LOOK);
        }
        // whoever still holds a clone must not keep what they stood in
        for (node, mut place) in std::mem::take(&mut *self.members()) {
            if place.member.try_ended().is_none() {
                eprintln!("{node}: did not end by itself and is killed");
            }
        }
    }

    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Place>> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
