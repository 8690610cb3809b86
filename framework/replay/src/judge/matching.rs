//! Which arrival is which packet. Equal frames, such as those of loops, are told apart by their times, from the last one backwards:
//! a frame comes late, hardly ever early, so what came in a stall is not taken for a frame of a later loop that was lost.

use std::collections::BTreeMap;

use super::expect::Expected;
use crate::receive::Heard;

/// Expected packets by their keys.
struct Places<'a> {
    expected: &'a Expected,
    by_key: &'a [u32],
}

impl Places<'_> {
    fn key(&self, number: u32) -> u64 {
        self.expected.packets[number as usize].key
    }

    /// The first place of a key, or of the one whose padding it is.
    fn first(&self, key: u64) -> Option<usize> {
        self.find(key).or_else(|| {
            let padded = &self.expected.padded;
            let at = padded.binary_search_by_key(&key, |(padded, _)| *padded).ok()?;
            self.find(padded[at].1)
        })
    }

    fn find(&self, key: u64) -> Option<usize> {
        let first = self.by_key.partition_point(|number| self.key(*number) < key);
        (self.by_key.get(first).map(|number| self.key(*number)) == Some(key)).then_some(first)
    }

    /// How many packets have this key.
    fn count(&self, first: usize) -> usize {
        let key = self.key(self.by_key[first]);
        self.by_key[first..].partition_point(|number| self.key(*number) == key)
    }
}

/// What arrived of what was expected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matched {
    /// For each expected packet when it arrived, nanoseconds of CLOCK_MONOTONIC; 0 if it did not.
    pub at: Vec<u64>,
    /// The numbers of expected packets in the order in which they arrived.
    pub order: Vec<u32>,
    /// Frames that arrived once too often.
    pub duplicated: u64,
    /// Frames that are none of the expected.
    pub foreign: u64,
}

impl Matched {
    /// Matches arrivals with what was expected since `start`. `timed` says whether expected times mean anything.
    pub fn of(expected: &Expected, heard: &Heard, start: u64, timed: bool) -> Self {
        let packets = &expected.packets;
        let mut by_key: Vec<u32> = (0..packets.len() as u32).collect();
        by_key.sort_unstable_by_key(|number| (packets[*number as usize].key, *number));
        let places = Places { expected, by_key: &by_key };
        let mut matched = Matched { at: vec![0; packets.len()], ..Matched::default() };
        // at the first place of each key: how many of its frames are still to be matched, and how many of its packets are left
        let [mut coming, mut left] = [vec![0u32; packets.len()], vec![0u32; packets.len()]];
        let mut known = Vec::with_capacity(heard.frames.len().min(packets.len()));
        for seen in &heard.frames {
            let Some(first) = places.first(seen.key) else {
                matched.foreign += 1;
                continue;
            };
            if coming[first] == 0 {
                left[first] = places.count(first) as u32;
            }
            if coming[first] == left[first] {
                matched.duplicated += 1;
                continue;
            }
            coming[first] += 1;
            known.push((first as u32, seen.at));
        }
        for (first, at) in known.into_iter().rev() {
            let (coming, left) = (&mut coming[first as usize], &mut left[first as usize]);
            // without times the order alone is left: what did not come are the last ones
            let mut place = if timed { *left } else { *coming } - 1;
            let number = |place: u32| by_key[(first + place) as usize];
            let away = |place: u32| at.abs_diff(start + packets[number(place) as usize].due);
            // only as many can be skipped as did not come
            while place + 1 > *coming && away(place - 1) < away(place) {
                place -= 1;
            }
            (*left, *coming) = (place, *coming - 1);
            matched.at[number(place) as usize] = at;
            matched.order.push(number(place));
        }
        matched.order.reverse();
        matched
    }

    /// How many arrived.
    pub fn arrived(&self) -> u64 {
        self.order.len() as u64
    }

    /// When those that arrived did, in the order of the schedule.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.at.iter().copied().filter(|at| *at != 0)
    }

    /// How many arrived after a later one of their stream.
    pub fn reordered(&self, expected: &Expected) -> u64 {
        let mut next: BTreeMap<u64, u32> = BTreeMap::new();
        let mut reordered = 0;
        for number in &self.order {
            let latest = next.entry(expected.packets[*number as usize].flow).or_insert(*number);
            if number < latest {
                reordered += 1;
            } else {
                *latest = *number;
            }
        }
        reordered
    }
}
