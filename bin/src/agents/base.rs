//! The leader's connection to the fleet, on a thread of its own: what the main thread asks for is waited for, and what goes
//! on beside a run goes on there.

use std::future::Future;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::stream::{self, StreamExt as _};
use rehearsal_bus::fleet::{CARD_RENEW, FleetBus};
use rehearsal_bus::nats::{ConnectSettings, Nats};
use rehearsal_core::Body;
use rehearsal_core::fleet::{Card, Scan, Step};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::ANSWER;
use crate::exit::{Refused, Stopped};
use crate::report::chain;

/// Agents that are asked at once.
pub(super) const AT_ONCE: usize = 64;

/// A connection that lasts as long as this value.
pub struct Base {
    line: Line,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A way to work on the connection's thread. Once the connection is over, nothing is done there any more.
#[derive(Clone)]
pub(super) struct Line {
    handle: Handle,
    bus: FleetBus,
}

impl Line {
    /// The bus, for what runs on the connection's thread.
    pub(super) fn bus(&self) -> FleetBus {
        self.bus.clone()
    }

    /// Waits for `work`.
    pub(super) fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let (told, hears) = mpsc::sync_channel(1);
        self.handle.spawn(async move { _ = told.send(work.await) });
        hears.recv().context("the connection to the fleet is over")
    }
}

impl Base {
    /// Connects, and waits for as long as `patience` for the server. `what` names the connection in the server's tools.
    ///
    /// # Errors
    /// When the server cannot be reached, or has no JetStream.
    pub fn open(settings: &ConnectSettings, what: &str, patience: Duration) -> Result<Base> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = format!("rehearsal {what}");
        let bus = runtime.block_on(async {
            let connected = Nats::connect_within(settings, &name, patience, |_| {}).await;
            let (nats, _) = connected.map_err(|why| Refused(chain(&why)))?;
            FleetBus::open(&nats, what).await.map_err(|why| Refused(chain(&why)))
        })?;
        let (end, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let drive = move || {
            // either way it is over
            let _ = runtime.block_on(ended);
        };
        let thread = thread::Builder::new().name("agents".to_owned()).spawn(drive).context("cannot start a thread")?;
        Ok(Base { line: Line { handle, bus }, end: Some(end), thread: Some(thread) })
    }

    /// The way to work on its thread.
    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }

    /// The bus, for what runs on the connection's thread.
    pub(super) fn bus(&self) -> FleetBus {
        self.line.bus()
    }

    /// Lets `work` go on beside everything else.
    pub(super) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.line.handle.spawn(work);
    }

    /// Waits for `work`.
    pub(super) fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        self.line.wait(work)
    }

    /// Agents that answer, by name: those of the bucket that are still there.
    ///
    /// # Errors
    /// When the bucket does not answer.
    pub fn scan(&self) -> Result<Vec<Card>> {
        let bus = self.bus();
        let cards = self.wait(async move {
            let known = bus.cards().await?;
            let ask = |card: Card| {
                let bus = bus.clone();
                async move { bus.ask::<Card>(&card.agent, Step::Scan, &Body::new(Scan {}), ANSWER).await.ok() }
            };
            let cards: Vec<Option<Card>> = stream::iter(known).map(ask).buffered(AT_ONCE).collect().await;
            Ok::<_, rehearsal_bus::fleet::FleetError>(cards.into_iter().flatten().collect())
        })?;
        cards.map_err(|why| Refused(chain(&why)).into())
    }

    /// Scans until there are at least `agents`, or a signal says stop.
    ///
    /// # Errors
    /// When they do not come within `patience`, or a signal came.
    pub fn expect(&self, agents: usize, patience: Duration, stopped: impl Fn() -> Option<u8>) -> Result<()> {
        let begun = std::time::Instant::now();
        loop {
            let cards = self.scan()?;
            if cards.len() >= agents {
                return Ok(());
            }
            if let Some(code) = stopped() {
                return Err(Stopped(code).into());
            }
            if begun.elapsed() >= patience {
                let names: Vec<&str> = cards.iter().map(|c| c.agent.as_str()).collect();
                return Err(Refused(too_few(agents, patience, &names)).into());
            }
            thread::sleep(CARD_RENEW / 4);
        }
    }
}

/// Not so many agents as expected came in time.
fn too_few(wanted: usize, patience: Duration, there: &[&str]) -> String {
    let waited = match wanted {
        1 => format!("waited {patience:?} for an agent"),
        several => format!("waited {patience:?} for {several} agents"),
    };
    match there {
        [] => format!("{waited}, and none came; start some with `rehearsal agent`, or wait longer: --expect-timeout"),
        [one] => format!("{waited}, and one is there: {one}"),
        some => format!("{waited}, and {} are there: {}", some.len(), some.join(", ")),
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // it ends with what it waits for
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_did_not_come_is_told_in_one_sentence() {
        let told = |wanted, there: &[&str]| too_few(wanted, Duration::from_secs(2), there);
        assert!(told(2, &[]).starts_with("waited 2s for 2 agents, and none came; start some with `rehearsal agent`"));
        assert!(told(1, &[]).starts_with("waited 2s for an agent, and none came"));
        assert_eq!(told(2, &["a"]), "waited 2s for 2 agents, and one is there: a");
        assert_eq!(told(3, &["a", "b"]), "waited 2s for 3 agents, and 2 are there: a, b");
    }
}
