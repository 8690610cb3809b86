//! What carriers over TCP run on: a bare connection, or one under TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rehearsal_core::dscp::Dscp;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::marks::mark;
use crate::tls::{Agreed, Fault};

/// A connection to a target.
pub(crate) enum Carried {
    Clear(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Why there is none.
pub(crate) enum Unopened {
    Socket(io::Error),
    Handshake(Fault),
}

impl From<io::Error> for Unopened {
    fn from(why: io::Error) -> Self {
        match Fault::within(&why) {
            Some(fault) => Unopened::Handshake(fault),
            None => Unopened::Socket(why),
        }
    }
}

impl Carried {
    /// Connects, and agrees on keys where there is a configuration; what was agreed on.
    pub(crate) async fn dial(
        address: SocketAddr,
        dscp: Dscp,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> Result<(Carried, Option<Agreed>), Unopened> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        mark(&stream, dscp);
        let Some((config, name)) = tls else { return Ok((Carried::Clear(stream), None)) };
        let wanted = config.alpn_protocols.first().cloned();
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        let agreed = Agreed::of(stream.get_ref().1);
        // HTTP/1.1 is what is spoken where nothing was agreed on (RFC 9113 §3.2)
        if wanted.is_some_and(|wanted| wanted == b"h2" && agreed.alpn != "h2") {
            return Err(Unopened::Handshake(Fault::Protocol));
        }
        Ok((Carried::Encrypted(Box::new(stream)), Some(agreed)))
    }

    /// Reads what is there, up to `room` bytes at a time; 0 at the end of the connection.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        into.reserve(room);
        match self {
            Carried::Clear(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                match stream.try_read_buf(into) {
                    Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(read),
                }
            },
            Carried::Encrypted(stream) => {
                let before = into.len();
                into.resize(before + room, 0);
                let mut free = ReadBuf::new(&mut into[before..]);
                let read = Pin::new(&mut **stream).poll_read(cx, &mut free);
                let filled = free.filled().len();
                into.truncate(before + filled);
                read.map_ok(|()| filled)
            }
        }
    }

    /// Writes the beginning of `bytes`; how much of them.
    pub(crate) fn poll_put(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(cx, bytes)
    }
}

impl AsyncRead for Carried {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Carried::Clear(stream) => Pin::new(stream).poll_read(cx, into),
            Carried::Encrypted(stream) => Pin::new(&mut **stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Carried {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Carried::Clear(stream) => Pin::new(stream).poll_write(cx, bytes),
            Carried::Encrypted(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Carried::Clear(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Carried::Encrypted(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Carried::Clear(stream) => stream.is_write_vectored(),
            Carried::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Carried::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Carried::Encrypted(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Carried::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Carried::Encrypted(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
