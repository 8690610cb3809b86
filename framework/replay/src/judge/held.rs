//! Streams that are there at the same time.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::expect::Expected;
use super::matching::Matched;

/// How long a stream is there after a packet of it, nanoseconds. Source: the DTRF paper counts a stream as concurrent when it
/// sends at least one packet in 10 s.
const HELD: u64 = 10_000_000_000;

/// Streams at the same time: each was heard in the last 10 s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
}

impl Held {
    /// Of the packets that arrived; `None` when none did.
    pub fn of(expected: &Expected, matched: &Matched) -> Option<Self> {
        let arrival = |number: &u32| (matched.at[*number as usize], expected.packets[*number as usize].flow);
        let mut arrivals: Vec<(u64, u64)> = matched.order.iter().map(arrival).collect();
        arrivals.sort_unstable();
        let first = arrivals.first()?.0;
        // when each stream was last heard; those that are no longer held stay with a time of 0
        let mut heard: BTreeMap<u64, u64> = BTreeMap::new();
        let mut recent: VecDeque<(u64, u64)> = VecDeque::new();
        let [mut now, mut most, mut opened] = [0u64, 0, first];
        for (at, flow) in arrivals {
            while let Some((then, gone)) = recent.front().copied().filter(|(then, _)| at - then > HELD) {
                recent.pop_front();
                if let Some(last) = heard.get_mut(&gone).filter(|last| **last == then) {
                    (*last, now) = (0, now - 1);
                }
            }
            match heard.insert(flow, at) {
                None => (now, opened) = (now + 1, at),
                Some(0) => now += 1,
                Some(_) => {}
            }
            recent.push_back((at, flow));
            most = most.max(now);
        }
        let (streams, opened_ns) = (heard.len() as u64, opened - first);
        let per_second = |opened_ns: u64| (streams - 1) as f64 * 1e9 / opened_ns as f64;
        let opened_per_second = if opened_ns > 0 { per_second(opened_ns) } else { 0.0 };
        Some(Held { streams, held_max: most, held_at_end: now, opened_ns, opened_per_second })
    }
}
