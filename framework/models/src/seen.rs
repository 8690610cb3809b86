//! Which datagrams of a stream have come, so that duplicates and late ones are told apart, and how their times on the way
//! vary.

use std::collections::BTreeMap;

use rehearsal_core::Span;
use rehearsal_core::parts::jitter::{Jitter, Variation};

/// Streams that are watched; 240 bytes each. Datagrams of further ones count as being in order, and have no variation.
const STREAMS_MAX: usize = 1_000_000;
/// Sequence numbers back from the newest in which a duplicate is recognised.
const WINDOW: u64 = 1024;
/// Sequence numbers back from the newest whose times are kept for their neighbours. Assumed: links put few datagrams
/// further out of order, and a pair that is further apart is left out of the variation.
const NEIGHBOURS: u64 = 8;

/// What came in of one stream: the newest number, which of the last [`WINDOW`] numbers came, and how long the last
/// [`NEIGHBOURS`] were on the way.
#[derive(Clone, Debug)]
struct Seen {
    newest: u64,
    bits: [u64; WINDOW as usize / 64],
    transits_ns: [i64; NEIGHBOURS as usize],
    jitter: Jitter,
}

/// A stream by receiving actor, sending actor and number.
type Stream = (u32, u32, u32);

/// What came in, by receiving actor, sending actor and stream.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    seen: Vec<Seen>,
    /// Rows of `seen`.
    rows: BTreeMap<Stream, u32>,
    /// The rows that were found last, each at a place that follows from its stream: with tens of thousands of streams a search
    /// would cost more than all the rest.
    near: Vec<(Stream, u32)>,
}

/// Places for rows that were found last, at most: 16 MB.
const NEAR_MAX: usize = 1 << 20;
/// No row.
const NONE: u32 = u32::MAX;

impl Arrivals {
    /// Books datagram `seq` of a stream, which was so long on the way by the clocks of both ends; they need not agree.
    /// Duplicates vary from nothing.
    pub fn arrive(&mut self, stream: (u32, u32, u32), seq: u64, transit_ns: i64) -> (Place, Variation) {
        match self.row(stream) {
            Some(row) => self.seen[row as usize].arrive(seq, transit_ns),
            None => {
                self.watch(stream, Seen::first(seq, transit_ns));
                (Place::InOrder, Variation::default())
            }
        }
    }

    #[inline]
    fn row(&mut self, stream: Stream) -> Option<u32> {
        let place = self.place(stream);
        match self.near.get(place) {
            Some((same, row)) if *same == stream && *row != NONE => Some(*row),
            _ => {
                let row = *self.rows.get(&stream)?;
                if let Some(near) = self.near.get_mut(place) {
                    *near = (stream, row);
                }
                Some(row)
            }
        }
    }

    /// Where a stream stands among those that were found last; their number is a power of two, or none.
    #[inline]
    fn place(&self, (to, from, stream): Stream) -> usize {
        let mixed = (u64::from(from) << 32 | u64::from(stream)).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(to);
        (mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as usize & self.near.len().saturating_sub(1)
    }

    /// A stream that was not seen before.
    #[cold]
    fn watch(&mut self, stream: Stream, first: Seen) {
        if self.seen.len() >= STREAMS_MAX {
            return;
        }
        self.rows.insert(stream, self.seen.len() as u32);
        self.seen.push(first);
        if self.near.len() < 2 * self.seen.len() && self.near.len() < NEAR_MAX {
            let places = (4 * self.seen.len()).next_power_of_two().min(NEAR_MAX);
            self.near = vec![(Stream::default(), NONE); places];
        }
    }
}

/// What a datagram is to its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It is newer than all before.
    InOrder,
    /// One that was sent later came before it.
    Reordered,
    /// It came before.
    Duplicate,
}

impl Seen {
    /// A stream whose first datagram has number `seq`.
    fn first(seq: u64, transit_ns: i64) -> Self {
        let (bits, transits_ns) = ([0; WINDOW as usize / 64], [0; NEIGHBOURS as usize]);
        let mut seen = Seen { newest: seq, bits, transits_ns, jitter: Jitter::default() };
        seen.mark(seq);
        seen.vary(seq, transit_ns);
        seen
    }

    /// Books one more and its time on the way.
    fn arrive(&mut self, seq: u64, transit_ns: i64) -> (Place, Variation) {
        let place = self.place(seq);
        let variation = if place == Place::Duplicate { Variation::default() } else { self.vary(seq, transit_ns) };
        (place, variation)
    }

    fn vary(&mut self, seq: u64, transit_ns: i64) -> Variation {
        let jitter = self.jitter.arrived(transit_ns);
        if self.newest - seq >= NEIGHBOURS {
            return Variation { jitter, steps: [None, None] };
        }
        self.transits_ns[(seq % NEIGHBOURS) as usize] = transit_ns;
        let step = |neighbour: u64| Some(Span::from_nanos(self.transit(neighbour)?.abs_diff(transit_ns)));
        Variation { jitter, steps: [seq.checked_sub(1).and_then(step), seq.checked_add(1).and_then(step)] }
    }

    /// How long a datagram was on the way, if it has come and is recent.
    fn transit(&self, seq: u64) -> Option<i64> {
        let recent = seq <= self.newest && self.newest - seq < NEIGHBOURS;
        let at = seq % WINDOW;
        let came = self.bits[(at / 64) as usize] & (1 << (at % 64)) != 0;
        (recent && came).then(|| self.transits_ns[(seq % NEIGHBOURS) as usize])
    }

    fn mark(&mut self, seq: u64) -> bool {
        let at = seq % WINDOW;
        let (word, bit) = ((at / 64) as usize, 1_u64 << (at % 64));
        let known = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        known
    }

    /// Books one more. Older than the window, it is taken for a late first one.
    fn place(&mut self, seq: u64) -> Place {
        if seq > self.newest {
            let from = self.newest.max(seq.saturating_sub(WINDOW)) + 1;
            for skipped in from..seq {
                let at = skipped % WINDOW;
                self.bits[(at / 64) as usize] &= !(1 << (at % 64));
            }
            let at = seq % WINDOW;
            self.bits[(at / 64) as usize] |= 1 << (at % 64);
            self.newest = seq;
            return Place::InOrder;
        }
        if self.newest - seq >= WINDOW {
            return Place::Reordered;
        }
        if self.mark(seq) { Place::Duplicate } else { Place::Reordered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_late_ones_are_told_apart() {
        let mut seen = Seen::first(10, 0);
        let places: Vec<Place> = [11, 13, 12, 12, 13, 10, 14].map(|seq| seen.place(seq)).to_vec();
        use Place::{Duplicate, InOrder, Reordered};
        assert_eq!(places, [InOrder, InOrder, Reordered, Duplicate, Duplicate, Duplicate, InOrder]);
        assert_eq!(seen.place(14 + 5 * WINDOW), InOrder);
        assert_eq!(seen.place(14 + 5 * WINDOW - 1), Reordered, "a jump empties the window");
        assert_eq!(seen.place(14 + 5 * WINDOW - 1), Duplicate);
        assert_eq!(seen.place(14), Reordered, "older than the window: taken for a late first one");
    }

    /// Streams that stand at the same place among those that were found last are told apart all the same.
    #[test]
    fn streams_are_told_apart_however_many_there_are() {
        let mut arrivals = Arrivals::default();
        let all = || (0..5000_u32).map(|n| (n % 3, n % 7, n / 2));
        let distinct: std::collections::BTreeSet<Stream> = all().collect();
        for seq in 0..3 {
            for stream in &distinct {
                assert_eq!(arrivals.arrive(*stream, seq, 0).0, Place::InOrder, "{stream:?}");
            }
        }
        for stream in all() {
            assert_eq!(arrivals.arrive(stream, 1, 0).0, Place::Duplicate, "{stream:?}");
        }
        assert_eq!(arrivals.seen.len(), distinct.len());
    }

    #[test]
    fn neighbours_are_compared_however_they_come() {
        let mut seen = Seen::first(0, 100);
        let mut steps = |seq, transit| seen.arrive(seq, transit).1.steps.map(|step| step.map(Span::as_nanos));
        assert_eq!(steps(1, 130), [Some(30), None]);
        assert_eq!(steps(3, 90), [None, None], "2 is missing");
        assert_eq!(steps(2, 190), [Some(60), Some(100)], "it comes late, between its neighbours");
        assert_eq!(steps(2, 500), [None, None], "a duplicate");
        assert_eq!(steps(40, 7), [None, None], "a jump");
        assert_eq!(steps(39, -3), [None, Some(10)]);
        assert_eq!(steps(4, 91), [None, None], "too old: its neighbour is forgotten");
    }

    #[test]
    fn jitter_goes_by_the_order_of_arrival_and_leaves_duplicates_out() {
        let mut seen = Seen::first(0, 100);
        let mut jitter = |seq, transit| seen.arrive(seq, transit).1.jitter.map(Span::as_nanos);
        // D 160: J 10; then a duplicate; then D 160 again: 160 + 160 − (168 >> 4) = 310, J 19
        assert_eq!([jitter(2, 260), jitter(2, 900), jitter(1, 100)], [Some(10), None, Some(19)]);
    }
}
