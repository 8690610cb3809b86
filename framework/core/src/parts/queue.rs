//! The simulator's queue: lanes for events that mostly come in order by themselves, and a ladder for all others. Both keep
//! their entries in the same chunks.
//!
//! What a link delivers, messages with one latency, and timers of one period are added in the order in which they are due. So
//! a lane is a row, at whose end an event is added and at whose front one is taken. One that would be out of order there goes
//! to the ladder. The next event is the first of all fronts: the order of pops is exactly that of one heap.

use super::chunks::{Chunks, Lane};
use super::heap::Entry;
use super::ladder::Ladder;

/// How many lanes there are.
pub const LANES: usize = 5;
/// The place of the ladder's front among all.
const REST: usize = LANES;
/// No front.
const NONE: u128 = u128::MAX;

/// All pending events.
#[derive(Debug)]
pub struct Queue {
    chunks: Chunks,
    lanes: [Lane; LANES],
    /// Keys of the first event of each lane, and of the ladder.
    fronts: [u128; LANES + 1],
    /// Keys of the last event of each lane.
    backs: [u128; LANES],
    /// Whether the front of the ladder has to be looked up.
    stale: bool,
    rest: Ladder,
    len: usize,
    /// Where the last event was taken from.
    last: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            chunks: Chunks::default(),
            lanes: Default::default(),
            fronts: [NONE; LANES + 1],
            backs: [0; LANES],
            stale: false,
            rest: Ladder::default(),
            len: 0,
            last: REST,
        }
    }
}

impl Queue {
    /// Pending events.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is pending.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event that comes in no order.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.len += 1;
        self.fronts[REST] = self.fronts[REST].min(entry.key());
        self.rest.push(&mut self.chunks, entry);
    }

    /// Adds an event to a lane, or to the others if it is earlier than the last one there.
    #[inline]
    pub fn push_in(&mut self, lane: usize, entry: Entry) {
        let key = entry.key();
        if key < self.backs[lane] {
            return self.push(entry);
        }
        self.len += 1;
        self.backs[lane] = key;
        self.fronts[lane] = self.fronts[lane].min(key);
        self.lanes[lane].push(&mut self.chunks, entry);
    }

    /// Takes the first event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Entry> {
        if self.stale {
            self.stale = false;
            self.fronts[REST] = self.rest.first(&mut self.chunks).map_or(NONE, Entry::key);
        }
        let first = self.first();
        let taken = if first == REST {
            self.stale = true;
            self.rest.pop(&mut self.chunks)?
        } else {
            let taken = self.lanes[first].take(&mut self.chunks, &mut self.fronts[first])?;
            if self.fronts[first] == NONE {
                // it is empty: anything may be added to it
                self.backs[first] = 0;
            }
            taken
        };
        self.len -= 1;
        self.last = first;
        Some(taken)
    }

    /// Where the first event is. The upper halves of the keys, time and class, nearly always tell.
    #[inline]
    fn first(&self) -> usize {
        let upper = |front: u128| (front >> 64) as u64;
        let (mut least, mut first, mut last) = (upper(self.fronts[REST]), REST, REST);
        for lane in 0..LANES {
            let front = upper(self.fronts[lane]);
            first = if front < least { lane } else { first };
            last = if front <= least { lane } else { last };
            least = least.min(front);
        }
        if first == last { first } else { self.first_of_equals() }
    }

    #[cold]
    fn first_of_equals(&self) -> usize {
        (0..=LANES).rev().min_by_key(|place| self.fronts[*place]).unwrap_or(REST)
    }

    /// An event that comes soon, if it can be told at no cost: `places` behind the next from where the last one came.
    #[inline]
    pub fn ahead(&self, places: usize) -> Option<&Entry> {
        match self.lanes.get(self.last) {
            Some(lane) => lane.ahead(&self.chunks, places),
            None => self.rest.ahead(places),
        }
    }

    /// Drops what `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&Entry) -> bool) {
        self.rest.retain(&mut self.chunks, &mut keep);
        self.stale = true;
        self.len = self.rest.len();
        for lane in 0..LANES {
            let last = self.lanes[lane].retain(&mut self.chunks, &mut keep);
            self.len += self.lanes[lane].len();
            self.fronts[lane] = self.lanes[lane].first(&self.chunks).map_or(NONE, Entry::key);
            self.backs[lane] = last.as_ref().map_or(0, Entry::key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::heap::Heap;
    use super::*;

    fn next(x: &mut u64) -> u64 {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        *x
    }

    #[test]
    fn the_order_is_exactly_the_heaps_whatever_goes_where() {
        for scale in [4_u32, 12, 20, 30] {
            let (mut heap, mut queue, mut x, mut now) = (Heap::new(), Queue::default(), 88_172_645_463_325_252_u64, 0);
            for i in 0..120_000_u64 {
                let r = next(&mut x);
                if (i < 20_000 && r % 8 < 7) || r.is_multiple_of(2) || heap.is_empty() {
                    // most lanes are nearly in order, the first is in none
                    let lane = (r >> 20) as usize % (LANES + 2);
                    let scatter = if lane == 0 { scale } else { scale / 2 };
                    let at = now + (lane as u64) * 1000 + (r >> (64 - scatter)) * (r % 3);
                    let entry = Entry::new(at, (r >> 3) as u8 & 7, (r >> 8) as u32 & 0xff, i, i);
                    heap.push(entry);
                    if lane < LANES { queue.push_in(lane, entry) } else { queue.push(entry) }
                } else {
                    let (a, b) = (heap.pop(), queue.pop());
                    assert_eq!(a, b);
                    now = a.expect("not empty").time();
                }
                assert_eq!(heap.len(), queue.len());
            }
            heap.retain(|e| e.payload % 5 != 0);
            queue.retain(|e| e.payload % 5 != 0);
            loop {
                let (a, b) = (heap.pop(), queue.pop());
                assert_eq!(a, b);
                if a.is_none() {
                    break;
                }
            }
            assert!(queue.is_empty());
        }
    }
}
