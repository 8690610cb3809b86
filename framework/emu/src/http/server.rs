//! The receiving end: a listener for each receiving actor, a task for each connection.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rehearsal_core::{ExchangeId, Status};
use tokio::net::{TcpListener, TcpStream};

use super::{HEAD, code, read_head};
use crate::shard::{Arrival, Core, Shard};

/// Largest body that is taken in. Assumed: far above any frame or document of the experiments.
const BODY_BYTES_MAX: usize = 64 << 20;
/// First and longest wait after a connection could not be accepted.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// What a turned-away client is told to wait, s: the shortest that RFC 9110 §10.2.3 can say.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");

/// Room for connections, shared by the listeners of a shard.
#[derive(Clone)]
pub(crate) struct Room(Rc<Cell<usize>>);

/// A connection's place in it.
struct Place(Room);

impl Room {
    /// Room for so many connections.
    pub(crate) fn new(connections: usize) -> Self {
        Room(Rc::new(Cell::new(connections)))
    }

    fn place(&self) -> Option<Place> {
        let left = self.0.get().checked_sub(1)?;
        self.0.set(left);
        Some(Place(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Room(left) = &self.0;
        left.set(left.get() + 1);
    }
}

/// Accepts connections for `actor` while there is room.
pub(crate) async fn listen(shard: Core, listener: TcpListener, actor: u32, room: Room) {
    let mut wait = BACKOFF.0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                wait = BACKOFF.0;
                match room.place() {
                    Some(place) => _ = tokio::task::spawn_local(serve(shard.clone(), stream, actor, place)),
                    None => shard.borrow_mut().turned_connection_away(),
                }
            }
            Err(why) => {
                shard.borrow_mut().accept_failed(actor, &why);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(BACKOFF.1);
            }
        }
    }
}

async fn serve(shard: Core, stream: TcpStream, actor: u32, _place: Place) {
    // without it answers wait for the peer's delayed acknowledgement; with a socket that refuses it, they do
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let shard = shard.clone();
        async move { Ok::<_, Infallible>(answer(&shard, actor, request).await) }
    });
    // how a connection ends is the client's business; what was under way is booked when its guard is dropped
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shard: &Core, actor: u32, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::POST {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED);
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return refusal;
    }
    let (parts, body) = request.into_parts();
    let head = parts.headers.get(HEAD).and_then(read_head).unwrap_or_default();
    let content_type = parts.headers.get(CONTENT_TYPE).cloned();
    let (body, bytes) = match collect(body).await {
        Ok(collected) => collected,
        Err(code) => return plain(code),
    };
    let exchange = shard.borrow_mut().request_in(Arrival { actor, head, content_type, body, bytes });
    let mut guard = Guard { shard, exchange, answered: false };
    let reply = poll_fn(|cx| shard.borrow_mut().poll_reply(exchange, cx)).await;
    guard.answered = true;
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = code(reply.status);
    response.headers_mut().insert(CONTENT_TYPE, reply.content_type);
    if reply.status == Status::Rejected {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S);
    }
    response
}

/// A body in the pieces it came in.
async fn collect(mut body: Incoming) -> Result<(Vec<Bytes>, u32), StatusCode> {
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(StatusCode::BAD_REQUEST) };
        let Ok(piece) = frame.into_data() else { continue };
        bytes += piece.len();
        if bytes > BODY_BYTES_MAX {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        pieces.push(piece);
    }
    Ok((pieces, bytes as u32))
}

fn plain(code: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = code;
    response
}

/// Tells the shard if the connection goes away before the answer.
struct Guard<'a> {
    shard: &'a RefCell<Shard>,
    exchange: ExchangeId,
    answered: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // at the end of a run tasks are dropped by nobody who holds the shard, or by whoever no longer needs it
        if !self.answered
            && let Ok(mut shard) = self.shard.try_borrow_mut()
        {
            shard.abandon(self.exchange);
        }
    }
}
