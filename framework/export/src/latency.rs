//! `latency.hlog`: HdrHistogram intervals by node, actor group and metric, in the format of the standard tools.
//!
//! A second with few values is an interval of its own. Seconds with many are put together unless the run asks for one
//! interval a second, up to ten and as far as the next multiple of ten, since their buckets would take most of a bundle; `series.parquet` has percentiles of every
//! second. No interval crosses the beginning of the measured seconds, nor their planned end.
//!
//! Timestamps are seconds since the start of traffic. The log's `StartTime` is that start on the wall clock, and the
//! epoch itself for a simulated run; it is known only at the end, so its line has a fixed width and is filled in then.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use rehearsal_core::plan::LatencyInterval;

use crate::books::Trim;
use crate::encoded::COMPRESSED;
use crate::error::ExportError;
use crate::merged::Merged;

const VERSION: &str = "#[Histogram log format version 1.2]\n";
const COMMENT: &str =
    "#[Values are nanoseconds; tags are node/actor/metric; times are seconds since the start of traffic]\n";
const LEGEND: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
/// Seconds that one interval may hold. Assumed: ten take a quarter of the room of ten single ones.
const TOGETHER: u32 = 10;
/// Values up to which a second is an interval of its own. Assumed: with so many a whole hour of a metric stays below 2 MB.
const FEW: u64 = 500;

/// An interval log that is being written.
pub(crate) struct Latency {
    path: PathBuf,
    into: BufWriter<File>,
    cuts: Cuts,
    /// By tag.
    open: BTreeMap<String, Interval>,
    plain: Vec<u8>,
    line: String,
}

/// Where an interval must end.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    warmup: u32,
    /// The planned end of the measured seconds.
    end: Option<u32>,
    /// Whether seconds are put together at all: not if it is unknown which will be measured.
    together: bool,
}

impl Cuts {
    fn of(trim: Trim, interval: LatencyInterval) -> Self {
        let end = trim.planned.and_then(|planned| trim.end(planned));
        let known = !trim.any() || end.is_some();
        Cuts { warmup: trim.warmup, end, together: known && interval == LatencyInterval::Auto }
    }

    fn at(self, second: u32) -> bool {
        !self.together || second.is_multiple_of(TOGETHER) || second == self.warmup || Some(second) == self.end
    }
}

/// Seconds that are put together.
#[derive(Debug, Default)]
struct Interval {
    from: u32,
    until: u32,
    values: Merged,
}

impl Latency {
    /// Begins the log at `path`, of a run of which `trim` is left out.
    pub fn create(path: &Path, trim: Trim, interval: LatencyInterval) -> Result<Self, ExportError> {
        let begin = || -> io::Result<BufWriter<File>> {
            let mut into = BufWriter::new(File::create(path)?);
            write!(into, "{}{COMMENT}{VERSION}{LEGEND}", start_line(0))?;
            Ok(into)
        };
        let into = begin().map_err(|source| ExportError::Write { path: path.to_owned(), source })?;
        let (cuts, open) = (Cuts::of(trim, interval), BTreeMap::new());
        Ok(Latency { path: path.to_owned(), into, cuts, open, plain: Vec::new(), line: String::new() })
    }

    /// Adds one second of one metric; `tag` is `node/actor/metric`.
    pub fn push(&mut self, second: u32, tag: &str, values: &Merged) -> Result<(), ExportError> {
        if values.is_empty() {
            return Ok(());
        }
        let before = self.open.get_mut(tag).filter(|open| open.until > 0);
        let done = before.and_then(|open| (open.until != second).then(|| std::mem::take(open)));
        if let Some(done) = done {
            if done.until > second {
                // it comes late: the interval goes on without it
                self.open.insert(tag.to_owned(), done);
                return self.write(tag, (second, second + 1), values);
            }
            self.write(tag, (done.from, done.until), &done.values)?;
        }
        let goes_on = self.open.get(tag).is_some_and(|open| open.until > 0);
        if !goes_on && (values.count() <= FEW || !self.cuts.together) {
            return self.write(tag, (second, second + 1), values);
        }
        if !self.open.contains_key(tag) {
            self.open.insert(tag.to_owned(), Interval::default());
        }
        let open = self.open.get_mut(tag).expect("it was inserted if it was not there");
        if !goes_on {
            open.from = second;
        }
        open.until = second + 1;
        open.values.merge(values);
        if self.cuts.at(second + 1) {
            let done = std::mem::take(open);
            return self.write(tag, (done.from, done.until), &done.values);
        }
        Ok(())
    }

    fn write(&mut self, tag: &str, (from, until): (u32, u32), values: &Merged) -> Result<(), ExportError> {
        self.compose(values)
            .and_then(|()| {
                let (length, max) = (until - from, values.max());
                writeln!(self.into, "Tag={tag},{from}.000,{length}.000,{max}.000,{}", self.line)
            })
            .map_err(|source| ExportError::Write { path: self.path.clone(), source })
    }

    /// Cookie, length, and the plain form compressed, in base64.
    fn compose(&mut self, values: &Merged) -> io::Result<()> {
        self.plain.clear();
        self.line.clear();
        values.encode(&mut self.plain);
        let mut packed = ZlibEncoder::new(vec![0; COMPRESSED.len() + 4], Compression::best());
        packed.write_all(&self.plain)?;
        let mut packed = packed.finish()?;
        let length = (packed.len() - COMPRESSED.len() - 4) as u32;
        packed[..4].copy_from_slice(&COMPRESSED);
        packed[4..8].copy_from_slice(&length.to_be_bytes());
        STANDARD.encode_string(&packed, &mut self.line);
        Ok(())
    }

    /// Intervals that go on end here.
    fn close(&mut self) -> Result<(), ExportError> {
        for (tag, open) in std::mem::take(&mut self.open).into_iter().filter(|(_, open)| open.until > 0) {
            self.write(&tag, (open.from, open.until), &open.values)?;
        }
        Ok(())
    }

    /// Fills in the start, in whole milliseconds since the epoch, and makes sure that the log is on disk.
    pub fn finish(mut self, start_ms: u64) -> Result<(), ExportError> {
        self.close()?;
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
    use rehearsal_core::parts::buckets::Shape;
    use rehearsal_core::time::Span;

    use super::*;
    use crate::encoded::decode;
    use crate::testing::Scratch;

    fn values(count: u64) -> Merged {
        Merged::of(Shape::of(3), (1..=count).map(|i| (i * 1_000_003, 1)))
    }

    /// First second, seconds and values of each interval of a log of seconds of so many values.
    fn intervals(name: &str, trim: Trim, seconds: &[(u32, u64)]) -> Vec<(u64, u64, u64)> {
        intervals_of(name, trim, LatencyInterval::Auto, seconds)
    }

    fn intervals_of(name: &str, trim: Trim, interval: LatencyInterval, seconds: &[(u32, u64)]) -> Vec<(u64, u64, u64)> {
        let scratch = Scratch::new(name);
        let path = scratch.path().join("latency.hlog");
        let mut log = Latency::create(&path, trim, interval).unwrap();
        for (second, count) in seconds {
            log.push(*second, "camera-1/main/lag", &values(*count)).unwrap();
        }
        log.finish(1_700_000_000_123).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"#[StartTime: 1700000000.123 (seconds since epoch)]\n#[Values are nanoseconds"));
        let read = |entry| {
            let LogEntry::Interval(i) = entry else { return None };
            assert_eq!(i.tag()?.as_str(), "camera-1/main/lag");
            let mut decoder = hdrhistogram::serialization::Deserializer::new();
            let held = decode(i.encoded_histogram().as_bytes(), Shape::of(3), &mut decoder).unwrap();
            assert_eq!(i.max(), held.max() as f64);
            Some((i.start_timestamp().as_secs(), i.duration().as_secs(), held.count()))
        };
        IntervalLogIterator::new(&bytes).map(Result::unwrap).filter_map(read).collect()
    }

    #[test]
    fn few_values_have_their_second_and_many_are_put_together() {
        let seconds: Vec<(u32, u64)> = (0..23)
            .map(|s| (s, if s < 3 { FEW } else { FEW + 1 }))
            .chain([(61, 7), (63, 600), (64, 1), (66, 600)])
            .collect();
        let found = intervals("hlog", Trim::default(), &seconds);
        let many = |seconds| seconds * (FEW + 1);
        let expected = [
            (0, 1, FEW),
            (1, 1, FEW),
            (2, 1, FEW),
            (3, 7, many(7)),
            (10, 10, many(10)),
            (20, 3, many(3)),
            (61, 1, 7),
            (63, 2, 601),
            (66, 1, 600),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn every_second_has_its_interval_where_that_is_asked_for() {
        let seconds: Vec<(u32, u64)> = (0..23).map(|s| (s, 5000 + u64::from(s))).collect();
        let found = intervals_of("hlog-seconds", Trim::default(), LatencyInterval::Second, &seconds);
        let expected: Vec<(u64, u64, u64)> = seconds.iter().map(|(s, count)| (u64::from(*s), 1, *count)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn no_interval_crosses_the_ends_of_what_is_measured() {
        let seconds: Vec<(u32, u64)> = (0..30).map(|s| (s, 1000)).collect();
        let trim = |planned| Trim::new(Span::from_secs(4), Span::from_secs(3), planned);
        let found = intervals("hlog-planned", trim(Some(Span::from_secs(28))), &seconds);
        let froms: Vec<_> = found.iter().map(|(from, length, _)| (*from, *length)).collect();
        assert_eq!(froms, [(0, 4), (4, 6), (10, 10), (20, 5), (25, 5)]);
        // nobody knows when it ends
        assert_eq!(intervals("hlog-counted", trim(None), &seconds).len(), 30);
    }

    #[test]
    fn what_comes_late_has_an_interval_of_its_own() {
        let found = intervals("hlog-late", Trim::default(), &[(0, 600), (2, 600), (3, 600), (1, 600), (4, 600)]);
        assert_eq!(found, [(0, 1, 600), (1, 1, 600), (2, 3, 1800)]);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        if let Ok(log) = Latency::create(Path::new("/dev/full"), Trim::default(), LatencyInterval::Auto) {
            assert_eq!(log.finish(0).unwrap_err().to_string(), "/dev/full cannot be written");
        }
    }
}
