//! What each link did, over all its pairs of node instances and all processes that had one of its ends.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::plan::Impose;
use rehearsal_core::run::LinkEnd;
use serde::{Deserialize, Serialize};

use crate::percentiles::Percentiles;

/// A link that was simulated or imposed. `offered = delivered + lost + full + open`. Simulated, and imposed in user space,
/// messages are counted; imposed by the kernel, packets, and what netem lost is not told apart from what found no room.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Where it begins: a node's name in the file.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Who imposed it; `none` in a simulation.
    pub imposed: Impose,
    /// Pairs of node instances that used it, each with a link of its own.
    pub pairs: u64,
    /// Messages that were offered to it, retransmissions among them.
    pub offered: u64,
    /// Messages that came out of it.
    pub delivered: u64,
    /// Messages that it lost on the way.
    pub lost: u64,
    /// Messages that found its queue full.
    pub full: u64,
    /// Messages that were on it at the end of the run.
    pub open: u64,
    /// Offers of messages that it had lost, or had no room for, before.
    pub retransmitted: u64,
    /// Bytes that came out of it, headers of the carrier included.
    pub bytes: u64,
    /// From the first offer to the last delivery, seconds.
    pub active_seconds: f64,
    /// Bits that came out of all its pairs per second of that time.
    pub bits_per_second: f64,
    /// From offer to delivery: waiting, serialisation, propagation and jitter. Of a link imposed in user space they are
    /// measured; the kernel does not tell them.
    pub delay: Option<Percentiles>,
}

/// The links of a run, in the order of their names.
pub(super) fn links(ends: &[LinkEnd]) -> Vec<LinkSummary> {
    let mut all: BTreeMap<(&str, &str), (LinkSummary, Histogram<u64>)> = BTreeMap::new();
    for end in ends {
        let (row, delays) = all.entry((&end.from, &end.to)).or_insert_with(|| {
            let (from, to, imposed) = (end.from.clone(), end.to.clone(), end.imposed);
            (LinkSummary { from, to, imposed, ..LinkSummary::default() }, histogram())
        });
        row.pairs += end.pairs;
        row.offered += end.offered;
        row.delivered += end.delivered;
        row.lost += end.lost;
        row.full += end.full;
        row.open += end.open;
        row.retransmitted += end.retransmitted;
        row.bytes += end.bytes;
        row.active_seconds = row.active_seconds.max(end.active_ns as f64 / 1e9);
        // what cannot be read came from another process, and has no times
        if let Ok(part) = Deserializer::new().deserialize::<u64, _>(&mut end.delay_v2.as_slice()) {
            let _ = delays.add(part);
        }
    }
    let rows = all.into_values().map(|(mut row, delays)| {
        if row.active_seconds > 0.0 {
            row.bits_per_second = row.bytes as f64 * 8.0 / row.active_seconds;
        }
        row.delay = Percentiles::of(&delays);
        row
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use rehearsal_core::Time;
    use rehearsal_core::parts::links::LinkBook;

    use super::*;

    #[test]
    fn the_ends_of_one_link_in_two_processes_are_one_row() {
        let ms = |n: u64| Time::from_nanos(n * 1_000_000);
        let end = |delay: u64| {
            let mut book = LinkBook::new("camera", "receiver", Impose::Userspace);
            book.pair();
            for n in 0..10 {
                book.offered(ms(n * 100), false);
                book.delivered(ms(n * 100), ms(n * 100 + delay), 1000);
            }
            book.offered(ms(901), false);
            book.lost();
            book.end()
        };
        let rows = links(&[end(5), end(20)]);
        let [row] = &rows[..] else { panic!("one row, not {rows:?}") };
        assert_eq!((row.pairs, row.offered, row.delivered, row.lost), (2, 22, 20, 2));
        assert_eq!((row.active_seconds, row.bits_per_second.round()), (0.92, (20_000.0 * 8.0 / 0.92_f64).round()));
        let delay = row.delay.as_ref().expect("twenty values");
        assert!(delay.max_ns.abs_diff(20_000_000) < 20_000, "{delay:?}");
    }
}
