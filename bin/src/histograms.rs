//! Reading the V2-encoded histograms of node reports.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// Adds the V2-encoded `bytes` to `into`; what cannot be read adds nothing.
pub fn merge_v2(into: &mut Histogram<u64>, bytes: &[u8]) {
    let read = Deserializer::new().deserialize::<u64, _>(&mut std::io::Cursor::new(bytes));
    if let Ok(histogram) = read {
        into.add(&histogram).ok();
    }
}
