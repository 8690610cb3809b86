//! Whether there is a connection to the server: shown on stderr and told as events, so that a bundle says when there was
//! none. While there is none nobody is heard, and nobody is blamed for it.

use std::rc::Rc;
use std::time::Duration;

use rehearsal_bus::Port;
use rehearsal_core::messages::LifeEvent;
use rehearsal_core::subject::HOST;
use rehearsal_core::{Body, Time};

use super::Bridge;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

impl Bridge {
    /// Looks until the runtime ends.
    pub(super) async fn watch_connection(self: Rc<Self>, port: Rc<Port>) {
        let mut lost_at: Option<Time> = None;
        let mut disconnects = self.nats.traffic().disconnects;
        loop {
            tokio::time::sleep(LOOK).await;
            let (now, connected) = (self.world.clock.now(), self.nats.is_connected());
            let times = self.nats.traffic().disconnects;
            // one that was too short to be seen is told too
            if lost_at.is_none() && (!connected || times > disconnects) {
                lost_at = Some(now);
                self.tell_state(
                    now,
                    "nats-disconnected",
                    "the connection to the NATS server was lost".to_owned(),
                    &port,
                );
            }
            disconnects = times;
            let Some(since) = lost_at else { continue };
            self.heard.borrow_mut().last.values_mut().for_each(|last| *last = now);
            if connected {
                let text = format!("the NATS server is back after {:.1} s", now.since(since).as_secs_f64());
                self.tell_state(now, "nats-connected", text, &port);
                lost_at = None;
            }
        }
    }

    fn tell_state(&self, at: Time, kind: &str, text: String, port: &Port) {
        // who stores shares the leader's stderr
        if !self.stores_alone() {
            eprintln!("{text}");
        }
        let (kind, node, actor) = (kind.to_owned(), self.node.clone(), HOST.to_owned());
        let event = LifeEvent { at, kind, node, actor, text, ..LifeEvent::default() };
        let Some(row) = self.world.plan.nodes.iter().position(|n| n.name == self.node) else { return };
        let subject = self.world.subjects.event(row);
        match self.collector {
            Some(_) => port.send(subject, &Body::new(event)),
            None => self.send_telemetry(subject, &Body::new(event)),
        }
    }
}
