//! What HTTP over TCP runs on: a bare connection, or one under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Target;
use crate::marks::mark;
use crate::shard::Core;
use crate::tls::{Agreed, Fault};

/// A connection to a target.
pub(super) enum Carried {
    Clear(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Why there is none.
pub(super) enum Unopened {
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
    /// Connects, and agrees on keys where the link is encrypted; what was agreed on.
    pub(super) async fn open(shard: &Core, target: &Target) -> Result<Carried, Unopened> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        mark(&stream, target.dscp);
        if !target.encrypted {
            shard.borrow_mut().opened(target.node, target.to, target.carrier, None);
            return Ok(Carried::Clear(stream));
        }
        let world = shard.borrow().world().clone();
        let side = target.side(&world).map_err(|why| Unopened::Handshake(Fault::of(&why)))?;
        let stream = TlsConnector::from(side.config).connect(target.name(), stream).await?;
        let agreed = Agreed::of(stream.get_ref().1);
        shard.borrow_mut().opened(target.node, target.to, target.carrier, Some(agreed));
        Ok(Carried::Encrypted(Box::new(stream)))
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
