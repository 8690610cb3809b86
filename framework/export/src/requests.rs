//! `requests.parquet`: attempts one by one, as far as the experiment asks for them and a second had room.
//!
//! Rows stand in the order in which reports were stored; times are ns since the start of traffic. The file is begun with
//! its first row, so a run that keeps none has none.

use std::path::PathBuf;

use rehearsal_core::exchange::Status;
use rehearsal_core::messages::RequestRows;
use serde::{Deserialize, Serialize};

use crate::error::ExportError;
use crate::folder::Folder;
use crate::table::{Cell, Column, Holds, Table};

pub(crate) const FILE: &str = "requests.parquet";

const fn column(name: &'static str, holds: Holds) -> Column {
    Column { name, holds, nullable: false }
}

/// The columns. Response is `done_ns` − `intended_ns`, service `done_ns` − `sent_ns`, lag `sent_ns` − `ready_ns`, blocked
/// `ready_ns` − `at_ns`.
const COLUMNS: &[Column] = &[
    column("node", Holds::Text),
    column("actor", Holds::Text),
    column("member", Holds::Int32),
    column("stream", Holds::Int32),
    column("seq", Holds::Int64),
    column("attempt", Holds::Int32),
    column("status", Holds::Text),
    column("intended_ns", Holds::Int64),
    column("at_ns", Holds::Int64),
    column("ready_ns", Holds::Int64),
    column("sent_ns", Holds::Int64),
    column("done_ns", Holds::Int64),
    column("bytes", Holds::Int64),
    column("reply_bytes", Holds::Int64),
];

/// How many attempts were kept one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Rows of `requests.parquet`.
    pub kept: u64,
    /// Chosen attempts that found no room in their second.
    pub left_out: u64,
}

/// The rows of a run, being written.
pub(crate) struct Requests {
    path: PathBuf,
    table: Option<Table>,
    recorded: Recorded,
}

impl Requests {
    /// No rows yet.
    pub fn new(folder: &Folder) -> Self {
        Requests { path: folder.file(FILE), table: None, recorded: Recorded::default() }
    }

    /// Adds one second of a group.
    pub fn push(&mut self, node: &str, actor: &str, rows: &RequestRows) -> Result<(), ExportError> {
        self.recorded.kept += rows.len() as u64;
        self.recorded.left_out += rows.left_out;
        if self.table.is_none() && !rows.is_empty() {
            self.table = Some(Table::create(&self.path, COLUMNS)?);
        }
        let Some(table) = &mut self.table else { return Ok(()) };
        let (node, actor) = (Cell::text(node), Cell::text(actor));
        for row in 0..rows.len() {
            table.push(vec![
                node.clone(),
                actor.clone(),
                Cell::Int(rows.member[row].into()),
                Cell::Int(rows.stream[row].into()),
                Cell::count(rows.seq[row]),
                Cell::Int(rows.attempt[row].into()),
                Cell::text(word(rows.status[row])),
                Cell::count(rows.intended_ns[row]),
                Cell::count(rows.at_ns[row]),
                Cell::count(rows.ready_ns[row]),
                Cell::count(rows.sent_ns[row]),
                Cell::count(rows.done_ns[row]),
                Cell::Int(rows.bytes[row].into()),
                Cell::Int(rows.reply_bytes[row].into()),
            ])?;
        }
        Ok(())
    }

    /// What was kept so far; `None` if there was nothing to keep.
    pub fn recorded(&self) -> Option<Recorded> {
        (self.recorded != Recorded::default()).then_some(self.recorded)
    }

    /// Writes the rest.
    pub fn finish(self) -> Result<(), ExportError> {
        self.table.map_or(Ok(()), Table::finish)
    }
}

/// As on the wire.
const fn word(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::Invalid => "invalid",
        Status::Failed => "failed",
        Status::Rejected => "rejected",
        Status::Unacknowledged => "unacknowledged",
        Status::Aborted => "aborted",
        Status::Unsent => "unsent",
    }
}
