//! Storing in a process of its own: what runs in it, and what it and the process that leads say to each other.
//!
//! ```text
//! leads                                          rehearsal aggregator
//!   Task on stdin ───────────────────────────────> bundle begun, run's stream read from its beginning
//!                    <── Answer::Begun, Stored ──
//!   (a kill -9: started again, reads all again)
//!   RunFacts on stdin, when all others have ended > what the server still keeps, then the bundle's end
//!                    <── Answer::Finished ──────
//! ```
//!
//! Each side writes one JSON document a line. A node that the leader runs itself needs none of this.

use std::io::{BufRead as _, Read as _, Write as _, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::{Context as _, Result};
use rehearsal_core::assembly::Assembly;
use rehearsal_core::messages::{LifeEvent, NodeReport, StopReason};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::{Body, Time};
use rehearsal_emu::{Control, Remote, run};
use rehearsal_export::{Aborted, BundleMeta, BundleWriter, Fault, Finished, RunFacts};
use serde::{Deserialize, Serialize};

use crate::exit::Refused;
use crate::facts::messages;
use crate::live::{Alarm, LiveSink, Show, Watch};
use crate::metrics::{Address, Board, Server};
use crate::node::{Orders, end_with_parent, ready};
use crate::report::{chain, refuse};
use crate::shared::Shared;

mod keeper;
mod stream;

pub use keeper::Keeper;
pub use stream::Telemetry;

/// The name that the run's telemetry is read under by a leader that stores itself.
pub const READER: &str = "aggregator";
/// Largest line that is read, bytes: the facts of a run with some hundred thousand groups.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// What the process must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its node.
    pub orders: Orders,
    /// The name that it reads the run's telemetry under; a new one for each start.
    pub reader: String,
    /// How often the process was started before, and ended.
    pub restarts: u32,
    /// The bundle's name.
    pub bundle: PathBuf,
    /// What is known before the run.
    pub meta: BundleMeta,
    /// What is watched on the way.
    pub watch: Watch,
}

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The bundle is begun in this folder.
    Begun(PathBuf),
    /// It cannot be begun.
    Refused(String),
    /// The first report is stored.
    Stored,
    /// A threshold does not hold, and the run is to end.
    Aborted(Aborted),
    /// The bundle is whole.
    Finished(Box<Finished>),
    /// It could not be finished.
    Failed(String),
}

/// Stores what stdin says.
///
/// # Errors
/// When there is no task, the node cannot be built, or the server cannot be reached.
pub fn aggregator() -> Result<ExitCode> {
    end_with_parent()?;
    let task: Task =
        serde_json::from_str(&line()?).context("`rehearsal aggregator` is started by `rehearsal emulate`")?;
    let Task { orders, reader, restarts, bundle, meta, watch } = task;
    let (node, epoch_ns) = (orders.node.clone(), orders.epoch_ns);
    let (assembly, options) = ready(orders, Some(reader))?;
    let names = names(&assembly);
    let writer = match BundleWriter::create(&bundle, meta) {
        Ok(writer) => writer,
        Err(why) => {
            let Refused(text) = refuse(why);
            return say(&Answer::Refused(text)).map(|()| ExitCode::SUCCESS);
        }
    };
    let board = match serve(&watch) {
        Ok(board) => board,
        Err(why) => return say(&Answer::Refused(format!("{why:#}"))).map(|()| ExitCode::SUCCESS),
    };
    say(&Answer::Begun(writer.partial().to_owned()))?;
    // a leader that is gone hears nothing, and needs not
    let alarm = Alarm::then(|aborted| drop(say(&Answer::Aborted(aborted.clone()))));
    let inner = LiveSink::new(writer, watch, alarm, board);
    let mut records = Records { inner, own: node, any: false };
    if restarts > 0 {
        let at = Time::from_nanos(Remote::epoch_now().saturating_sub(epoch_ns));
        // a sink that cannot keep it says so again at the first report
        let _ = records.store(&Body::new(restarted(at, &records.own, restarts)));
    }
    let shared = Shared::new(records);
    let control = Control::new();
    let facts = await_facts(control.clone())?;
    let end = run(assembly, options, Box::new(shared.clone()), control, Box::new(|_| {}))?;
    // a run that somebody else broke off ends here too; one whose leader is gone is ended by the kernel
    let mut facts = facts.recv().context("nobody told how the run ended")??;
    merge(&mut facts, end, &names);
    let records = shared.take().context("the bundle was taken away while the run went on")?;
    match records.inner.into_inner().finish(facts) {
        Ok(finished) => say(&Answer::Finished(Box::new(finished)))?,
        Err(why) => say(&Answer::Failed(chain(&why)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves figures from here: the leader does not have them.
fn serve(watch: &Watch) -> Result<Option<Board>> {
    let Some(address) = watch.metrics else { return Ok(None) };
    let board = Board::default();
    let server = Server::start(Address(address), board.clone())?;
    if watch.show != Show::Nothing {
        eprintln!("metrics: {}", server.url());
    }
    Ok(Some(board))
}

fn restarted(at: Time, node: &str, restarts: u32) -> LifeEvent {
    let text =
        format!("start {} of the process that stores: it reads the run's telemetry from its beginning", restarts + 1);
    let kind = "aggregator-restarted".to_owned();
    LifeEvent { at, kind, node: node.to_owned(), text, ..LifeEvent::default() }
}

/// Hears the facts on a thread of its own; the run then ends.
fn await_facts(control: Control) -> Result<Receiver<Result<RunFacts>>> {
    let (told, facts) = sync_channel(1);
    thread::Builder::new().name("facts".to_owned()).spawn(move || {
        let read = line().and_then(|text| serde_json::from_str(&text).context("these are no facts of a run"));
        // whoever waits for it has ended only if the process has
        let _ = told.send(read);
        control.stop(StopReason::Done);
    })?;
    Ok(facts)
}

fn line() -> Result<String> {
    let mut text = String::new();
    stdin().lock().take(LINE_BYTES_MAX).read_line(&mut text).context("cannot read stdin")?;
    Ok(text)
}

fn say(answer: &Answer) -> Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&text).and_then(|()| out.flush()).context("nobody listens")
}

/// Node and actor of each group, by its row.
fn names(assembly: &Assembly) -> Vec<(String, String)> {
    let name = |group: &rehearsal_core::assembly::Group| assembly.plan.nodes[group.node].name.clone();
    assembly.groups.iter().map(|group| (name(group), group.actor.clone())).collect()
}

/// Takes in how this process ended.
fn merge(facts: &mut RunFacts, end: RunEnd, names: &[(String, String)]) {
    for group in end.groups {
        let Some((node, actor)) = names.get(group.group) else { continue };
        if let Some(known) = facts.groups.iter_mut().find(|g| g.node == *node && g.actor == *actor) {
            known.tally = Some(group.tally);
            known.counts = group.counts;
        }
    }
    facts.events += end.events;
    let faults = end.faults.into_iter().map(|f| Fault { node: f.node, actor: f.actor, text: f.text });
    facts.faults.extend(faults);
    facts.notes.extend(end.notes.into_iter().map(|note| format!("aggregator: {note}")));
    if end.messages_dropped > 0 {
        let lost = messages(end.messages_dropped, "was", "were");
        facts.notes.push(format!("aggregator: {lost} lost on the way to it"));
    }
}

/// Passes records on to a bundle, but for the reports on the process that stores: it is not measured, and one that is
/// started again knows nothing of what was before. Tells when the first one is safe.
struct Records<S> {
    inner: S,
    /// Its node.
    own: String,
    any: bool,
}

impl<S: Sink> Sink for Records<S> {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        let report = record.get::<NodeReport>();
        if report.as_ref().is_ok_and(|report| report.node == self.own) {
            return Ok(());
        }
        self.inner.store(record)?;
        if !self.any && report.is_ok() {
            self.any = true;
            // the leader asks nobody else whether there is something to keep
            say(&Answer::Stored).map_err(|why| SinkError(format!("{why:#}")))?;
        }
        Ok(())
    }
}
