//! What is seen of a run while it goes on: a line or a table on stderr, figures for a scraper, and limits that end it.
//!
//! ```text
//!   engine ──NodeReport──> LiveSink ──> BundleWriter
//!                             │
//!                           SoFar ── each second that is complete ──> Line | Table, Guard, Board ──> metrics
//! ```
//!
//! All of it reads the reports that the bundle is made of, on the thread that stores them: no shard waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rehearsal_core::Body;
use rehearsal_core::messages::{Metric, NodeReport, StopReason};
use rehearsal_core::plan::{Plan, Stop};
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::time::Span;
use rehearsal_export::{BundleMeta, Threshold};
use serde::{Deserialize, Serialize};

use crate::cli::Output;
use crate::metrics::Board;

mod guard;
mod line;
mod so_far;
mod table;

pub use guard::{Alarm, Guard};
use line::Line;
pub use so_far::SoFar;
use table::Table;

/// What is shown on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Show {
    /// Nothing.
    Nothing,
    /// One line, written anew.
    #[default]
    Line,
    /// A row for each second.
    Table,
}

/// What is watched while a run goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Watch {
    /// What is shown.
    pub show: Show,
    /// How long traffic shall run, seconds, if that is known.
    pub seconds: Option<u64>,
    /// What the guard leaves out at the beginning.
    pub warmup: Span,
    /// Thresholds that end the run when they do not hold.
    pub limits: Vec<Threshold>,
    /// The name in the file of each node instance.
    pub templates: BTreeMap<String, String>,
    /// What a scraper is told of the run.
    pub about: BTreeMap<String, String>,
    /// Where the process that stores serves figures, if it does.
    pub metrics: Option<SocketAddr>,
}

impl Watch {
    /// What the user wants to see of the run that `plan` and `meta` describe.
    pub fn of(output: &Output, meta: &BundleMeta, plan: &Plan) -> Self {
        let engine = crate::analysis::open::engine_word(meta.engine);
        let mut about = BTreeMap::from([
            ("experiment".to_owned(), meta.experiment.clone()),
            ("engine".to_owned(), engine.to_owned()),
            ("repetition".to_owned(), (meta.repetition + 1).to_string()),
            ("seed".to_owned(), meta.seed.to_string()),
            ("version".to_owned(), meta.tool_version.clone()),
        ]);
        let name = |key: &str| format!("tag_{}", key.replace(['-', '.'], "_"));
        about.extend(meta.tags.iter().map(|(key, value)| (name(key), value.clone())));
        Watch {
            show: match (output.quiet, output.table) {
                (true, _) => Show::Nothing,
                (_, true) => Show::Table,
                _ => Show::Line,
            },
            seconds: match plan.info.stop {
                Stop::AllRequestsDone => None,
                Stop::After(span) => Some(span.as_secs_f64().ceil() as u64),
            },
            warmup: meta.warmup,
            limits: meta.thresholds.iter().filter(|t| t.abort_after_ns.is_some()).cloned().collect(),
            templates: plan.nodes.iter().map(|node| (node.name.clone(), node.template.clone())).collect(),
            about,
            metrics: None,
        }
    }

    /// The same with nothing on stderr.
    pub fn unseen(self) -> Self {
        Watch { show: Show::Nothing, ..self }
    }

    /// Metrics whose times are read.
    fn metrics(&self, all: bool) -> BTreeSet<Metric> {
        let shown: &[Metric] = match self.show {
            Show::Nothing => &[],
            Show::Line => &[Metric::Response],
            Show::Table => &[Metric::Response, Metric::Lag],
        };
        let judged = |metric: &Metric| self.limits.iter().any(|limit| limit.metric == metric.name());
        Metric::ALL.into_iter().filter(|metric| all || shown.contains(metric) || judged(metric)).collect()
    }
}

/// Passes records on to `inner`, and lets each second that is complete be seen.
pub struct LiveSink<S> {
    inner: S,
    /// `None` if nobody looks.
    run: Option<SoFar>,
    line: Option<Line>,
    table: Option<Table>,
    guard: Option<Guard>,
    board: Option<Board>,
}

impl<S: Sink> LiveSink<S> {
    /// Shows and judges what `watch` says. `alarm` is told when a limit does not hold, `board` is what a scraper reads.
    pub fn new(inner: S, watch: Watch, alarm: Alarm, board: Option<Board>) -> Self {
        let metrics = watch.metrics(board.is_some());
        let line = (watch.show == Show::Line).then(|| Line::new(watch.seconds));
        let table = (watch.show == Show::Table).then(Table::new);
        let looked = watch.show != Show::Nothing || board.is_some() || !watch.limits.is_empty();
        let run = looked.then(|| SoFar::new(watch.warmup, metrics, !watch.limits.is_empty()));
        if let Some(board) = &board {
            board.begin(watch.about, watch.templates, watch.seconds);
        }
        let guard = (!watch.limits.is_empty()).then(|| Guard::new(watch.limits, watch.seconds, alarm));
        LiveSink { inner, run, line, table, guard, board }
    }

    /// Shows the last second and gives the sink back.
    pub fn into_inner(mut self) -> S {
        self.complete();
        if let Some(line) = &mut self.line {
            line.end();
        }
        self.inner
    }

    fn see(&mut self, report: &NodeReport) {
        if self.run.as_ref().is_some_and(|run| run.is_later(report)) {
            self.complete();
        }
        let Some(run) = &mut self.run else { return };
        let board = self.board.as_ref();
        run.add(report, |node, actor, metric, times| {
            if let Some(board) = board {
                board.times(node, actor, metric, times);
            }
        });
        if run.is_whole() {
            self.complete();
        }
    }

    /// A second is complete.
    fn complete(&mut self) {
        let Some(run) = self.run.as_mut().filter(|run| run.is_untold()) else { return };
        if let Some(line) = &mut self.line {
            line.show(run);
        }
        if let Some(table) = &mut self.table {
            table.show(run);
        }
        if let Some(guard) = &mut self.guard {
            guard.judge(run);
        }
        if let Some(board) = &self.board {
            board.publish(run);
        }
        run.told();
    }
}

impl<S: Sink> Sink for LiveSink<S> {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        if self.run.is_some()
            && let Ok(report) = record.get::<NodeReport>()
        {
            self.see(&report);
        }
        self.inner.store(record)
    }

    fn ends(&self) -> Option<StopReason> {
        self.guard.as_ref().and_then(Guard::rung).map(|_| StopReason::Threshold)
    }
}
