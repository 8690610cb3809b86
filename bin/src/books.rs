//! The bundle of a run that is under way: written by this process, or by one of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rehearsal_core::Body;
use rehearsal_core::messages::NodeReport;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_emu::Control;
use rehearsal_export::{BundleMeta, BundleWriter, Finished, RunFacts};

use crate::aggregator::{Keeper, READER, Task};
use crate::live::{Alarm, LiveSink, Watch};
use crate::metrics::Board;
use crate::node::{Nowhere, Orders};
use crate::report::refuse;
use crate::shared::Shared;
use crate::unfinished::Unfinished;

/// A bundle that is being written.
pub struct Books {
    partial: PathBuf,
    unfinished: Unfinished,
    by: By,
}

enum By {
    This(Shared<LiveSink<Recorded<BundleWriter>>>),
    Other(Box<Keeper>),
}

/// What is to be written.
pub struct Wanted<'a> {
    /// The bundle's name.
    pub bundle: &'a Path,
    /// What is known before the run.
    pub meta: BundleMeta,
    /// What is watched on the way.
    pub watch: Watch,
    /// Told when a limit does not hold.
    pub alarm: Alarm,
    /// What a scraper reads, if this process stores.
    pub board: Option<Board>,
}

impl Books {
    /// Begins a bundle; in a process of its own if there are `orders` for one.
    ///
    /// # Errors
    /// When it cannot be begun.
    pub fn begin(wanted: Wanted<'_>, orders: Option<Orders>, unfinished: &Unfinished) -> Result<Books> {
        let Wanted { bundle, meta, watch, alarm, board } = wanted;
        let (partial, by) = match orders {
            None => {
                let (partial, writer) = unfinished.begin(|| {
                    let writer = BundleWriter::create(bundle, meta).map_err(refuse)?;
                    Ok::<_, anyhow::Error>((writer.partial().to_owned(), writer))
                })?;
                let (kept, unfinished) = (partial.clone(), unfinished.clone());
                let inner = Recorded { inner: writer, partial: kept, unfinished, any: false };
                (partial, By::This(Shared::new(LiveSink::new(inner, watch, alarm, board))))
            }
            Some(orders) => {
                let (bundle, reader) = (bundle.to_owned(), READER.to_owned());
                let task = Task { orders, reader, restarts: 0, bundle, meta, watch };
                let (partial, keeper) = unfinished.begin(|| Keeper::start(task, alarm, unfinished))?;
                (partial, By::Other(Box::new(keeper)))
            }
        };
        Ok(Books { partial, unfinished: unfinished.clone(), by })
    }

    /// Where the engine of this process stores.
    pub fn sink(&self) -> Box<dyn Sink> {
        match &self.by {
            By::This(shared) => Box::new(shared.clone()),
            By::Other(_) => Box::new(Nowhere),
        }
    }

    /// Watches over the process that stores, if there is one; `control` is told when it cannot be had.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn watch(&mut self, control: &Control) -> Result<()> {
        match &mut self.by {
            By::This(_) => Ok(()),
            By::Other(keeper) => keeper.watch(control),
        }
    }

    /// Sums the run up.
    ///
    /// # Errors
    /// When the bundle cannot be finished.
    pub fn finish(self, facts: RunFacts) -> Result<Finished> {
        let Books { partial, unfinished, by } = self;
        match by {
            By::This(shared) => {
                let sink = shared.take().context("the bundle was taken away while the run went on")?;
                Ok(unfinished.finish(&partial, || sink.into_inner().inner.finish(facts))?)
            }
            By::Other(keeper) => unfinished.finish(&partial, || keeper.finish(facts)),
        }
    }
}

/// A sink that tells when the first report of a node is safe: from then on its folder is worth keeping.
struct Recorded<S> {
    inner: S,
    partial: PathBuf,
    unfinished: Unfinished,
    any: bool,
}

impl<S: Sink> Sink for Recorded<S> {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        self.inner.store(record)?;
        if !self.any && record.get::<NodeReport>().is_ok() {
            self.any = true;
            self.unfinished.keep(&self.partial);
        }
        Ok(())
    }
}
