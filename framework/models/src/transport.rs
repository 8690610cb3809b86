//! What a stream (TCP, whatever speaks over it) makes of a link: handshakes, slow start, and losses that show as delay.
//!
//! # The model
//!
//! One closed form per message and direction. A message of `n` packets leaves in rounds: a window of packets, then a wait
//! for the first acknowledgement if that is not there when the window has left. So a round takes the longer of the
//! window's serialisation and a round trip, and on a long, fast link a message that fits no window costs round trips
//! beyond its bits. The sum of these waits is added to the arrival; the link itself is free for others meanwhile.
//!
//! * **Handshake**: 0 to 2 round trips by protocol ([`rehearsal_core::plan::Handshake`]). A flight that is lost is sent again
//!   after 1 s, doubled each time, at most six times. Source: RFC 6298 §2.1; Linux `tcp_syn_retries`.
//! * **Slow start**: a connection begins with 10 packets (RFC 6928) and doubles them each round (RFC 5681 §3.1), above the
//!   threshold it adds one. A window that a message does not fill does not grow (RFC 7661). At most 2048 packets, 3 MB.
//!   Assumed: half of Linux's largest receive buffer, `tcp_rmem`.
//! * **Idle restart**: after a timeout's length without traffic the window is at most 10 packets again. Source: RFC 5681
//!   §4.1; RFC 2861 and Linux halve it step by step, which this does not.
//! * **Loss**: each packet of the message is put to the link's loss process. Three packets that arrive after the first lost
//!   one of a round tell of it: fast retransmit, one round trip, half the window (RFC 5681 §3.2), all losses of a round at once
//!   (RFC 6675). Otherwise the timeout is waited for: round trip + 200 ms, doubled each time in a row (RFC 6298 §5.5), and
//!   the window begins at one packet. Source of 200 ms: Linux `TCP_RTO_MIN`, which floors the variation; RFC 6298 §2.4 asks
//!   for 1 s. After six timeouts in a row the message is given up, and its sender's deadline decides. Assumed: with doubling
//!   from 200 ms the seventh would come after 12.7 s, later than the default timeout. After a timeout a burst of losses is
//!   over for what is sent again, and goes on for others: see [`crate::link::loss`].
//! * **Order**: what shares one connection (NATS, HTTP/2) arrives in its order, so a loss holds up all that follows. QUIC keeps
//!   the order of each stream alone (RFC 9000 §2.2): there a loss holds up its own message. Its losses are told by
//!   acknowledgements of three later packets and by a probe timeout (RFC 9002 §6), which this takes for TCP's.
//! * **Flow control**: where a stream has a window (RFC 9113 §5.2, RFC 9000 §4), no more than that is under way in a round.
//!
//! # What is not modelled
//!
//! The round trip is that of propagation: queues do not lengthen it. Lost acknowledgements (they are cumulative), delayed
//! acknowledgements, tail loss probes (RFC 8985), CUBIC's growth above the threshold, HyStart, pacing, BBR, and the window's
//! reaction to a full queue: what finds no room is offered again after a timeout. For messages that share a bottleneck,
//! queueing is that of the link, and the windows are not shared out.
//!
//! # How it was validated
//!
//! Rounds and waits against examples computed by hand, on paper as in Kurose and Ross' static-window analysis (Computer
//! Networking, §3.7) and Cardwell, Savage, Anderson, "Modeling TCP latency" (INFOCOM 2000, doi 10.1109/INFCOM.2000.832574).

use rehearsal_core::{Span, Time};

use crate::link::Tail;
use crate::link::loss::Place;

/// Packets that a connection may send at once when it begins. Source: RFC 6928 §2.
pub const INITIAL_WINDOW: u32 = 10;
/// Packets that are under way at most. Assumed: see the module.
const WINDOW_MAX: u32 = 2048;
/// No flow control of the receiver's.
pub const NO_LIMIT: u32 = u32::MAX;
/// What a timeout is above the round trip at least. Source: the Linux kernel's `TCP_RTO_MIN`.
const RTO_MIN: Span = Span::from_millis(200);
/// The timeout of a handshake, before any round trip was measured. Source: RFC 6298 §2.1.
const RTO_FIRST: Span = Span::from_secs(1);
/// Times that one message is sent again; then the deadline decides. See the module.
pub const RETRANSMISSIONS_MAX: u8 = 6;
/// Packets that arrive after a lost one and tell of it. Source: RFC 5681 §3.2.
const DUPLICATES: u64 = 3;

/// How long a message that got lost waits for its `tries`-th retransmission (from 1): a round trip and 200 ms, doubled
/// each time. Source: RFC 6298 §5.5.
pub fn retransmission(round_trip: Span, tries: u8) -> Span {
    (RTO_MIN + round_trip).saturating_mul(1 << (tries.clamp(1, 32) - 1))
}

/// What one direction of a connection has learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Packets that may be under way.
    packets: u32,
    /// Above so many it grows slowly.
    threshold: u32,
    /// When it last carried something.
    used: Time,
    /// When the last of what it carried arrives.
    last: Time,
    /// The connection that it stands for, where its path keeps what that has learnt.
    connection: Option<u32>,
}

impl Default for Window {
    fn default() -> Self {
        Window { packets: INITIAL_WINDOW, threshold: u32::MAX, used: Time::ZERO, last: Time::ZERO, connection: None }
    }
}

/// The way of a message: what a window has to know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Propagation there and back.
    pub round_trip: Span,
    /// How long a full packet occupies the link.
    pub packet: Span,
    /// Packets that the receiver's flow control lets through at once.
    pub limit: u32,
}

/// What a stream added to a message's way over the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// After its last bit would have arrived without any wait or loss; `None` if it was given up.
    pub extra: Option<Span>,
    /// Packets that were lost and sent again.
    pub resent: u64,
    /// Packets that were lost.
    pub lost: u64,
}

impl Window {
    /// Stands for a connection whose path keeps what it has learnt.
    pub fn on(connection: u32) -> Self {
        Window { connection: Some(connection), ..Window::default() }
    }

    /// The connection that it stands for.
    #[inline]
    pub fn connection(&self) -> Option<u32> {
        self.connection
    }

    /// Packets that may be under way.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Sends a message of `packets` packets at `now`, if it fits the window and nothing gets lost: the common case.
    #[inline]
    pub fn passes(&mut self, now: Time, packets: u64, round_trip: Span, limit: u32, tail: &Tail) -> bool {
        self.rest(now, round_trip);
        let passes = packets < u64::from(self.packets.min(limit)) && !tail.loses();
        if passes {
            self.used = self.used.max(now);
        }
        passes
    }

    /// Sends a message of `packets` packets at `now`.
    pub fn send(&mut self, now: Time, packets: u64, way: Way, tail: &mut Tail) -> Sent {
        if self.passes(now, packets, way.round_trip, way.limit, tail) {
            return Sent { extra: Some(Span::ZERO), resent: 0, lost: 0 };
        }
        let mut left = None;
        let sent = self.rounds(now, packets, way, tail, &mut left);
        tail.back(left);
        sent
    }

    /// The time at which something arrives that would at `at`, were it not for what went before.
    #[inline]
    pub fn in_order(&mut self, at: Time) -> Time {
        self.last = self.last.max(at);
        self.last
    }

    /// A connection that rested begins anew.
    #[inline]
    fn rest(&mut self, now: Time, round_trip: Span) {
        if now.since(self.used) > RTO_MIN + round_trip {
            self.packets = self.packets.min(INITIAL_WINDOW);
        }
    }

    /// Round after round. `place` is where the losses were at the first timeout.
    fn rounds(&mut self, now: Time, packets: u64, way: Way, tail: &mut Tail, place: &mut Option<Place>) -> Sent {
        let (ser, trip) = (u128::from(way.packet.as_nanos()), u128::from(way.round_trip.as_nanos()));
        let mut sent = Sent::default();
        // from the first bit of the message on, ns: when the round begins, and when its last packet has left
        let (mut begins, mut end) = (0_u128, 0_u128);
        let (mut left, mut timeouts) = (packets, 0_u8);
        while left > 0 {
            let window = u64::from(self.packets.min(way.limit));
            if !tail.loses() && u128::from(window) * ser >= trip + ser {
                // acknowledgements come before the window has left: no wait any more
                end = begins + u128::from(left) * ser;
                break;
            }
            let round = window.min(left);
            let (first, lost) = losses(round, tail);
            end = begins + u128::from(round) * ser;
            left -= round - lost;
            sent.lost += lost;
            let Some(first) = first else {
                timeouts = 0;
                begins = end.max(begins + ser + trip);
                if round == u64::from(self.packets) {
                    self.grow();
                }
                continue;
            };
            self.threshold = (self.packets / 2).max(2);
            if round - first - lost >= DUPLICATES {
                timeouts = 0;
                self.packets = self.threshold;
                begins = end.max(begins + u128::from(first + 1 + DUPLICATES) * ser + trip);
            } else {
                timeouts += 1;
                self.packets = 1;
                if timeouts > RETRANSMISSIONS_MAX {
                    self.used = self.used.max(now);
                    return Sent { extra: None, ..sent };
                }
                begins = end + u128::from(retransmission(way.round_trip, timeouts).as_nanos());
                let here = tail.leave();
                *place = place.or(here);
            }
            sent.resent += lost;
        }
        let whole = u128::from(packets) * ser;
        let extra = Span::from_nanos(u64::try_from(end.saturating_sub(whole)).unwrap_or(u64::MAX));
        self.used = self.used.max(now.saturating_add(extra));
        Sent { extra: Some(extra), ..sent }
    }

    /// A window was used up and all of it arrived.
    fn grow(&mut self) {
        let grown = if self.packets < self.threshold {
            self.packets.saturating_mul(2).min(self.threshold)
        } else {
            self.packets + 1
        };
        self.packets = grown.min(WINDOW_MAX);
    }
}

/// The first lost packet of a round, and how many are lost.
fn losses(round: u64, tail: &mut Tail) -> (Option<u64>, u64) {
    let (mut first, mut lost, mut past) = (None, 0, 0);
    while let Some(next) = tail.first_lost(round - past) {
        first.get_or_insert(past + next);
        lost += 1;
        past += next + 1;
    }
    (first, lost)
}

/// How long a new connection takes: `trips` round trips, and for each flight of them that is lost 1 s, doubled each time.
pub fn handshake(trips: u32, round_trip: Span, up: Option<&mut Tail>, down: Option<&mut Tail>) -> Span {
    let mut whole = round_trip.saturating_mul(u64::from(trips));
    let mut ways = [up, down];
    if ways.iter().flatten().all(|tail| !tail.loses()) {
        return whole;
    }
    let mut places = [None; 2];
    for _ in 0..trips {
        for tries in 0..RETRANSMISSIONS_MAX {
            let mut lost = false;
            for tail in ways.iter_mut().flatten() {
                // what did not arrive is not answered
                lost = lost || tail.any_lost(1);
            }
            if !lost {
                break;
            }
            for (tail, place) in ways.iter_mut().zip(&mut places) {
                let here = tail.as_mut().and_then(|tail| tail.leave());
                *place = place.or(here);
            }
            whole = Span::from_nanos(whole.as_nanos().saturating_add(RTO_FIRST.saturating_mul(1 << tries).as_nanos()));
        }
    }
    for (tail, place) in ways.into_iter().zip(places) {
        if let Some(tail) = tail {
            tail.back(place);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use rehearsal_core::RngStream;
    use rehearsal_core::plan::{GilbertElliott, LinkSpec};
    use rehearsal_core::rng::Seed;
    use rehearsal_core::units::Fraction;

    use super::*;

    const MS: fn(u64) -> Span = Span::from_millis;

    fn tail(loss: f64) -> Tail {
        let seed = Seed { seed: 5, repetition: 0, group: "link/a-b", member: 0, stream: 0, purpose: "link" };
        Tail::of(&LinkSpec { loss: Fraction(loss), ..LinkSpec::default() }, RngStream::new(seed))
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn retransmissions_wait_twice_as_long_each_time() {
        assert_eq!([1, 2, 6].map(|n| retransmission(MS(10), n)), [210, 420, 6720].map(MS));
    }

    #[test]
    fn slow_start_takes_the_rounds_that_paper_says() {
        // no serialisation, 20 ms there and back: 10, 20, 40, 80, 160 … packets a round
        let fast = Way { round_trip: MS(20), packet: Span::ZERO, limit: NO_LIMIT };
        for (packets, waits) in [(1, 0), (10, 0), (11, 1), (30, 1), (31, 2), (70, 2), (103, 3), (150, 3), (151, 4)] {
            let sent = Window::default().send(at(0), packets, fast, &mut tail(0.0));
            assert_eq!(sent, Sent { extra: Some(MS(20 * waits)), resent: 0, lost: 0 }, "{packets} packets");
        }
        // 1 ms a packet: after the first ten have left the first acknowledgement is 11 ms away; twenty outlast 21 ms no less
        let slow = Way { round_trip: MS(20), packet: MS(1), limit: NO_LIMIT };
        let extra = |packets| Window::default().send(at(0), packets, slow, &mut tail(0.0)).extra;
        // round 1: 10 ms sent, next at 21; round 2: 20 ms sent to 41, next at 42; round 3: 40 packets, no wait any more
        assert_eq!([10, 11, 30, 31, 200].map(extra), [0, 11, 11, 12, 12].map(|ms| Some(MS(ms))));
        // a slow link never waits: ten packets outlast the round trip
        let slower = Way { round_trip: MS(20), packet: MS(3), limit: NO_LIMIT };
        assert_eq!(Window::default().send(at(0), 1000, slower, &mut tail(0.0)).extra, Some(Span::ZERO));
    }

    #[test]
    fn flow_control_lets_a_window_through_in_each_round_trip() {
        let way = Way { round_trip: MS(20), packet: Span::ZERO, limit: 8 };
        let extra = |packets| Window::default().send(at(0), packets, way, &mut tail(0.0)).extra;
        // eight packets a round, though the connection might send ten and more
        assert_eq!([7, 8, 9, 16, 17, 80].map(extra), [0, 0, 20, 20, 40, 180].map(|ms| Some(MS(ms))));
        // a window that was not used up does not grow (RFC 7661)
        let mut window = Window::default();
        window.send(at(0), 80, way, &mut tail(0.0));
        assert_eq!(window.packets(), INITIAL_WINDOW);
    }

    #[test]
    fn a_window_is_kept_by_use_and_lost_by_rest() {
        let way = Way { round_trip: MS(20), packet: Span::ZERO, limit: NO_LIMIT };
        let mut window = Window::default();
        let mut send =
            |ms, packets| window.send(at(ms), packets, way, &mut tail(0.0)).extra.map(|s| s.as_nanos() / 1_000_000);
        assert_eq!(send(0, 100), Some(60), "10 + 20 + 40 + 30");
        assert_eq!(send(100, 80), Some(0), "80 have been reached");
        assert_eq!(send(280, 80), Some(0), "and are kept for 220 ms");
        assert_eq!(send(600, 80), Some(60), "but not for longer");
        let mut small = Window::default();
        for ms in 0..100 {
            small.send(at(ms), 5, way, &mut tail(0.0));
        }
        assert_eq!(small.packets(), 10, "what is not used up does not grow");
    }

    #[test]
    fn a_single_lost_packet_waits_for_the_timeout_and_one_in_a_crowd_does_not() {
        let way = Way { round_trip: MS(20), packet: Span::ZERO, limit: NO_LIMIT };
        let mut lossy = tail(0.2);
        let (mut timeouts, mut fast) = (0, 0);
        for _ in 0..2000 {
            let sent = Window::default().send(at(0), 1, way, &mut lossy);
            let extra = sent.extra.expect("0.2^7 is once in 78,000").as_nanos() / 1_000_000;
            // 220 · (2^lost − 1)
            assert_eq!(extra, 220 * ((1 << sent.lost) - 1));
            timeouts += u64::from(sent.lost > 0);
        }
        // binomial: 400, standard deviation 17.9; five of them
        assert!((310..490).contains(&timeouts), "{timeouts} of 2000");
        let mut rare = tail(0.02);
        for _ in 0..2000 {
            let sent = Window::default().send(at(0), 10, way, &mut rare);
            if sent.lost == 1 && sent.extra == Some(MS(20)) {
                fast += 1;
            }
            assert!(sent.lost > 0 || sent.extra == Some(Span::ZERO));
        }
        // one loss among the first seven of ten: 7 · 0.02 · 0.98^9 = 0.117, and its retransmission arrives: 229 ± 70
        assert!((160..300).contains(&fast), "{fast} of 2000");
    }

    #[test]
    fn a_burst_is_over_after_a_timeout_and_goes_on_for_others() {
        let way = Way { round_trip: MS(20), packet: Span::ZERO, limit: NO_LIMIT };
        let bursts = GilbertElliott {
            begin: Fraction(0.0002),
            end: Fraction(0.25),
            loss_between: Fraction(0.0),
            loss_within: Fraction(1.0),
        };
        let seed = Seed { seed: 5, repetition: 0, group: "link/a-b", member: 0, stream: 0, purpose: "link" };
        let spec = LinkSpec { gilbert_elliott: Some(bursts), ..LinkSpec::default() };
        let mut tail = Tail::of(&spec, RngStream::new(seed));
        let (mut late, mut row, mut rows) = (0_u64, 0_u64, 0_u64);
        for n in 0..500_000 {
            let sent = Window::default().send(at(n), 1, way, &mut tail);
            // seven losses in a row of a process that loses one packet of 1250
            let extra = sent.extra.expect("nothing is given up");
            late += u64::from(extra > MS(220));
            rows += u64::from(row == 0 && sent.lost > 0);
            row = if sent.lost > 0 { row + 1 } else { 0 };
        }
        // bursts: 0.0002 · 500,000 = 100, standard deviation 10; each hits some four messages once
        assert!((50..150).contains(&rows), "{rows} bursts");
        assert!(late <= 5, "{late} messages were lost twice");
        let lost: u64 = (0..500_000).map(|n| Window::default().send(at(n), 1, way, &mut tail).lost).sum();
        // 400 lost, and four for each burst: standard deviation sqrt(100 · (16 + 12)) = 53; five of them
        assert!((135..665).contains(&lost), "{lost} lost");
    }

    #[test]
    fn halves_and_begins_anew_after_losses() {
        let way = Way { round_trip: MS(20), packet: Span::ZERO, limit: NO_LIMIT };
        let mut dead = tail(1.0);
        let mut window = Window::default();
        assert_eq!(window.send(at(0), 1, way, &mut dead).extra, None, "given up");
        assert_eq!(window.packets(), 1);
        // ten packets of which none arrives tell of nothing: seven timeouts, the last six of one packet
        let sent = Window::default().send(at(0), 10, way, &mut dead);
        assert_eq!((sent.extra, sent.lost, sent.resent), (None, 16, 15));
        // 1, then 2 packets up to the threshold, then one more each round
        let sent = window.send(at(10), 6, way, &mut tail(0.0));
        assert_eq!((sent.extra, window.packets()), (Some(MS(40)), 4));
    }

    #[test]
    fn a_handshake_costs_its_round_trips_and_its_losses() {
        assert_eq!(handshake(2, MS(10), Some(&mut tail(0.0)), None), MS(20));
        assert_eq!(handshake(0, MS(10), None, None), Span::ZERO);
        // a dead link: 1 + 2 + 4 + 8 + 16 + 32 s
        assert_eq!(handshake(1, MS(10), Some(&mut tail(1.0)), None), MS(63_010));
        let mut half = tail(0.5);
        let lost = (0..1000).filter(|_| handshake(1, MS(10), Some(&mut half), None) > MS(10)).count();
        assert!((420..580).contains(&lost), "{lost} of 1000, standard deviation 16");
    }
}
