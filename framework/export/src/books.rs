//! The books of a run: reports in, rows out, and what the summary is made of. Memory does not grow with run length.

use std::collections::BTreeMap;

use hdrhistogram::serialization::Deserializer;
use rehearsal_core::messages::{GroupSnapshot, NodeReport};
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::sink::SinkError;
use rehearsal_core::subject::check_token;
use rehearsal_core::time::{NANOS_PER_SECOND, Time};

use crate::error::ExportError;
use crate::events::Events;
use crate::folder::Folder;
use crate::latency::Latency;
use crate::meta::{BundleMeta, GroupFacts, RunFacts};
use crate::percentiles::Part;
use crate::requests::Requests;
use crate::series::{GroupRow, Series};

mod group;
mod host;
mod machines;
mod order;
mod strain;
mod window;

pub(crate) use group::GroupBook;
pub(crate) use host::HostBook;
pub use host::{NodeResources, Sums};
pub(crate) use machines::Machines;
pub use machines::Measuring;
use order::{Order, Step};
pub(crate) use strain::{Strain, Use};
pub(crate) use window::{Trim, whole_seconds};

/// Seconds are below the end of [`Time`].
const SECONDS_MAX: u32 = (Time::MAX.as_nanos() / NANOS_PER_SECOND) as u32;

/// The files that grow while a run goes on.
pub(crate) struct Files {
    pub series: Series,
    pub latency: Latency,
    pub events: Events,
    pub requests: Requests,
}

impl Files {
    /// Begins all of them.
    pub fn create(folder: &Folder, meta: &BundleMeta) -> Result<Self, ExportError> {
        Ok(Files {
            series: Series::create(folder, meta.csv)?,
            latency: Latency::create(&folder.file("latency.hlog"), meta.trim(), meta.latency_interval)?,
            events: Events::create(folder)?,
            requests: Requests::new(folder),
        })
    }
}

/// A report whose histograms are read.
pub(crate) struct Decoded {
    report: NodeReport,
    /// Of each group.
    parts: Vec<Vec<Part>>,
}

impl Decoded {
    /// Reads a report's histograms and checks its names.
    pub fn new(report: NodeReport, decoder: &mut Deserializer) -> Result<Self, SinkError> {
        if report.second >= SECONDS_MAX {
            return Err(SinkError(format!("second {} is beyond the end of time", report.second)));
        }
        let names = report.groups.iter().map(|group| group.actor.as_str()).chain([report.node.as_str()]);
        for name in names {
            check_token(name).map_err(|why| SinkError(format!("`{name}` is no name: {why}")))?;
        }
        check_around(&report)?;
        let mut parts = Vec::new();
        for group in &report.groups {
            if group.requests.as_ref().is_some_and(|rows| !rows.is_whole()) {
                return Err(SinkError(format!(
                    "the request rows of `{}` have columns of different lengths",
                    group.actor
                )));
            }
            let read = group.histograms.iter().map(|part| Part::read(part, decoder));
            parts.push(read.collect::<Result<Vec<_>, SinkError>>()?);
        }
        Ok(Decoded { report, parts })
    }
}

/// Share of a second from which on a thread had no time left, per cent. Assumed: it is measured from one look to the next,
/// and looks are some hundredths of a second late on a busy machine.
const BUSY_PERCENT_MIN: f64 = 90.0;

/// Of a process and a machine.
const AROUND_MAX: usize = 2;

fn check_around(report: &NodeReport) -> Result<(), SinkError> {
    if report.around.len() > AROUND_MAX {
        return Err(SinkError(format!("`{}` speaks for {} machines and processes", report.node, report.around.len())));
    }
    for sample in &report.around {
        let name = &sample.node;
        check_token(name).map_err(|why| SinkError(format!("`{name}` is no name of a machine: {why}")))?;
        if sample.second != report.second {
            return Err(SinkError(format!("second {} of `{name}` in a report of {}", sample.second, report.second)));
        }
    }
    Ok(())
}

/// The books of one node.
#[derive(Default)]
pub(crate) struct NodeBook {
    order: Order<Decoded>,
    /// By actor.
    pub groups: BTreeMap<String, GroupBook>,
    /// Its resources.
    pub host: HostBook,
    /// How near it, and what it speaks for, came to what there is.
    pub strain: Strain,
    /// Reports that its logger had to drop.
    pub dropped: u64,
    /// Reports that came in, without duplicates.
    pub reports: u64,
}

impl NodeBook {
    /// Seconds without a report between those with one.
    pub fn missing(&self) -> u64 {
        self.order.missing()
    }

    /// The second after its last report.
    pub fn next_second(&self) -> u32 {
        self.order.next()
    }
}

/// The books of all nodes.
pub(crate) struct Books {
    trim: Trim,
    /// By node.
    pub nodes: BTreeMap<String, NodeBook>,
    /// What is around nodes.
    pub machines: Machines,
    /// Reports that came more than once.
    pub duplicates: u64,
}

impl Books {
    /// Nothing yet.
    pub fn new(trim: Trim) -> Self {
        Books { trim, nodes: BTreeMap::new(), machines: Machines::default(), duplicates: 0 }
    }

    /// Books a report, once it is its turn.
    pub fn store(&mut self, decoded: Decoded, files: &mut Files) -> Result<(), ExportError> {
        let name = decoded.report.node.clone();
        let node = self.nodes.entry(name.clone()).or_default();
        match node.order.take(decoded.report.second, decoded) {
            None => {
                self.duplicates += 1;
                Ok(())
            }
            Some(steps) => {
                node.reports += 1;
                book(&name, node, &mut self.machines, self.trim, steps, files)
            }
        }
    }

    /// Books what still waits, then the engine's final counters.
    pub fn close(&mut self, facts: &RunFacts, end: Option<u32>, files: &mut Files) -> Result<(), ExportError> {
        for (name, node) in &mut self.nodes {
            let steps = node.order.drain();
            book(name, node, &mut self.machines, self.trim, steps, files)?;
        }
        for group in &facts.groups {
            self.rest(group, facts.incarnations.get(&group.node).copied().unwrap_or(0), files)?;
        }
        for group in self.nodes.values_mut().flat_map(|node| node.groups.values_mut()) {
            group.window.close(end);
        }
        Ok(())
    }

    /// The second after the last report of any node.
    pub fn next_second(&self) -> u32 {
        self.nodes.values().map(NodeBook::next_second).max().unwrap_or(0)
    }

    /// What no report of a group had counted becomes a row of its own, in the second after its last.
    fn rest(&mut self, facts: &GroupFacts, incarnation: u32, files: &mut Files) -> Result<(), ExportError> {
        let node = self.nodes.entry(facts.node.clone()).or_default();
        let second = node.next_second();
        let fresh = || GroupBook::new(&facts.kind, facts.instances, self.trim);
        let book = node.groups.entry(facts.actor.clone()).or_insert_with(fresh);
        if let Some(open) = book.succeed(incarnation) {
            tell_succession(second, &facts.node, &facts.actor, open, files)?;
        }
        book.count(&facts.counts);
        let open = book.totals.open();
        let Some(totals) = &facts.tally else {
            let counted = book.bury(second);
            if counted == Tally::default() {
                return Ok(());
            }
            tell_succession(second, &facts.node, &facts.actor, open, files)?;
            return files.series.group(&last_row(second, facts, counted, 0));
        };
        let counted = book.close(totals, second);
        if counted == Tally::default() {
            return Ok(());
        }
        let text = format!(
            "no report holds the last {} generated, {} settled well and {} received",
            counted.generated, counted.success, counted.received
        );
        files.events.seen(second, "unreported", &facts.node, &facts.actor, text)?;
        files.series.group(&last_row(second, facts, counted, totals.open()))
    }
}

/// The row of what no report held: nothing waits any more.
fn last_row(second: u32, facts: &GroupFacts, counted: Tally, open: u64) -> GroupRow<'_> {
    GroupRow {
        second,
        node: &facts.node,
        actor: &facts.actor,
        kind: &facts.kind,
        instances: facts.instances,
        counted: Some(counted),
        parts: &[],
        gauges: Some((0, open)),
    }
}

/// What was under way in an earlier process of a node went with it.
fn tell_succession(second: u32, node: &str, actor: &str, open: u64, files: &mut Files) -> Result<(), ExportError> {
    if open == 0 {
        return Ok(());
    }
    let text = format!("{open} exchanges were under way when its process was lost; they count as aborted");
    files.events.seen(second, "aborted", node, actor, text)
}

fn book(
    name: &str,
    node: &mut NodeBook,
    machines: &mut Machines,
    trim: Trim,
    steps: Vec<Step<Decoded>>,
    files: &mut Files,
) -> Result<(), ExportError> {
    for step in steps {
        match step {
            Step::Gap(gap) => {
                let text =
                    format!("no report of seconds {} to {}; the next row holds their counts", gap.start, gap.end - 1);
                files.events.seen(gap.end - 1, "gap", name, "", text)?;
            }
            Step::Next(second, decoded) => report(node, machines, trim, second, &decoded, false, files)?,
            Step::Late(second, decoded) => {
                files.events.seen(second, "late", name, "", "a report came after later ones".to_owned())?;
                report(node, machines, trim, second, &decoded, true, files)?;
            }
        }
    }
    Ok(())
}

fn report(
    node: &mut NodeBook,
    machines: &mut Machines,
    trim: Trim,
    second: u32,
    decoded: &Decoded,
    late: bool,
    files: &mut Files,
) -> Result<(), ExportError> {
    let Decoded { report, parts } = decoded;
    node.dropped = node.dropped.max(report.dropped);
    report.host.iter().chain(&report.around).for_each(|sample| node.strain.add(sample));
    if let Some(sample) = &report.host {
        if second >= trim.warmup {
            node.host.add(sample);
        }
        machines.measuring.add(sample);
        files.series.host(sample)?;
    }
    for sample in &report.around {
        if machines.add(&report.node, sample, second >= trim.warmup) {
            files.series.host(sample)?;
        }
    }
    for (snapshot, parts) in report.groups.iter().zip(parts) {
        let fresh = || GroupBook::new(&snapshot.kind, snapshot.instances, trim);
        let book = node.groups.entry(snapshot.actor.clone()).or_insert_with(fresh);
        group(report, snapshot, book, parts, late, files)?;
    }
    Ok(())
}

fn group(
    report: &NodeReport,
    snapshot: &GroupSnapshot,
    book: &mut GroupBook,
    parts: &[Part],
    late: bool,
    files: &mut Files,
) -> Result<(), ExportError> {
    let was_broken = book.broken.is_some();
    let incarnation = report.host.as_ref().map_or(0, |host| host.incarnation);
    if let Some(open) = book.succeed(incarnation) {
        tell_succession(report.second, &report.node, &snapshot.actor, open, files)?;
    }
    let counted = if late || book.is_past(incarnation) {
        book.late(report.second, parts);
        None
    } else {
        let busy = report.host.as_ref().and_then(|host| host.thread_busy_percent);
        Some(book.next(snapshot, parts, busy.is_some_and(|percent| percent >= BUSY_PERCENT_MIN)))
    };
    if let (false, Some(text)) = (was_broken, &book.broken) {
        files.events.seen(report.second, "broken-counters", &report.node, &snapshot.actor, text.clone())?;
    }
    for part in parts {
        let tag = format!("{}/{}/{}", report.node, snapshot.actor, part.metric.name());
        files.latency.push(report.second, &tag, &part.merged)?;
    }
    if let Some(rows) = &snapshot.requests {
        files.requests.push(&report.node, &snapshot.actor, rows)?;
    }
    files.series.group(&GroupRow {
        second: report.second,
        node: &report.node,
        actor: &snapshot.actor,
        kind: &snapshot.kind,
        instances: snapshot.instances,
        counted,
        parts,
        gauges: Some((snapshot.queue_length, snapshot.totals.open())),
    })
}
