//! `series.parquet`: one row per second and actor group, one per second and node under the actor name `host`, one per
//! second and machine under `machine`, and under `process` one of a process that several nodes share.
//!
//! Counters are those of the second alone. What is unknown is null: host columns in the row of a group, group columns
//! in the row of a host, percentiles of a second without values, and the counters of a second that a later row holds.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use rehearsal_core::messages::{HostSample, Metric};
use rehearsal_core::parts::tally::Tally;

use crate::error::ExportError;
use crate::folder::Folder;
use crate::percentiles::Part;
use crate::table::{Cell, Column, Holds, Table};

pub(crate) const FILE: &str = "series.parquet";
const CSV: &str = "series.csv";

const fn key(name: &'static str, holds: Holds) -> Column {
    Column { name, holds, nullable: false }
}
const fn whole(name: &'static str) -> Column {
    Column { name, holds: Holds::Int64, nullable: true }
}
/// A count of one second, or what a process has of something: below 2^31.
const fn small(name: &'static str) -> Column {
    Column { name, holds: Holds::Int32, nullable: true }
}
const fn real(name: &'static str) -> Column {
    Column { name, holds: Holds::Double, nullable: true }
}

/// The closed set of standard columns. Times ending in `_ns` are nanoseconds; a column without unit counts.
pub(crate) const COLUMNS: &[Column] = &[
    key("second", Holds::Int32),
    key("node", Holds::Text),
    key("actor", Holds::Text),
    key("kind", Holds::Text),
    Column { name: "instances", holds: Holds::Int32, nullable: true },
    real("cpu_percent"),
    real("cpu_ghz"),
    whole("memory_bytes"),
    real("memory_percent"),
    real("steal_percent"),
    whole("throttled_ns"),
    real("cpu_host_percent"),
    real("cpu_run_percent"),
    real("thread_busy_percent"),
    real("cpu_used_ghz"),
    small("context_switches"),
    small("voluntary_switches"),
    small("involuntary_switches"),
    small("open_files"),
    whole("open_files_limit"),
    small("open_sockets"),
    small("ephemeral_ports"),
    small("ephemeral_ports_limit"),
    small("udp_in_errors"),
    small("udp_receive_buffer_errors"),
    small("udp_send_buffer_errors"),
    small("tcp_retransmitted"),
    small("tcp_listen_overflows"),
    small("tcp_listen_drops"),
    small("tcp_receive_buffer_drops"),
    whole("generated"),
    whole("sent"),
    whole("success"),
    whole("unacknowledged"),
    whole("lost"),
    whole("rejected"),
    whole("invalid"),
    whole("failed"),
    whole("aborted"),
    whole("deadline_missed"),
    whole("skipped"),
    whole("queued"),
    whole("bytes_sent"),
    whole("bytes_received"),
    whole("received"),
    whole("served"),
    whole("response_p50_ns"),
    whole("response_p99_ns"),
    whole("service_p99_ns"),
    whole("handling_p50_ns"),
    whole("handling_p99_ns"),
    real("handling_mean_ns"),
    whole("lag_p99_ns"),
    whole("blocked_p99_ns"),
    whole("one_way_p50_ns"),
    whole("one_way_p99_ns"),
    whole("inter_departure_p50_ns"),
    whole("inter_departure_p99_ns"),
    whole("jitter_p50_ns"),
    whole("jitter_p99_ns"),
    whole("ipdv_p99_ns"),
    whole("queue_length"),
    whole("open"),
];
const KEYS: usize = 5;
const HOST_COLUMNS: usize = 25;
const COUNTERS: usize = 16;
const TIMES: usize = 15;

/// One second of one group.
pub(crate) struct GroupRow<'a> {
    pub second: u32,
    pub node: &'a str,
    pub actor: &'a str,
    pub kind: &'a str,
    pub instances: u32,
    /// What was counted in this second; `None` when a later row holds it.
    pub counted: Option<Tally>,
    pub parts: &'a [Part],
    /// Exchanges that wait, and exchanges that are not settled, at the end of the second.
    pub gauges: Option<(u64, u64)>,
}

/// The series of a run, being written.
pub(crate) struct Series {
    table: Table,
    csv: Option<Csv>,
}

struct Csv {
    path: PathBuf,
    into: BufWriter<File>,
}

impl Series {
    /// Begins the series in a folder.
    pub fn create(folder: &Folder, csv: bool) -> Result<Self, ExportError> {
        let table = Table::create(&folder.file(FILE), COLUMNS)?;
        let csv = if csv { Some(Csv::create(folder.file(CSV))?) } else { None };
        Ok(Series { table, csv })
    }

    /// Adds a group's row.
    pub fn group(&mut self, row: &GroupRow<'_>) -> Result<(), ExportError> {
        let mut cells = keys(row.second, row.node, row.actor, row.kind, Some(row.instances));
        cells.resize(KEYS + HOST_COLUMNS, Cell::Null);
        match &row.counted {
            Some(counted) => cells.extend(counters(counted).map(Cell::count)),
            None => cells.resize(KEYS + HOST_COLUMNS + COUNTERS, Cell::Null),
        }
        cells.extend(times(row.parts));
        cells.push(Cell::or_null(row.gauges, |(queue, _)| Cell::count(queue)));
        cells.push(Cell::or_null(row.gauges, |(_, open)| Cell::count(open)));
        self.push(cells)
    }

    /// Adds the row of a node, a process or a machine.
    pub fn host(&mut self, sample: &HostSample) -> Result<(), ExportError> {
        let name = sample.scope.name();
        let mut cells = keys(sample.second, &sample.node, name, name, None);
        cells.extend(resources(sample));
        cells.resize(COLUMNS.len(), Cell::Null);
        self.push(cells)
    }

    /// Writes the rest.
    pub fn finish(self) -> Result<(), ExportError> {
        self.table.finish()?;
        self.csv.map_or(Ok(()), Csv::finish)
    }

    fn push(&mut self, cells: Vec<Cell>) -> Result<(), ExportError> {
        if let Some(csv) = &mut self.csv {
            csv.push(&cells)?;
        }
        self.table.push(cells)
    }
}

fn keys(second: u32, node: &str, actor: &str, kind: &str, instances: Option<u32>) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(COLUMNS.len());
    cells.push(Cell::Int(second.into()));
    cells.extend([node, actor, kind].map(Cell::text));
    cells.push(Cell::or_null(instances, |n| Cell::Int(n.into())));
    cells
}

/// In the order of the columns from `cpu_percent` to `tcp_receive_buffer_drops`.
fn resources(sample: &HostSample) -> [Cell; HOST_COLUMNS] {
    let real = |value: Option<f64>| Cell::or_null(value, Cell::Real);
    let whole = |value: Option<u64>| Cell::or_null(value, Cell::count);
    let small =
        |value: Option<u64>| Cell::or_null(value, |count| Cell::Int(i32::try_from(count).unwrap_or(i32::MAX).into()));
    [
        real(sample.cpu_percent),
        real(sample.cpu_ghz),
        whole(sample.memory_bytes),
        real(sample.memory_percent),
        real(sample.steal_percent),
        whole(sample.throttled_ns),
        real(sample.cpu_host_percent),
        real(sample.cpu_run_percent),
        real(sample.thread_busy_percent),
        real(sample.cpu_used_ghz),
        small(sample.context_switches),
        small(sample.voluntary_switches),
        small(sample.involuntary_switches),
        small(sample.open_files),
        whole(sample.open_files_limit),
        small(sample.open_sockets),
        small(sample.ephemeral_ports),
        small(sample.ephemeral_ports_limit),
        small(sample.udp_in_errors),
        small(sample.udp_receive_buffer_errors),
        small(sample.udp_send_buffer_errors),
        small(sample.tcp_retransmitted),
        small(sample.tcp_listen_overflows),
        small(sample.tcp_listen_drops),
        small(sample.tcp_receive_buffer_drops),
    ]
}

/// In the order of the columns from `generated` to `served`.
fn counters(t: &Tally) -> [u64; COUNTERS] {
    [
        t.generated,
        t.attempts,
        t.success,
        t.unacknowledged,
        t.lost,
        t.rejected,
        t.invalid,
        t.failed,
        t.aborted,
        t.deadline_missed,
        t.skipped,
        t.queued,
        t.bytes_sent,
        t.bytes_received,
        t.received.saturating_add(t.datagrams_received),
        t.served,
    ]
}

/// In the order of the columns from `response_p50_ns` to `ipdv_p99_ns`.
fn times(parts: &[Part]) -> [Cell; TIMES] {
    let of = |metric| parts.iter().find(|part| part.metric == metric && !part.merged.is_empty());
    let at = |metric, share| Cell::or_null(of(metric).and_then(|part| part.merged.quantile(share)), Cell::count);
    [
        at(Metric::Response, 0.50),
        at(Metric::Response, 0.99),
        at(Metric::Service, 0.99),
        at(Metric::Handling, 0.50),
        at(Metric::Handling, 0.99),
        Cell::or_null(of(Metric::Handling), |part| Cell::Real(part.merged.mean())),
        at(Metric::Lag, 0.99),
        at(Metric::Blocked, 0.99),
        at(Metric::OneWay, 0.50),
        at(Metric::OneWay, 0.99),
        at(Metric::InterDeparture, 0.50),
        at(Metric::InterDeparture, 0.99),
        at(Metric::Jitter, 0.50),
        at(Metric::Jitter, 0.99),
        at(Metric::Ipdv, 0.99),
    ]
}

impl Csv {
    fn create(path: PathBuf) -> Result<Self, ExportError> {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        let begun = File::create(&path).and_then(|file| {
            let mut into = BufWriter::new(file);
            writeln!(into, "{}", names.join(","))?;
            Ok(into)
        });
        match begun {
            Ok(into) => Ok(Csv { path, into }),
            Err(source) => Err(ExportError::Write { path, source }),
        }
    }

    fn push(&mut self, cells: &[Cell]) -> Result<(), ExportError> {
        self.line(cells).map_err(|source| ExportError::Write { path: self.path.clone(), source })
    }

    /// Names are tokens of letters, digits and `-`; kinds likewise: nothing needs quotes.
    fn line(&mut self, cells: &[Cell]) -> io::Result<()> {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.into.write_all(b",")?;
            }
            match cell {
                Cell::Null => {}
                Cell::Int(value) => write!(self.into, "{value}")?,
                Cell::Real(value) => write!(self.into, "{value}")?,
                Cell::Text(text) => self.into.write_all(text.data())?,
            }
        }
        self.into.write_all(b"\n")
    }

    fn finish(self) -> Result<(), ExportError> {
        let Csv { path, into } = self;
        let synced = into.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        synced.map_err(|source| ExportError::Write { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_columns_are_where_rows_expect_them() {
        let at = |name| COLUMNS.iter().position(|column| column.name == name);
        assert_eq!(at("cpu_percent"), Some(KEYS));
        assert_eq!(at("generated"), Some(KEYS + HOST_COLUMNS));
        assert_eq!(at("response_p50_ns"), Some(KEYS + HOST_COLUMNS + COUNTERS));
        assert_eq!(at("queue_length"), Some(KEYS + HOST_COLUMNS + COUNTERS + TIMES));
        assert_eq!(COLUMNS.len(), KEYS + HOST_COLUMNS + COUNTERS + TIMES + 2);
    }
}
