//! Timers: a mark for each, so that setting, moving and cancelling one costs no search. What became stale in the
//! queue is dropped when it comes up, or all at once when it is most of the queue.

use std::collections::BTreeMap;

use rehearsal_core::parts::heap::Entry;
use rehearsal_core::{Time, TimerKey};

use super::class::{Class, words};
use super::seats::{GroupState, Seat, TIMERS_NEAR};
use super::{Place, World};

/// Below so many stale entries the queue is not rebuilt.
const STALE_MIN: usize = 1024;
/// Set in the timer's key when it was set for a time that had passed: its `due` is kept apart.
const OVERDUE: u32 = 1 << 31;
/// Set in a mark while an expiry is pending.
const PENDING: u32 = 1;

/// What is known of timers beside the marks in their actors' seats.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Marks that are in no seat, by group, member and key. 4 bytes each.
    marks: Vec<u32>,
    /// What those were set for that fire later, by actor and key.
    overdue: BTreeMap<(u32, u32), Time>,
    stale: usize,
}

/// The mark of an actor's timer.
#[inline]
fn mark_of<'a>(seats: &'a mut [Seat], groups: &[GroupState], far: &'a mut [u32], actor: u32, key: u32) -> &'a mut u32 {
    let seat = &mut seats[actor as usize];
    let near = TIMERS_NEAR as u32;
    if key < near {
        return &mut seat.marks[key as usize];
    }
    let group = &groups[seat.group as usize];
    &mut far[(group.timers + (actor - group.base) * (group.stride - near) + key - near) as usize]
}

/// Makes a mark new; an expiry that was pending is stale now. The new mark, and how many became stale.
#[inline]
fn renew(mark: &mut u32, pending: u32) -> (u32, usize) {
    let stale = (*mark & PENDING) as usize;
    *mark = (*mark & !PENDING).wrapping_add(2) | pending;
    (*mark, stale)
}

impl Timers {
    /// `count` marks that are in no seat.
    pub(super) fn new(count: u32) -> Self {
        Timers { marks: vec![0; count as usize], ..Timers::default() }
    }

    /// Whether a timer's key says that it fires later than it was set for.
    #[inline]
    pub(super) const fn is_overdue(&self, key: u32) -> bool {
        key & OVERDUE != 0
    }

    /// The key of an actor's timer that was set for `due` and fires later.
    pub(super) fn overdue(&mut self, actor: u32, key: u32, due: Time) -> u32 {
        self.overdue.insert((actor, key | OVERDUE), due);
        key | OVERDUE
    }
}

impl World {
    /// Sets or moves a timer. One set for [`Time::MAX`] never expires.
    #[inline]
    pub(super) fn set_timer(&mut self, place: Place, key: TimerKey, at: Time) {
        if !self.has_timer(place, key) {
            return;
        }
        let actor = place.actor;
        if at >= Time::MAX {
            return self.cancel_timer(place, key);
        }
        let mark = self.renew(actor, key, PENDING);
        if at < self.now {
            let key = self.timers.overdue(actor, key.0, at);
            self.push(self.now, Class::Timer, actor, words(mark, key));
        } else {
            self.push(at, Class::Timer, actor, words(mark, key.0));
        }
        if self.timers.stale > STALE_MIN && self.timers.stale > self.queue.len() / 2 {
            self.rebuild();
        }
    }

    /// Cancels a timer.
    #[inline]
    pub(super) fn cancel_timer(&mut self, place: Place, key: TimerKey) {
        if self.has_timer(place, key) {
            self.renew(place.actor, key, 0);
        }
    }

    /// An expiry comes up: the timer and what it was set for, or `None` if it is stale.
    #[inline(always)]
    pub(super) fn fire(&mut self, entry: &Entry) -> Option<(TimerKey, Time)> {
        let (actor, mark, key) = (entry.source(), (entry.payload >> 32) as u32, entry.payload as u32);
        let overdue = if key & OVERDUE != 0 { self.timers.overdue.remove(&(actor, key)) } else { None };
        let key = key & !OVERDUE;
        let current = mark_of(&mut self.seats, &self.groups, &mut self.timers.marks, actor, key);
        if *current != mark {
            self.timers.stale = self.timers.stale.saturating_sub(1);
            return None;
        }
        *current &= !PENDING;
        Some((TimerKey(key), overdue.unwrap_or(self.now)))
    }

    #[inline]
    fn renew(&mut self, actor: u32, key: TimerKey, pending: u32) -> u32 {
        let mark = mark_of(&mut self.seats, &self.groups, &mut self.timers.marks, actor, key.0);
        let (mark, stale) = renew(mark, pending);
        self.timers.stale += stale;
        mark
    }

    #[inline]
    fn has_timer(&mut self, Place { actor, group, .. }: Place, key: TimerKey) -> bool {
        let stride = self.groups[group].stride;
        if key.0 < stride {
            return true;
        }
        self.retire(actor, format!("timer {} was set, and the actor declares {stride}", key.0));
        false
    }

    #[cold]
    fn rebuild(&mut self) {
        let World { seats, groups, timers, queue, .. } = self;
        queue.retain(|entry| {
            let (mark, key) = ((entry.payload >> 32) as u32, entry.payload as u32 & !OVERDUE);
            Class::of(entry) != Class::Timer || *mark_of(seats, groups, &mut timers.marks, entry.source(), key) == mark
        });
        timers.stale = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_or_cancelled_expiry_is_stale_and_counted() {
        let mut mark = 0;
        let (first, stale) = renew(&mut mark, PENDING);
        assert_eq!(stale, 0);
        let (moved, stale) = renew(&mut mark, PENDING);
        assert_eq!((stale, mark), (1, moved), "the first is stale");
        assert_ne!(first, moved);
        mark &= !PENDING;
        assert_eq!(renew(&mut mark, 0).1, 0, "nothing was pending any more");
        renew(&mut mark, PENDING);
        assert_eq!(renew(&mut mark, 0).1, 1, "what is cancelled is stale");
    }
}
