//! One direction of a link: who may wait, how long the bits take, and what is lost on the way.

use std::collections::VecDeque;

use rehearsal_core::plan::LinkSpec;
use rehearsal_core::units::BitRate;
use rehearsal_core::{RngStream, Span, Time};

/// What becomes of a message that is offered to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// Its last bit arrives at this time.
    Arrives(Time),
    /// It occupied the link, and is lost.
    Lost,
    /// It found no room to wait, and is dropped.
    Full,
}

/// What a link has done so far. `offered = delivered + lost + full` at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// Messages offered.
    pub offered: u64,
    /// Messages that arrive, or have arrived.
    pub delivered: u64,
    /// Messages lost after they had occupied the link.
    pub lost: u64,
    /// Messages that found the queue full.
    pub full: u64,
    /// Bytes that have occupied the link or will, those of lost messages included.
    pub bytes: u64,
    /// Time for which they occupy it, ns.
    pub busy_ns: u64,
}

/// A link in one direction: first come, first served, one message after the other.
///
/// A message waits until the link is free, occupies it for `bytes / rate`, and arrives `delay` and a random share of
/// `jitter` later. Propagation never occupies the link. Each offer costs O(1), amortised; it is one event.
#[derive(Clone, Debug)]
pub struct Link {
    rate: Option<BitRate>,
    delay: Span,
    jitter: Span,
    loss: f64,
    queue: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    free_at: Time,
    last_arrival: Option<Time>,
    rng: RngStream,
    counters: LinkCounters,
}

/// A message that had to wait: when the link becomes its own, and its bytes.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    begins: Time,
    bytes: u64,
}

impl Link {
    /// An idle link; `rng` feeds jitter and loss.
    pub fn new(spec: &LinkSpec, rng: RngStream) -> Self {
        Link {
            rate: spec.rate,
            delay: spec.delay,
            jitter: spec.jitter,
            loss: spec.loss.0,
            queue: spec.queue.0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Time::ZERO,
            last_arrival: None,
            rng,
            counters: LinkCounters::default(),
        }
    }

    /// Offers `bytes` bytes at `now`; offers come in the order of time.
    pub fn offer(&mut self, now: Time, bytes: u64) -> Offer {
        self.forget(now);
        self.counters.offered += 1;
        // an empty message takes room too, so that the bound on bytes is a bound on memory
        let room = bytes.max(1);
        if self.free_at > now {
            if self.waiting_bytes.saturating_add(room) > self.queue {
                self.counters.full += 1;
                return Offer::Full;
            }
            self.waiting.push_back(Waiting { begins: self.free_at, bytes: room });
            self.waiting_bytes += room;
        }
        let occupied = self.rate.map_or(Span::ZERO, |rate| rate.serialisation(bytes));
        self.free_at = self.free_at.max(now).saturating_add(occupied);
        self.counters.bytes += bytes;
        self.counters.busy_ns = self.counters.busy_ns.saturating_add(occupied.as_nanos());
        if self.loss > 0.0 && self.rng.unit() < self.loss {
            self.counters.lost += 1;
            return Offer::Lost;
        }
        self.counters.delivered += 1;
        Offer::Arrives(self.arrival())
    }

    /// When the link has carried all that was accepted so far.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Bytes that wait for the link at `now`; what is being sent does not wait.
    pub fn waiting_bytes(&mut self, now: Time) -> u64 {
        self.forget(now);
        self.waiting_bytes
    }

    /// What it has done so far.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Those whose turn has come wait no longer.
    fn forget(&mut self, now: Time) {
        while let Some(first) = self.waiting.front()
            && first.begins <= now
        {
            self.waiting_bytes -= first.bytes;
            self.waiting.pop_front();
        }
    }

    /// Arrival of the message that has just been accepted: later than every arrival before it, by 1 ns at least.
    fn arrival(&mut self) -> Time {
        let mut at = self.free_at.saturating_add(self.delay);
        if !self.jitter.is_zero() {
            at = at.saturating_add(Span::from_nanos(self.rng.below(self.jitter.as_nanos().saturating_add(1))));
        }
        if let Some(last) = self.last_arrival {
            at = at.max(last.saturating_add(Span::from_nanos(1)));
        }
        self.last_arrival = Some(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rehearsal_core::rng::Seed;
    use rehearsal_core::units::{ByteSize, Fraction};

    use super::*;

    fn link(spec: &LinkSpec) -> Link {
        let seed = Seed { seed: 7, repetition: 0, group: "link/a-b", member: 0, stream: 0, purpose: "link" };
        Link::new(spec, RngStream::new(seed))
    }

    fn spec(mbit: u64, delay: Span) -> LinkSpec {
        LinkSpec { rate: Some(BitRate(mbit * 1_000_000)), delay, ..LinkSpec::default() }
    }

    fn arrival(offer: Offer) -> Time {
        let Offer::Arrives(at) = offer else { panic!("{offer:?}") };
        at
    }

    #[test]
    fn a_ping_takes_twice_its_serialisation_and_propagation() {
        // 1250 B at 100 Mbit/s are 100 us
        let (mut there, mut back) = (link(&spec(100, Span::from_millis(3))), link(&spec(100, Span::from_millis(3))));
        let at = arrival(there.offer(Time::ZERO, 1250));
        let at = arrival(back.offer(at, 1250));
        assert_eq!(at.as_nanos(), 2 * (100_000 + 3_000_000));
    }

    #[test]
    fn propagation_does_not_occupy_the_link() {
        // a satellite: 250 ms of delay, and still one message each 100 us
        let mut link = link(&spec(100, Span::from_millis(250)));
        let times: Vec<u64> = (0..50).map(|_| arrival(link.offer(Time::ZERO, 1250)).as_nanos()).collect();
        let expected: Vec<u64> = (1..=50).map(|k| k * 100_000 + 250_000_000).collect();
        assert_eq!(times, expected);
        assert_eq!(link.free_at(), Time::from_nanos(5_000_000));
        assert_eq!(link.counters().busy_ns, 5_000_000);
    }

    #[test]
    fn it_saturates_at_its_rate() {
        // offered 150 Mbit/s for one second, 1500 B each 80 us; the link carries 100 Mbit/s, 120 us each
        let mut link = link(&LinkSpec { queue: ByteSize(150_000), ..spec(100, Span::ZERO) });
        let (mut carried, mut last) = (0, Time::ZERO);
        for k in 0..12_500 {
            if let Offer::Arrives(at) = link.offer(Time::from_nanos(k * 80_000), 1500) {
                carried += 1;
                last = at;
            }
        }
        let counters = link.counters();
        // busy without a break from 0 to the last arrival, which is what the queue of 100 messages holds after 1 s
        assert_eq!(last.as_nanos(), carried * 120_000);
        assert_eq!(counters.busy_ns, carried * 120_000);
        assert!((8333 + 99..=8333 + 101).contains(&carried), "{carried} carried");
        assert_eq!(counters.full, 12_500 - carried);
    }

    #[test]
    fn the_queue_holds_what_waits_and_not_what_is_sent() {
        let mut link = link(&LinkSpec { queue: ByteSize(2500), ..spec(100, Span::ZERO) });
        let now = Time::ZERO;
        assert!(matches!(link.offer(now, 1_000_000), Offer::Arrives(_)), "an idle link takes any size");
        assert_eq!(link.waiting_bytes(now), 0);
        assert!(matches!(link.offer(now, 1250), Offer::Arrives(_)));
        assert!(matches!(link.offer(now, 1250), Offer::Arrives(_)));
        assert_eq!(link.offer(now, 1), Offer::Full);
        assert_eq!(link.waiting_bytes(now), 2500);
        // 80 ms for the first one; then the second is on its way and leaves 1250 B of room
        let now = Time::from_nanos(80_000_000);
        assert_eq!(link.waiting_bytes(now), 1250);
        assert!(matches!(link.offer(now, 1250), Offer::Arrives(_)));
        assert_eq!(link.offer(now, 1250), Offer::Full);
    }

    #[test]
    fn the_share_of_losses_is_the_one_asked_for() {
        let mut link = link(&LinkSpec { loss: Fraction(0.03), ..spec(1000, Span::ZERO) });
        let n = 200_000_u64;
        for k in 0..n {
            link.offer(Time::from_nanos(k * 10_000), 1000);
        }
        let counters = link.counters();
        // binomial: standard deviation of the share is sqrt(0.03 · 0.97 / n) = 0.00038; five of them
        let share = counters.lost as f64 / n as f64;
        assert!((share - 0.03).abs() < 0.0019, "{share}");
        assert_eq!(counters.busy_ns, n * 8_000, "what is lost has occupied the link");
        assert_eq!(counters.delivered + counters.lost, n);
    }

    #[test]
    fn jitter_is_uniform_up_to_its_bound() {
        let mut link = link(&LinkSpec { jitter: Span::from_micros(100), ..spec(1000, Span::from_millis(1)) });
        let n = 50_000_u64;
        let mut sum = 0;
        for k in 0..n {
            let now = Time::from_nanos(k * 1_000_000);
            let extra = arrival(link.offer(now, 125)).since(now).as_nanos() - 1_001_000;
            assert!(extra <= 100_000, "{extra} ns");
            sum += extra;
        }
        // uniform: mean 50 us, standard error 28.9 us / sqrt(n) = 0.13 us; five of them
        let mean = sum as f64 / n as f64;
        assert!((mean - 50_000.0).abs() < 650.0, "{mean} ns");
    }

    #[test]
    fn one_seed_one_course() {
        let spec = LinkSpec { loss: Fraction(0.1), jitter: Span::from_millis(1), ..spec(10, Span::from_millis(5)) };
        let course = |mut link: Link| (0..500).map(|k| link.offer(Time::from_nanos(k * 1_000_000), 900)).collect();
        let (a, b): (Vec<Offer>, Vec<Offer>) = (course(link(&spec)), course(link(&spec)));
        assert_eq!(a, b);
        assert!(a.contains(&Offer::Lost));
    }

    proptest! {
        #[test]
        fn nothing_is_made_or_forgotten_and_order_is_kept(
            offers in prop::collection::vec((0_u64..2_000_000, 0_u64..5_000), 1..300),
            mbit in prop::option::of(1_u64..1_000),
            jitter_us in 0_u64..3_000,
            loss in 0.0_f64..0.5,
            queue in 0_u64..20_000,
        ) {
            let mut link = link(&LinkSpec {
                rate: mbit.map(|m| BitRate(m * 1_000_000)),
                delay: Span::from_micros(300),
                jitter: Span::from_micros(jitter_us),
                loss: Fraction(loss),
                queue: ByteSize(queue),
                ..LinkSpec::default()
            });
            let (mut now, mut last) = (Time::ZERO, Time::ZERO);
            let mut seen = LinkCounters::default();
            for (gap, bytes) in offers {
                now += Span::from_nanos(gap);
                seen.offered += 1;
                match link.offer(now, bytes) {
                    Offer::Arrives(at) => {
                        prop_assert!(at > last, "{at} after {last}");
                        prop_assert!(at >= now + Span::from_micros(300));
                        last = at;
                        seen.delivered += 1;
                        seen.bytes += bytes;
                    }
                    Offer::Lost => { seen.lost += 1; seen.bytes += bytes; }
                    Offer::Full => seen.full += 1,
                }
                prop_assert!(link.waiting_bytes(now) <= queue);
                let counted = link.counters();
                prop_assert_eq!(counted.offered, counted.delivered + counted.lost + counted.full);
                prop_assert!(link.free_at().as_nanos() >= counted.busy_ns, "never busier than time allows");
                seen.busy_ns = counted.busy_ns;
                prop_assert_eq!(counted, seen);
            }
        }
    }
}
