//! A connection that speaks HTTP/1.1 (RFC 9112), within the task that uses it: a request is one write, its answer usually
//! one read, and what both need stays with the connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use super::Target;
use super::link::Ended;
use crate::carried::{Carried, Unopened};
use crate::http::form::Wanted;
use crate::losses::Loss;
use crate::shard::{Core, Outgoing};

mod answer;
mod head;

use answer::Answer;
pub(super) use answer::{HEAD_MAX, INTERIM_MAX};
#[cfg(test)]
pub(in crate::http) use head::write as write_head;

/// Room for what comes in, bytes: an answer of the usual size fits, so one read empties the socket.
const ROOM: usize = 8 << 10;
/// Bodies up to this size are copied behind their heads, so that both leave in one piece.
const COPIED_MAX: usize = 16 << 10;
/// Room that is kept for the next request, bytes.
const KEPT_MAX: usize = 64 << 10;

/// A connection.
pub(super) struct Link {
    io: Carried,
    /// Nothing more can be asked on it.
    over: bool,
    /// Head and body of a request.
    out: Vec<u8>,
    /// What came in; the first `filled` bytes of it hold.
    room: Box<[u8]>,
    filled: usize,
}

impl Link {
    /// Opens one.
    pub(super) async fn open(shard: &Core, target: &Target) -> Result<Link, Unopened> {
        let io = target.dial(shard).await?;
        Ok(Link { io, over: false, out: Vec::new(), room: vec![0; ROOM].into(), filled: 0 })
    }

    /// Whether it is over. While nothing is under way, there is nothing that the peer could say.
    pub(super) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.over = self.over || self.poll_fill(cx).is_ready();
        self.over
    }

    /// Sends a request and reads its answer.
    pub(super) async fn exchange(&mut self, target: &Target, job: &Outgoing) -> Ended {
        if self.over {
            return Ended::Unwritten;
        }
        self.out.clear();
        self.out.shrink_to(KEPT_MAX);
        let bare = head::write(target, job, &mut self.out);
        let copied = job.body.len() <= COPIED_MAX;
        if copied {
            self.out.extend_from_slice(&job.body);
        }
        let rest: &[u8] = if copied { &[] } else { &job.body };
        let mut under_way = UnderWay { written: 0, failed: None, flushed: false };
        let mut answer = Answer::new(Wanted::of(job), bare);
        let ended = poll_fn(|cx| self.poll_exchange(cx, rest, &mut under_way, &mut answer)).await;
        let whole = under_way.written == self.out.len() + rest.len();
        // what follows an answer was not asked for
        self.over = !(matches!(ended, Ended::Answered(_)) && answer.keep && whole && self.filled == 0);
        ended
    }

    /// Writes while there is something to write, and reads all the time: a peer may answer before it has read all.
    fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        rest: &[u8],
        under_way: &mut UnderWay,
        answer: &mut Answer,
    ) -> Poll<Ended> {
        self.poll_write(cx, rest, under_way);
        if under_way.written == 0 && under_way.failed.is_some() {
            return Poll::Ready(Ended::Unwritten);
        }
        loop {
            match self.poll_fill(cx) {
                Poll::Pending => {
                    // what could not be written cannot be answered either
                    let Some(why) = &under_way.failed else { return Poll::Pending };
                    return Poll::Ready(Ended::Broken(loss(why)));
                }
                Poll::Ready(Ok(0)) => {
                    let end = answer.closed().then(|| answer.end()).flatten();
                    return Poll::Ready(end.map_or(Ended::Broken(Loss::Closed), Ended::Answered));
                }
                Poll::Ready(Err(why)) => return Poll::Ready(Ended::Broken(loss(&why))),
                Poll::Ready(Ok(_)) => {}
            }
            let taken = match answer.feed(&self.room[..self.filled]) {
                Ok(taken) => taken,
                Err(loss) => return Poll::Ready(Ended::Broken(loss)),
            };
            self.room.copy_within(taken..self.filled, 0);
            self.filled -= taken;
            if let Some(end) = answer.end() {
                return Poll::Ready(Ended::Answered(end));
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, rest: &[u8], under_way: &mut UnderWay) {
        let total = self.out.len() + rest.len();
        while under_way.written < total && under_way.failed.is_none() {
            let mut left = Buf::chain(&self.out[..], rest);
            left.advance(under_way.written);
            let mut slices = [io::IoSlice::new(&[]); 2];
            let count = left.chunks_vectored(&mut slices);
            let io = Pin::new(&mut self.io);
            let wrote = if count == 1 { io.poll_write(cx, &slices[0]) } else { io.poll_write_vectored(cx, &slices) };
            match wrote {
                Poll::Pending => return,
                Poll::Ready(Ok(0)) => under_way.failed = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(more)) => under_way.written += more,
                Poll::Ready(Err(why)) => under_way.failed = Some(why),
            }
        }
        if !under_way.flushed && under_way.failed.is_none() {
            match Pin::new(&mut self.io).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => under_way.flushed = true,
                Poll::Ready(Err(why)) => under_way.failed = Some(why),
            }
        }
    }

    /// Reads more; 0 at the end of the connection.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.filled == self.room.len() {
            if self.filled >= HEAD_MAX {
                // no answer leaves so much behind
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            let mut room = std::mem::take(&mut self.room).into_vec();
            room.resize(self.filled * 2, 0);
            self.room = room.into();
        }
        let mut into = ReadBuf::new(&mut self.room[self.filled..]);
        match Pin::new(&mut self.io).poll_read(cx, &mut into) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(why)) => Poll::Ready(Err(why)),
            Poll::Ready(Ok(())) => {
                let read = into.filled().len();
                self.filled += read;
                Poll::Ready(Ok(read))
            }
        }
    }

    /// Lets the peer close first, as a server does that was told `connection: close` (RFC 9112 §9.6), so that this
    /// host's ports are not held in TIME_WAIT.
    pub(super) async fn linger(mut self) {
        let mut rest = [0_u8; 64];
        while self.io.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }
}

/// How far a request is.
struct UnderWay {
    written: usize,
    /// Why no more can be written.
    failed: Option<io::Error>,
    flushed: bool,
}

/// Why an open connection brought no answer.
pub(super) fn loss(why: &io::Error) -> Loss {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData};
    if let Some(fault) = crate::tls::Fault::within(why) {
        return Loss::Tls(fault);
    }
    match why.kind() {
        ConnectionReset | ConnectionAborted | BrokenPipe => Loss::Reset,
        InvalidData => Loss::Foreign,
        _ => Loss::Closed,
    }
}
