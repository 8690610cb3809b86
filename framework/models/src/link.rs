//! One direction of a link: who may wait, how long the bits take, how long they travel, and what is lost on the way.
//!
//! # The model
//!
//! A packet waits until the link is free, occupies it for `bytes / rate`, and arrives `delay` and its share of jitter later.
//! Propagation never occupies the link. What is lost has occupied it. Bytes are those on the wire
//! ([`crate::wire`]): headers, and the gaps between frames.
//!
//! * [`Fifo`]: first come, first served. When something leaves is known when it is offered, so an offer costs O(1) and one
//!   event. A queue is bounded in bytes and in packets; what is being sent does not wait, and an idle link takes any size.
//! * [`classes::Classes`]: strict priority or deficit round robin between classes, and CoDel, packet by packet.
//! * [`capacity::Capacity`]: a rate, or a trace of rates that begins again at its end.
//! * [`jitter::Delay`]: uniform, normal, gamma, lognormal or measured jitter, cut off at zero.
//! * [`loss::Loss`]: independent losses or those of a chain of two states.
//!
//! A radio cell is one [`Fifo`] or [`classes::Classes`] that many pairs of nodes share; each pair has a [`Tail`] of its own.
//! What streams make of losses is in [`crate::transport`].
//!
//! # Defaults
//!
//! No rate, no delay, no loss, a queue of 1 MB (assumed: a shallow switch buffer). CoDel: 5 ms and 100 ms (RFC 8289).
//!
//! # What is not modelled
//!
//! Bits that are wrong and arrive; retransmission by the radio itself, other than as jitter; links that share a capacity in
//! both directions, unless both are members of one cell.
//!
//! # How it was validated
//!
//! By tests beside the code, against closed forms: a link saturates at its rate, a ping takes twice serialisation and
//! propagation, shares and lengths of bursts, moments of jitter, shares of weighted classes, the wait of an urgent packet,
//! the law and the effect of CoDel, and by random offers that nothing is made or forgotten.

use std::collections::VecDeque;

use rehearsal_core::plan::LinkSpec;
use rehearsal_core::{RngStream, Span, Time};

use crate::wire::FRAME_BYTES;

pub mod capacity;
pub mod classes;
pub mod codel;
pub mod jitter;
pub mod loss;

use capacity::Capacity;
use jitter::Delay;
use loss::{Loss, Place};

/// What is offered to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets that carry them.
    pub packets: u64,
    /// Packets that its sender lets wait at the link; the rest waits at the sender. A stream's window.
    pub window: u64,
}

impl Load {
    /// Packets of which all may wait at the link.
    pub const fn packets(bytes: u64, packets: u64) -> Self {
        Load { bytes, packets, window: u64::MAX }
    }

    /// Bytes and packets of it that wait at the link. An empty message takes room too, so that a bound on bytes bounds
    /// memory.
    #[inline]
    fn waits(&self) -> (u64, u64) {
        if self.packets <= self.window {
            let bytes = if self.packets > 0 { self.bytes.max(1) } else { self.bytes };
            return (bytes, self.packets);
        }
        (self.bytes.min(self.window * FRAME_BYTES), self.window)
    }

    /// Bytes of its next packet.
    #[inline]
    fn packet(&self) -> u64 {
        self.bytes.div_ceil(self.packets)
    }
}

/// A queue before a link: first come, first served. Each offer costs O(1), amortised.
#[derive(Clone, Debug)]
pub struct Fifo {
    capacity: Capacity,
    bytes_max: u64,
    packets_max: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    waiting_packets: u64,
    free_at: Time,
    busy: Span,
}

/// Something that had to wait: when the link becomes its own, and what it takes of the queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    begins: Time,
    bytes: u64,
    packets: u64,
}

impl Fifo {
    /// An idle one.
    pub fn of(spec: &LinkSpec) -> Self {
        Fifo {
            capacity: Capacity::of(spec),
            bytes_max: spec.queue.0,
            packets_max: spec.queue_packets.unwrap_or(u64::MAX),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_packets: 0,
            free_at: Time::ZERO,
            busy: Span::ZERO,
        }
    }

    /// Offers something at `now`; offers come in the order of time. When its last bit has left; `None` if there is no room.
    #[inline]
    pub fn offer(&mut self, now: Time, load: Load) -> Option<Time> {
        self.forget(now);
        if self.free_at > now {
            let (bytes, packets) = load.waits();
            if self.waiting_bytes.saturating_add(bytes) > self.bytes_max
                || self.waiting_packets.saturating_add(packets) > self.packets_max
            {
                return None;
            }
            self.waiting.push_back(Waiting { begins: self.free_at, bytes, packets });
            self.waiting_bytes += bytes;
            self.waiting_packets += packets;
        }
        self.free_at = self.free_at.max(now);
        self.occupy(load.bytes);
        Some(self.free_at)
    }

    /// So many bytes more, after all that was accepted.
    #[inline]
    pub fn occupy(&mut self, bytes: u64) {
        let done = self.capacity.done(self.free_at, bytes);
        self.busy = Span::from_nanos(self.busy.as_nanos().saturating_add(done.since(self.free_at).as_nanos()));
        self.free_at = done;
    }

    /// How long a full frame takes at `at`.
    #[inline]
    pub fn frame(&self, at: Time) -> Span {
        self.capacity.takes(at, FRAME_BYTES)
    }

    /// When it has carried all that was accepted so far.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// How long it has been occupied, or will have been.
    pub fn busy(&self) -> Span {
        self.busy
    }

    /// Bytes that wait at `now`.
    pub fn waiting_bytes(&mut self, now: Time) -> u64 {
        self.forget(now);
        self.waiting_bytes
    }

    /// Those whose turn has come wait no longer.
    #[inline]
    fn forget(&mut self, now: Time) {
        while let Some(first) = self.waiting.front()
            && first.begins <= now
        {
            self.waiting_bytes -= first.bytes;
            self.waiting_packets -= first.packets;
            self.waiting.pop_front();
        }
    }
}

/// The way behind the queue, of one pair of nodes: travel, and loss.
#[derive(Clone, Debug)]
pub struct Tail {
    delay: Delay,
    loss: Loss,
    reorder: bool,
    last: Option<Time>,
    rng: RngStream,
}

impl Tail {
    /// That of a link; `rng` feeds jitter and loss.
    pub fn of(spec: &LinkSpec, mut rng: RngStream) -> Self {
        let loss = Loss::of(spec, &mut rng);
        Tail { delay: Delay::of(spec), loss, reorder: spec.reorder, last: None, rng }
    }

    /// When what has left at `left` arrives: later than all before it, by 1 ns at least, unless the link lets them overtake
    /// each other.
    #[inline]
    pub fn arrival(&mut self, left: Time) -> Time {
        let mut at = left.saturating_add(self.delay.draw(&mut self.rng));
        if let Some(last) = self.last.filter(|_| !self.reorder) {
            at = at.max(last.saturating_add(Span::from_nanos(1)));
        }
        self.last = Some(at);
        at
    }

    /// Whether anything can get lost.
    #[inline]
    pub fn loses(&self) -> bool {
        !self.loss.is_none()
    }

    /// Whether any of the next packets is lost.
    #[inline]
    pub fn any_lost(&mut self, packets: u64) -> bool {
        self.loss.any(packets, &mut self.rng)
    }

    /// To a time that is a timeout later; see [`Loss::leave`].
    #[inline]
    pub fn leave(&mut self) -> Option<Place> {
        self.loss.leave(&mut self.rng)
    }

    /// Back to the present; see [`Loss::back`].
    #[inline]
    pub fn back(&mut self, place: Option<Place>) {
        self.loss.back(place);
    }

    /// The first of the next packets that is lost; see [`Loss::first`].
    #[inline]
    pub fn first_lost(&mut self, packets: u64) -> Option<u64> {
        self.loss.first(packets, &mut self.rng)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rehearsal_core::rng::Seed;
    use rehearsal_core::units::{BitRate, ByteSize, Fraction};

    use super::*;
    use rehearsal_core::plan::JitterShape;

    /// What becomes of a datagram.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Offer {
        Arrives(Time),
        Lost,
        Full,
    }

    /// What a link has done so far. `offered = delivered + lost + full` at any time.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    struct LinkCounters {
        /// Messages offered.
        offered: u64,
        /// Messages that arrive, or have arrived.
        delivered: u64,
        /// Messages lost after they had occupied the link.
        lost: u64,
        /// Messages that found the queue full.
        full: u64,
        /// Bytes that have occupied the link or will, those of lost messages included.
        bytes: u64,
        /// Time for which they occupy it, ns.
        busy_ns: u64,
    }

    /// A queue and the way behind it, for packets of their own.
    struct Link {
        fifo: Fifo,
        tail: Tail,
        counters: LinkCounters,
    }

    impl Link {
        fn offer(&mut self, now: Time, bytes: u64) -> Offer {
            self.counters.offered += 1;
            let Some(left) = self.fifo.offer(now, Load::packets(bytes, 1)) else {
                self.counters.full += 1;
                return Offer::Full;
            };
            self.counters.bytes += bytes;
            self.counters.busy_ns = self.fifo.busy().as_nanos();
            if self.tail.any_lost(1) {
                self.counters.lost += 1;
                return Offer::Lost;
            }
            self.counters.delivered += 1;
            Offer::Arrives(self.tail.arrival(left))
        }

        fn counters(&self) -> LinkCounters {
            self.counters
        }

        fn waiting_bytes(&mut self, now: Time) -> u64 {
            self.fifo.waiting_bytes(now)
        }

        fn free_at(&self) -> Time {
            self.fifo.free_at()
        }
    }

    fn link(spec: &LinkSpec) -> Link {
        let seed = Seed { seed: 7, repetition: 0, group: "link/a-b", member: 0, stream: 0, purpose: "link" };
        let (fifo, tail) = (Fifo::of(spec), Tail::of(spec, RngStream::new(seed)));
        Link { fifo, tail, counters: LinkCounters::default() }
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
    fn the_queue_holds_so_many_packets_too() {
        let mut link = link(&LinkSpec { queue_packets: Some(3), ..spec(100, Span::ZERO) });
        let taken = (0..10).filter(|_| link.offer(Time::ZERO, 100) != Offer::Full).count();
        assert_eq!(taken, 4, "one is sent, three wait");
        // a message of ten packets of which its stream lets two wait
        let load = Load { bytes: 15_380, packets: 10, window: 2 };
        let now = Time::from_nanos(8_000 * 2);
        assert_eq!(link.fifo.offer(now, load), Some(Time::from_nanos(8_000 * 4 + 15_380 * 80)));
        assert_eq!(link.waiting_bytes(now), 100 + 2 * 1538);
    }

    #[test]
    fn a_link_follows_its_trace() {
        // 100 and 10 Mbit/s in turn, a second each: 55 Mbit/s offered are carried in the first and not in the second
        let steps = vec![(Span::ZERO, BitRate(100_000_000)), (Span::from_secs(1), BitRate(10_000_000))];
        let mut link = link(&LinkSpec { rate_steps: steps, queue: ByteSize(12_500), ..LinkSpec::default() });
        let (mut carried, mut full) = ([0_u64; 4], 0);
        for k in 0..4 * 5500 {
            let now = k * 1_000_000_000 / 5500;
            match link.offer(Time::from_nanos(now), 1250) {
                Offer::Arrives(at) => carried[(at.as_nanos() / 1_000_000_000).min(3) as usize] += 1,
                _ => full += 1,
            }
        }
        let wanted = [5500, 1000, 5510, 1000];
        assert!(carried.iter().zip(wanted).all(|(got, wanted)| got.abs_diff(wanted) <= 12), "{carried:?}");
        assert_eq!(full, 22_000 - carried.iter().sum::<u64>());
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

    #[test]
    fn what_jitter_delays_less_overtakes_only_where_it_may() {
        let overtakes = |reorder| {
            let mut link = link(&LinkSpec { jitter: Span::from_millis(5), reorder, ..LinkSpec::default() });
            let times: Vec<Time> =
                (0..200).map(|k| arrival(link.offer(Time::from_nanos(k * 1_000_000), 100))).collect();
            times.windows(2).filter(|pair| pair[1] < pair[0]).count()
        };
        assert_eq!(overtakes(false), 0);
        // two uniform draws of 5 ms, 1 ms apart: the later one is first with probability (4/5)² / 2 = 0.32
        assert!((40..90).contains(&overtakes(true)), "{} of 199", overtakes(true));
    }

    proptest! {
        #[test]
        fn nothing_is_made_or_forgotten_and_order_is_kept(
            offers in prop::collection::vec((0_u64..2_000_000, 0_u64..5_000), 1..300),
            mbit in prop::option::of(1_u64..1_000),
            jitter_us in 0_u64..3_000,
            loss in 0.0_f64..0.5,
            queue in 0_u64..20_000,
            packets in prop::option::of(1_u64..20),
            shape in prop_oneof![Just(JitterShape::Uniform), Just(JitterShape::Gamma), Just(JitterShape::Lognormal)],
        ) {
            let mut link = link(&LinkSpec {
                rate: mbit.map(|m| BitRate(m * 1_000_000)),
                delay: Span::from_micros(300),
                jitter: Span::from_micros(jitter_us),
                loss: Fraction(loss),
                queue: ByteSize(queue),
                queue_packets: packets,
                jitter_shape: shape,
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
