//! Sockets of receiving actors, bound before any thread starts, so that a port in use is known at once.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use rehearsal_core::ActorId;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::plan::Carrier;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind as bind_to, listen, socket_with, sockopt};

use super::{carriers, title};
use crate::error::EmuError;

/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`, 4096 since Linux 5.4.
const BACKLOG: i32 = 4096;
/// Receive buffer that is asked for, bytes; the kernel lowers it to `net.core.rmem_max`.
const RECEIVE_BYTES: usize = 4 << 20;
/// Tries to find a port that is free for both TCP and UDP.
const PORT_TRIES: u32 = 16;

/// A receiving actor's sockets.
#[derive(Debug)]
pub(crate) struct Bound {
    pub actor: ActorId,
    pub address: SocketAddr,
    /// Whether frames of `tcp` come in at its listener, and not HTTP.
    pub framed: bool,
    pub sockets: Sockets,
}

/// By carrier.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub tcp: Option<TcpListener>,
    pub udp: Option<UdpSocket>,
    pub quic: Option<UdpSocket>,
}

/// Binds every address; where the operating system may choose, that of the process `before` if it is free.
pub(super) fn bind(
    assembly: &Assembly,
    listen: &[(ActorId, SocketAddr)],
    before: &BTreeMap<String, SocketAddr>,
) -> Result<Vec<Bound>, EmuError> {
    let mut known = BTreeMap::new();
    for (name, address) in before {
        let subject = assembly.subjects.find(name);
        known.extend(subject.and_then(|id| assembly.subjects.owner(id)).map(|actor| (actor, *address)));
    }
    let bind = |(actor, address): &(ActorId, SocketAddr)| {
        let same = known.get(actor).filter(|known| address.port() == 0 && known.ip() == address.ip());
        let again = same.and_then(|same| bind_one(assembly, *actor, *same).ok());
        again.map_or_else(|| bind_one(assembly, *actor, *address), Ok)
    };
    listen.iter().map(bind).collect()
}

fn bind_one(assembly: &Assembly, actor: ActorId, address: SocketAddr) -> Result<Bound, EmuError> {
    let group = &assembly.groups[assembly.group_of(actor)];
    let wanted = carriers(assembly, group);
    let framed = wanted.contains(&Carrier::Tcp);
    let tcp = framed || wanted.contains(&Carrier::Http1) || wanted.contains(&Carrier::Http2);
    let (udp, quic) = (wanted.contains(&Carrier::Udp), wanted.contains(&Carrier::Http3));
    let tries = if tcp && (udp || quic) && address.port() == 0 { PORT_TRIES } else { 1 };
    let both = |address, tcp, udp| both(address, tcp, (udp, quic));
    let mut result = both(address, tcp, udp);
    for _ in 1..tries {
        if result.is_ok() {
            break;
        }
        result = both(address, tcp, udp);
    }
    let (address, sockets) =
        result.map_err(|source| EmuError::Listen { actor: title(assembly, group), address, source })?;
    Ok(Bound { actor, address, framed, sockets })
}

fn both(address: SocketAddr, tcp: bool, (udp, quic): (bool, bool)) -> io::Result<(SocketAddr, Sockets)> {
    let tcp = tcp.then(|| listener(address)).transpose()?;
    let address = tcp.as_ref().map_or(Ok(address), TcpListener::local_addr)?;
    let udp = udp.then(|| datagrams(address)).transpose()?;
    let address = udp.as_ref().map_or(Ok(address), UdpSocket::local_addr)?;
    // a receiver of datagrams has this port already, and the system says so
    let quic = quic.then(|| datagrams(address)).transpose()?;
    let address = quic.as_ref().map_or(Ok(address), UdpSocket::local_addr)?;
    Ok((address, Sockets { tcp, udp, quic }))
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // a port whose last connections are in TIME_WAIT is free; one that somebody listens on is not
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind_to(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

fn datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    // a smaller buffer loses datagrams in bursts, which is what the books will say
    let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES);
    Ok(socket)
}
