//! `latency.hlog` read back: its seconds merged exactly, as a caller groups them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use rehearsal_core::messages::Metric;
use rehearsal_core::parts::buckets::Shape;
use rehearsal_core::parts::ledger::{HISTOGRAM_DIGITS, HISTOGRAM_NS_MAX};

use crate::encoded;
use crate::error::ExportError;

const FILE: &str = "latency.hlog";
/// The longest line that is read, bytes: the longest histogram in base64 and room for its tag.
const LINE_BYTES_MAX: u64 = 2 << 20;

/// Where one interval of the log comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval<'a> {
    /// Where it begins, since the start of traffic.
    pub second: u64,
    /// The second after its last: it holds one second, or several that had many values.
    pub until: u64,
    /// The node instance.
    pub node: &'a str,
    /// The actor.
    pub actor: &'a str,
    /// The metric, such as `response`.
    pub metric: &'a str,
}

/// Merges the log in a bundle's folder: intervals for which `group` gives the same name go into one histogram, those for
/// which it gives none are left out. A group is of one metric, whose digits its histogram has. Each takes at most 270 kB, so a caller gives few names.
///
/// # Errors
/// When there is no such file, or a line of it cannot be understood.
pub fn merge_latency(
    folder: &Path,
    mut group: impl FnMut(Interval<'_>) -> Option<String>,
) -> Result<BTreeMap<String, Histogram<u64>>, ExportError> {
    let path = folder.join(FILE);
    let broken = |number: usize, why: &str| {
        let source = io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {why}"));
        ExportError::Read { path: path.clone(), source }
    };
    let read = |source| ExportError::Read { path: path.clone(), source };
    let mut lines = BufReader::new(File::open(&path).map_err(read)?);
    let (mut merged, mut decoder, mut line) = (BTreeMap::new(), Deserializer::new(), Vec::new());
    for number in 1.. {
        line.clear();
        if lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(read)? == 0 {
            break;
        }
        if line.starts_with(b"#") || line.starts_with(b"\"") {
            continue;
        }
        let Some(Ok(LogEntry::Interval(interval))) = IntervalLogIterator::new(&line).next() else {
            return Err(broken(number, "it is no interval"));
        };
        let tag = interval.tag().map_or("", |tag| tag.as_str());
        let parts: Vec<&str> = tag.split('/').collect();
        let [node, actor, metric] = parts[..] else {
            return Err(broken(number, "its tag is not node/actor/metric"));
        };
        let (second, seconds) = (interval.start_timestamp().as_secs(), interval.duration().as_secs().max(1));
        let from = Interval { second, until: second.saturating_add(seconds), node, actor, metric };
        let Some(name) = group(from) else { continue };
        let digits = digits(metric);
        let values = encoded::decode(interval.encoded_histogram().as_bytes(), Shape::of(digits), &mut decoder);
        let values = values.map_err(|why| broken(number, &why.to_string()))?;
        values.add_to(merged.entry(name).or_insert_with(|| empty(digits)));
    }
    Ok(merged)
}

/// Significant digits of a metric's histograms.
fn digits(metric: &str) -> u8 {
    let own = Metric::ALL.into_iter().find(|own| own.name() == metric);
    own.map_or(HISTOGRAM_DIGITS, Metric::digits)
}

fn empty(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, HISTOGRAM_NS_MAX, digits).expect("the bounds are constants")
}

#[cfg(test)]
mod tests {
    use rehearsal_core::plan::LatencyInterval;

    use super::*;
    use crate::books::Trim;
    use crate::latency::Latency;
    use crate::merged::Merged;
    use crate::testing::Scratch;

    fn filled(values: impl Iterator<Item = u64>) -> (Merged, Histogram<u64>) {
        let mut h = empty(3);
        values.for_each(|value| h.record(value).unwrap());
        let buckets = h.iter_recorded().map(|b| (b.value_iterated_to(), b.count_since_last_iteration()));
        (Merged::of(Shape::of(3), buckets), h)
    }

    #[test]
    fn seconds_are_merged_as_the_caller_groups_them() {
        let scratch = Scratch::new("spectrum");
        let mut log =
            Latency::create(&scratch.path().join("latency.hlog"), Trim::default(), LatencyInterval::Auto).unwrap();
        let (a, b, c) = (filled(1..500), filled((1..90).map(|i| i * 1_000_003)), filled(7..9));
        log.push(0, "camera-1/main/response", &a.0).unwrap();
        log.push(1, "camera-2/main/response", &b.0).unwrap();
        log.push(1, "camera-2/main/lag", &c.0).unwrap();
        log.push(9, "camera-1/main/response", &c.0).unwrap();
        log.finish(0).unwrap();
        let found = merge_latency(scratch.path(), |i| (i.second < 9).then(|| i.metric.to_owned())).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["lag", "response"]);
        let mut both = a.1.clone();
        both.add(&b.1).unwrap();
        assert_eq!(found["response"], both);
        let mut seen = Vec::new();
        merge_latency(scratch.path(), |i| {
            seen.push((i.second, i.node.to_owned(), i.actor.to_owned()));
            None
        })
        .unwrap();
        assert_eq!(seen[1], (1, "camera-2".to_owned(), "main".to_owned()));
    }

    #[test]
    fn broken_logs_name_the_line() {
        let scratch = Scratch::new("spectrum-broken");
        let said = |text: &str| {
            std::fs::write(scratch.path().join("latency.hlog"), text).unwrap();
            let error = merge_latency(scratch.path(), |i| Some(i.metric.to_owned())).unwrap_err();
            std::error::Error::source(&error).map(ToString::to_string).unwrap()
        };
        assert_eq!(said("# comment\nnonsense\n"), "line 2: it is no interval");
        assert_eq!(said("Tag=a/b,0.0,1.0,1.0,SElTVA==\n"), "line 1: its tag is not node/actor/metric");
        assert!(said("Tag=a/b/c,0.0,1.0,1.0,SElTVA==\n").starts_with("line 1: it"));
    }
}
