//! What a shard waits for: one queue of timers whose wake-ups may be rounded up, and one that wakes on the spot.

use std::task::Waker;

use rehearsal_core::parts::heap::{Entry, Heap};
use rehearsal_core::{Span, Time};

/// What an entry is; lower ones come first within an instant, as in the simulator.
pub(crate) mod class {
    /// Traffic begins.
    pub(crate) const BEGIN: u8 = 0;
    /// A stage of some work is over; payload: slot and generation of the job.
    pub(crate) const WORK: u8 = 1;
    /// A message on an imposed link comes out of it, or is offered to it again; payload: its slot.
    pub(crate) const RIDE: u8 = 2;
    /// A link that chooses packet by packet has chosen; payload: its cell.
    pub(crate) const LINK: u8 = 3;
    /// An actor's timer; payload: key and generation.
    pub(crate) const TIMER: u8 = 5;
    /// A request that leaves later; payload: slot and generation.
    pub(crate) const SEND: u8 = 6;
    /// Deadlines of one length; payload: the ring.
    pub(crate) const DEADLINE: u8 = 7;
    /// The end of a second.
    pub(crate) const SAMPLE: u8 = 8;
    /// A flow's next datagram; payload: the flow's row.
    pub(crate) const FLOW: u8 = 9;
    /// A datagram that leaves later; payload: its slot.
    pub(crate) const DATAGRAM: u8 = 10;
}

/// A shard's timers. The pacer sleeps until [`Timers::next_wake`] and is woken when that comes nearer.
#[derive(Default)]
pub(crate) struct Timers {
    rounded: Heap,
    exact: Heap,
    quantum: Span,
    /// Wake-ups are rounded up to this and whole quanta after it.
    origin: Time,
    /// Generation of every timer of every actor here; an entry of another generation is stale.
    generations: Vec<u32>,
    pending: Vec<bool>,
    stale: usize,
    counter: u64,
    armed: Time,
    waker: Option<Waker>,
    nudged: bool,
}

/// Below so many entries, stale ones are not worth a rebuild.
const REBUILD_MIN: usize = 1024;
/// Bits of an entry's counter.
const COUNTER_MASK: u64 = (1 << 36) - 1;

impl Timers {
    /// `timers` timers of actors; wake-ups are rounded up to multiples of `quantum`.
    pub(crate) fn new(timers: usize, quantum: Span) -> Self {
        Timers { generations: vec![0; timers], pending: vec![false; timers], quantum, ..Timers::default() }
    }

    /// Wake-ups fall on `start` and whole quanta after it: evenly paced traffic, which begins then, mostly needs no
    /// rounding.
    pub(crate) fn align(&mut self, start: Time) {
        if !self.quantum.is_zero() {
            self.origin = Time::from_nanos(start.as_nanos() % self.quantum.as_nanos());
        }
    }

    /// Sets an actor's timer; a pending one moves.
    pub(crate) fn set(&mut self, place: usize, who: u32, key: u32, at: Time) {
        self.cancel(place);
        self.pending[place] = true;
        let payload = u64::from(self.generations[place]) << 32 | u64::from(key);
        self.push(at, class::TIMER, who, payload);
    }

    /// Cancels an actor's timer.
    pub(crate) fn cancel(&mut self, place: usize) {
        self.generations[place] = self.generations[place].wrapping_add(1);
        if std::mem::take(&mut self.pending[place]) {
            self.stale += 1;
        }
    }

    /// An entry of an actor's timer came due: whether it counts.
    pub(crate) fn take(&mut self, place: usize, generation: u32) -> bool {
        let counts = self.generations[place] == generation;
        match counts {
            true => self.pending[place] = false,
            false => self.stale = self.stale.saturating_sub(1),
        }
        counts
    }

    /// Whether most entries are stale, so that [`Timers::rebuild`] is worth its time.
    pub(crate) fn crowded(&self) -> bool {
        self.rounded.len() > REBUILD_MIN && self.stale > self.rounded.len() / 2
    }

    /// Drops stale entries; `place` tells the place of an actor's timer.
    pub(crate) fn rebuild(&mut self, place: impl Fn(u32, u32) -> usize) {
        let generations = &self.generations;
        self.rounded.retain(|e| {
            e.class() != class::TIMER || generations[place(e.source(), e.payload as u32)] == (e.payload >> 32) as u32
        });
        self.stale = 0;
    }

    /// Adds an entry whose wake-up may be rounded up.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, class: u8, who: u32, payload: u64) {
        let entry = self.entry(at, class, who, payload);
        self.rounded.push(entry);
        self.wake_by(self.round(at));
    }

    /// Adds an entry that wakes at `at`.
    pub(crate) fn push_exact(&mut self, at: Time, class: u8, who: u32, payload: u64) {
        let entry = self.entry(at, class, who, payload);
        self.exact.push(entry);
        self.wake_by(at);
    }

    fn entry(&mut self, at: Time, class: u8, who: u32, payload: u64) -> Entry {
        self.counter = (self.counter + 1) & COUNTER_MASK;
        Entry::new(at.min(Time::MAX).as_nanos(), class, who, self.counter, payload)
    }

    /// Takes an entry that is due. It need not wait for its rounded wake-up: whoever enters the shard fires what is due.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Entry> {
        let now = now.as_nanos();
        if self.exact.peek_time().is_some_and(|t| t <= now) {
            return self.exact.pop();
        }
        if self.rounded.peek_time().is_some_and(|t| t <= now) { self.rounded.pop() } else { None }
    }

    /// When to wake next, if ever.
    pub(crate) fn next_wake(&mut self) -> Option<Time> {
        let rounded = self.rounded.peek_time().map(|t| self.round(Time::from_nanos(t)));
        let exact = self.exact.peek_time().map(Time::from_nanos);
        rounded.into_iter().chain(exact).min()
    }

    fn round(&self, at: Time) -> Time {
        if at <= self.origin {
            return self.origin;
        }
        self.origin + Time::from_nanos(at.as_nanos() - self.origin.as_nanos()).round_up(self.quantum).since(Time::ZERO)
    }

    /// The pacer sleeps until `until`, and is to be woken by `waker` if anything is due before.
    pub(crate) fn sleep(&mut self, until: Time, waker: &Waker) {
        self.armed = until;
        if !self.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// Wakes the pacer though nothing is due: there is work left over.
    pub(crate) fn nudge(&mut self) {
        self.nudged = true;
        self.wake_by(Time::ZERO);
    }

    /// Whether the pacer was nudged since it last asked.
    pub(crate) fn nudged(&mut self) -> bool {
        std::mem::take(&mut self.nudged)
    }

    #[inline]
    fn wake_by(&mut self, at: Time) {
        if at < self.armed {
            self.armed = at;
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Time {
        Time::from_nanos(n * 1000)
    }

    #[test]
    fn wakes_are_rounded_up_and_exact_ones_are_not() {
        let mut timers = Timers::new(1, Span::from_micros(250));
        timers.set(0, 7, 0, us(260));
        assert_eq!(timers.next_wake(), Some(us(500)));
        timers.push_exact(us(490), class::WORK, 7, 1);
        assert_eq!(timers.next_wake(), Some(us(490)));
        // whoever comes by at 300 µs finds the timer due already
        let due = timers.pop_due(us(300)).expect("due");
        assert_eq!((due.class(), due.source(), due.time()), (class::TIMER, 7, 260_000));
        assert!(timers.take(0, (due.payload >> 32) as u32));
        assert_eq!(timers.pop_due(us(300)), None);
    }

    #[test]
    fn wakes_fall_on_the_start_of_traffic() {
        let mut timers = Timers::new(1, Span::from_micros(250));
        timers.align(us(10_330));
        timers.set(0, 7, 0, us(10_330));
        assert_eq!(timers.next_wake(), Some(us(10_330)));
        timers.set(0, 7, 0, us(10_331));
        assert_eq!(timers.next_wake(), Some(us(10_330)), "the stale entry still wakes");
        timers.pop_due(us(10_330));
        assert_eq!(timers.next_wake(), Some(us(10_580)));
        timers.push(us(20), class::SAMPLE, 0, 0);
        assert_eq!(timers.next_wake(), Some(us(80)));
    }

    #[test]
    fn a_moved_timer_fires_once_and_stale_entries_go() {
        let mut timers = Timers::new(1, Span::ZERO);
        for n in 0..3000 {
            timers.set(0, 0, 0, us(n));
        }
        assert!(timers.crowded());
        timers.rebuild(|_, _| 0);
        assert!(!timers.crowded());
        let fired: Vec<u64> = std::iter::from_fn(|| timers.pop_due(us(9999)).map(|e| e.time())).collect();
        assert_eq!(fired, [2_999_000]);
        timers.set(0, 0, 0, us(1));
        timers.cancel(0);
        let stale = timers.pop_due(us(5)).expect("still there");
        assert!(!timers.take(0, (stale.payload >> 32) as u32));
    }
}
