//! The sending end of `udp`: one socket for each node or port of a group, class, address family and reach.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
    /// Whether echoes come back.
    pub echo: bool,
}

/// What sockets are told apart by: origin, class, whether echoes come back, address family, and reach: this host alone or
/// beyond it.
type Key = (Origin, Dscp, bool, bool, bool);

/// The sending sockets of a shard.
#[derive(Default)]
pub(crate) struct Sockets {
    known: BTreeMap<Key, UdpSocket>,
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
    pub(crate) fn send(&mut self, way: Way, each: usize, datagrams: BytesMut) -> io::Result<()> {
        let key = (way.origin, way.dscp, way.echo, way.to.is_ipv4(), way.to.ip().is_loopback());
        let socket = match self.known.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let socket = bound(way)?;
                if way.echo {
                    self.mute.push(socket.try_clone()?);
                }
                new.insert(socket)
            }
        };
        let refused = if datagrams.len() > each {
            let (refused, trains) = send_train(socket, way.to, each, &datagrams);
            self.one_by_one |= !trains;
            refused
        } else {
            u64::from(socket.send_to(&datagrams, way.to).is_err())
        };
        // no room in this host's buffers, or refused by the host itself: lost like any datagram on its way
        self.refused += refused;
        self.buffer = datagrams;
        Ok(())
    }
}

/// Sends a train; how many datagrams of it were refused, and whether trains are possible here.
fn send_train(socket: &UdpSocket, to: SocketAddr, each: usize, datagrams: &[u8]) -> (u64, bool) {
    let segment = each as u16;
    let (slices, cut) = ([IoSlice::new(datagrams)], [ControlMessage::UdpGsoSegments(&segment)]);
    let to_there = SockaddrStorage::from(to);
    match sendmsg(socket.as_raw_fd(), &slices, &cut, MsgFlags::empty(), Some(&to_there)) {
        Ok(_) => (0, true),
        // longer than the interface's frames, or an interface that computes no checksums
        Err(Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE | Errno::ENOPROTOOPT) => {
            (datagrams.chunks(each).map(|one| u64::from(socket.send_to(one, to).is_err())).sum(), false)
        }
        Err(_) => (datagrams.len().div_ceil(each) as u64, true),
    }
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
            let way = Way { origin, to, dscp: Dscp::default(), echo: false };
            sockets.send(way, HEADER_BYTES, datagram).expect("it is sent");
            receiver.recv_from(&mut [0; 64]).expect("it comes").1.port()
        });
        assert_eq!(ports[0], ports[2]);
        let different: std::collections::BTreeSet<u16> = ports.into_iter().collect();
        assert_eq!((different.len(), sockets.refused), (4, 0));
    }
}
