//! Memory for pending events: chunks of a few, chained into the slots of a wheel and into lanes. All share them, so memory is
//! that of the entries, and nothing is allocated once there are as many chunks as are needed at the same time.

use super::heap::Entry;
use super::near::fetch_line;

/// Entries of a chunk, which takes 248 bytes.
pub(super) const CHUNK: usize = 10;
/// No chunk.
pub(super) const NONE: u32 = u32::MAX;

/// Some entries.
#[derive(Debug)]
pub(super) struct Chunk {
    entries: [Entry; CHUNK],
    len: u32,
    /// The one before in a slot, the next one in a lane, or [`NONE`].
    pub(super) link: u32,
}

impl Chunk {
    /// What it holds.
    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len as usize]
    }

    /// Adds an entry; false if it is full.
    #[inline]
    fn add(&mut self, entry: Entry) -> bool {
        let place = self.entries.get_mut(self.len as usize);
        self.len += u32::from(place.is_some());
        place.map(|place| *place = entry).is_some()
    }
}

/// All chunks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    all: Vec<Chunk>,
    /// Those that hold nothing.
    free: Vec<u32>,
}

impl Chunks {
    /// That chunk.
    #[inline]
    pub(super) fn at(&self, chunk: u32) -> &Chunk {
        &self.all[chunk as usize]
    }

    /// Brings near a chunk that is read soon; [`NONE`] is none.
    #[inline]
    pub(super) fn expect(&self, chunk: u32) {
        if let Some(chunk) = self.all.get(chunk as usize) {
            // an entry in each of its lines
            (0..=CHUNK).step_by(2).for_each(|at| fetch_line(&chunk.entries, at));
        }
    }

    /// A chunk with one entry.
    #[inline]
    fn begin(&mut self, entry: Entry, link: u32) -> u32 {
        let Some(next) = self.free.pop() else {
            if self.all.len() == self.all.capacity() {
                // to twice as many would waste as much as they hold
                self.all.reserve_exact(self.all.len() / 8 + 16);
            }
            self.all.push(Chunk { entries: [entry; CHUNK], len: 1, link });
            return self.all.len() as u32 - 1;
        };
        let chunk = &mut self.all[next as usize];
        chunk.entries[0] = entry;
        (chunk.len, chunk.link) = (1, link);
        next
    }

    /// Adds to a chain whose last chunk alone may be not full; its last chunk now.
    #[inline]
    pub(super) fn stack(&mut self, last: u32, entry: Entry) -> u32 {
        let added = self.all.get_mut(last as usize).is_some_and(|chunk| chunk.add(entry));
        if added { last } else { self.begin(entry, last) }
    }

    /// Takes a chunk back.
    #[inline]
    pub(super) fn release(&mut self, chunk: u32) {
        self.free.push(chunk);
    }
}

/// Entries in the order in which they were added.
#[derive(Debug)]
pub(super) struct Lane {
    first: u32,
    /// The first entry in the first chunk.
    at: u32,
    last: u32,
    len: usize,
}

impl Default for Lane {
    fn default() -> Self {
        Lane { first: NONE, at: 0, last: NONE, len: 0 }
    }
}

impl Lane {
    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds one at the end.
    #[inline]
    pub(super) fn push(&mut self, chunks: &mut Chunks, entry: Entry) {
        self.len += 1;
        if self.last == NONE {
            self.first = chunks.begin(entry, NONE);
            (self.at, self.last) = (0, self.first);
        } else if !chunks.all[self.last as usize].add(entry) {
            let next = chunks.begin(entry, NONE);
            chunks.all[self.last as usize].link = next;
            self.last = next;
        }
    }

    /// The first, which stays.
    #[inline]
    pub(super) fn first<'a>(&self, chunks: &'a Chunks) -> Option<&'a Entry> {
        chunks.all.get(self.first as usize).map(|chunk| &chunk.entries[self.at as usize])
    }

    /// Takes the first.
    #[inline]
    pub(super) fn pop(&mut self, chunks: &mut Chunks) -> Option<Entry> {
        self.take(chunks, &mut 0)
    }

    /// Takes the first, and tells the key of the next, or the highest of all if there is none.
    #[inline(always)]
    pub(super) fn take(&mut self, chunks: &mut Chunks, next: &mut u128) -> Option<Entry> {
        let chunk = chunks.all.get(self.first as usize)?;
        let (entry, at) = (chunk.entries[self.at as usize].by_words(), self.at + 1);
        self.len -= 1;
        self.at = at;
        *next = if at < chunk.len { chunk.entries[at as usize].key() } else { self.turn(chunks) };
        Some(entry)
    }

    /// Goes on to the next chunk; the key of its first, or the highest of all.
    #[inline(never)]
    fn turn(&mut self, chunks: &mut Chunks) -> u128 {
        let next = chunks.at(self.first).link;
        chunks.release(self.first);
        (self.first, self.at) = (next, 0);
        let Some(chunk) = chunks.all.get(next as usize) else {
            self.last = NONE;
            return u128::MAX;
        };
        chunks.expect(chunk.link);
        chunk.entries[0].key()
    }

    /// One of the first, `places` behind the very first; at most a chunk away.
    #[inline]
    pub(super) fn ahead<'a>(&self, chunks: &'a Chunks, places: usize) -> Option<&'a Entry> {
        let chunk = chunks.all.get(self.first as usize)?;
        let place = self.at as usize + places;
        match place.checked_sub(CHUNK) {
            None => chunk.entries().get(place),
            Some(beyond) => chunks.all.get(chunk.link as usize)?.entries().get(beyond),
        }
    }

    /// Drops what `keep` does not want; the last that is left.
    pub(super) fn retain(&mut self, chunks: &mut Chunks, mut keep: impl FnMut(&Entry) -> bool) -> Option<Entry> {
        let (mut kept, mut last) = (Lane::default(), None);
        while let Some(entry) = self.pop(chunks) {
            if keep(&entry) {
                kept.push(chunks, entry);
                last = Some(entry);
            }
        }
        *self = kept;
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_a_ring_and_chunks_are_used_again() {
        let mut chunks = Chunks::default();
        let (mut one, mut other) = (Lane::default(), Lane::default());
        let entry = |n: u64| Entry::new(n, 1, 1, n, n);
        let mut next = 0;
        for n in 0..1000_u64 {
            one.push(&mut chunks, entry(n));
            other.push(&mut chunks, entry(n));
            if n % 3 > 0 {
                assert_eq!(one.ahead(&chunks, 0), one.first(&chunks));
                let seen = one.ahead(&chunks, 11).copied();
                assert!(seen.is_none_or(|seen| seen == entry(next + 11)), "{seen:?}");
                assert_eq!(one.pop(&mut chunks), Some(entry(next)));
                next += 1;
            }
            assert_eq!(one.len() as u64, n + 1 - next);
            while other.len() > 3 {
                other.pop(&mut chunks);
            }
        }
        assert_eq!(one.retain(&mut chunks, |e| e.payload % 2 == 0), Some(entry(998)));
        let left: Vec<u64> = std::iter::from_fn(|| one.pop(&mut chunks)).map(|e| e.payload).collect();
        assert_eq!(left, (next..1000).filter(|n| n % 2 == 0).collect::<Vec<_>>());
        assert!(one.first(&chunks).is_none() && one.pop(&mut chunks).is_none() && one.len() == 0);
        assert!(chunks.all.len() < 50, "{} chunks for 350 entries at most", chunks.all.len());
    }
}
