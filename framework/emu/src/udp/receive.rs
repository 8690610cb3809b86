//! The receiving end of `udp`: takes in what the kernel holds, many datagrams in one call, and sends echoes back.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket as Plain};
use std::os::fd::AsRawFd as _;
use std::rc::Rc;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt,
    sockopt::{RcvBufForce, UdpGroSegment},
};
use rehearsal_core::dscp::Dscp;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::ECHO_BYTES;
use crate::marks;
use crate::shard::Core;

/// Bytes taken in before other tasks have their turn.
const TURN_BYTES: usize = 1 << 20;
/// Calls before other tasks have their turn, likewise.
const TURN_CALLS: usize = 64;
/// Room for what one call may bring: the kernel holds no more together than one datagram may be long.
const BUFFER_BYTES: usize = 1 << 16;
/// Receive buffer where the system lets this process choose it, bytes. Assumed: 10 ms at 2 million datagrams of 1 kB in a
/// second, with what the kernel adds to each.
const RECEIVE_BYTES: usize = 64 << 20;

/// A receiving actor's socket, as its shard holds it.
#[derive(Debug)]
pub(crate) struct Reflector {
    socket: UdpSocket,
    dscp: Cell<Dscp>,
}

impl Reflector {
    /// A socket that is bound already.
    ///
    /// # Errors
    /// When the event loop does not take it.
    pub(crate) fn new(socket: Plain) -> io::Result<Rc<Self>> {
        // what the system refuses stays as it is: a datagram at a time, and the buffer that was asked for before
        let _ = setsockopt(&socket, UdpGroSegment, &true);
        let _ = setsockopt(&socket, RcvBufForce, &RECEIVE_BYTES);
        Ok(Rc::new(Reflector { socket: UdpSocket::from_std(socket)?, dscp: Cell::default() }))
    }

    /// Sends a header back, marked with the class of what it answers. One that finds no room is lost like any datagram.
    pub(crate) fn echo(&self, to: SocketAddr, header: &[u8; ECHO_BYTES], dscp: Dscp) -> bool {
        if self.dscp.replace(dscp) != dscp {
            marks::remark(&self.socket, dscp);
        }
        self.socket.try_send_to(header, to).is_ok()
    }
}

/// What one call brought: bytes, the bytes of each datagram, and who sent them.
struct Haul {
    bytes: usize,
    each: usize,
    from: SocketAddr,
}

/// Takes in the datagrams of a receiving actor, or the echoes of a sending node (`None`).
pub(crate) async fn receive(shard: Core, reflector: Rc<Reflector>, actor: Option<u32>) {
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    let (mut calls, mut bytes) = (0, 0);
    let socket = &reflector.socket;
    while socket.readable().await.is_ok() {
        loop {
            match socket.try_io(Interest::READABLE, || haul(socket, &mut buffer)) {
                Ok(Some(haul)) => {
                    let taken = &buffer[..haul.bytes];
                    match actor {
                        Some(actor) => shard.borrow_mut().datagrams_in(actor, &reflector, haul.from, haul.each, taken),
                        None => shard.borrow_mut().echoes_in(haul.each, taken),
                    }
                    (calls, bytes) = (calls + 1, bytes + haul.bytes);
                    if calls >= TURN_CALLS || bytes >= TURN_BYTES {
                        (calls, bytes) = (0, 0);
                        tokio::task::yield_now().await;
                    }
                }
                Ok(None) => {}
                // an earlier datagram of ours that nobody took: no news for a receiver
                Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
    }
}

fn haul(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<Haul>> {
    let mut slices = [IoSliceMut::new(buffer)];
    let mut control = nix::cmsg_space!(i32);
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
    let bytes = message.bytes;
    let each = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::UdpGroSegments(each) => usize::try_from(each).ok().filter(|each| *each > 0),
        _ => None,
    });
    let from = message.address.and_then(|a| {
        let four = a.as_sockaddr_in().map(|a| SocketAddr::from((a.ip(), a.port())));
        four.or_else(|| a.as_sockaddr_in6().map(|a| SocketAddr::from((a.ip(), a.port()))))
    });
    Ok(from.map(|from| Haul { bytes, each: each.unwrap_or(bytes).max(1), from }))
}
