//! Which arrival is which packet. Equal frames, such as those of loops, are told apart by their times.

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

    /// The packet at a place among those of the same key.
    fn number(&self, first: usize, place: usize) -> Option<u32> {
        let number = *self.by_key.get(first + place)?;
        (self.key(number) == self.key(self.by_key[first])).then_some(number)
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
        // at the first place of each key: how many of its packets are settled, and how many of its frames are still to come
        let [mut settled, mut coming] = [vec![0u32; packets.len()], vec![0u32; packets.len()]];
        for first in heard.frames.iter().filter_map(|seen| places.first(seen.key)) {
            coming[first] += 1;
        }
        let mut matched = Matched { at: vec![0; packets.len()], ..Matched::default() };
        for seen in &heard.frames {
            let Some(first) = places.first(seen.key) else {
                matched.foreign += 1;
                continue;
            };
            let mut place = settled[first] as usize;
            let Some(mut number) = places.number(first, place) else {
                matched.duplicated += 1;
                continue;
            };
            let left = places.count(first) - place;
            // only as many can be skipped as will not come
            let mut lost = if timed { left.saturating_sub(coming[first] as usize) } else { 0 };
            let away = |number: u32| seen.at.abs_diff(start + packets[number as usize].due);
            while let Some(next) = places.number(first, place + 1).filter(|next| lost > 0 && away(*next) < away(number))
            {
                (place, number, lost) = (place + 1, next, lost - 1);
            }
            settled[first] = place as u32 + 1;
            coming[first] -= 1;
            matched.at[number as usize] = seen.at;
            matched.order.push(number);
        }
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
