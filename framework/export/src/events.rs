//! `events.parquet`: life cycle, faults, losses and gaps, each with its time since the start of traffic.

use std::collections::VecDeque;

use rehearsal_core::messages::LifeEvent;
use rehearsal_core::time::{NANOS_PER_SECOND, Time};

use crate::error::ExportError;
use crate::folder::Folder;
use crate::table::{Cell, Column, Holds, Table};

const FILE: &str = "events.parquet";
/// Events that wait until it is known when traffic began; beyond it the first `started` event tells.
const WAITING_MAX: usize = 16_384;

const fn column(name: &'static str, holds: Holds) -> Column {
    Column { name, holds, nullable: false }
}

/// The columns; `at_ns` and `second` are negative before the start of traffic.
const COLUMNS: &[Column] = &[
    column("at_ns", Holds::Int64),
    column("second", Holds::Int32),
    column("kind", Holds::Text),
    column("node", Holds::Text),
    column("actor", Holds::Text),
    column("text", Holds::Text),
];

/// When an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Created(Time),
    Second(u32),
}

/// The events of a run, being written in the order in which they became known.
pub(crate) struct Events {
    table: Table,
    waiting: VecDeque<(When, LifeEvent)>,
    started: Option<Time>,
}

impl Events {
    /// Begins the events in a folder.
    pub fn create(folder: &Folder) -> Result<Self, ExportError> {
        let table = Table::create(&folder.file(FILE), COLUMNS)?;
        Ok(Events { table, waiting: VecDeque::new(), started: None })
    }

    /// Adds an event that somebody published.
    pub fn push(&mut self, event: LifeEvent) -> Result<(), ExportError> {
        if event.kind == "started" && self.started.is_none() {
            self.started = Some(event.at);
        }
        self.wait(When::Created(event.at), event)
    }

    /// Adds an event that was seen in the reports, at the end of a second of the run.
    pub fn seen(&mut self, second: u32, kind: &str, node: &str, actor: &str, text: String) -> Result<(), ExportError> {
        let owned = |text: &str| text.to_owned();
        let (kind, node, actor) = (owned(kind), owned(node), owned(actor));
        let event = LifeEvent { kind, node, actor, text, ..LifeEvent::default() };
        self.wait(When::Second(second), event)
    }

    /// Writes all, now that the start of traffic is known.
    pub fn finish(mut self, started: Time) -> Result<(), ExportError> {
        self.started = Some(started);
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.table.finish()
    }

    fn wait(&mut self, when: When, event: LifeEvent) -> Result<(), ExportError> {
        self.waiting.push_back((when, event));
        if self.waiting.len() > WAITING_MAX { self.write_first() } else { Ok(()) }
    }

    fn write_first(&mut self) -> Result<(), ExportError> {
        let Some((when, event)) = self.waiting.pop_front() else { return Ok(()) };
        let second_ns = NANOS_PER_SECOND.cast_signed();
        let at_ns = match when {
            When::Created(at) => {
                at.as_nanos().cast_signed() - self.started.unwrap_or(Time::ZERO).as_nanos().cast_signed()
            }
            When::Second(second) => (i64::from(second) + 1) * second_ns,
        };
        let second = match when {
            When::Created(_) => at_ns.div_euclid(second_ns),
            When::Second(second) => second.into(),
        };
        let mut row = vec![Cell::Int(at_ns), Cell::Int(second)];
        row.extend([&event.kind, &event.node, &event.actor, &event.text].map(|text| Cell::text(text)));
        self.table.push(row)
    }
}
