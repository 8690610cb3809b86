//! The receiving end: a listener for each receiving actor, a task for each connection, and with HTTP/2 and HTTP/3 one for
//! each request under way.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use rehearsal_core::{ExchangeId, Status};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use super::{HEAD, LocalTasks, code, read_head};
use crate::shard::{Arrival, Core, Rendered, Shard};

mod entry;
pub(crate) mod three;

use entry::{Entry, Version};

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
pub(crate) struct Place(Room);

impl Room {
    /// Room for so many connections.
    pub(crate) fn new(connections: usize) -> Self {
        Room(Rc::new(Cell::new(connections)))
    }

    /// A place for one more, if there is any.
    pub(crate) fn place(&self) -> Option<Place> {
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
    let entry = Rc::new(Entry::of(shard.borrow().world(), actor));
    let mut wait = BACKOFF.0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                wait = BACKOFF.0;
                match room.place() {
                    Some(place) => {
                        _ = tokio::task::spawn_local(serve(shard.clone(), stream, actor, place, entry.clone()))
                    }
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

async fn serve(shard: Core, stream: TcpStream, actor: u32, _place: Place, entry: Rc<Entry>) {
    // without it answers wait for the peer's delayed acknowledgement; with a socket that refuses it, they do
    let _ = stream.set_nodelay(true);
    if !entry.is_for_tls(&stream).await {
        return speak(shard, stream, actor, &entry, None).await;
    }
    match entry.encrypt(&shard, actor, stream).await {
        Ok(stream) => {
            let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            speak(shard, stream, actor, &entry, agreed.as_deref()).await;
        }
        Err(Some(fault)) => shard.borrow_mut().handshake_failed(actor, fault.word()),
        Err(None) => {}
    }
}

/// Serves a connection by the version of HTTP that was agreed on, or that it begins with.
async fn speak<S>(shard: Core, stream: S, actor: u32, entry: &Entry, agreed: Option<&[u8]>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let shard = shard.clone();
        async move { Ok::<_, Infallible>(answer(&shard, actor, request).await) }
    });
    let io = TokioIo::new(stream);
    // how a connection ends is the client's business; what was under way is booked when its guard is dropped
    match entry.version(agreed) {
        Version::One => drop(http1::Builder::new().serve_connection(io, service).await),
        Version::Two => {
            let mut builder = http2::Builder::new(LocalTasks);
            if let Some((streams, stream, connection)) = entry.two {
                builder.max_concurrent_streams(streams);
                builder.initial_stream_window_size(stream).initial_connection_window_size(connection);
            }
            drop(builder.serve_connection(io, service).await);
        }
        Version::Either => {
            let mut builder = auto::Builder::new(LocalTasks);
            if let Some((streams, stream, connection)) = entry.two {
                let mut two = builder.http2();
                two.max_concurrent_streams(streams);
                two.initial_stream_window_size(stream).initial_connection_window_size(connection);
            }
            drop(builder.serve_connection(io, service).await);
        }
    }
}

async fn answer(shard: &Core, actor: u32, request: Request<Incoming>) -> Response<Full<Bytes>> {
    // who sends steps of a script has other methods, and says who it is
    if request.method() != Method::POST && !request.headers().contains_key(HEAD) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED);
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return refusal;
    }
    let (parts, body) = request.into_parts();
    let (body, bytes) = match collect(body).await {
        Ok(collected) => collected,
        Err(code) => return plain(code),
    };
    respond(work(shard, actor, &parts.headers, body, bytes).await)
}

/// Hands a request to its actor and waits for the answer.
async fn work(shard: &Core, actor: u32, headers: &HeaderMap, body: Vec<Bytes>, bytes: u32) -> Rendered {
    let head = headers.get(HEAD).and_then(read_head).unwrap_or_default();
    let content_type = headers.get(CONTENT_TYPE).cloned();
    let exchange = shard.borrow_mut().request_in(Arrival { actor, head, content_type, body, bytes });
    let mut guard = Guard { shard, exchange, answered: false };
    let reply = poll_fn(|cx| shard.borrow_mut().poll_reply(exchange, cx)).await;
    guard.answered = true;
    reply
}

/// An answer as it is written.
pub(super) fn respond(reply: Rendered) -> Response<Full<Bytes>> {
    let Rendered { status, content_type, body } = reply;
    head(status, content_type).map(|()| Full::new(body))
}

fn head(status: Status, content_type: HeaderValue) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = code(status);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    if status == Status::Rejected {
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
