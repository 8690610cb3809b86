//! Who sends which stream: the largest first, each to the worker that has the least.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use crate::template::Template;

/// Streams spread over workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    #[serde(skip)]
    owners: Vec<u16>,
    /// Streams of each worker.
    pub streams: Vec<u64>,
    /// Packets of each worker in one loop.
    pub packets: Vec<u64>,
    /// How much more packets the busiest worker has than the mean, per cent.
    pub imbalance_percent: f64,
}

impl Spread {
    /// Over so many workers, at least one. The same template is always spread in the same way.
    pub fn over(template: &Template, workers: u16) -> Self {
        let sizes: Vec<u64> = template.streams().iter().map(|stream| stream.packets.iter().sum()).collect();
        let workers = usize::from(workers.max(1));
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|stream| (Reverse(sizes[*stream]), *stream));
        let mut idle: BinaryHeap<Reverse<(u64, usize)>> = (0..workers).map(|worker| Reverse((0, worker))).collect();
        let mut spread = Spread {
            owners: vec![0; sizes.len()],
            streams: vec![0; workers],
            packets: vec![0; workers],
            imbalance_percent: 0.0,
        };
        for stream in order {
            let Some(Reverse((packets, worker))) = idle.pop() else { break };
            spread.owners[stream] = worker as u16;
            spread.streams[worker] += 1;
            spread.packets[worker] = packets + sizes[stream];
            idle.push(Reverse((spread.packets[worker], worker)));
        }
        let mean = sizes.iter().sum::<u64>() as f64 / workers as f64;
        let most = spread.packets.iter().copied().max().unwrap_or(0) as f64;
        spread.imbalance_percent = if mean > 0.0 { (most / mean - 1.0) * 100.0 } else { 0.0 };
        spread
    }

    /// The worker of a stream.
    #[inline]
    pub fn worker(&self, stream: u32) -> u16 {
        self.owners.get(stream as usize).copied().unwrap_or(0)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::worker::tests::flows;

    #[test]
    fn many_streams_are_spread_evenly() {
        let template = flows(&[30, 1, 1, 1, 1, 1, 1, 24]);
        let spread = Spread::over(&template, 2);
        assert_eq!((spread.packets.clone(), spread.imbalance_percent), (vec![30, 30], 0.0));
        assert_eq!(spread.streams.iter().sum::<u64>(), 8);
    }

    #[test]
    fn one_stream_stays_with_one_worker() {
        let spread = Spread::over(&flows(&[10]), 2);
        assert_eq!((spread.packets.clone(), spread.imbalance_percent), (vec![10, 0], 100.0));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_worker_has_more_than_the_mean_and_one_stream(
            sizes in prop::collection::vec(1u64..40, 1..60),
            workers in 1u16..6,
        ) {
            let spread = Spread::over(&flows(&sizes), workers);
            let all: u64 = sizes.iter().sum();
            prop_assert_eq!(spread.packets.iter().sum::<u64>(), all);
            let largest = sizes.iter().max().copied().unwrap_or(0);
            let most = spread.packets.iter().max().copied().unwrap_or(0);
            prop_assert!(most as f64 <= all as f64 / f64::from(workers) + largest as f64);
        }
    }
}
