//! Acknowledgements of reports, gathered: each is for one node, and would be heard by all. Twice a second the process that
//! stores tells the others' engines what is stored since, and each of them tells its own logger. A node that somebody
//! else's program runs gets its acknowledgements one by one, at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rehearsal_bus::Port;
use rehearsal_core::messages::{ReportAck, ReportsStored};
use rehearsal_core::{Body, Message, SubjectId};

use super::{Bridge, node_of};

/// Between two messages. Well below the time after which a logger tells a report again.
const EVERY: Duration = Duration::from_millis(500);
/// Reports in one message: so small a server's messages may be.
const REPORTS_MAX: usize = 64;

/// What is stored since it was told last, by the subject that acknowledgements come on.
#[derive(Default)]
pub(super) struct Stored(RefCell<BTreeMap<SubjectId, Vec<(String, u32)>>>);

impl Bridge {
    /// Keeps an acknowledgement for the next message to all; false if it must go by itself.
    pub(super) fn gather(&self, subject: SubjectId, body: &Body) -> bool {
        if self.collector.is_none() || body.typed_kind() != Some(ReportAck::KIND) {
            return false;
        }
        let Ok(ack) = body.get::<ReportAck>() else { return false };
        let foreign = self.world.plan.nodes.iter().any(|node| node.foreign && node.name == ack.node);
        if !foreign {
            self.stored.0.borrow_mut().entry(subject).or_default().push((ack.node.clone(), ack.second));
        }
        !foreign
    }

    /// Tells what was gathered, until the runtime ends.
    pub(super) async fn tell_stored(self: Rc<Self>) {
        let name = self.own("stored");
        loop {
            tokio::time::sleep(EVERY).await;
            if !self.nats.is_connected() {
                continue;
            }
            let all = std::mem::take(&mut *self.stored.0.borrow_mut());
            for (subject, reports) in all {
                let on = self.world.subjects.name(subject).into_owned();
                for some in reports.chunks(REPORTS_MAX) {
                    let stored = ReportsStored { on: on.clone(), reports: some.to_vec() };
                    self.publish(&name, &Body::new(stored)).await;
                }
            }
        }
    }

    /// Acknowledges the reports of nodes here that a message names.
    pub(super) fn hear_stored(&self, subject: &str, body: &Body, port: &Port) {
        if !subject.ends_with(".host.stored") {
            return;
        }
        let Ok(stored) = body.get::<ReportsStored>() else { return };
        // by a subject of the node that tells it, and no other
        let on = self.world.subjects.find(&stored.on).filter(|_| node_of(&stored.on) == node_of(subject));
        let Some(on) = on else { return };
        for (node, second) in &stored.reports {
            let ack = Body::new(ReportAck { node: node.clone(), second: *second });
            self.pulse.stored(&ack);
            if self.world.plan.nodes.iter().any(|n| n.local && n.name == *node) {
                port.send(on, &ack);
            }
        }
    }
}
