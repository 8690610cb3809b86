//! The ordered event queue: a 4-ary heap of 24-byte entries keyed (time, class, source, source's own counter).
//!
//! The order is a property of the model, not of insertion, so a parallel engine could keep it.

/// One pending event. The key is 128 bits: time 56 | class 8 || source 28 | counter 36; the payload is the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    hi: u64,
    lo: u64,
    /// What the engine keeps with it: slot and target, timer key and generation, or a work key.
    pub payload: u64,
}

/// Bits of the counter in a key.
const COUNTER_BITS: u32 = 36;

impl Entry {
    /// `time` in ns below 2^56, `source` below 2^28, `counter` below 2^36.
    #[inline]
    pub const fn new(time: u64, class: u8, source: u32, counter: u64, payload: u64) -> Self {
        Entry { hi: time << 8 | class as u64, lo: (source as u64) << COUNTER_BITS | counter, payload }
    }

    /// When, ns.
    #[inline]
    pub const fn time(&self) -> u64 {
        self.hi >> 8
    }

    /// What sort of event; lower ones come first within an instant.
    #[inline]
    pub const fn class(&self) -> u8 {
        self.hi as u8
    }

    /// Whose event.
    #[inline]
    pub const fn source(&self) -> u32 {
        (self.lo >> COUNTER_BITS) as u32
    }

    /// A copy, word by word: what was just written by words is not waited for, as it is by a wider read.
    #[inline(always)]
    pub const fn by_words(&self) -> Entry {
        Entry { hi: self.hi, lo: self.lo, payload: self.payload }
    }

    /// The two words of the key, for digests.
    #[inline]
    pub const fn words(&self) -> (u64, u64) {
        (self.hi, self.lo)
    }

    /// The whole key.
    #[inline]
    pub(super) const fn key(&self) -> u128 {
        (self.hi as u128) << 64 | self.lo as u128
    }

    /// Whether it comes before `other`.
    #[inline]
    pub(super) const fn before(&self, other: &Entry) -> bool {
        self.key() < other.key()
    }
}

/// A 4-ary heap. A pop leaves a hole at the root that the next push fills: one sift instead of two.
#[derive(Debug, Default)]
pub struct Heap {
    entries: Vec<Entry>,
    hole: bool,
}

impl Heap {
    /// An empty heap.
    pub fn new() -> Self {
        Heap::default()
    }

    /// Pending events.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len() - usize::from(self.hole)
    }

    /// Whether nothing is pending.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        if self.hole {
            self.hole = false;
            self.sift_down(entry);
            return;
        }
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > 0 {
            let parent = (at - 1) >> 2;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = entry;
    }

    /// When the first event is due, ns.
    #[inline]
    pub fn peek_time(&mut self) -> Option<u64> {
        self.settle();
        self.entries.first().map(Entry::time)
    }

    /// The first event, which stays.
    #[inline]
    pub(super) fn first(&mut self) -> Option<&Entry> {
        self.settle();
        self.entries.first()
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        self.settle();
        let first = self.entries.first()?.by_words();
        self.hole = true;
        Some(first)
    }

    /// Takes all events, in no order.
    pub fn take(&mut self) -> Vec<Entry> {
        self.settle();
        std::mem::take(&mut self.entries)
    }

    /// Drops what `keep` does not want.
    pub fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.settle();
        self.entries.retain(keep);
        // a sorted vector is a heap
        self.entries.sort_unstable_by_key(Entry::key);
    }

    /// Puts `entry` into the hole at the root.
    #[inline]
    fn sift_down(&mut self, entry: Entry) {
        let entries = &mut self.entries[..];
        let count = entries.len();
        let mut at = 0;
        loop {
            let child = at * 4 + 1;
            let least = if child + 4 <= count {
                let four = &entries[child..child + 4];
                let left = usize::from(four[1].before(&four[0]));
                let right = 2 + usize::from(four[3].before(&four[2]));
                child + if four[right].before(&four[left]) { right } else { left }
            } else if child < count {
                (child + 1..count).fold(child, |m, j| if entries[j].before(&entries[m]) { j } else { m })
            } else {
                break;
            };
            if !entries[least].before(&entry) {
                break;
            }
            entries[at] = entries[least];
            at = least;
        }
        entries[at] = entry;
    }

    #[inline]
    fn settle(&mut self) {
        if self.hole {
            self.hole = false;
            let last = self.entries.pop().expect("a hole is an entry");
            if !self.entries.is_empty() {
                self.sift_down(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A small generator for test sequences (xorshift64).
    pub(crate) fn next(x: &mut u64) -> u64 {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        *x
    }

    #[test]
    fn pops_are_those_of_an_ordered_map() {
        let (mut heap, mut model, mut x) = (Heap::new(), BTreeMap::new(), 88_172_645_463_325_252_u64);
        for i in 0..100_000_u64 {
            let r = next(&mut x);
            if r % 5 < 3 || model.is_empty() {
                let entry = Entry::new(r >> 40, (r >> 3) as u8 & 7, (r >> 8) as u32 & 0xff, i, i);
                heap.push(entry);
                model.insert(entry.key(), entry);
            } else {
                assert_eq!(heap.pop(), model.pop_first().map(|(_, e)| e));
            }
            assert_eq!(heap.len(), model.len());
        }
        heap.retain(|e| e.payload % 3 != 0);
        model.retain(|_, e| e.payload % 3 != 0);
        while let Some((_, entry)) = model.pop_first() {
            assert_eq!(heap.peek_time(), Some(entry.time()));
            assert_eq!(heap.pop(), Some(entry));
        }
        assert_eq!(heap.pop(), None);
    }
}
