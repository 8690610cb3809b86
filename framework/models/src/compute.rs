//! The cores of one node: who computes, how fast, and when a quota holds it back.
//!
//! # The model
//!
//! A piece of work needs so much core time. It stands in a *lane*: a lane serves so many pieces at once (its width), the
//! others wait in the order of their coming. All pieces in service share the node's cores evenly, at most one core for
//! each: with `n` of them on `c` cores each runs at min(1, c/n). So a lane as wide as there are cores is the queue with
//! `c` servers (M/M/c), one without bounds is processor sharing (M/G/c-PS), and a lane of width 1 is one thread.
//!
//! Processor sharing needs no event per slice: a virtual clock counts the service that every piece in service has had, so
//! a piece ends when the clock has come to its beginning plus its work, and a heap knows the next one: O(log n) per
//! piece. (The same construction as "total work" in DSLab and as virtual time in fair queueing.)
//!
//! A *quota* is core time per period, as the kernel enforces it: all threads run until it is used up, then nobody does
//! until the next period begins. Periods are counted from time zero. Sixteen threads of a node with one core of quota
//! on a large host use up their 100 ms within 6 ms, and then wait for 94 ms. What the kernel does beside (slices of 5 ms
//! that a core may keep for a while) is left out: at most 5 ms per core and period.
//!
//! [`Cores::slow`] is for hosts whose nodes together want more cores than there are.
//!
//! # Validation
//!
//! `framework/sim/tests/theory` holds it against M/M/1, M/D/1, M/G/1, M/M/c, Erlang's loss formula, M/M/1/K, processor
//! sharing, a tandem, Little's law and the utilisation law; the unit tests here compute quotas by hand.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use rehearsal_core::{Span, Time};

pub mod memory;

pub use memory::Memory;

/// Service that a piece may lack and still be done, ns: what rounding leaves. A double tells 0.0005 ns apart after an hour.
const DONE_NS: f64 = 0.01;

/// Where a piece of work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Sending and receiving.
    Traffic,
    /// Everything else.
    Work,
}

/// What a node may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Cores that it can run on at the same time; `None` is as many as it wants.
    pub cores: Option<u32>,
    /// Cores that it may use on average over a period, if these are fewer.
    pub quota: Option<f64>,
    /// The quota's period; above zero.
    pub period: Span,
    /// Pieces of [`Lane::Traffic`] in service at the same time.
    pub traffic: u32,
    /// Pieces of [`Lane::Work`] in service at the same time.
    pub work: u32,
}

impl Allowance {
    /// All the cores there could be, each piece of work on one.
    pub const UNLIMITED: Allowance =
        Allowance { cores: None, quota: None, period: Span::from_millis(100), traffic: u32::MAX, work: u32::MAX };
}

/// The cores of one node. `T` names a piece of work.
#[derive(Debug)]
pub struct Cores<T> {
    lanes: [Line<T>; 2],
    /// Pieces in service, by the service clock at their end.
    running: BinaryHeap<Running<T>>,
    /// Pieces that were ever begun: the order of those that end together.
    begun: u64,
    cores: f64,
    quota: Option<Quota>,
    /// How fast a core is: below 1 where the host is overcommitted.
    speed: f64,
    /// Service that a piece has had that was there all the time, ns.
    clock: f64,
    last: u64,
    busy: f64,
    throttled: u64,
}

#[derive(Debug)]
struct Line<T> {
    width: u32,
    serving: u32,
    waiting: VecDeque<(T, f64)>,
}

/// A quota in the present period.
#[derive(Debug)]
struct Quota {
    /// Core time per period, ns.
    whole: f64,
    period: u64,
    /// What is left of it; below zero by less than 1 ns per core.
    left: f64,
    /// When the next period begins.
    ends: u64,
    held: bool,
}

#[derive(Debug)]
struct Running<T> {
    end: f64,
    order: u64,
    lane: Lane,
    what: T,
}

impl<T> Cores<T> {
    /// Idle cores at time zero.
    ///
    /// # Panics
    /// If the period is zero or the quota is not above zero: experiments and calibrations are checked before.
    pub fn new(allowance: Allowance) -> Self {
        let Allowance { cores, quota, period, traffic, work } = allowance;
        assert!(!period.is_zero(), "a period is above zero");
        let quota = quota.filter(|quota| cores.is_none_or(|cores| *quota < f64::from(cores))).map(|quota| {
            assert!(quota > 0.0, "a quota is above zero");
            let period = period.as_nanos();
            let whole = quota * period as f64;
            Quota { whole, period, left: whole, ends: period, held: false }
        });
        let line = |width: u32| Line { width: width.max(1), serving: 0, waiting: VecDeque::new() };
        Cores {
            lanes: [line(traffic), line(work)],
            running: BinaryHeap::new(),
            begun: 0,
            cores: cores.map_or(f64::INFINITY, f64::from),
            quota,
            speed: 1.0,
            clock: 0.0,
            last: 0,
            busy: 0.0,
            throttled: 0,
        }
    }

    /// Adds a piece of work that needs `nanos` of core time, and finite.
    #[inline]
    pub fn submit(&mut self, now: Time, lane: Lane, nanos: f64, what: T) {
        self.settle(now);
        let line = &mut self.lanes[lane as usize];
        if line.serving < line.width {
            line.serving += 1;
            self.begin(lane, nanos, what);
        } else {
            line.waiting.push_back((what, nanos));
        }
    }

    #[inline]
    fn begin(&mut self, lane: Lane, nanos: f64, what: T) {
        if self.running.is_empty() {
            // nobody remembers when it began: counted from zero it stays exact
            self.clock = 0.0;
        }
        self.begun += 1;
        self.running.push(Running { end: self.clock + nanos, order: self.begun, lane, what });
    }

    /// When to look again with [`Cores::pop`], unless something changes before: the next piece is done, or a quota holds
    /// the node back, or does so no longer. `None` while there is nothing to do.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        let first = self.running.peek()?;
        let lacks = first.end - self.clock;
        if lacks < DONE_NS {
            return Some(Time::from_nanos(self.last));
        }
        let done = self.last.saturating_add(((lacks - DONE_NS) / self.rate()).ceil().max(1.0) as u64);
        let at = match &self.quota {
            Some(quota) if quota.held => quota.ends,
            Some(quota) => done.min(self.exhausted(quota)),
            None => done,
        };
        Some(Time::from_nanos(at.min(Time::MAX.as_nanos())))
    }

    /// A piece that is done by `now`; its lane's next one begins.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<T> {
        self.settle(now);
        if self.running.peek()?.end - self.clock >= DONE_NS {
            return None;
        }
        let Running { lane, what, .. } = self.running.pop()?;
        let line = &mut self.lanes[lane as usize];
        match line.waiting.pop_front() {
            Some((next, nanos)) => self.begin(lane, nanos, next),
            None => line.serving -= 1,
        }
        Some(what)
    }

    /// Cores that the node would use now if it could have them.
    #[inline]
    pub fn wanted(&self) -> f64 {
        if self.quota.as_ref().is_some_and(|quota| quota.held) { 0.0 } else { self.used() }
    }

    /// Each core runs at `speed`, above 0 and at most 1, from now on.
    pub fn slow(&mut self, now: Time, speed: f64) {
        self.settle(now);
        self.speed = speed;
    }

    /// Pieces that are in service or wait.
    pub fn pieces(&self) -> usize {
        self.running.len() + self.lanes.iter().map(|line| line.waiting.len()).sum::<usize>()
    }

    /// Pieces of a lane that wait.
    #[inline]
    pub fn waiting(&self, lane: Lane) -> usize {
        self.lanes[lane as usize].waiting.len()
    }

    /// Whether nothing is in service.
    #[inline]
    pub fn idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Core time used up to `now`, ns: exact to the nanosecond, wherever seconds begin and end.
    pub fn busy(&mut self, now: Time) -> f64 {
        self.settle(now);
        self.busy
    }

    /// Time up to `now` in which a quota held the node back although it had work to do.
    pub fn throttled(&mut self, now: Time) -> Span {
        self.settle(now);
        Span::from_nanos(self.throttled)
    }

    /// Cores in use while nobody is held back.
    #[inline]
    fn used(&self) -> f64 {
        (self.running.len() as f64).min(self.cores)
    }

    /// Service per time of each piece in service.
    #[inline]
    fn rate(&self) -> f64 {
        let pieces = self.running.len() as f64;
        if pieces <= self.cores { self.speed } else { self.speed * self.cores / pieces }
    }

    /// When the quota of the present period is used up if all goes on so; far away if it lasts.
    fn exhausted(&self, quota: &Quota) -> u64 {
        let use_ = self.used() * self.speed;
        let lasts = |left: f64| (left.max(0.0) / use_).ceil() as u64;
        let at = self.last.saturating_add(lasts(quota.left));
        if at < quota.ends {
            return at;
        }
        // a whole period that is not enough ends early as well
        if lasts(quota.whole) < quota.period { quota.ends.saturating_add(lasts(quota.whole)) } else { u64::MAX }
    }

    /// Brings the clocks to `now`.
    #[inline]
    fn settle(&mut self, now: Time) {
        let now = now.as_nanos();
        if self.quota.is_some() {
            return self.settle_quota(now);
        }
        self.run(now);
    }

    /// Everybody in service runs until `at`.
    #[inline]
    fn run(&mut self, at: u64) {
        let span = at.saturating_sub(self.last) as f64;
        if span > 0.0 && !self.running.is_empty() {
            self.clock += span * self.rate();
            self.busy += span * self.used() * self.speed;
        }
        self.last = self.last.max(at);
    }

    /// One turn for each period and each time that the quota is used up; periods without work are left out.
    fn settle_quota(&mut self, now: u64) {
        while let Some(quota) = &self.quota {
            let (ends, held) = (quota.ends, quota.held);
            let at = if held || self.running.is_empty() { ends } else { ends.min(self.exhausted(quota)) }.min(now);
            let span = at.saturating_sub(self.last);
            let used = if held { 0.0 } else { span as f64 * self.used() * self.speed };
            if held {
                self.throttled += if self.running.is_empty() { 0 } else { span };
                self.last = self.last.max(at);
            } else {
                self.run(at);
            }
            let idle = self.running.is_empty();
            let Some(quota) = &mut self.quota else { return };
            quota.left -= used;
            if self.last >= quota.ends {
                quota.left = quota.whole + quota.left.min(0.0);
                quota.held = false;
                let periods = if idle { (now.max(quota.ends) - quota.ends) / quota.period } else { 0 };
                quota.ends = quota.ends.saturating_add((periods + 1).saturating_mul(quota.period));
            } else if quota.left <= 0.0 {
                quota.held = true;
            }
            if self.last >= now {
                return;
            }
            if idle {
                self.last = now.min(quota.ends);
            }
        }
    }
}

impl<T> PartialEq for Running<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Running<T> {}

impl<T> PartialOrd for Running<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Running<T> {
    /// The one that ends first is the greatest: a heap gives the greatest.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.end.total_cmp(&self.end).then(other.order.cmp(&self.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: f64 = 1e6;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn limited(cores: u32, quota: Option<f64>, work: u32) -> Cores<u32> {
        Cores::new(Allowance { cores: Some(cores), quota, work, ..Allowance::UNLIMITED })
    }

    /// All that is done, with its time in ms.
    fn finish(cores: &mut Cores<u32>) -> Vec<(u32, f64)> {
        let mut done = Vec::new();
        while let Some(next) = cores.next() {
            done.extend(cores.pop(next).map(|what| (what, next.as_nanos() as f64 / MS)));
        }
        done
    }

    #[test]
    fn a_lane_as_wide_as_the_cores_serves_in_order() {
        let mut cores = limited(2, None, 2);
        for piece in 0..5 {
            cores.submit(at(0), Lane::Work, 10.0 * MS, piece);
        }
        assert_eq!(finish(&mut cores), [(0, 10.0), (1, 10.0), (2, 20.0), (3, 20.0), (4, 30.0)]);
        assert_eq!(cores.busy(at(100)), 50.0 * MS);
    }

    #[test]
    fn shared_cores_serve_all_at_once() {
        let mut cores = limited(1, None, u32::MAX);
        cores.submit(at(0), Lane::Work, 10.0 * MS, 0);
        cores.submit(at(0), Lane::Work, 30.0 * MS, 1);
        // alone for the last 20 ms
        assert_eq!(finish(&mut cores), [(0, 20.0), (1, 40.0)]);
        // comes at 50, is alone for 5 ms, then half as fast
        cores.submit(at(50), Lane::Work, 10.0 * MS, 2);
        cores.submit(at(55), Lane::Work, 10.0 * MS, 3);
        assert_eq!(finish(&mut cores), [(2, 65.0), (3, 70.0)]);
    }

    #[test]
    fn a_quota_is_used_up_and_then_waited_for() {
        // half a core: 50 ms of each 100
        let mut cores = limited(4, Some(0.5), u32::MAX);
        cores.submit(at(0), Lane::Work, 120.0 * MS, 0);
        assert_eq!(finish(&mut cores), [(0, 220.0)]);
        assert_eq!((cores.busy(at(220)), cores.throttled(at(220))), (120.0 * MS, Span::from_millis(100)));
        // what is left of the period, then the rest in the next one
        cores.submit(at(290), Lane::Work, 40.0 * MS, 1);
        assert_eq!(finish(&mut cores), [(1, 330.0)], "the second half of a period counts for itself");
    }

    #[test]
    fn many_threads_use_a_quota_up_sooner() {
        // sixteen threads on twenty cores with one core of quota: 6.25 ms of each 100
        let mut cores = limited(20, Some(1.0), u32::MAX);
        for piece in 0..16 {
            cores.submit(at(0), Lane::Work, 10.0 * MS, piece);
        }
        let done = finish(&mut cores);
        assert!(done.iter().all(|(_, ms)| (*ms - 103.75).abs() < 1e-4), "{done:?}");
        assert_eq!(cores.busy(at(200)), 160.0 * MS);
        assert!((cores.throttled(at(200)).as_nanos() as f64 - 93.75 * MS).abs() < 2.0);
    }

    #[test]
    fn a_quota_begins_anew_after_idle_periods() {
        let mut cores = limited(1, Some(0.1), 1);
        cores.submit(at(1_000_000), Lane::Work, 20.0 * MS, 0);
        assert_eq!(finish(&mut cores), [(0, 1_000_110.0)]);
        assert_eq!(limited(2, Some(2.0), 1).quota.map(|q| q.whole), None, "a quota of all cores is none");
    }

    #[test]
    fn a_lane_of_one_is_a_thread_beside_the_others() {
        let mut cores: Cores<u32> = Cores::new(Allowance { cores: Some(2), traffic: 1, ..Allowance::UNLIMITED });
        for piece in 0..3 {
            cores.submit(at(0), Lane::Traffic, 1.0 * MS, piece);
        }
        cores.submit(at(0), Lane::Work, 2.0 * MS, 9);
        assert_eq!(cores.waiting(Lane::Traffic), 2);
        assert_eq!(finish(&mut cores), [(0, 1.0), (9, 2.0), (1, 2.0), (2, 3.0)]);
    }

    #[test]
    fn slower_cores_take_longer_and_use_less() {
        let mut cores = limited(1, None, 1);
        cores.submit(at(0), Lane::Work, 10.0 * MS, 0);
        cores.slow(at(5), 0.5);
        assert_eq!(finish(&mut cores), [(0, 15.0)]);
        assert_eq!(cores.busy(at(20)), 10.0 * MS, "work is work");
    }

    proptest! {
        /// Whatever comes whenever: all of it is done once, core time is the sum of the work, and no piece is done
        /// before it could be.
        #[test]
        fn work_is_conserved(
            cores in 1_u32..5,
            quota in proptest::option::of(0.05_f64..4.0),
            width in 1_u32..9,
            pieces in proptest::collection::vec((0_u64..400_000_000, 1_u64..50_000_000, any::<bool>()), 1..40),
        ) {
            let mut pieces = pieces;
            pieces.sort_unstable();
            let mut node = Cores::new(Allowance { cores: Some(cores), quota, work: width, traffic: 1, ..Allowance::UNLIMITED });
            let mut done = Vec::new();
            let mut last = Time::ZERO;
            let mut coming = pieces.iter().enumerate().peekable();
            loop {
                let arrival = coming.peek().map(|(_, piece)| Time::from_nanos(piece.0));
                let next = node.next();
                match (arrival, next) {
                    (Some(arrival), next) if next.is_none_or(|next| arrival < next) => {
                        let (number, piece) = coming.next().expect("it was seen");
                        let lane = if piece.2 { Lane::Work } else { Lane::Traffic };
                        node.submit(arrival, lane, piece.1 as f64, number);
                        last = arrival;
                    }
                    (_, Some(next)) => {
                        prop_assert!(next >= last, "time goes on");
                        last = next;
                        done.extend(node.pop(next).map(|number| (number, next)));
                    }
                    (None, None) => break,
                    (Some(_), None) => unreachable!("an arrival comes before nothing"),
                }
            }
            let mut numbers: Vec<usize> = done.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..pieces.len()).collect::<Vec<_>>());
            let asked: u64 = pieces.iter().map(|piece| piece.1).sum();
            let busy = node.busy(last);
            prop_assert!((busy - asked as f64).abs() < pieces.len() as f64 * 2.0, "{} of {}", busy, asked);
            for (number, time) in done {
                let (came, work, _) = pieces[number];
                prop_assert!(time.as_nanos() + 1 >= came + work, "faster than a core");
            }
        }
    }
}
