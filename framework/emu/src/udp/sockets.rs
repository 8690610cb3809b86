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

use super::waiting::Leaving;
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

/// One socket.
struct Outlet {
    socket: UdpSocket,
    /// Where it is connected to: the kernel then looks up no route for each datagram.
    peer: Option<SocketAddr>,
}

/// The sending sockets of a shard.
#[derive(Default)]
pub(crate) struct Sockets {
    /// Rows of `outlets`, by port.
    known: BTreeMap<Key, Vec<Option<usize>>>,
    outlets: Vec<Outlet>,
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

    /// An empty buffer for the next datagrams; it comes back with [`Sockets::send`].
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
        // the answer to an earlier datagram is taken first, so that it does not cost this one
        let outside = way.sort == Reach::Outside;
        let unheard = outside && self.outlets[at].socket.take_error()?.is_some_and(|why| is_refusal(&why));
        let kept = self.put(at, way.to, each, &datagrams);
        self.buffer = datagrams;
        Ok(Sent { kept, unheard: u64::from(unheard) })
    }

    /// Sends datagrams of `each` bytes by one of the sockets, as [`Sockets::outlet`] numbers them.
    pub(crate) fn send_by(&mut self, outlet: usize, to: SocketAddr, each: usize, datagrams: BytesMut) {
        self.put(outlet, to, each, &datagrams);
        self.buffer = datagrams;
    }

    /// Whether a datagram leaves in one call with those before it.
    pub(crate) fn joins(&self, train: &[Leaving], next: &Leaving) -> bool {
        let (Some(first), Some(last)) = (train.first(), train.last()) else { return true };
        // a train is cut into frames as long as its datagrams: on its way off this host a longer one cannot be
        let fits = first.wire <= FRAME_BYTES_MAX || first.to.ip().is_loopback();
        // the last of a train may be shorter
        let alike = next.to == first.to && next.wire <= first.wire && last.wire == first.wire;
        alike && fits && !first.alone && !next.alone && train.len() < self.train(first.wire)
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

    /// The number of the socket of a way.
    ///
    /// # Errors
    /// When there is no descriptor left for it.
    pub(crate) fn outlet(&mut self, way: Way) -> io::Result<usize> {
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
        let at = self.outlets.len();
        self.outlets.push(Outlet { socket, peer });
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
