//! The path through an ordinary UDP socket: payloads alone, to one address, without privileges.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::{Frame, Push, SendError};
use crate::frame::{Fragment, Layers, be16, protocol};

/// Payloads of UDP to one address.
#[derive(Debug)]
pub struct Datagrams(UdpSocket);

impl Datagrams {
    /// To this address, from a port that the system chooses.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(to: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket.connect(to)?;
        Ok(Datagrams(socket))
    }
}

impl Push for Datagrams {
    fn batch(&self) -> usize {
        1
    }

    fn submit(&mut self, frames: &[Frame<'_>]) -> Result<usize, SendError> {
        let Some(payload) = frames.first().and_then(|frame| payload(frame.bytes)) else {
            return Err(SendError::Refused(io::Error::new(io::ErrorKind::InvalidInput, "no UDP payload")));
        };
        match self.0.send(payload) {
            Ok(_) => Ok(1),
            // the answer to a datagram before: nobody listens there. This one has not been sent; it can be now.
            Err(why) if why.raw_os_error() == Some(libc::ECONNREFUSED) => {
                self.0.send(payload).map(|_| 1).map_err(SendError::of)
            }
            Err(why) => Err(SendError::of(why)),
        }
    }
}

/// The payload of a frame's innermost UDP datagram, when it is whole.
pub fn payload(frame: &[u8]) -> Option<&[u8]> {
    let layers = Layers::of(frame);
    let network = layers.innermost().filter(|ip| ip.protocol == protocol::UDP && ip.fragment == Fragment::Whole)?;
    let len = usize::from(be16(frame, network.payload + 4)?);
    frame.get(network.payload + 8..(network.payload + len).min(network.end))
}
