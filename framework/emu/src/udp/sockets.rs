//! The sending end of `udp`: one socket for each node or port of a group, class, address family and reach.

use std::collections::BTreeMap;
use std::io;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;

use bytes::BytesMut;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use rehearsal_core::SubjectId;
use rehearsal_core::dscp::Dscp;

use super::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Target};
use crate::marks;

/// Datagrams of one call, whatever their size. Source: the Linux kernel's UDP_MAX_SEGMENTS before 6.9.
pub(crate) const TRAIN_MAX: usize = 64;
/// Longest payload that any interface takes in one frame: Ethernet's less the headers of IPv4 and UDP.
const FRAME_BYTES_MAX: usize = 1472;

/// A sending node or, where its streams have ports of their own, one of its groups: its row among all, and the port's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Origin {
    /// The one port that groups of a node share.
    Node(usize),
    /// A port of a group that has several.
    Port(usize, u16),
}

/// From where to where datagrams go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    pub origin: Origin,
    pub to: SocketAddr,
    pub dscp: Dscp,
    pub sort: Reach,
}

/// Whom a socket sends to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reach {
    /// Receivers, one way.
    Receivers,
    /// Receivers, which send echoes back.
    Echoing,
    /// One target outside. Its socket is connected, so that it hears when nobody is there.
    Outside,
}

/// What did not get away.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// This host had no room for them.
    pub kept: u64,
    /// They, or others before them, came back as refused: an ICMP error, of which the kernel keeps the last.
    pub unheard: u64,
}

/// What sockets are told apart by: whether it is a group's or a node's, and which; class, whom they send to, address family,
/// reach (this host alone or beyond it), and the one address of a target outside. The ports of a group stand in a row.
type Key = (bool, usize, Dscp, Reach, bool, bool, Option<SocketAddr>);

/// One socket, and the datagrams that wait to leave by it together.
struct Outlet {
    socket: UdpSocket,
    /// Where it is connected to: the kernel then looks up no route for each datagram.
    peer: Option<SocketAddr>,
    waiting: BytesMut,
    /// Bytes of each that waits, but for the last, which may be shorter.
    each: usize,
    to: SocketAddr,
}

/// The sending sockets of a shard.
#[derive(Default)]
pub(crate) struct Sockets {
    /// Rows of `outlets`, by port.
    known: BTreeMap<Key, Vec<Option<usize>>>,
    outlets: Vec<Outlet>,
    /// Outlets at which datagrams wait, and how many wait in all.
    loaded: Vec<usize>,
    waiting: usize,
    targets: BTreeMap<(usize, SubjectId, Dscp), Option<Target>>,
    buffer: BytesMut,
    /// Whether this host's kernel or an interface has refused trains: then datagrams leave one by one.
    one_by_one: bool,
    /// Sockets on which echoes come back, and nobody listens yet.
    pub(crate) mute: Vec<UdpSocket>,
    /// Datagrams that this host's own buffers had no room for; they count as sent, and are lost.
    pub(crate) refused: u64,
}

impl Sockets {
    /// Where a subject is served over this carrier, as seen from a node and a class of it; found once for each.
    pub(crate) fn target(
        &mut self,
        key: (usize, SubjectId, Dscp),
        find: impl FnOnce() -> Option<Target>,
    ) -> Option<Target> {
        *self.targets.entry(key).or_insert_with(find)
    }

    /// Forgets it: it may have moved.
    pub(crate) fn forget(&mut self, node: usize, to: SubjectId, dscp: Dscp) {
        self.targets.remove(&(node, to, dscp));
    }

    /// An empty buffer for the next datagrams; it comes back with [`Sockets::send`] or [`Sockets::load`].
    pub(crate) fn buffer(&mut self) -> BytesMut {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&mut self, buffer: BytesMut) {
        self.buffer = buffer;
    }

    /// How many datagrams of so many bytes may leave in one call.
    pub(crate) fn train(&self, bytes: usize) -> usize {
        if self.one_by_one { 1 } else { (DATAGRAM_BYTES_MAX / bytes.max(HEADER_BYTES)).clamp(1, TRAIN_MAX) }
    }

    /// Sends datagrams of `each` bytes that stand in a row, headers written; the last may be shorter.
    ///
    /// # Errors
    /// When there is no descriptor left for the socket.
    pub(crate) fn send(&mut self, way: Way, each: usize, datagrams: BytesMut) -> io::Result<Sent> {
        let at = self.outlet(way)?;
        self.unload(at);
        // the answer to an earlier datagram is taken first, so that it does not cost this one
        let outside = way.sort == Reach::Outside;
        let unheard = outside && self.outlets[at].socket.take_error()?.is_some_and(|why| is_refusal(&why));
        let kept = self.put(at, way.to, each, &datagrams);
        self.buffer = datagrams;
        Ok(Sent { kept, unheard: u64::from(unheard) })
    }

    /// Keeps one datagram for others that leave by the same socket to the same address, until [`Sockets::flush`]: what is due
    /// at one time leaves in one call. At most [`TRAIN_MAX`] wait in all, so that none is sent long after it was stamped.
    ///
    /// # Errors
    /// When there is no descriptor left for the socket.
    pub(crate) fn load(&mut self, way: Way, datagram: BytesMut) -> io::Result<()> {
        let bytes = datagram.len();
        // a train is cut into frames as long as its datagrams: on its way off this host a longer one cannot be
        if self.one_by_one || (bytes > FRAME_BYTES_MAX && !way.to.ip().is_loopback()) {
            return self.send(way, bytes, datagram).map(|_| ());
        }
        let (at, most) = (self.outlet(way)?, self.train(bytes));
        let outlet = &self.outlets[at];
        let there = outlet.waiting.len();
        let fits = outlet.to == way.to && bytes <= outlet.each && there.is_multiple_of(outlet.each.max(1));
        if there > 0 && (!fits || there / outlet.each >= most.min(self.train(outlet.each))) {
            self.unload(at);
        }
        let outlet = &mut self.outlets[at];
        if outlet.waiting.is_empty() {
            (outlet.each, outlet.to) = (bytes, way.to);
            self.loaded.push(at);
        }
        outlet.waiting.extend_from_slice(&datagram);
        self.waiting += 1;
        self.buffer = datagram;
        if self.waiting >= TRAIN_MAX {
            self.flush();
        }
        Ok(())
    }

    /// Sends all that waits.
    pub(crate) fn flush(&mut self) {
        while let Some(at) = self.loaded.pop() {
            self.unload(at);
        }
        self.waiting = 0;
    }

    /// Sends what waits at one outlet.
    fn unload(&mut self, at: usize) {
        let outlet = &mut self.outlets[at];
        if outlet.waiting.is_empty() {
            return;
        }
        let (mut waiting, each, to) = (std::mem::take(&mut outlet.waiting), outlet.each, outlet.to);
        self.put(at, to, each, &waiting);
        waiting.clear();
        self.outlets[at].waiting = waiting;
    }

    /// Hands datagrams to the kernel; how many of them it had no room for.
    fn put(&mut self, at: usize, to: SocketAddr, each: usize, datagrams: &[u8]) -> u64 {
        let outlet = &self.outlets[at];
        let to = (outlet.peer != Some(to)).then_some(to);
        let refused = if datagrams.len() > each && !self.one_by_one {
            let (refused, trains) = send_train(&outlet.socket, to, each, datagrams);
            self.one_by_one |= !trains;
            refused
        } else {
            one_by_one(&outlet.socket, to, each, datagrams)
        };
        // no room in this host's buffers, or refused by the host itself: lost like any datagram on its way
        self.refused += refused;
        refused
    }

    /// The row of the socket of a way.
    fn outlet(&mut self, way: Way) -> io::Result<usize> {
        let (of_group, row, port) = match way.origin {
            Origin::Node(node) => (false, node, 0),
            Origin::Port(group, port) => (true, group, usize::from(port)),
        };
        let alone = (way.sort == Reach::Outside).then_some(way.to);
        let key = (of_group, row, way.dscp, way.sort, way.to.is_ipv4(), way.to.ip().is_loopback(), alone);
        let ports = self.known.entry(key).or_default();
        if let Some(Some(at)) = ports.get(port) {
            return Ok(*at);
        }
        let socket = bound(way)?;
        if way.sort == Reach::Echoing {
            self.mute.push(socket.try_clone()?);
        }
        // what an echo comes from may be another address than what it answers was sent to
        let peer = (way.sort != Reach::Echoing && socket.connect(way.to).is_ok()).then_some(way.to);
        let (waiting, at) = (BytesMut::new(), self.outlets.len());
        self.outlets.push(Outlet { socket, peer, waiting, each: 0, to: way.to });
        if ports.len() <= port {
            ports.resize(port + 1, None);
        }
        ports[port] = Some(at);
        Ok(at)
    }
}

fn is_refusal(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::ConnectionRefused
}

/// Sends a train; how many datagrams of it were refused, and whether trains are possible here.
fn send_train(socket: &UdpSocket, to: Option<SocketAddr>, each: usize, datagrams: &[u8]) -> (u64, bool) {
    let segment = each as u16;
    let (slices, cut) = ([IoSlice::new(datagrams)], [ControlMessage::UdpGsoSegments(&segment)]);
    let to_there = to.map(SockaddrStorage::from);
    let send = || sendmsg(socket.as_raw_fd(), &slices, &cut, MsgFlags::empty(), to_there.as_ref());
    // of an earlier datagram that nobody took a connected socket tells once, and sends nothing
    match send().or_else(|why| if why == Errno::ECONNREFUSED { send() } else { Err(why) }) {
        Ok(_) => (0, true),
        // longer than the interface's frames, or an interface that computes no checksums
        Err(Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE | Errno::ENOPROTOOPT) => {
            (one_by_one(socket, to, each, datagrams), false)
        }
        Err(_) => (datagrams.len().div_ceil(each) as u64, true),
    }
}

/// Sends each datagram in a call of its own; how many were refused.
fn one_by_one(socket: &UdpSocket, to: Option<SocketAddr>, each: usize, datagrams: &[u8]) -> u64 {
    let send = |one: &[u8]| match to {
        Some(to) => socket.send_to(one, to),
        None => socket.send(one),
    };
    let refused = |one: &&[u8]| match send(one) {
        Err(why) if is_refusal(&why) => send(one).is_err(),
        sent => sent.is_err(),
    };
    datagrams.chunks(each.max(1)).filter(refused).count() as u64
}

/// A socket that never waits. It needs no event loop: what cannot be sent now is lost, as on any other hop.
fn bound(way: Way) -> io::Result<UdpSocket> {
    // nobody beyond this host has anything to say to a socket that sends within it
    let from: IpAddr = match (way.to.is_ipv4(), way.to.ip().is_loopback()) {
        (true, true) => Ipv4Addr::LOCALHOST.into(),
        (true, false) => Ipv4Addr::UNSPECIFIED.into(),
        (false, true) => Ipv6Addr::LOCALHOST.into(),
        (false, false) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((from, 0))?;
    socket.set_nonblocking(true)?;
    marks::mark(&socket, way.dscp);
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports of a group are its own: streams of one port share it, others have another, and a node's is none of them.
    #[test]
    fn origins_have_ports_of_their_own() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a time-out");
        let to = receiver.local_addr().expect("an address");
        let mut sockets = Sockets::default();
        let origins = [Origin::Port(0, 0), Origin::Port(0, 1), Origin::Port(0, 0), Origin::Port(1, 0), Origin::Node(0)];
        let ports = origins.map(|origin| {
            let mut datagram = sockets.buffer();
            datagram.resize(HEADER_BYTES, 0);
            let way = Way { origin, to, dscp: Dscp::default(), sort: Reach::Receivers };
            sockets.send(way, HEADER_BYTES, datagram).expect("it is sent");
            receiver.recv_from(&mut [0; 64]).expect("it comes").1.port()
        });
        assert_eq!(ports[0], ports[2]);
        let different: std::collections::BTreeSet<u16> = ports.into_iter().collect();
        assert_eq!((different.len(), sockets.refused), (4, 0));
    }

    /// What waits for others comes in its order and as long as it was, from one port each, and no more wait than may.
    #[test]
    fn what_waits_leaves_together_and_stays_what_it_is() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a time-out");
        let to = receiver.local_addr().expect("an address");
        let mut sockets = Sockets::default();
        let mut load = |port: u16, number: u8, bytes: usize| {
            let mut datagram = sockets.buffer();
            datagram.resize(bytes, number);
            let way = Way { origin: Origin::Port(0, port), to, dscp: Dscp::default(), sort: Reach::Receivers };
            sockets.load(way, datagram).expect("it waits");
            sockets.waiting
        };
        // a shorter one ends a train, a longer one begins another
        let sizes = [100, 100, 60, 100, 100, 200, 40];
        for (number, bytes) in sizes.into_iter().enumerate() {
            assert!(load(7, number as u8, bytes) <= number + 1);
        }
        assert!((0..2 * TRAIN_MAX).all(|n| load(n as u16 % 3, 99, 50) < TRAIN_MAX), "as many as wait at most are sent");
        sockets.flush();
        assert_eq!((sockets.waiting, sockets.refused), (0, 0));
        let mut buffer = [0; 300];
        let (mut own, mut others) = (Vec::new(), std::collections::BTreeMap::new());
        for _ in 0..sizes.len() + 2 * TRAIN_MAX {
            let (bytes, from) = receiver.recv_from(&mut buffer).expect("it comes");
            match buffer[0] {
                99 => *others.entry((from.port(), bytes)).or_insert(0) += 1,
                number => own.push((number, bytes)),
            }
        }
        assert_eq!(own, sizes.into_iter().enumerate().map(|(n, bytes)| (n as u8, bytes)).collect::<Vec<_>>());
        let mut others: Vec<i32> = others.into_values().collect();
        others.sort_unstable();
        assert_eq!(others, [42, 43, 43]);
    }

    /// Nobody listens: a connected socket is told so, and goes on sending all the same.
    #[test]
    fn a_receiver_that_is_not_there_refuses_nothing() {
        let gone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let to = gone.local_addr().expect("an address");
        drop(gone);
        let mut sockets = Sockets::default();
        for count in [1, 1, 3, 3, 1] {
            let mut datagrams = sockets.buffer();
            datagrams.resize(count * HEADER_BYTES, 0);
            let way = Way { origin: Origin::Node(0), to, dscp: Dscp::default(), sort: Reach::Receivers };
            sockets.send(way, HEADER_BYTES, datagrams).expect("it is sent");
        }
        assert_eq!(sockets.refused, 0);
    }
}
