//! What each stream of a group did last: when it sent, and how its responses vary.

use super::jitter::Jitter;
use crate::time::{Span, Time};

/// Streams of one group that are watched, 24 bytes each. Those beyond have no gaps and no jitter.
const WATCHED_MAX: usize = 1 << 20;

/// One stream. Most actors have one: an engine may keep that beside what else it keeps of the actor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// When it sent last, in ns and one more; 0 if it has not, which saves 8 bytes.
    sent: u64,
    /// Of its responses.
    pub jitter: Jitter,
}

impl Stream {
    /// It sends now; how long after the send before, if there was one.
    #[inline]
    pub fn sends(&mut self, now: Time) -> Option<Span> {
        let before = std::mem::replace(&mut self.sent, now.as_nanos() + 1).checked_sub(1)?;
        Some(now.since(Time::from_nanos(before)))
    }
}

/// The streams of one group by member and number, side by side.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The group's first member.
    first: u32,
    /// Streams that each member has room for.
    width: usize,
    rows: Vec<Stream>,
}

impl Streams {
    /// Of a group whose members are counted from `first`.
    pub const fn of(first: u32) -> Self {
        Streams { first, width: 0, rows: Vec::new() }
    }

    /// One stream, if it can be watched.
    #[inline]
    pub fn at(&mut self, member: u32, stream: u32) -> Option<&mut Stream> {
        let (row, stream) = (member.wrapping_sub(self.first) as usize, stream as usize);
        if stream >= self.width || row * self.width + stream >= self.rows.len() {
            self.widen(row, stream)?;
        }
        self.rows.get_mut(row * self.width + stream)
    }

    /// Makes room for a stream that was not seen before.
    #[cold]
    fn widen(&mut self, row: usize, stream: usize) -> Option<()> {
        let width = if stream < self.width { self.width } else { (stream + 1).checked_next_power_of_two()? };
        let members = self.rows.len().checked_div(self.width).unwrap_or(0).max(row + 1);
        if members.checked_mul(width).is_none_or(|count| count > WATCHED_MAX) {
            return None;
        }
        let mut rows = vec![Stream::default(); members.next_power_of_two() * width];
        if self.width > 0 {
            for (to, from) in rows.chunks_mut(width).zip(self.rows.chunks(self.width)) {
                to[..from.len()].copy_from_slice(from);
            }
        }
        (self.rows, self.width) = (rows, width);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_its_own_gaps_however_the_table_grows() {
        let mut streams = Streams::of(7);
        let at = |n: u64| Time::from_nanos(n);
        let order = [(7, 0), (9, 0), (7, 5), (9, 2), (300, 0), (8, 70)];
        for (n, (member, stream)) in order.into_iter().enumerate() {
            let row = streams.at(member, stream).expect("few are watched");
            assert_eq!(row.sends(at(n as u64)), None, "{member} {stream}");
        }
        for (n, (member, stream)) in order.into_iter().enumerate() {
            let row = streams.at(member, stream).expect("few are watched");
            assert_eq!(row.sends(at(100)), Some(Span::from_nanos(100 - n as u64)), "{member} {stream}");
        }
    }

    #[test]
    fn what_is_watched_has_a_bound() {
        let mut streams = Streams::of(0);
        assert!(streams.at(0, WATCHED_MAX as u32).is_none() && streams.at(0, u32::MAX).is_none());
        assert!(streams.at(WATCHED_MAX as u32, 0).is_none() && streams.rows.is_empty());
        assert!(streams.at(1, 3).is_some() && streams.at(0, u32::MAX).is_none(), "the others are watched on");
    }
}
