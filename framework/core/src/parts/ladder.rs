//! A hierarchical wheel in front of the heap. The heap orders only the open 65 µs window; later events wait unsorted in
//! five levels of 256 slots. The order of pops is exactly the heap's; with few events everything is in the heap.
//!
//! The constants suit 10^3 to 10^7 events per simulated second.

use super::heap::{Entry, Heap};

const LEVELS: usize = 5;
const SLOTS: usize = 256;
/// log2 of the finest window, ns.
const WINDOW_BITS: u32 = 16;
/// Below so many events everything moves back into the heap.
const LOW: usize = 1024;
/// Above so many events the wheel is used.
const HIGH: usize = 4096;

/// The simulator's queue.
#[derive(Debug)]
pub struct Ladder {
    heap: Heap,
    slots: Vec<Vec<Entry>>,
    bits: [[u64; 4]; LEVELS],
    /// Emptied slots lend their buffers on.
    spare: [Vec<Vec<Entry>>; LEVELS],
    /// The open window's number.
    base: u64,
    len: usize,
    /// Whether everything is in the heap.
    whole: bool,
}

impl Default for Ladder {
    fn default() -> Self {
        Ladder {
            heap: Heap::new(),
            slots: (0..LEVELS * SLOTS).map(|_| Vec::new()).collect(),
            bits: [[0; 4]; LEVELS],
            spare: Default::default(),
            base: 0,
            len: 0,
            whole: true,
        }
    }
}

impl Ladder {
    /// An empty queue.
    pub fn new() -> Self {
        Ladder::default()
    }

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

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.len += 1;
        if self.whole {
            self.heap.push(entry);
            if self.len > HIGH {
                self.spread();
            }
        } else {
            self.place(entry);
        }
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        if self.heap.is_empty() && !self.advance() {
            return None;
        }
        self.len -= 1;
        self.heap.pop()
    }

    /// Drops what `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&Entry) -> bool) {
        self.heap.retain(&mut keep);
        self.len = self.heap.len();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.retain(&mut keep);
            self.len += slot.len();
            if slot.is_empty() {
                let s = i % SLOTS;
                self.bits[i / SLOTS][s >> 6] &= !(1 << (s & 63));
            }
        }
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        let window = entry.time() >> WINDOW_BITS;
        if window <= self.base {
            self.heap.push(entry);
            return;
        }
        let level = (63 - (window ^ self.base).leading_zeros() as usize) >> 3;
        let s = (window >> (8 * level)) as usize & (SLOTS - 1);
        let slot = &mut self.slots[level * SLOTS + s];
        if slot.capacity() == 0
            && let Some(buffer) = self.spare[level].pop()
        {
            *slot = buffer;
        }
        slot.push(entry);
        self.bits[level][s >> 6] |= 1 << (s & 63);
    }

    #[cold]
    #[inline(never)]
    fn spread(&mut self) {
        self.whole = false;
        let mut all = self.heap.take();
        self.base = all.iter().map(|e| e.time() >> WINDOW_BITS).min().unwrap_or(0);
        for entry in all.drain(..) {
            self.place(entry);
        }
    }

    /// The next slot of a level that holds something.
    fn next_slot(&self, level: usize) -> Option<usize> {
        let from = ((self.base >> (8 * level)) as usize & (SLOTS - 1)) + 1;
        if from == SLOTS {
            return None;
        }
        let bits = &self.bits[level];
        let first = bits[from >> 6] & (!0 << (from & 63));
        std::iter::once((from >> 6, first))
            .chain(((from >> 6) + 1..4).map(|w| (w, bits[w])))
            .find(|(_, word)| *word != 0)
            .map(|(w, word)| w * 64 + word.trailing_zeros() as usize)
    }

    /// Opens the next window that holds something; false if nothing is pending.
    #[cold]
    #[inline(never)]
    fn advance(&mut self) -> bool {
        if self.len == 0 {
            return false;
        }
        if self.len < LOW {
            self.gather();
            return true;
        }
        while self.heap.is_empty() {
            let (level, s) =
                (0..LEVELS).find_map(|l| self.next_slot(l).map(|s| (l, s))).expect("pending events are in some slot");
            self.base = ((self.base >> (8 * level + 8) << 8) | s as u64) << (8 * level);
            self.bits[level][s >> 6] &= !(1 << (s & 63));
            let mut buffer = std::mem::take(&mut self.slots[level * SLOTS + s]);
            for entry in buffer.drain(..) {
                if level == 0 { self.heap.push(entry) } else { self.place(entry) }
            }
            if self.spare[level].len() < if level == 0 { SLOTS } else { 8 } {
                self.spare[level].push(buffer);
            }
        }
        true
    }

    /// Few events are left: all into the heap.
    fn gather(&mut self) {
        self.whole = true;
        for slot in &mut self.slots {
            for entry in std::mem::take(slot) {
                self.heap.push(entry);
            }
        }
        self.bits = [[0; 4]; LEVELS];
        self.spare.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(x: &mut u64) -> u64 {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        *x
    }

    #[test]
    fn the_order_is_exactly_the_heaps() {
        for scale in [10_u32, 20, 30, 40] {
            let (mut heap, mut ladder, mut x, mut now) = (Heap::new(), Ladder::new(), 88_172_645_463_325_252_u64, 0);
            for i in 0..120_000_u64 {
                let r = next(&mut x);
                if (i < 30_000 && r % 8 < 7) || r.is_multiple_of(2) || heap.is_empty() {
                    let at = now + (r >> (64 - scale)) * (r % 3);
                    let entry = Entry::new(at, (r >> 3) as u8 & 7, (r >> 8) as u32 & 0xff, i, i);
                    heap.push(entry);
                    ladder.push(entry);
                } else {
                    let (a, b) = (heap.pop(), ladder.pop());
                    assert_eq!(a, b);
                    now = a.expect("not empty").time();
                }
            }
            heap.retain(|e| e.payload % 5 != 0);
            ladder.retain(|e| e.payload % 5 != 0);
            loop {
                let (a, b) = (heap.pop(), ladder.pop());
                assert_eq!(a, b);
                if a.is_none() {
                    break;
                }
            }
        }
    }
}
