//! Datagrams that are due and have not left: those of one socket leave together.
//!
//! With a thousand source ports the datagrams of one instant rarely share a port, and each call of the kernel costs more than
//! all the rest. So what is due waits until its shard is left, in a line for each socket, and a generator that falls behind gets
//! longer lines and fewer calls, until it keeps up. A datagram is stamped and booked when it leaves: that it waited is in its lag.

use std::net::SocketAddr;

use rehearsal_core::{Datagram, Time};

use super::TRAIN_MAX;

/// Datagrams that wait at most. Assumed: four for each of a thousand ports, some milliseconds at a million in a second.
const WAITING_MAX: usize = 4096;
/// So many in each line are trains worth sending.
const LINE_GOOD: usize = 16;
/// No row.
const NONE: u32 = u32::MAX;

/// A datagram that is about to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// Row of its group's books, and the number of its sender among all of its actor.
    pub row: usize,
    pub member: u32,
    pub who: u32,
    pub datagram: Datagram,
    pub to: SocketAddr,
    /// Bytes on the wire.
    pub wire: usize,
    /// Whether it leaves by itself.
    pub alone: bool,
    /// Whether another process counts it.
    pub elsewhere: bool,
    /// When it was sent, if it is booked already.
    pub sent: Option<Time>,
}

/// The first and last row of a line.
#[derive(Clone, Copy, Debug)]
struct Line {
    first: u32,
    last: u32,
}

impl Line {
    const EMPTY: Line = Line { first: NONE, last: NONE };
}

/// What waits, in a line for each socket.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// With the next row of the same line.
    rows: Vec<(Leaving, u32)>,
    /// By number of the socket.
    lines: Vec<Line>,
    /// The sockets at which something waits, as they came.
    begun: Vec<usize>,
    /// Kept for its memory.
    pub(crate) train: Vec<Leaving>,
}

impl Waiting {
    /// One more waits; whether it is time to send them all.
    pub(crate) fn push(&mut self, outlet: usize, one: Leaving) -> bool {
        let row = self.rows.len() as u32;
        self.rows.push((one, NONE));
        if self.lines.len() <= outlet {
            self.lines.resize(outlet + 1, Line::EMPTY);
        }
        let line = &mut self.lines[outlet];
        if line.first == NONE {
            *line = Line { first: row, last: row };
            self.begun.push(outlet);
        } else {
            self.rows[line.last as usize].1 = row;
            line.last = row;
        }
        self.rows.len() >= (LINE_GOOD * self.begun.len()).clamp(TRAIN_MAX, WAITING_MAX)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The sockets at which something waits.
    pub(crate) fn outlets(&self) -> impl Iterator<Item = usize> {
        self.begun.iter().copied()
    }

    /// What waits at one socket, in its order.
    pub(crate) fn line(&self, outlet: usize) -> impl Iterator<Item = &Leaving> {
        let row = |row: u32| self.rows.get(row as usize);
        let first = self.lines.get(outlet).and_then(|line| row(line.first));
        std::iter::successors(first, move |(_, next)| row(*next)).map(|(one, _)| one)
    }

    /// All have left.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        for outlet in self.begun.drain(..) {
            self.lines[outlet] = Line::EMPTY;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, UdpSocket};

    use rehearsal_core::dscp::Dscp;
    use rehearsal_core::{Payload, SubjectId};

    use super::super::{HEADER_BYTES, Origin, Reach, Sockets, Way};
    use super::*;

    fn leaving(to: SocketAddr, number: u64, wire: usize, alone: bool) -> Leaving {
        let (at, payload) = (Time::ZERO, Payload::new(wire as u32, Payload::RECEIVED, number));
        let datagram = Datagram { to: SubjectId(0), stream: 0, seq: number, intended: at, at, payload };
        Leaving { row: 0, member: 0, who: 0, datagram, to, wire, alone, elsewhere: false, sent: None }
    }

    /// The trains of what waits, by the numbers of their datagrams.
    fn trains(sockets: &Sockets, waiting: &Waiting) -> Vec<(usize, Vec<u64>)> {
        let mut all = Vec::new();
        for outlet in waiting.outlets() {
            let mut train: Vec<Leaving> = Vec::new();
            for one in waiting.line(outlet) {
                if !sockets.joins(&train, one) {
                    all.push((outlet, train.iter().map(|one| one.datagram.seq).collect()));
                    train.clear();
                }
                train.push(*one);
            }
            all.push((outlet, train.iter().map(|one| one.datagram.seq).collect()));
        }
        all
    }

    #[test]
    fn a_train_is_of_one_socket_in_order_and_only_its_last_is_shorter() {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let far = SocketAddr::from(([10, 0, 0, 1], 9));
        let (sockets, mut waiting) = (Sockets::default(), Waiting::default());
        let sizes = [100, 100, 60, 100, 100, 200, 40];
        for (number, bytes) in sizes.into_iter().enumerate() {
            waiting.push(7, leaving(to, number as u64, bytes, false));
            waiting.push(2, leaving(to, 100 + number as u64, 50, number == 3));
        }
        waiting.push(5, leaving(far, 200, 1500, false));
        waiting.push(5, leaving(far, 201, 1500, false));
        waiting.push(5, leaving(to, 202, 1500, false));
        let seven = [vec![0, 1, 2], vec![3, 4], vec![5, 6]].map(|train| (7, train));
        let two = [vec![100, 101, 102], vec![103], vec![104, 105, 106]].map(|train| (2, train));
        let five = [vec![200], vec![201], vec![202]].map(|train| (5, train));
        assert_eq!(trains(&sockets, &waiting), seven.into_iter().chain(two).chain(five).collect::<Vec<_>>());
        waiting.clear();
        assert!(waiting.is_empty() && waiting.line(7).next().is_none() && waiting.outlets().next().is_none());
    }

    /// One port fills at one train, a thousand at more, and nothing waits without bound.
    #[test]
    fn lines_are_sent_when_they_are_worth_it() {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        for (ports, full) in [(1, TRAIN_MAX), (10, 160), (1000, WAITING_MAX), (5000, WAITING_MAX)] {
            let mut waiting = Waiting::default();
            let count = (0..).take_while(|n| !waiting.push(n % ports, leaving(to, 0, 50, false))).count();
            assert_eq!(count + 1, full, "{ports} ports");
        }
        let (sockets, mut waiting) = (Sockets::default(), Waiting::default());
        (0..150).for_each(|n| {
            waiting.push(0, leaving(to, n, 50, false));
        });
        let lengths: Vec<usize> = trains(&sockets, &waiting).into_iter().map(|(_, train)| train.len()).collect();
        assert_eq!(lengths, [TRAIN_MAX, TRAIN_MAX, 22]);
    }

    /// A train comes in as the datagrams that it is of.
    #[test]
    fn what_leaves_together_stays_what_it_is() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a time-out");
        let to = receiver.local_addr().expect("an address");
        let mut sockets = Sockets::default();
        let mut sent = BTreeMap::new();
        for (port, sizes) in [(0, [100, 100, 60]), (1, [40, 40, 40])] {
            let way = Way { origin: Origin::Port(0, port), to, dscp: Dscp::default(), sort: Reach::Receivers };
            let outlet = sockets.outlet(way).expect("a socket");
            let mut train = sockets.buffer();
            sizes.into_iter().for_each(|bytes: usize| train.resize(train.len() + bytes.max(HEADER_BYTES), port as u8));
            sockets.send_by(outlet, to, sizes[0], train);
            sent.insert(port as u8, sizes);
        }
        let (mut buffer, mut came) = ([0; 300], BTreeMap::<u8, Vec<usize>>::new());
        for _ in 0..6 {
            let (bytes, _) = receiver.recv_from(&mut buffer).expect("it comes");
            came.entry(buffer[0]).or_default().push(bytes);
        }
        assert!(sent.iter().all(|(port, sizes)| came[port] == sizes), "{came:?}");
        assert_eq!(sockets.refused, 0);
    }
}
