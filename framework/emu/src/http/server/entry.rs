//! What a receiver expects of a connection over TCP: encryption, and a version of HTTP.

use std::cell::RefCell;
use std::time::Duration;

use rehearsal_core::plan::Carrier;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::shard::Core;
use crate::tls::{Dated, Doors, Fault};
use crate::world::World;

/// How long a sender may take for its part of a handshake. Assumed: longer than any way in a lab, so that whoever says
/// nothing does not keep its place for ever.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The first byte of a connection under TLS: a record of a handshake. Source: RFC 8446 §5.1.
const RECORD: u8 = 22;

/// Of one receiving actor.
pub(super) struct Entry {
    doors: Doors,
    side: RefCell<Option<Dated<ServerConfig>>>,
    /// Streams of a connection of HTTP/2, and the windows of a stream and a connection.
    pub(super) two: Option<(u32, u32, u32)>,
}

/// A version of HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    One,
    Two,
    /// The connection's first bytes tell: those of HTTP/2 begin with a preface (RFC 9113 §3.4).
    Either,
}

impl Entry {
    /// What the links to an actor say.
    pub(super) fn of(world: &World, actor: u32) -> Entry {
        let doors = Doors::of(world, actor);
        let two = doors.bounds(Carrier::Http2);
        Entry { doors, side: RefCell::default(), two }
    }

    /// Whether a connection is to be encrypted; where some are and some are not, its first byte tells.
    pub(super) async fn is_for_tls(&self, stream: &TcpStream) -> bool {
        if !self.doors.is_encrypted() {
            return false;
        }
        if !self.doors.is_clear() {
            return true;
        }
        let mut first = [0];
        let peeked = tokio::time::timeout(HANDSHAKE, stream.peek(&mut first)).await;
        matches!(peeked, Ok(Ok(1))) && first[0] == RECORD
    }

    /// Agrees on keys; why not, if that is known.
    pub(super) async fn encrypt(
        &self,
        shard: &Core,
        actor: u32,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Option<Fault>> {
        let Some(side) = self.side(shard, actor) else { return Err(None) };
        let accepted = TlsAcceptor::from(side.config).accept(stream);
        match tokio::time::timeout(HANDSHAKE, accepted).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(why)) => Err(Some(Fault::within(&why).unwrap_or(Fault::Broken))),
            Err(_) => Err(Some(Fault::Broken)),
        }
    }

    fn side(&self, shard: &Core, actor: u32) -> Option<Dated<ServerConfig>> {
        let world = shard.borrow().world().clone();
        let mut side = self.side.borrow_mut();
        if let Some(side) = side.as_ref().filter(|side| !world.trust.is_old(side)) {
            return Some(side.clone());
        }
        match world.trust.server(&self.doors, false) {
            Ok(made) => side.clone_from(&made),
            Err(why) => shard.borrow_mut().handshake_failed(actor, &why.to_string()),
        }
        side.clone()
    }

    /// The version of a connection that agreed on this one under TLS, or on none.
    pub(super) fn version(&self, agreed: Option<&[u8]>) -> Version {
        match agreed {
            Some(b"h2") => Version::Two,
            Some(_) => Version::One,
            None if self.two.is_none() => Version::One,
            None if self.doors.speaks(Carrier::Http1) => Version::Either,
            None => Version::Two,
        }
    }
}
