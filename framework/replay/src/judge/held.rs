//! Streams that are there at the same time.

use serde::Serialize;

use super::expect::Expected;
use super::matching::Matched;
use crate::receive::Streams;

/// Streams at the same time: each was heard in the last 10 s, to a tenth of a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// Streams of which a packet arrived.
    pub streams: u64,
    /// The most at a time.
    pub held_max: u64,
    /// Those when the last packet arrived.
    pub held_at_end: u64,
    /// From the first packet until every stream was open, ns.
    pub opened_ns: u64,
    /// Streams that were opened in a second of that, without the first one; 0 if all came at once.
    pub opened_per_second: f64,
    /// Packets of further streams, of which there were too many to tell them apart.
    pub beyond: u64,
    /// From one point of `curve` to the next, ms.
    pub curve_ms: u64,
    /// How many there were over time: at the end of each such span since the first packet, and when the last packet arrived.
    pub curve: Vec<u64>,
}

impl Held {
    /// Of the packets that arrived; `None` when none did.
    pub fn of(expected: &Expected, matched: &Matched) -> Option<Self> {
        let arrival = |number: &u32| (matched.at[*number as usize], expected.packets[*number as usize].flow);
        let mut arrivals: Vec<(u64, u64)> = matched.order.iter().map(arrival).collect();
        arrivals.sort_unstable();
        let mut streams = Streams::default();
        // 0 is no number of a stream
        arrivals.into_iter().for_each(|(at, flow)| streams.hear(flow + 1, at));
        Held::heard(&streams)
    }

    /// Of streams that were heard; `None` when none were.
    pub fn heard(heard: &Streams) -> Option<Self> {
        let (streams, opened_ns) = (heard.known(), heard.opened());
        let others = streams.checked_sub(1)?;
        let opened_per_second = if opened_ns > 0 { others as f64 * 1e9 / opened_ns as f64 } else { 0.0 };
        let curve = heard.curve();
        Some(Held {
            streams,
            held_max: heard.most(),
            held_at_end: heard.now(),
            opened_ns,
            opened_per_second,
            beyond: heard.beyond(),
            curve_ms: curve.tenths * 100,
            curve: curve.points,
        })
    }
}
