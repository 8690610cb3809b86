//! Streams at the same time, each known by its 5-tuple: how many were heard in the last ten seconds, however many packets come.
//!
//! A stream takes 12 bytes of a table, and a number for each tenth of a second says how many streams were last heard in it. So
//! nothing grows with packets or time: what leaves the ten seconds is one number, and a curve halves its points when it is full.

use super::key::stream;

/// How long a stream is there after a packet of it, tenths of a second. Source: the DTRF paper counts a stream as concurrent
/// when it sends at least one packet in 10 s.
const HELD: usize = 100;
/// A tenth of a second, nanoseconds.
const TENTH: u64 = 100_000_000;
/// The longest silence that is told from longer ones, tenths of a second: an hour. All streams are gone long before.
const SILENCE_MAX: u64 = 36_000;
/// Streams that are told apart at most. Source: as many as a template may have.
const STREAMS_MAX: u64 = 16 << 20;
/// Places of the table at first.
const PLACES: usize = 1 << 16;
/// Points of a curve at most.
const POINTS_MAX: usize = 1_000;

/// Streams that were heard.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Numbers of streams, 0 where a place is free; as many places as a power of two.
    keys: Vec<u64>,
    /// In which tenth each was heard last.
    heard: Vec<u32>,
    /// Streams in the table.
    known: u64,
    /// How many were heard last in each of the last tenths, by its number modulo [`HELD`].
    recent: [u64; HELD],
    /// The tenth that is now.
    tenth: u64,
    /// Streams that are there.
    now: u64,
    most: u64,
    /// When the first packet and the first packet of the newest stream came, nanoseconds.
    first: Option<u64>,
    newest: u64,
    beyond: u64,
    curve: Curve,
}

/// How many there were, at the ends of equal times since the first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Tenths of a second from one point to the next.
    pub tenths: u64,
    /// The points.
    pub points: Vec<u64>,
    /// Tenths since the last point.
    since: u64,
}

impl Default for Streams {
    fn default() -> Self {
        Streams {
            keys: vec![0; PLACES],
            heard: vec![0; PLACES],
            known: 0,
            recent: [0; HELD],
            tenth: 0,
            now: 0,
            most: 0,
            first: None,
            newest: 0,
            beyond: 0,
            curve: Curve { tenths: 1, points: Vec::new(), since: 0 },
        }
    }
}

impl Streams {
    /// Hears a frame; one without IP, and a later piece of a packet, is of no stream.
    pub fn frame(&mut self, frame: &[u8], at: u64) {
        if let Some(stream) = stream(frame) {
            self.hear(stream, at);
        }
    }

    /// Hears a packet of a stream of this number, at nanoseconds of any clock; what comes before the packet before counts as
    /// if it came with it.
    pub fn hear(&mut self, stream: u64, at: u64) {
        let first = *self.first.get_or_insert(at);
        self.pass((at.saturating_sub(first) / TENTH).min(self.tenth + SILENCE_MAX));
        let stream = stream.max(1);
        let place = self.place(stream);
        if self.keys[place] == 0 {
            if self.known >= STREAMS_MAX {
                self.beyond += 1;
                return;
            }
            self.keys[place] = stream;
            self.known += 1;
            self.newest = self.newest.max(at);
            self.now += 1;
        } else {
            let last = u64::from(self.heard[place]);
            if self.tenth - last < HELD as u64 {
                self.recent[last as usize % HELD] -= 1;
            } else {
                self.now += 1;
            }
        }
        self.heard[place] = self.tenth as u32;
        self.recent[self.tenth as usize % HELD] += 1;
        self.most = self.most.max(self.now);
        if self.known as usize * 4 > self.keys.len() * 3 {
            self.grow();
        }
    }

    /// Lets time pass until this tenth; those that were heard last too long ago are gone.
    fn pass(&mut self, tenth: u64) {
        while self.tenth < tenth {
            self.curve.push(self.now);
            self.tenth += 1;
            let gone = &mut self.recent[self.tenth as usize % HELD];
            self.now -= std::mem::take(gone);
        }
    }

    /// Where a stream stands, or would.
    fn place(&self, stream: u64) -> usize {
        let mask = self.keys.len() - 1;
        let mut place = stream as usize & mask;
        while self.keys[place] != 0 && self.keys[place] != stream {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let places = self.keys.len() * 2;
        let keys = std::mem::replace(&mut self.keys, vec![0; places]);
        let heard = std::mem::replace(&mut self.heard, vec![0; places]);
        for (stream, heard) in keys.into_iter().zip(heard).filter(|(stream, _)| *stream != 0) {
            let place = self.place(stream);
            (self.keys[place], self.heard[place]) = (stream, heard);
        }
    }

    /// Streams of which a packet came.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// The most that were there at a time, each heard in the last 9.9 to 10 s.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Those that were there when the last packet came.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// From the first packet to the first one of the newest stream, nanoseconds.
    pub fn opened(&self) -> u64 {
        self.first.map_or(0, |first| self.newest.saturating_sub(first))
    }

    /// Packets of further streams, when as many are told apart as there is room for.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// How many there were over time, to the last packet.
    pub fn curve(&self) -> Curve {
        let mut curve = self.curve.clone();
        curve.points.push(self.now);
        curve
    }
}

impl Curve {
    fn push(&mut self, streams: u64) {
        self.since += 1;
        if self.since < self.tenths {
            return;
        }
        self.since = 0;
        self.points.push(streams);
        if self.points.len() >= POINTS_MAX {
            // every second one, the last one among them
            self.points = self.points.iter().copied().skip(1).step_by(2).collect();
            self.tenths *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_stream_is_there_for_ten_seconds_after_each_packet() {
        let mut streams = Streams::default();
        let start = 77 * SECOND;
        // three a second apart, the first heard again at 9 s
        for (stream, at) in [(1, 0), (2, 1), (3, 2), (1, 9)] {
            streams.hear(stream, start + at * SECOND);
        }
        assert_eq!((streams.known(), streams.most(), streams.now()), (3, 3, 3));
        streams.hear(9, start + 11 * SECOND);
        assert_eq!((streams.most(), streams.now()), (3, 3), "the second has gone, the fourth has come");
        streams.hear(2, start + 18 * SECOND);
        assert_eq!(streams.now(), 3, "the first, the second again, the fourth");
        streams.hear(2, start + 40 * SECOND);
        assert_eq!((streams.known(), streams.most(), streams.now()), (4, 3, 1));
        assert_eq!(streams.opened(), 11 * SECOND);
        let curve = streams.curve();
        assert_eq!((curve.tenths, curve.points.len()), (1, 401));
        assert_eq!([0, 9, 10, 20, 109, 110, 399, 400].map(|point| curve.points[point]), [1, 1, 2, 3, 3, 3, 0, 1]);
    }

    #[test]
    fn a_million_streams_are_told_apart_in_bounded_memory() {
        let mut streams = Streams::default();
        let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for round in 0..3 {
            for n in 1..=1_000_000 {
                streams.hear(number(n), (round * 1_000_000 + n) * 3_000);
            }
        }
        assert_eq!((streams.known(), streams.most(), streams.now()), (1_000_000, 1_000_000, 1_000_000));
        assert_eq!(streams.keys.len(), 1 << 21);
    }

    #[test]
    fn a_curve_halves_its_points_and_a_clock_that_leaps_ends() {
        let mut streams = Streams::default();
        streams.hear(1, 0);
        for tenth in 0..5_000 {
            streams.hear(2, tenth * TENTH);
        }
        let curve = streams.curve();
        assert_eq!((curve.tenths, curve.points.len()), (8, 625));
        streams.hear(3, u64::MAX);
        streams.hear(3, 0);
        assert_eq!((streams.now(), streams.known()), (1, 3));
    }
}
