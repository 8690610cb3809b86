//! The sorts of events, in the order in which they happen within one instant.

use rehearsal_core::parts::heap::Entry;

/// Work done first, so that a slot is free for what comes in; then outcomes, arrivals, messages, timers; then what
/// leaves; a deadline after all that could still meet it; the sample of the second last.
///
/// The payload of an entry is two 32-bit words, (high, low), unless something else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    /// Work of the source is done; the payload is its key.
    Work = 1,
    /// Work with another result than "done": (actor, slot of the results).
    Made,
    /// A pause is over and a core is wanted: (0, slot of the results).
    Compute,
    /// A look at a node's cores: (epoch, node).
    Cores,
    /// A message that has come in is looked at: (way, slot of the exchange or flight).
    Wake,
    /// An outcome reaches the sender: (actor, slot of the exchange, with [`LOCAL`]).
    Outcome,
    /// A request reaches the receiver: (actor, slot of the exchange).
    Request,
    /// A datagram reaches the receiver: (actor, slot of the flight).
    Datagram,
    /// A message reaches a reader: (actor, slot of the letter).
    Message,
    /// A timer of the source: (mark, key).
    Timer,
    /// An attempt was planned for now: (generation, slot of the exchange).
    Send,
    /// A datagram was planned for now: (0, slot of the flight).
    SendDatagram,
    /// A flow's next departure: (change, slot of the flow).
    Flow,
    /// A request or reply goes onto its link, after a handshake or once more: (0, slot of the exchange).
    Carry,
    /// A link chooses packet by packet, and has chosen: (0, cell).
    Link,
    /// The first deadline of a ring may have passed: (0, ring).
    Deadline,
    /// The drain has taken as long as it may.
    Grace,
    /// What a flow did in the second: (actor, slot of the flow).
    FlowReport,
    /// A second of the run is over.
    Sample,
    /// A generator's thread wakes up: (epoch, node).
    Pace,
}

/// Set in the slot of an outcome that the sender's side decided: no reply came.
pub(super) const LOCAL: u32 = 1 << 31;

impl Class {
    const ALL: [Class; 20] = [
        Class::Work,
        Class::Made,
        Class::Compute,
        Class::Cores,
        Class::Wake,
        Class::Outcome,
        Class::Request,
        Class::Datagram,
        Class::Message,
        Class::Timer,
        Class::Send,
        Class::SendDatagram,
        Class::Flow,
        Class::Carry,
        Class::Link,
        Class::Deadline,
        Class::Grace,
        Class::FlowReport,
        Class::Sample,
        Class::Pace,
    ];

    /// The queue's lane for such events, which mostly come in order: those of one link, latency or period.
    #[inline]
    pub(super) const fn lane(self, payload: u64) -> Option<usize> {
        match self {
            Class::Message => Some(0),
            Class::Request => Some(1),
            Class::Outcome => Some(2),
            // of an actor's timers seldom all are periodic
            Class::Timer => Some(3 + (payload & 1) as usize),
            _ => None,
        }
    }

    /// The class of an entry.
    #[inline]
    pub(crate) const fn of(entry: &Entry) -> Class {
        Class::ALL[entry.class() as usize - 1]
    }
}

/// Two words in one.
#[inline]
pub(super) const fn words(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_found_by_its_number() {
        for class in Class::ALL {
            assert_eq!(Class::of(&Entry::new(5, class as u8, 1, 1, 0)), class);
        }
    }
}
