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
use crate::meta::GroupFacts;
use crate::percentiles::Part;
use crate::series::{GroupRow, Series};

mod group;
mod host;
mod order;
mod window;

pub(crate) use group::GroupBook;
pub(crate) use host::HostBook;
pub use host::NodeResources;
use order::{Order, Step};
pub(crate) use window::{Trim, whole_seconds};

/// Seconds are below the end of [`Time`].
const SECONDS_MAX: u32 = (Time::MAX.as_nanos() / NANOS_PER_SECOND) as u32;

/// The files that grow while a run goes on.
pub(crate) struct Files {
    pub series: Series,
    pub latency: Latency,
    pub events: Events,
}

impl Files {
    /// Begins all of them.
    pub fn create(folder: &Folder, csv: bool) -> Result<Self, ExportError> {
        Ok(Files {
            series: Series::create(folder, csv)?,
            latency: Latency::create(&folder.file("latency.hlog"))?,
            events: Events::create(folder)?,
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
        let mut parts = Vec::new();
        for group in &report.groups {
            let read = group.histograms.iter().map(|part| Part::read(part, decoder));
            parts.push(read.collect::<Result<Vec<_>, SinkError>>()?);
        }
        Ok(Decoded { report, parts })
    }
}

/// The books of one node.
#[derive(Default)]
pub(crate) struct NodeBook {
    order: Order<Decoded>,
    /// By actor.
    pub groups: BTreeMap<String, GroupBook>,
    /// Its resources.
    pub host: HostBook,
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
    /// Reports that came more than once.
    pub duplicates: u64,
}

impl Books {
    /// Nothing yet.
    pub fn new(trim: Trim) -> Self {
        Books { trim, nodes: BTreeMap::new(), duplicates: 0 }
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
                book(&name, node, self.trim, steps, files)
            }
        }
    }

    /// Books what still waits, then the engine's final counters.
    pub fn close(&mut self, facts: &[GroupFacts], end: Option<u32>, files: &mut Files) -> Result<(), ExportError> {
        for (name, node) in &mut self.nodes {
            let steps = node.order.drain();
            book(name, node, self.trim, steps, files)?;
        }
        for group in facts {
            self.rest(group, files)?;
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
    fn rest(&mut self, facts: &GroupFacts, files: &mut Files) -> Result<(), ExportError> {
        let node = self.nodes.entry(facts.node.clone()).or_default();
        let second = node.next_second();
        let fresh = || GroupBook::new(&facts.kind, facts.instances, self.trim);
        let book = node.groups.entry(facts.actor.clone()).or_insert_with(fresh);
        book.counts.extend(facts.counts.iter().cloned());
        let Some(totals) = &facts.tally else { return Ok(()) };
        let counted = book.close(totals, second);
        if counted == Tally::default() {
            return Ok(());
        }
        let text = format!(
            "no report holds the last {} generated, {} settled well and {} received",
            counted.generated, counted.success, counted.received
        );
        files.events.seen(second, "unreported", &facts.node, &facts.actor, text)?;
        files.series.group(&GroupRow {
            second,
            node: &facts.node,
            actor: &facts.actor,
            kind: &facts.kind,
            instances: facts.instances,
            counted: Some(counted),
            parts: &[],
            gauges: Some((0, totals.open())),
        })
    }
}

fn book(
    name: &str,
    node: &mut NodeBook,
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
            Step::Next(second, decoded) => report(node, trim, second, &decoded, false, files)?,
            Step::Late(second, decoded) => {
                files.events.seen(second, "late", name, "", "a report came after later ones".to_owned())?;
                report(node, trim, second, &decoded, true, files)?;
            }
        }
    }
    Ok(())
}

fn report(
    node: &mut NodeBook,
    trim: Trim,
    second: u32,
    decoded: &Decoded,
    late: bool,
    files: &mut Files,
) -> Result<(), ExportError> {
    let Decoded { report, parts } = decoded;
    node.dropped = node.dropped.max(report.dropped);
    if let Some(sample) = &report.host {
        if second >= trim.warmup {
            node.host.add(sample);
        }
        files.series.host(sample)?;
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
    let counted = if late {
        book.late(report.second, parts);
        None
    } else {
        Some(book.next(snapshot, parts))
    };
    if let (false, Some(text)) = (was_broken, &book.broken) {
        files.events.seen(report.second, "broken-counters", &report.node, &snapshot.actor, text.clone())?;
    }
    for part in parts {
        let tag = format!("{}/{}/{}", report.node, snapshot.actor, part.metric.name());
        files.latency.push(report.second, &tag, &part.histogram)?;
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
