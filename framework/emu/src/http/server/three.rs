//! The receiving end of HTTP/3 (RFC 9114): a task for each connection, within it one for each request.

use std::cell::RefCell;
use std::net::UdpSocket;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use h3::error::Code;
use h3::quic::BidiStream;
use h3::server::{RequestResolver, RequestStream};
use hyper::header::ALLOW;
use hyper::{Method, Response, StatusCode};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};
use rehearsal_core::plan::Carrier;
use tokio::task::JoinSet;

use super::{BODY_BYTES_MAX, Place, Room, head, work};
use crate::http::client::{offered, transport};
use crate::shard::{Core, Rendered};
use crate::tls::{Dated, Doors, Fault};

/// The configuration of a receiver's end, made anew when further authorities are known.
type Side = RefCell<Option<(Dated<rustls::ServerConfig>, Arc<ServerConfig>)>>;

/// Accepts connections for `actor` while there is room.
pub(crate) async fn listen(shard: Core, socket: UdpSocket, actor: u32, room: Room) {
    let doors = Doors::of(shard.borrow().world(), actor);
    let endpoint = match Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)) {
        Ok(endpoint) => endpoint,
        Err(why) => return shard.borrow_mut().accept_failed(actor, &why),
    };
    let side = Side::default();
    // without a configuration nobody is let in; the first is made when traffic begins, with all authorities
    if let Some(config) = configured(&shard, actor, &doors, &side) {
        endpoint.set_server_config(Some((*config).clone()));
    }
    while let Some(incoming) = endpoint.accept().await {
        let Some(place) = room.place() else {
            incoming.refuse();
            shard.borrow_mut().turned_connection_away();
            continue;
        };
        let Some(config) = configured(&shard, actor, &doors, &side) else { continue };
        tokio::task::spawn_local(serve(shard.clone(), incoming, config, actor, place));
    }
}

fn configured(shard: &Core, actor: u32, doors: &Doors, side: &Side) -> Option<Arc<ServerConfig>> {
    let world = shard.borrow().world().clone();
    let mut side = side.borrow_mut();
    if let Some((_, config)) = side.as_ref().filter(|(dated, _)| !world.trust.is_old(dated)) {
        return Some(config.clone());
    }
    let made = world.trust.server(doors, true).map_err(|why| why.to_string());
    let made = made.and_then(|dated| {
        let Some(dated) = dated else { return Ok(None) };
        let crypto = QuicServerConfig::try_from(dated.config.clone()).map_err(|why| why.to_string())?;
        Ok(Some((dated, crypto)))
    });
    match made {
        Ok(Some((dated, crypto))) => {
            let mut config = ServerConfig::with_crypto(Arc::new(crypto));
            if let Some((streams, stream, connection)) = doors.bounds(Carrier::Http3) {
                config.transport_config(Arc::new(transport((stream, connection), offered(streams))));
            }
            let config = Arc::new(config);
            *side = Some((dated, config.clone()));
            Some(config)
        }
        Ok(None) => None,
        Err(why) => {
            shard.borrow_mut().handshake_failed(actor, &why);
            None
        }
    }
}

async fn serve(shard: Core, incoming: Incoming, config: Arc<ServerConfig>, actor: u32, _place: Place) {
    let opened = match incoming.accept_with(config) {
        Ok(connecting) => connecting.await,
        Err(why) => Err(why),
    };
    let connection = match opened {
        Ok(connection) => connection,
        Err(why) => {
            let fault = match crate::losses::Loss::of_quic(&why) {
                crate::losses::Loss::Tls(fault) => fault,
                _ => Fault::Broken,
            };
            return shard.borrow_mut().handshake_failed(actor, fault.word());
        }
    };
    let built = h3::server::builder().send_grease(false).build::<_, Bytes>(h3_quinn::Connection::new(connection)).await;
    let Ok(mut connection) = built else { return };
    // dropped with the connection: then nobody waits for what is under way
    let mut requests = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Ok(Some(resolver)) => _ = requests.spawn_local(answer(shard.clone(), resolver, actor)),
                Ok(None) | Err(_) => break,
            },
            Some(_) = requests.join_next() => {}
        }
    }
}

async fn answer(shard: Core, resolver: RequestResolver<h3_quinn::Connection, Bytes>, actor: u32) {
    // what is broken about a request is told to its sender by the library
    let Ok((request, mut stream)) = resolver.resolve_request().await else { return };
    if request.method() != Method::POST && !request.headers().contains_key(crate::http::HEAD) {
        let refusal = Response::builder().status(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, "POST").body(());
        return finish(&mut stream, refusal.expect("a code and a header make an answer"), Bytes::new()).await;
    }
    let (body, bytes) = match collect(&mut stream).await {
        Ok(collected) => collected,
        Err(Some(code)) => {
            let mut refusal = Response::new(());
            *refusal.status_mut() = code;
            stream.stop_sending(Code::H3_NO_ERROR);
            return finish(&mut stream, refusal, Bytes::new()).await;
        }
        Err(None) => return,
    };
    let Rendered { status, content_type, body } = work(&shard, actor, request.headers(), body, bytes).await;
    finish(&mut stream, head(status, content_type), body).await;
}

/// A body in the pieces it came in; a code if it is refused, none if its sender broke it off.
async fn collect<S>(stream: &mut RequestStream<S, Bytes>) -> Result<(Vec<Bytes>, u32), Option<StatusCode>>
where
    S: BidiStream<Bytes>,
{
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    while let Some(mut piece) = stream.recv_data().await.map_err(|_| None)? {
        bytes += piece.remaining();
        if bytes > BODY_BYTES_MAX {
            return Err(Some(StatusCode::PAYLOAD_TOO_LARGE));
        }
        pieces.push(piece.copy_to_bytes(piece.remaining()));
    }
    Ok((pieces, bytes as u32))
}

/// Sends an answer; whoever does not want it any more has said so to the connection.
async fn finish<S>(stream: &mut RequestStream<S, Bytes>, mut answer: Response<()>, body: Bytes)
where
    S: BidiStream<Bytes>,
{
    answer.headers_mut().insert(hyper::header::CONTENT_LENGTH, body.len().into());
    if stream.send_response(answer).await.is_err() {
        return;
    }
    if !body.is_empty() && stream.send_data(body).await.is_err() {
        return;
    }
    let _ = stream.finish().await;
}
