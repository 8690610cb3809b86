//! The receiving end: a task for each connection, which reads requests and writes their answers in the order in which they
//! are ready.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use hyper::header::HeaderValue;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::{ExchangeId, Head, Status};
use tokio::net::{TcpListener, TcpStream};

use super::{Frame, HEADER_BYTES, write_answer};
use crate::http::server::{Place, Room};
use crate::marks;
use crate::shard::{Arrival, Core};
use crate::wake::Sleeper;

/// Requests of one connection that may be in work; what comes then is not read before one is answered.
const IN_WORK_MAX: usize = 1024;
/// Answers of one connection that may wait for its peer to read, bytes; likewise.
const ANSWERS_MAX: usize = 4 << 20;
/// Room for requests; a long one gets as much as is left of it, up to this much at a time.
const READ_BYTES: (usize, usize) = (8 << 10, 256 << 10);

/// First and longest wait after a connection could not be accepted.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// What a shard and the task of a connection tell each other.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Answers that are not written.
    out: RefCell<BytesMut>,
    /// Requests that are not answered.
    open: RefCell<Vec<ExchangeId>>,
    dscp: Cell<Option<Dscp>>,
    sleeper: Sleeper,
}

impl Line {
    /// An answer is ready.
    pub(crate) fn answer(&self, exchange: ExchangeId, id: u64, status: Status, body: &[u8]) {
        self.open.borrow_mut().retain(|other| *other != exchange);
        write_answer(&mut self.out.borrow_mut(), id, status, body);
        self.sleeper.wake();
    }

    /// A request is in work, and its answers are of this class.
    pub(crate) fn opened(&self, exchange: ExchangeId) {
        self.open.borrow_mut().push(exchange);
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
    let line = Rc::new(Line::default());
    let _guard = Guard { shard: &shard, line: &line };
    let mut talk = Talk { shard: &shard, line: &line, actor, stream: &stream, read: BytesMut::new(), request: None };
    // how a connection ends is the client's business; what was in work is booked when its guard is dropped
    let _ = poll_fn(|cx| talk.poll(cx)).await;
}

/// An open connection.
struct Talk<'a> {
    shard: &'a Core,
    line: &'a Rc<Line>,
    actor: u32,
    stream: &'a TcpStream,
    read: BytesMut,
    /// The request whose payload comes in: its id, head, and the bytes of its media type and of both.
    request: Option<(u64, Head, usize, usize)>,
}

impl Talk<'_> {
    /// Ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.sleeper.listen(cx);
        loop {
            let blocked = self.write(cx)?.is_pending();
            let full = self.line.out.borrow().len() >= ANSWERS_MAX || self.line.open.borrow().len() >= IN_WORK_MAX;
            if full {
                return Poll::Pending;
            }
            if !self.take()? {
                match self.fetch(cx) {
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
                    Poll::Pending if blocked || self.line.out.borrow().is_empty() => return Poll::Pending,
                    // answers came up while requests were read
                    Poll::Pending => {}
                }
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let mut out = self.line.out.borrow_mut();
        while !out.is_empty() {
            match self.stream.poll_write_ready(cx)? {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(()) => match self.stream.try_write(&out) {
                    Ok(bytes) => out.advance(bytes),
                    Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                    Err(why) => return Err(why),
                },
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Reads more; false at the end.
    fn fetch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let missing = self.request.map_or(HEADER_BYTES, |(_, _, _, bytes)| bytes).saturating_sub(self.read.len());
        loop {
            std::task::ready!(self.stream.poll_read_ready(cx))?;
            self.read.reserve(missing.clamp(READ_BYTES.0, READ_BYTES.1));
            match self.stream.try_read_buf(&mut self.read) {
                Ok(bytes) => return Poll::Ready(Ok(bytes > 0)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Poll::Ready(Err(why)),
            }
        }
    }

    /// Hands over one request that is there in full; whether there was one.
    fn take(&mut self) -> io::Result<bool> {
        if self.request.is_none() {
            match Frame::read(&self.read) {
                Ok(None) => return Ok(false),
                Ok(Some(Frame::Request { id, head, media, following })) => {
                    self.read.advance(HEADER_BYTES);
                    self.request = Some((id, head, usize::from(media), following as usize));
                }
                Ok(Some(Frame::Answer { .. })) | Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let Some((id, head, media, bytes)) = self.request.filter(|(_, _, _, bytes)| self.read.len() >= *bytes) else {
            return Ok(false);
        };
        self.request = None;
        let media = self.read.split_to(media);
        let body = self.read.split_to(bytes - media.len()).freeze();
        let content_type = Some(media).filter(|m| !m.is_empty()).and_then(|m| HeaderValue::from_bytes(&m).ok());
        let bytes = body.len() as u32;
        let arrival = Arrival { actor: self.actor, head, content_type, body: vec![body], bytes };
        let dscp = self.shard.borrow_mut().framed_in(arrival, self.line, id);
        if self.line.dscp.replace(Some(dscp)) != Some(dscp) {
            marks::mark(self.stream, dscp);
        }
        Ok(true)
    }
}

/// Tells the shard if the connection goes away before its answers.
struct Guard<'a> {
    shard: &'a Core,
    line: &'a Line,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // at the end of a run tasks are dropped by nobody who holds the shard, or by whoever no longer needs it
        if let Ok(mut shard) = self.shard.try_borrow_mut() {
            for exchange in self.line.open.take() {
                shard.abandon(exchange);
            }
        }
    }
}
