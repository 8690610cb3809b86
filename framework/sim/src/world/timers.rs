//! Timers: a mark for each, so that setting, moving and cancelling one costs no search. What became stale in the
//! queue is dropped when it comes up, or all at once when it is most of the queue.

use std::collections::BTreeMap;

use rehearsal_core::{Time, TimerKey};

use super::class::{Class, words};
use super::{Place, World};

/// Below so many stale entries the queue is not rebuilt.
const STALE_MIN: usize = 1024;
/// Set in the timer's number when it was set for a time that had passed: its `due` is kept apart.
const OVERDUE: u32 = 1 << 31;
/// Set in a mark while an expiry is pending.
const PENDING: u32 = 1;

/// All timers of all actors, by number. 4 bytes each.
#[derive(Debug, Default)]
pub(super) struct Timers {
    marks: Vec<u32>,
    overdue: BTreeMap<u32, Time>,
    stale: usize,
}

impl Timers {
    /// `count` timers, none set.
    pub(super) fn new(count: u32) -> Self {
        assert!(count < OVERDUE, "at most 2^31 timers");
        Timers { marks: vec![0; count as usize], ..Timers::default() }
    }

    /// A new mark for `timer`; an expiry that was pending is stale now.
    #[inline]
    fn mark(&mut self, timer: u32, pending: u32) -> u32 {
        let mark = &mut self.marks[timer as usize];
        self.stale += (*mark & PENDING) as usize;
        *mark = (*mark & !PENDING).wrapping_add(2) | pending;
        *mark
    }

    /// An expiry comes up: what it was set for, or `None` if it is stale.
    #[inline]
    pub(super) fn fire(&mut self, mark: u32, timer: u32, now: Time) -> Option<Time> {
        let place = (timer & !OVERDUE) as usize;
        let overdue = if timer & OVERDUE != 0 { self.overdue.remove(&timer) } else { None };
        if self.marks[place] != mark {
            self.stale = self.stale.saturating_sub(1);
            return None;
        }
        self.marks[place] &= !PENDING;
        Some(overdue.unwrap_or(now))
    }

    /// Whether a timer's number says that it fires later than it was set for.
    #[inline]
    pub(super) const fn is_overdue(&self, timer: u32) -> bool {
        timer & OVERDUE != 0
    }

    /// The number of a timer that was set for `due` and fires later.
    pub(super) fn overdue(&mut self, timer: u32, due: Time) -> u32 {
        self.overdue.insert(timer | OVERDUE, due);
        timer | OVERDUE
    }

    /// Reads a timer's mark, so that it is near when it is wanted.
    #[inline]
    pub(super) fn warm(&self, timer: u32) -> u32 {
        self.marks[(timer & !OVERDUE) as usize]
    }

    fn live(&self, mark: u32, timer: u32) -> bool {
        self.marks[(timer & !OVERDUE) as usize] == mark
    }
}

impl World {
    /// Sets or moves a timer. One set for [`Time::MAX`] never expires.
    #[inline]
    pub(super) fn set_timer(&mut self, place: Place, key: TimerKey, at: Time) {
        let Some(timer) = self.timer(place, key) else { return };
        let actor = place.actor;
        if at >= Time::MAX {
            return self.cancel_timer(place, key);
        }
        let mark = self.timers.mark(timer, PENDING);
        if at < self.now {
            self.timers.overdue.insert(timer | OVERDUE, at);
            self.push(self.now, Class::Timer, actor, words(mark, timer | OVERDUE));
        } else {
            self.push(at, Class::Timer, actor, words(mark, timer));
        }
        if self.timers.stale > STALE_MIN && self.timers.stale > self.queue.len() / 2 {
            self.rebuild();
        }
    }

    /// Cancels a timer.
    #[inline]
    pub(super) fn cancel_timer(&mut self, place: Place, key: TimerKey) {
        if let Some(timer) = self.timer(place, key) {
            self.timers.mark(timer, 0);
        }
    }

    /// The key under which `actor` knows a timer.
    #[inline]
    pub(super) fn timer_key(&self, actor: u32, timer: u32) -> TimerKey {
        let (group, index) = self.place(actor);
        let group = &self.groups[group];
        TimerKey((timer & !OVERDUE) - group.timers - index * group.stride)
    }

    #[inline]
    fn timer(&mut self, Place { actor, group, index }: Place, key: TimerKey) -> Option<u32> {
        let group = &self.groups[group];
        if key.0 < group.stride {
            return Some(group.timers + index * group.stride + key.0);
        }
        let text = format!("timer {} was set, and the actor declares {}", key.0, group.stride);
        self.retire(actor, text);
        None
    }

    #[cold]
    fn rebuild(&mut self) {
        let timers = &self.timers;
        self.queue.retain(|entry| {
            Class::of(entry) != Class::Timer || timers.live((entry.payload >> 32) as u32, entry.payload as u32)
        });
        self.timers.stale = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_or_cancelled_expiry_is_stale_and_counted() {
        let mut timers = Timers::new(2);
        let now = Time::from_nanos(5);
        let first = timers.mark(1, PENDING);
        let moved = timers.mark(1, PENDING);
        assert_eq!(timers.stale, 1);
        assert_eq!(timers.fire(first, 1, now), None);
        assert_eq!((timers.fire(moved, 1, now), timers.stale), (Some(now), 0));
        timers.mark(1, 0);
        assert_eq!(timers.stale, 0, "nothing was pending any more");
        let other = timers.mark(0, PENDING);
        timers.mark(0, 0);
        assert_eq!((timers.fire(other, 0, now), timers.stale), (None, 0));
    }
}
