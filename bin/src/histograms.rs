//! Reading the V2-encoded histograms of node reports.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// The histogram that `bytes` encode; `None` if they cannot be read.
pub fn read_v2(bytes: &[u8]) -> Option<Histogram<u64>> {
    Deserializer::new().deserialize::<u64, _>(&mut std::io::Cursor::new(bytes)).ok()
}
