//! A hierarchical wheel in front of a heap. Only the events of the open window are in order: those that were there when it
//! was opened are sorted once, those that are added to it later are in the heap. All others wait unsorted in six levels of
//! 256 slots. The order of pops is exactly the heap's; with few events everything is in the heap.
//!
//! The constants suit 10^3 to 10^7 events per simulated second.

use std::cmp::Reverse;

use super::chunks::{Chunks, NONE};
use super::heap::{Entry, Heap};

const LEVELS: usize = 6;
const SLOTS: usize = 256;
/// Words of 64 slots.
const WORDS: usize = SLOTS / 64;
/// log2 of the finest window, ns.
const WINDOW_BITS: u32 = 18;
/// Below so many events everything moves back into the heap.
const LOW: usize = 32;
/// Above so many events the wheel is used.
const HIGH: usize = 128;

/// What comes in no order. Its entries lie in chunks that are lent for each call.
#[derive(Debug)]
pub(super) struct Ladder {
    /// What the open window held when it was opened, the first event last.
    open: Vec<Entry>,
    /// What was added to the open window since.
    heap: Heap,
    /// The last chunk of each slot, which alone may be not full.
    slots: Vec<u32>,
    /// Which slots hold anything, a bit each.
    bits: [u64; LEVELS * WORDS],
    /// The open window's number; beyond all while everything is in the heap.
    base: u64,
    len: usize,
}

impl Default for Ladder {
    fn default() -> Self {
        Ladder {
            open: Vec::new(),
            heap: Heap::new(),
            slots: vec![NONE; LEVELS * SLOTS],
            bits: [0; LEVELS * WORDS],
            base: WHOLE,
            len: 0,
        }
    }
}

/// A window beyond all: everything is in the heap.
const WHOLE: u64 = u64::MAX;

impl Ladder {
    /// Pending events.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, chunks: &mut Chunks, entry: Entry) {
        self.len += 1;
        self.place(chunks, entry);
        if self.base == WHOLE && self.len > HIGH {
            self.spread(chunks);
        }
    }

    /// The first event, which stays.
    #[inline]
    pub(super) fn first(&mut self, chunks: &mut Chunks) -> Option<&Entry> {
        if self.open.is_empty() && self.heap.is_empty() && !self.advance(chunks) {
            return None;
        }
        match (self.open.last(), self.heap.first()) {
            (Some(opened), Some(added)) => Some(if opened.before(added) { opened } else { added }),
            (opened, added) => opened.or(added),
        }
    }

    /// One of the next events of the open window, `places` behind the next.
    #[inline]
    pub(super) fn ahead(&self, places: usize) -> Option<&Entry> {
        self.open.get(self.open.len().checked_sub(places + 1)?)
    }

    /// Takes the first event.
    #[inline]
    pub(super) fn pop(&mut self, chunks: &mut Chunks) -> Option<Entry> {
        if self.heap.is_empty() {
            if self.open.is_empty() && !self.advance(chunks) {
                return None;
            }
            self.len -= 1;
            // few events are left: they are in the heap now
            return self.open.pop().or_else(|| self.heap.pop());
        }
        self.len -= 1;
        self.earlier()
    }

    /// Takes the first event of a window that was added to.
    #[inline]
    fn earlier(&mut self) -> Option<Entry> {
        match self.open.last() {
            Some(first) if self.heap.first().is_none_or(|added| first.before(added)) => self.open.pop(),
            _ => self.heap.pop(),
        }
    }

    /// Drops what `keep` does not want.
    pub(super) fn retain(&mut self, chunks: &mut Chunks, mut keep: impl FnMut(&Entry) -> bool) {
        self.heap.retain(&mut keep);
        self.open.retain(&mut keep);
        self.len = self.heap.len() + self.open.len();
        for place in 0..self.slots.len() {
            let mut last = self.empty(place);
            while last != NONE {
                let chunk = chunks.at(last);
                let kept: Vec<Entry> = chunk.entries().iter().filter(|e| keep(e)).copied().collect();
                let before = chunk.link;
                chunks.release(last);
                self.len += kept.len();
                kept.into_iter().for_each(|entry| self.put(chunks, place, entry));
                last = before;
            }
        }
    }

    /// Empties a slot; its last chunk.
    #[inline]
    fn empty(&mut self, place: usize) -> u32 {
        self.bits[place >> 6] &= !(1 << (place & 63));
        std::mem::replace(&mut self.slots[place], NONE)
    }

    /// Adds to a slot.
    #[inline]
    fn put(&mut self, chunks: &mut Chunks, place: usize, entry: Entry) {
        let last = &mut self.slots[place];
        *last = chunks.stack(*last, entry);
        self.bits[place >> 6] |= 1 << (place & 63);
    }

    #[inline]
    fn place(&mut self, chunks: &mut Chunks, entry: Entry) {
        let window = entry.time() >> WINDOW_BITS;
        if window <= self.base {
            self.heap.push(entry);
            return;
        }
        let level = (63 - (window ^ self.base).leading_zeros() as usize) >> 3;
        let s = (window >> (8 * level)) as usize & (SLOTS - 1);
        self.put(chunks, level * SLOTS + s, entry);
    }

    #[cold]
    #[inline(never)]
    fn spread(&mut self, chunks: &mut Chunks) {
        let mut all = self.heap.take();
        self.base = all.iter().map(|e| e.time() >> WINDOW_BITS).min().unwrap_or(0);
        for entry in all.drain(..) {
            self.place(chunks, entry);
        }
    }

    /// The next slot of a level that holds something.
    fn next_slot(&self, level: usize) -> Option<usize> {
        let from = ((self.base >> (8 * level)) as usize & (SLOTS - 1)) + 1;
        if from == SLOTS {
            return None;
        }
        let bits = &self.bits[level * WORDS..(level + 1) * WORDS];
        let first = bits[from >> 6] & (!0 << (from & 63));
        std::iter::once((from >> 6, first))
            .chain(((from >> 6) + 1..4).map(|w| (w, bits[w])))
            .find(|(_, word)| *word != 0)
            .map(|(w, word)| w * 64 + word.trailing_zeros() as usize)
    }

    /// Opens the next window that holds something; false if nothing is pending.
    #[inline(never)]
    fn advance(&mut self, chunks: &mut Chunks) -> bool {
        if self.len < LOW {
            // few events are left: all into the heap
            self.base = WHOLE;
            (0..self.slots.len()).for_each(|place| self.pour(chunks, place));
            return self.len > 0;
        }
        loop {
            let (level, s) =
                (0..LEVELS).find_map(|l| self.next_slot(l).map(|s| (l, s))).expect("pending events are in some slot");
            self.base = ((self.base >> (8 * level + 8) << 8) | s as u64) << (8 * level);
            if level == 0 {
                self.open_slot(chunks, s);
                return true;
            }
            self.pour(chunks, level * SLOTS + s);
            if !self.heap.is_empty() {
                // what is in the first of the finer windows
                self.open.append(&mut self.heap.take());
                self.open.sort_unstable_by_key(|entry| Reverse(entry.key()));
                return true;
            }
        }
    }

    /// Opens a window: its entries are put in order.
    #[inline]
    fn open_slot(&mut self, chunks: &mut Chunks, place: usize) {
        let mut last = self.empty(place);
        while last != NONE {
            let chunk = chunks.at(last);
            let before = chunk.link;
            chunks.expect(before);
            self.open.extend_from_slice(chunk.entries());
            chunks.release(last);
            last = before;
        }
        if self.open.len() > 1 {
            self.open.sort_unstable_by_key(|entry| Reverse(entry.key()));
        }
    }

    /// Puts the entries of a slot where they belong now: into finer slots, or the heap.
    fn pour(&mut self, chunks: &mut Chunks, place: usize) {
        let mut last = self.empty(place);
        while last != NONE {
            let (len, before) = (chunks.at(last).entries().len(), chunks.at(last).link);
            chunks.expect(before);
            for at in 0..len {
                let entry = chunks.at(last).entries()[at];
                self.place(chunks, entry);
            }
            chunks.release(last);
            last = before;
        }
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
            let mut chunks = Chunks::default();
            let (mut heap, mut ladder, mut x, mut now) =
                (Heap::new(), Ladder::default(), 88_172_645_463_325_252_u64, 0);
            for i in 0..120_000_u64 {
                let r = next(&mut x);
                if (i < 30_000 && r % 8 < 7) || r.is_multiple_of(2) || heap.is_empty() {
                    let at = now + (r >> (64 - scale)) * (r % 3);
                    let entry = Entry::new(at, (r >> 3) as u8 & 7, (r >> 8) as u32 & 0xff, i, i);
                    heap.push(entry);
                    ladder.push(&mut chunks, entry);
                } else {
                    let (a, b) = (heap.pop(), ladder.pop(&mut chunks));
                    assert_eq!(a, b);
                    now = a.expect("not empty").time();
                }
            }
            heap.retain(|e| e.payload % 5 != 0);
            ladder.retain(&mut chunks, |e| e.payload % 5 != 0);
            loop {
                let (a, b) = (heap.pop(), ladder.pop(&mut chunks));
                assert_eq!(a, b);
                if a.is_none() {
                    break;
                }
            }
        }
    }
}
