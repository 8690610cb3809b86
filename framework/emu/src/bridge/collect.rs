//! Telemetry on its way in, where the aggregator runs: read from the run's stream, handed to the shards, acknowledged
//! once it is stored.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rehearsal_bus::Port;
use rehearsal_bus::stream::{Delivered, Reader, RunStream};
use rehearsal_core::messages::{EventAck, LifeEvent, NodeReport, ReportAck};
use rehearsal_core::{Body, Message};

use super::Bridge;
use super::pieces::Puzzle;

/// Between two tries to read a stream whose server is away.
const AGAIN: Duration = Duration::from_millis(250);

/// What was delivered, and is not stored yet.
pub(super) struct Collector {
    stream: RunStream,
    /// The name that the stream is read under.
    reader: String,
    books: RefCell<Books>,
}

#[derive(Default)]
struct Books {
    /// What acknowledges the reports and events that the aggregator has.
    replies: BTreeMap<Record, Vec<String>>,
    puzzle: Puzzle,
    /// Number of the last message that was delivered for the first time.
    last: u64,
    totals: Totals,
    /// Messages of the stream that are not acknowledged, once somebody wants to know.
    open: Option<u64>,
    wanted: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Record {
    Report(String, u32),
    Event(String),
}

/// What became of the stream's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Deliveries, repeated ones among them.
    pub delivered: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Deliveries of what had been delivered before.
    pub again: u64,
    /// Messages that the stream's limits took away before they were delivered.
    pub forgotten: u64,
    /// Parts of reports whose other parts did not come in time.
    pub given_up: u64,
}

impl Collector {
    /// One that reads under the name `reader`.
    pub fn new(stream: RunStream, reader: &str) -> Self {
        Collector { stream, reader: reader.to_owned(), books: RefCell::default() }
    }

    /// What became of all so far.
    pub fn totals(&self) -> Totals {
        let books = self.books.borrow();
        Totals { given_up: books.puzzle.given_up, ..books.totals }
    }

    /// Messages of the stream that are not acknowledged; `None` until the server has said so since this was first asked.
    pub fn open_messages(&self) -> Option<u64> {
        let mut books = self.books.borrow_mut();
        books.wanted = true;
        books.open
    }

    /// The aggregator has stored something: acknowledges what it came with.
    pub async fn stored(&self, body: &Body) {
        let record = match body.typed_kind() {
            Some(ReportAck::KIND) => {
                body.get::<ReportAck>().ok().map(|ack| Record::Report(ack.node.clone(), ack.second))
            }
            Some(EventAck::KIND) => body.get::<EventAck>().ok().map(|ack| Record::Event(ack.id.clone())),
            _ => None,
        };
        let replies = record.and_then(|record| self.books.borrow_mut().replies.remove(&record));
        for reply in replies.into_iter().flatten() {
            // what is not heard to be acknowledged comes again, and is acknowledged again
            let _ = self.stream.acknowledge(&reply).await;
        }
    }

    /// What is to be handed over; a part of a report that waits for others stays in wire form. `None` if it is nothing
    /// that is stored.
    fn unpack(&self, kind: &str, body: Body, delivered: Delivered) -> Option<Body> {
        let mut books = self.books.borrow_mut();
        let books = &mut *books;
        match kind {
            NodeReport::KIND => {
                let report = body.get::<NodeReport>().ok().filter(|report| Puzzle::is_sane(report))?.into_owned();
                let Some((report, replies)) = books.puzzle.add(report, delivered.reply) else { return Some(body) };
                books.replies.insert(Record::Report(report.node.clone(), report.second), replies);
                Some(Body::new(report))
            }
            LifeEvent::KIND => {
                let mut event = body.get::<LifeEvent>().ok()?.into_owned();
                if event.id.is_empty() {
                    event.id = format!("stream.{}", delivered.number);
                }
                books.replies.insert(Record::Event(event.id.clone()), vec![delivered.reply]);
                Some(Body::new(event))
            }
            _ => None,
        }
    }
}

impl Bridge {
    /// Reads the run's stream until the runtime ends.
    pub(super) async fn collect(self: Rc<Self>, port: Rc<Port>) {
        let Some(collector) = &self.collector else { return };
        loop {
            match collector.stream.read(&collector.reader).await {
                Ok(reader) => self.read(collector, reader, &port).await,
                Err(why) => self.notes.note(format!("telemetry could not be read for a while: {why}")),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn read(&self, collector: &Collector, mut reader: Reader, port: &Port) {
        loop {
            let mut strange = Vec::new();
            let read = reader.next(|delivered| strange.extend(self.deliver(collector, delivered, port))).await;
            for reply in strange {
                // nothing more can be done with it: it must not come again
                let _ = collector.stream.acknowledge(&reply).await;
            }
            if read.is_err() {
                return;
            }
            if collector.books.borrow().wanted {
                let open = reader.open().await.ok();
                collector.books.borrow_mut().open = open;
            }
        }
    }

    /// Hands a message over; gives back what acknowledges one that is not understood.
    fn deliver(&self, collector: &Collector, delivered: Delivered, port: &Port) -> Option<String> {
        collector.count(&delivered);
        let (subject, reply) = (delivered.subject.clone(), delivered.reply.clone());
        let wire = Body::from_wire(delivered.payload.clone());
        let sealed = self.let_in(&subject, &wire);
        if sealed.is_some() {
            self.alive(&subject);
        }
        let Some(body) = sealed.and_then(|sealed| collector.unpack(&sealed.kind, wire, delivered)) else {
            self.heard.borrow_mut().ignored += 1;
            return Some(reply);
        };
        match self.world.subjects.find(&subject) {
            // a part that waits for others is in wire form still
            Some(id) if body.typed_kind().is_some() => port.send(id, &body),
            Some(_) => {}
            None => {
                self.heard.borrow_mut().ignored += 1;
                return Some(reply);
            }
        }
        None
    }
}

impl Collector {
    fn count(&self, delivered: &Delivered) {
        let mut books = self.books.borrow_mut();
        books.totals.delivered += 1;
        books.totals.bytes += delivered.payload.len() as u64;
        if delivered.again {
            books.totals.again += 1;
        } else {
            books.totals.forgotten += delivered.number.saturating_sub(books.last + 1);
            books.last = books.last.max(delivered.number);
        }
    }
}
