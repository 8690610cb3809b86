//! Writes a bundle while a run goes on: a [`Sink`] until [`BundleWriter::finish`] sums it up.

use std::path::{Path, PathBuf};

use hdrhistogram::serialization::Deserializer;
use rehearsal_core::message::{Body, BodyError, Message};
use rehearsal_core::messages::{LifeEvent, NodeReport};
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::time::Span;
use serde::Serialize;

use crate::books::{Books, Decoded, Files};
use crate::error::ExportError;
use crate::folder::Folder;
use crate::manifest::{self, Manifest};
use crate::meta::{BundleMeta, Clock, Engine, Fault, RunFacts};
use crate::summary::{self, Summary};
use crate::text::Report;
use crate::threshold::{ThresholdResult, evaluate, mark};
use crate::verdict::{Code, Evidence, Told, Verdict, exit_code, judge};

/// What `verdict.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct VerdictFile {
    /// May these numbers be trusted?
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The experiment's thresholds.
    pub thresholds: Vec<ThresholdResult>,
    /// What the program's exit code says.
    pub exit_code: u8,
}

/// A bundle that is being written.
///
/// ```no_run
/// use rehearsal_export::{BundleMeta, BundleWriter, RunFacts};
///
/// let meta = BundleMeta { experiment: "pl5g-b1".to_owned(), ..BundleMeta::default() };
/// let writer = BundleWriter::create("results/pl5g-b1".as_ref(), meta)?;
/// // … the run: the aggregator feeds it through `rehearsal_core::sink::Sink` …
/// let finished = writer.finish(RunFacts::default())?;
/// print!("{}", finished.text());
/// # Ok::<(), rehearsal_export::ExportError>(())
/// ```
pub struct BundleWriter {
    meta: BundleMeta,
    folder: Folder,
    files: Files,
    books: Books,
    decoder: Deserializer,
    faults: Vec<Fault>,
    rate_changed: bool,
    told: Told,
    /// Why a record could not be written, if one could not: the rest would not be whole either.
    broken: Option<ExportError>,
}

/// A bundle that is whole.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Finished {
    /// Its folder.
    pub path: PathBuf,
    /// What the run came to.
    pub summary: Summary,
    /// May these numbers be trusted?
    pub verdict: Verdict,
    /// The experiment's thresholds.
    pub thresholds: Vec<ThresholdResult>,
    /// 0, 10 or 20; see [`exit_code`].
    pub exit_code: u8,
}

impl Finished {
    /// The report that is printed at the end of a run.
    pub fn text(&self) -> String {
        format!("{}\nresults: {}\n", self.report(), self.path.display())
    }

    /// The same of a run of which nothing is kept.
    pub fn report(&self) -> String {
        let report = Report { summary: &self.summary, verdict: &self.verdict, thresholds: &self.thresholds };
        report.to_string()
    }

    /// Summary, verdict and place as one JSON document, for `--format json`.
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            verdict: &'a Verdict,
            exit_code: u8,
            path: String,
            thresholds: &'a [ThresholdResult],
            summary: &'a Summary,
        }
        let Finished { path, summary, verdict, thresholds, exit_code } = self;
        let path = path.display().to_string();
        let document = Document { path, exit_code: *exit_code, verdict, thresholds, summary };
        let text = serde_json::to_string_pretty(&document).expect("the document has only text keys");
        text + "\n"
    }
}

impl BundleWriter {
    /// Begins a bundle that will be called `name`. It is built in `NAME.partial` beside it.
    ///
    /// # Errors
    /// When either exists, or when the place cannot be written; then nothing is left behind.
    pub fn create(name: &Path, meta: BundleMeta) -> Result<Self, ExportError> {
        let folder = Folder::create(name)?;
        folder.write("experiment.toml", meta.resolved.as_bytes())?;
        let files = Files::create(&folder, &meta)?;
        for (name, source) in &meta.attached {
            folder.attach(name, source)?;
        }
        let books = Books::new(meta.trim());
        let decoder = Deserializer::new();
        let (faults, told) = (Vec::new(), Told::default());
        Ok(BundleWriter { meta, folder, files, books, decoder, faults, rate_changed: false, told, broken: None })
    }

    /// The folder in which it is being built.
    pub fn partial(&self) -> &Path {
        self.folder.partial()
    }

    /// Sums the run up and gives the bundle its name.
    ///
    /// # Errors
    /// When something cannot be written. What was recorded is kept in the partial folder, and the error says so;
    /// without any record the folder is removed.
    pub fn finish(mut self, facts: RunFacts) -> Result<Finished, ExportError> {
        let recorded = self.books.nodes.values().any(|node| node.reports > 0);
        if recorded || facts.groups.iter().any(|group| group.tally.is_some()) {
            self.folder.keep();
        }
        let partial = self.folder.partial().to_owned();
        self.finish_all(facts).map_err(|why| match partial.is_dir() {
            true => ExportError::Kept { partial, source: Box::new(why) },
            false => why,
        })
    }

    fn finish_all(self, mut facts: RunFacts) -> Result<Finished, ExportError> {
        let BundleWriter { meta, mut folder, mut files, mut books, faults, rate_changed, told, broken, .. } = self;
        folder.give_back()?;
        match broken {
            // what was stored before is whole
            Some(why @ ExportError::Full { .. }) => {
                let told = |fault: &Fault| fault.text.contains(&why.to_string());
                if !facts.faults.iter().any(told) {
                    facts.faults.push(Fault { text: why.to_string(), ..Fault::default() });
                }
            }
            Some(why) => return Err(why),
            None => {}
        }
        for fault in faults {
            if !facts.faults.contains(&fault) {
                facts.faults.push(fault);
            }
        }
        let end = meta.trim().end(facts.stopped.since(facts.started));
        books.close(&facts, end, &mut files)?;
        let mut summary = summary::build(&meta, &facts, &mut books);
        if told.has(Code::ClockStepped) && facts.clock != Clock::One {
            // a clock that somebody sets may be steered too: its offset is no longer known
            facts.clock = Clock::Unknown;
        }
        facts.notes.extend(summary::withhold(&mut summary, facts.clock));
        summary.requests = files.requests.recorded();
        let mut evidence = Evidence::gather(&meta, &facts, &summary, &books);
        (evidence.rate_changed, evidence.told) = (rate_changed, told);
        let verdict = judge(&evidence, &meta.limits);
        let mut thresholds = evaluate(&meta.thresholds, &summary);
        facts.aborted.iter().for_each(|aborted| mark(&mut thresholds, aborted));
        let exit_code = exit_code(&verdict, &thresholds, facts.strict);

        files.series.finish()?;
        files.requests.finish()?;
        files.events.finish(facts.started)?;
        files.latency.finish(start_ms(&meta, &facts))?;
        write_json(&folder, "summary.json", &summary)?;
        let content = VerdictFile { verdict: verdict.clone(), thresholds: thresholds.clone(), exit_code };
        write_json(&folder, "verdict.json", &content)?;
        write_json(&folder, manifest::FILE, &Manifest::of(&meta, &facts, folder.partial())?)?;
        let path = folder.finish()?;
        Ok(Finished { path, summary, verdict, thresholds, exit_code })
    }

    fn report(&mut self, report: NodeReport) -> Result<(), SinkError> {
        let decoded = Decoded::new(report, &mut self.decoder)?;
        self.folder.keep();
        let stored = self.books.store(decoded, &mut self.files);
        self.keep(stored)
    }

    fn event(&mut self, event: LifeEvent) -> Result<(), SinkError> {
        if event.kind == "fault" {
            self.faults.push(Fault { node: event.node.clone(), actor: event.actor.clone(), text: event.text.clone() });
        }
        self.told.add(&event);
        self.rate_changed |= matches!(event.kind.as_str(), "paused" | "resumed" | "rate-changed");
        let stored = self.files.events.push(event);
        self.keep(stored)
    }

    /// Remembers the first failure: the publisher is told, and so is whoever finishes the bundle.
    fn keep(&mut self, stored: Result<(), ExportError>) -> Result<(), SinkError> {
        stored.map_err(|why| {
            let text = chain(&why);
            self.broken.get_or_insert(why);
            SinkError(text)
        })
    }
}

impl Sink for BundleWriter {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        if let Some(why) = &self.broken {
            return Err(SinkError(chain(why)));
        }
        let room = self.folder.has_room();
        self.keep(room)?;
        match record.get::<NodeReport>() {
            Ok(report) => self.report(report.into_owned()),
            Err(BodyError::Kind { .. }) => match record.get::<LifeEvent>() {
                Ok(event) => self.event(event.into_owned()),
                Err(BodyError::Kind { .. }) => {
                    Err(SinkError(format!("a bundle keeps `{}` and `{}` only", NodeReport::KIND, LifeEvent::KIND)))
                }
                Err(why) => Err(SinkError(why.to_string())),
            },
            Err(why) => Err(SinkError(why.to_string())),
        }
    }
}

/// When traffic began, in milliseconds since the epoch; the epoch itself for a simulated run.
fn start_ms(meta: &BundleMeta, facts: &RunFacts) -> u64 {
    let created = meta.created_unix_ns.filter(|_| meta.engine == Engine::Emulate);
    created.map_or(0, |created| (created + facts.started.since(Default::default()).as_nanos()) / MS)
}

/// Nanoseconds in a millisecond.
const MS: u64 = Span::from_millis(1).as_nanos();

fn write_json(folder: &Folder, name: &str, value: &impl Serialize) -> Result<(), ExportError> {
    let composed = serde_json::to_vec_pretty(value);
    let mut bytes = composed.map_err(|source| ExportError::Compose { path: folder.file(name), source })?;
    bytes.push(b'\n');
    folder.write(name, &bytes)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
