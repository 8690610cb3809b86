//! Beside a run: the leases of its agents are renewed, nodes that ended are told, clocks are read again and again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rehearsal_bus::clock::Track;
use rehearsal_bus::fleet::{FleetBus, FleetError};
use rehearsal_core::Body;
use rehearsal_core::fleet::{Standing, Step, Watch};
use rehearsal_emu::Control;
use tokio::time::{Instant, sleep};

use super::ANSWER;

/// Between two questions to an agent.
const EVERY: Duration = Duration::from_secs(1);
/// Between two readings of its clock.
const CLOCK_EVERY: Duration = Duration::from_secs(5);
/// An agent whose connection is gone for so long is gone. Assumed: as long as a node may be silent.
const GONE: Duration = Duration::from_secs(5);

/// One agent of a run, watched.
pub(super) struct Watched {
    pub(super) bus: FleetBus,
    pub(super) run: String,
    pub(super) agent: String,
    pub(super) nodes: Vec<String>,
    pub(super) track: Arc<Mutex<Option<Track>>>,
    pub(super) over: Arc<AtomicBool>,
}

impl Watched {
    /// Watches until the run is over. What is lost is told once; one that comes back is watched as before.
    pub(super) async fn watch(self, control: Control) {
        let question = Body::new(Watch { run: self.run.clone() });
        let (mut heard, mut read, mut told, mut gone) = (Instant::now(), Instant::now(), BTreeSet::new(), false);
        while !self.over.load(Ordering::Acquire) {
            sleep(EVERY).await;
            match self.bus.ask::<Standing>(&self.agent, Step::Status, &question, ANSWER).await {
                Ok(standing) if !standing.known => {
                    self.lose_all(
                        &mut gone,
                        &control,
                        "does not hold this run any more: it was silent, or started again",
                    );
                }
                Ok(standing) => {
                    (heard, gone) = (Instant::now(), false);
                    // one that was started again may end again
                    told.retain(|node| standing.ended.contains_key(node));
                    for (node, how) in standing.ended.into_iter().filter(|(node, _)| told.insert(node.clone())) {
                        control.lose(&node, how);
                    }
                }
                Err(FleetError::Gone { .. }) if heard.elapsed() > GONE => self.lose_all(&mut gone, &control, "is gone"),
                // one that only says nothing may run its nodes all the same: they are heard for themselves
                Err(_) => {}
            }
            if read.elapsed() >= CLOCK_EVERY {
                read = Instant::now();
                self.read_clock().await;
            }
        }
    }

    /// Takes in one more reading of the agent's clock. One that fails says nothing.
    pub(super) async fn read_clock(&self) {
        if let Ok(found) = self.bus.offset(&self.agent).await
            && let Some(track) = &mut *self.track.lock().unwrap_or_else(PoisonError::into_inner)
        {
            track.add(found);
        }
    }

    fn lose_all(&self, told: &mut bool, control: &Control, why: &str) {
        for node in self.nodes.iter().filter(|_| !*told) {
            control.lose(node, format!("went with its agent `{}`, which {why}", self.agent));
        }
        *told = true;
    }
}
