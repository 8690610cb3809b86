//! What leaves this process: words of the life cycle at once, telemetry through the outbox.

use std::rc::Rc;

use rehearsal_bus::{Delivery, Inbox};
use rehearsal_core::life::{Rejoin, Stage};
use rehearsal_core::message::Header;
use rehearsal_core::messages::{EventAck, LifeEvent, NodeDone, NodeReport, Ready, ReportAck, StartAt};
use rehearsal_core::subject::Plane;
use rehearsal_core::{Body, Message, SubjectId};

use super::{Bridge, pieces, publisher};

impl Bridge {
    pub(super) async fn forward(self: Rc<Self>, mut inbox: Inbox) {
        while let Some(Delivery { subject, body }) = inbox.receive().await {
            match body.typed_kind() {
                Some(Ready::KIND) => self.publish(&self.own("listen"), &Body::new(self.addresses_here())).await,
                Some(StartAt::KIND) => {
                    self.pulse.is(Stage::Running);
                    self.tell_addresses().await;
                }
                Some(Rejoin::KIND) => self.tell_addresses().await,
                Some(NodeDone::KIND) => self.pulse.done(),
                Some(ReportAck::KIND | EventAck::KIND) => {
                    self.pulse.stored(&body);
                    if let Some(collector) = &self.collector {
                        collector.stored(&body).await;
                    }
                }
                _ => {}
            }
            if !self.gather(subject, &body) {
                self.send(subject, &body).await;
            }
            if let Ok(report) = body.get::<NodeReport>() {
                self.report_leaves(&report).await;
            }
            inbox.handled();
        }
    }

    async fn send(&self, subject: SubjectId, body: &Body) {
        let name = &*self.world.subjects.name(subject);
        if name.split('.').nth(3) == Some(Plane::Telemetry.token()) {
            return self.send_telemetry(subject, body);
        }
        if matches!(body.typed_kind(), Some(StartAt::KIND | NodeDone::KIND)) {
            self.repeat.begin(name, body.to_wire(&self.header(name)));
            return self.repeat.say(&self.nats).await;
        }
        self.publish(name, body).await;
    }

    /// Puts telemetry into the outbox; never waits.
    pub(super) fn send_telemetry(&self, subject: SubjectId, body: &Body) {
        let name = &*self.world.subjects.name(subject);
        if let Ok(report) = body.get::<NodeReport>() {
            let process = self.world.incarnation();
            let id = |part: u32| format!("{}.{process}.{}.{part}", report.node, report.second);
            if self.outbox.holds(&id(0)) {
                return;
            }
            let header = self.header(name);
            let pieces = pieces::take_apart(&report, &header, self.outbox.payload_max());
            pieces.left_out.into_iter().for_each(|what| self.outbox.too_large(what));
            for part in pieces.parts {
                self.outbox.put(name, id(part.part), Body::new(part).to_wire(&header));
            }
        } else if let Ok(event) = body.get::<LifeEvent>() {
            self.next_event.set(self.next_event.get() + 1);
            let id = format!("{}.{}", publisher(name), self.next_event.get());
            let event = LifeEvent { id: id.clone(), ..event.into_owned() };
            self.outbox.put(name, id, Body::new(event).to_wire(&self.header(name)));
        } else {
            let header = self.header(name);
            self.outbox.put(name, format!("{name}.{}", header.seq), body.to_wire(&header));
        }
    }

    pub(super) async fn publish(&self, name: &str, body: &Body) {
        let payload = body.to_wire(&self.header(name));
        if let Err(why) = self.nats.publish(name, payload).await {
            self.notes.note(format!("a message to other processes was lost: {why}"));
        }
    }

    /// A header with the next number of its subject.
    pub(super) fn header<'a>(&'a self, name: &'a str) -> Header<'a> {
        let mut heard = self.heard.borrow_mut();
        let seq = heard.sent.entry(name.to_owned()).or_default();
        *seq += 1;
        // the upper half tells the processes of a node apart
        let (seq, t_ns) = (u64::from(self.world.incarnation()) << 32 | *seq, self.world.clock.now().as_nanos());
        Header { run: &self.world.plan.info.run, from: publisher(name), seq, t_ns }
    }
}
