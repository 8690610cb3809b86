//! `latency.hlog`: one HdrHistogram interval per second, node, actor group and metric, in the format of the standard tools.
//!
//! Timestamps are seconds since the start of traffic. The log's `StartTime` is that start on the wall clock, and the
//! epoch itself for a simulated run; it is known only at the end, so its line has a fixed width and is filled in then.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

use crate::error::ExportError;

const VERSION: &str = "#[Histogram log format version 1.2]\n";
const COMMENT: &str =
    "#[Values are nanoseconds; tags are node/actor/metric; times are seconds since the start of traffic]\n";
const LEGEND: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// An interval log that is being written.
pub(crate) struct Latency {
    path: PathBuf,
    into: BufWriter<File>,
    encoder: V2DeflateSerializer,
}

impl Latency {
    /// Begins the log at `path`.
    pub fn create(path: &Path) -> Result<Self, ExportError> {
        let begin = || -> io::Result<BufWriter<File>> {
            let mut into = BufWriter::new(File::create(path)?);
            write!(into, "{}{COMMENT}{VERSION}{LEGEND}", start_line(0))?;
            Ok(into)
        };
        let into = begin().map_err(|source| ExportError::Write { path: path.to_owned(), source })?;
        Ok(Latency { path: path.to_owned(), into, encoder: V2DeflateSerializer::new() })
    }

    /// Adds one second of one metric; `tag` is `node/actor/metric`.
    pub fn push(&mut self, second: u32, tag: &str, histogram: &Histogram<u64>) -> Result<(), ExportError> {
        let tag = Tag::new(tag);
        let (from, length) = (Duration::from_secs(u64::from(second)), Duration::from_secs(1));
        let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut self.into, &mut self.encoder);
        let pushed = log.as_mut().map_err(|why| io::Error::new(why.kind(), why.to_string())).and_then(|log| {
            log.write_histogram(histogram, from, length, tag).map_err(|why| match why {
                IntervalLogWriterError::IoError(why) => why,
                IntervalLogWriterError::SerializeError(why) => io::Error::other(why),
            })
        });
        pushed.map_err(|source| ExportError::Write { path: self.path.clone(), source })
    }

    /// Fills in the start, in whole milliseconds since the epoch, and makes sure that the log is on disk.
    pub fn finish(self, start_ms: u64) -> Result<(), ExportError> {
        let Latency { path, into, .. } = self;
        let end = |into: BufWriter<File>| -> io::Result<()> {
            let mut file = into.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(start_line(start_ms).as_bytes())?;
            file.sync_all()
        };
        end(into).map_err(|source| ExportError::Write { path, source })
    }
}

/// Always the same number of bytes.
fn start_line(start_ms: u64) -> String {
    format!("#[StartTime: {:010}.{:03} (seconds since epoch)]\n", start_ms / 1000, start_ms % 1000)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use rehearsal_core::parts::ledger::histogram;

    use super::*;

    #[test]
    fn intervals_are_read_back() {
        let path = std::env::temp_dir().join(format!("rehearsal-hlog-{}", std::process::id()));
        let mut log = Latency::create(&path).unwrap();
        let mut h = histogram();
        h.record(1_000_000).unwrap();
        log.push(0, "camera-1/main/response", &h).unwrap();
        log.push(61, "camera-1/main/lag", &h).unwrap();
        log.finish(1_700_000_000_123).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(
            text.starts_with("#[StartTime: 1700000000.123 (seconds since epoch)]\n#[Values are nanoseconds"),
            "{text}"
        );
        let lines: Vec<(u64, String)> = IntervalLogIterator::new(&bytes)
            .map(Result::unwrap)
            .filter_map(|entry| match entry {
                LogEntry::Interval(i) => Some((i.start_timestamp().as_secs(), i.tag()?.to_string())),
                _ => None,
            })
            .collect();
        assert_eq!(lines, [(0, "camera-1/main/response".to_owned()), (61, "camera-1/main/lag".to_owned())]);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        if let Ok(log) = Latency::create(Path::new("/dev/full")) {
            assert_eq!(log.finish(0).unwrap_err().to_string(), "/dev/full cannot be written");
        }
    }
}
