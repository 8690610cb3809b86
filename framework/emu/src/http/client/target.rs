//! Where a route goes, and how.

use std::cell::RefCell;
use std::net::SocketAddr;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use rehearsal_core::dscp::Dscp;
use rehearsal_core::outside::Url;
use rehearsal_core::plan::{Carrier, Connection, LinkSpec};
use rustls::pki_types::ServerName;

use crate::carried::{Carried, Unopened};
use crate::shard::Core;
use crate::tls::{ClientSide, Fault};
use crate::world::World;

/// What tells a target from others: sending node, receiving node, address, link, class.
pub(super) type Key = (usize, usize, SocketAddr, usize, Dscp);

/// The ends of a route, and what its link says of connections.
pub(crate) struct Target {
    /// The row of the sending node.
    pub(super) node: usize,
    /// The row of the receiving node.
    pub(super) to: usize,
    pub(super) address: SocketAddr,
    pub(super) host: HeaderValue,
    /// What HTTP/2 and HTTP/3 name a request's target by.
    pub(super) uri: Uri,
    pub(super) carrier: Carrier,
    pub(super) connection: Connection,
    pub(super) dscp: Dscp,
    /// Bytes that a stream and its connection may have under way towards here.
    pub(super) windows: (u32, u32),
    /// Streams of one connection, and connections.
    pub(super) streams: usize,
    pub(super) connections: usize,
    pub(super) encrypted: bool,
    /// The name that its certificate has to be of.
    pub(super) server_name: String,
    /// The row of the link.
    row: usize,
    side: RefCell<Option<ClientSide>>,
}

impl Target {
    /// The receiver at `address` of the node at row `to`, from that at row `node`, over the link between them.
    pub(crate) fn of(world: &World, node: usize, to: usize, address: SocketAddr, dscp: Dscp) -> Target {
        let names = |row: usize| world.plan.nodes[row].template.as_str();
        let row = world.plan.link_row(names(node), names(to));
        let link = &world.plan.links[row];
        let target = Target::over(link, row, (node, to), address, dscp);
        match world.plan.nodes[to].outside.as_ref().and_then(|outside| Url::read(&outside.origin).ok()) {
            None => target,
            Some(url) => {
                let said = link.tls.as_ref().and_then(|tls| tls.server_name.clone());
                Target { server_name: said.unwrap_or(url.host), ..target }
            }
        }
    }

    fn over(link: &LinkSpec, row: usize, (node, to): (usize, usize), address: SocketAddr, dscp: Dscp) -> Target {
        let authority = address.to_string();
        let window = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let (stream, connection) = link.windows();
        Target {
            node,
            to,
            address,
            host: HeaderValue::try_from(&authority).expect("an address is a header's value"),
            uri: uri(&authority, link.is_encrypted()),
            carrier: link.carrier,
            connection: link.connection,
            dscp,
            windows: (window(stream.0), window(connection.0)),
            streams: link.streams() as usize,
            connections: link.connections() as usize,
            encrypted: link.is_encrypted(),
            server_name: address.ip().to_string(),
            row,
            side: RefCell::default(),
        }
    }

    /// A receiver at an address, over connections in clear that are kept.
    #[cfg(test)]
    pub(crate) fn to(address: SocketAddr, carrier: Carrier) -> Target {
        let link = LinkSpec { carrier, ..LinkSpec::default() };
        Target::over(&link, 0, (0, 0), address, Dscp::DF)
    }

    /// What tells it from others.
    pub(super) fn key(&self) -> Key {
        (self.node, self.to, self.address, self.row, self.dscp)
    }

    /// Streams that it has at most, where they share connections.
    pub(super) fn streams(&self) -> Option<usize> {
        let shares = matches!(self.carrier, Carrier::Http2 | Carrier::Http3);
        shares.then(|| self.streams.saturating_mul(self.connections))
    }

    /// What its encrypted connections use. Tickets are kept with it, so each target has one of its own.
    ///
    /// # Errors
    /// When its certificates do not go together.
    pub(super) fn side(&self, world: &World) -> Result<ClientSide, rustls::Error> {
        let mut side = self.side.borrow_mut();
        if let Some(side) = side.as_ref().filter(|side| !world.trust.has_news_for(side)) {
            return Ok(side.clone());
        }
        let link = &world.plan.links[self.row];
        let made = world.trust.client(self.row, link)?;
        Ok(side.insert(made).clone())
    }

    /// The name that its certificate has to be of.
    fn name(&self) -> ServerName<'static> {
        name(&self.server_name).unwrap_or_else(|| ServerName::IpAddress(self.address.ip().into()))
    }

    /// Opens a connection of TCP to it, with keys agreed on where its link is encrypted.
    pub(super) async fn dial(&self, shard: &Core) -> Result<Carried, Unopened> {
        let tls = if self.encrypted {
            let world = shard.borrow().world().clone();
            let side = self.side(&world).map_err(|why| Unopened::Handshake(Fault::of(&why)))?;
            Some((side.config, self.name()))
        } else {
            None
        };
        let (carried, agreed) = Carried::dial(self.address, self.dscp, tls).await?;
        shard.borrow_mut().opened(self.node, self.to, self.carrier, agreed);
        Ok(carried)
    }
}

/// A name or an address as certificates have it; `None` if none could.
pub(crate) fn name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).ok()
}

fn uri(authority: &str, encrypted: bool) -> Uri {
    let mut parts = hyper::http::uri::Parts::default();
    parts.scheme = Some(if encrypted { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(Authority::try_from(authority).expect("an address is an authority"));
    parts.path_and_query = Some(PathAndQuery::from_static("/"));
    Uri::from_parts(parts).expect("scheme, authority and path make a target")
}
