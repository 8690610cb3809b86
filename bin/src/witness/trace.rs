//! A trace of a dry run: a line for each event that an actor was handed, in their order.
//!
//! Columns are separated by tabs: virtual time in seconds, `node/actor`, the event, and what there is to say of it. Equal
//! runs give equal traces, byte by byte.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use rehearsal_core::{ActorId, Event, Time};

use super::Names;
use crate::exit::Refused;

/// Lines of a trace; what comes later is counted. Assumed: about a gigabyte of text.
pub const LINES_MAX: u64 = 10_000_000;

enum Out {
    Plain(BufWriter<File>),
    Packed(Box<GzEncoder<BufWriter<File>>>),
}

/// A trace that is being written.
pub struct Trace {
    path: PathBuf,
    names: Arc<Names>,
    out: Out,
    lines: u64,
    left_out: u64,
    failed: Option<io::Error>,
}

impl Trace {
    /// Begins one; an existing file is not overwritten.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path, names: Arc<Names>) -> Result<Self, Refused> {
        let file = File::create_new(path).map_err(|why| Refused(format!("--trace {}: {why}", path.display())))?;
        let file = BufWriter::new(file);
        let packed = path.extension().is_some_and(|end| end == "gz");
        let out = if packed {
            // no time and no name goes into the header: equal runs give equal files
            Out::Packed(Box::new(GzEncoder::new(file, Compression::fast())))
        } else {
            Out::Plain(file)
        };
        let mut trace = Trace { path: path.to_owned(), names, out, lines: 0, left_out: 0, failed: None };
        trace.write("time_s\tactor\tevent\tdetail\n");
        Ok(trace)
    }

    /// An actor is handed an event.
    pub fn event(&mut self, now: Time, actor: ActorId, event: &Event<'_>) {
        if self.lines == LINES_MAX {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        let (seconds, nanos) = (now.as_nanos() / 1_000_000_000, now.as_nanos() % 1_000_000_000);
        let (kind, detail) = self.told(event);
        let line = format!("{seconds}.{nanos:09}\t{}\t{kind}\t{detail}\n", self.names.actor(actor));
        self.write(&line);
    }

    fn told(&self, event: &Event<'_>) -> (&'static str, String) {
        match event {
            Event::Start => ("start", String::new()),
            Event::Stop => ("stop", String::new()),
            Event::Timer { key, .. } => ("timer", format!("key={}", key.0)),
            Event::Message { body, .. } => ("message", body.typed_kind().unwrap_or("in wire form").to_owned()),
            Event::Request { head, payload, .. } => {
                let from = head.from.map(|from| self.names.actor(from)).unwrap_or_default();
                ("request", format!("from={from} stream={} seq={} bytes={}", head.stream, head.seq, payload.bytes))
            }
            Event::Datagram { head, payload, .. } => {
                let from = head.from.map(|from| self.names.actor(from)).unwrap_or_default();
                ("datagram", format!("from={from} stream={} seq={} bytes={}", head.stream, head.seq, payload.bytes))
            }
            Event::Outcome { request, outcome } => {
                let (stream, seq, attempt) = (request.stream, request.seq, request.attempt);
                let service = outcome.times.done.since(outcome.times.sent).as_nanos();
                let status = outcome.status;
                (
                    "outcome",
                    format!("stream={stream} seq={seq} attempt={attempt} status={status:?} service_ns={service}"),
                )
            }
            Event::WorkDone { result, .. } => ("work-done", format!("{result:?}")),
            Event::FlowReport(report) => ("flow-report", format!("sent={} bytes={}", report.sent, report.bytes)),
        }
    }

    fn write(&mut self, line: &str) {
        if self.failed.is_some() {
            return;
        }
        let done = match &mut self.out {
            Out::Plain(file) => file.write_all(line.as_bytes()),
            Out::Packed(file) => file.write_all(line.as_bytes()),
        };
        self.failed = done.err();
    }

    /// Closes it, and what to say of it.
    pub fn end(mut self) -> String {
        let closed = match self.out {
            Out::Plain(mut file) => file.flush(),
            Out::Packed(file) => file.finish().and_then(|mut file| file.flush()),
        };
        let (path, lines) = (self.path.display(), self.lines);
        if let Some(why) = self.failed.take().or(closed.err()) {
            return format!("the trace {path} is not whole: {why}");
        }
        match self.left_out {
            0 => format!("trace of {lines} events in {path}"),
            more => format!("trace of the first {lines} events in {path}; {more} later ones are left out"),
        }
    }
}
