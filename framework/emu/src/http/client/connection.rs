//! One connection: connects when it has something to send, sends one attempt after the other, notices when the peer
//! closes while nothing is under way.
//!
//! An attempt counts as sent when its connection takes it, so opening a connection is service time. An attempt is sent
//! again on a fresh connection, without being counted twice, only if the peer had closed the old one and not a single
//! byte had been written (RFC 9112 §9.3.1 allows no more for a POST). Every other loss is the attempt's own.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rehearsal_core::Status;
use rehearsal_core::plan::Connection;
use tokio::net::TcpStream;

use super::{ConnectionId, LINGERING_MAX, Line, Target};
use crate::http::{HEAD, status, write_head};
use crate::losses::Loss;
use crate::shard::{Answer, Outgoing, Shard};

/// How long a connection that was used once waits for its peer to close it. Assumed: several times any round trip in a
/// lab.
const LINGER: std::time::Duration = std::time::Duration::from_secs(1);

/// No answer: refused, reset, or cut off.
const NONE: Answer = Answer { status: Status::Unacknowledged, bytes: 0 };

/// Runs a connection until its shard wants it closed.
pub(super) async fn run(
    shard: Rc<RefCell<Shard>>,
    id: ConnectionId,
    line: Rc<Line>,
    target: Rc<Target>,
    lingering: Rc<Cell<usize>>,
) {
    let mut link = None;
    while let Some(job) = next(&shard, id, &mut link).await {
        let attempt = job.id;
        line.cut.set(None);
        let answer = tokio::select! {
            biased;
            status = cut(&line) => Err(status),
            answer = exchange(&shard, &mut link, &target, job) => Ok(answer),
        };
        match answer {
            Ok(answer) if target.connection == Connection::PerRequest => {
                linger(link.take(), &lingering);
                shard.borrow_mut().complete(id, attempt, answer);
            }
            Ok(answer) => shard.borrow_mut().complete(id, attempt, answer),
            Err(status) => {
                if link.take().is_none() && status == Status::Unacknowledged {
                    lost(&shard, &target, Loss::Late);
                }
            }
        }
    }
    drop(link);
    shard.borrow_mut().closed(id);
}

fn lost(shard: &RefCell<Shard>, target: &Target, loss: Loss) {
    shard.borrow_mut().connection_lost(target.node, target.address, loss);
}

/// Lets a connection that was used once end on its own, if few do so.
fn linger(link: Option<Link>, lingering: &Rc<Cell<usize>>) {
    let others = lingering.get();
    if let Some(link) = link.filter(|_| others < LINGERING_MAX) {
        lingering.set(others + 1);
        let lingering = lingering.clone();
        tokio::task::spawn_local(async move {
            link.linger().await;
            lingering.set(lingering.get() - 1);
        });
    }
}

/// The next attempt. Meanwhile an open link is watched: if the peer closes it, it is gone before it is needed.
async fn next(shard: &RefCell<Shard>, id: ConnectionId, link: &mut Option<Link>) -> Option<Outgoing> {
    poll_fn(|cx| {
        if link.as_mut().is_some_and(|l| l.protocol.is_over(cx)) {
            *link = None;
        }
        shard.borrow_mut().poll_job(id, cx)
    })
    .await
}

/// Returns when the shard cuts the attempt off, with its outcome.
async fn cut(line: &Line) -> Status {
    poll_fn(|cx| {
        line.listen(cx);
        line.cut.get().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

async fn exchange(shard: &RefCell<Shard>, link: &mut Option<Link>, target: &Target, job: Outgoing) -> Answer {
    let mut request = request(target, job);
    loop {
        let reused = link.is_some();
        if !reused {
            match Link::open(target).await {
                Ok(fresh) => *link = Some(fresh),
                Err(why) => {
                    match is_shortage(&why) {
                        true => shard.borrow_mut().short_of_connections(),
                        false => lost(shard, target, Loss::opening(&why)),
                    }
                    return NONE;
                }
            }
        }
        let Some(open) = link.as_mut() else { return NONE };
        match open.exchange(request).await {
            Ended::Answered(answer) => {
                return answer;
            }
            Ended::Unwritten(unsent) if reused => {
                *link = None;
                request = *unsent;
            }
            Ended::Unwritten(_) => {
                *link = None;
                lost(shard, target, Loss::Closed);
                return NONE;
            }
            Ended::Broken(loss) => {
                *link = None;
                lost(shard, target, loss);
                return NONE;
            }
        }
    }
}

fn request(target: &Target, job: Outgoing) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(job.body));
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.reserve(4);
    headers.insert(HOST, target.host.clone());
    headers.insert(CONTENT_TYPE, job.content_type);
    headers.insert(HEAD, write_head(&job.head));
    if target.connection == Connection::PerRequest {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    request
}

/// EMFILE, ENFILE, EADDRNOTAVAIL: this host's shortage, not the peer's refusal.
fn is_shortage(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::AddrNotAvailable
        || matches!(
            why.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
        )
}

/// A TCP connection that speaks HTTP/1.1. Its protocol runs within the task that uses it.
struct Link {
    send: SendRequest<Full<Bytes>>,
    protocol: Protocol,
}

struct Protocol {
    open: Option<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>,
    over: bool,
    /// How it ended, if it did not end well.
    loss: Option<Loss>,
}

enum Ended {
    Answered(Answer),
    /// Not a byte was written: the request comes back.
    Unwritten(Box<Request<Full<Bytes>>>),
    Broken(Loss),
}

impl Link {
    async fn open(target: &Target) -> io::Result<Link> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(stream);
        let (send, protocol) = http1::Builder::new().handshake(io).await.map_err(io::Error::other)?;
        Ok(Link { send, protocol: Protocol { open: Some(protocol), over: false, loss: None } })
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Ended {
        let ready = poll_fn(|cx| {
            let over = self.protocol.is_over(cx);
            match self.send.poll_ready(cx) {
                Poll::Pending if over => Poll::Ready(false),
                ready => ready.map(|r| r.is_ok()),
            }
        });
        if !ready.await {
            return Ended::Unwritten(Box::new(request));
        }
        let mut reply = pin!(self.send.try_send_request(request));
        match self.protocol.beside(|cx| reply.as_mut().poll(cx)).await {
            Ok(response) => match self.read(response).await {
                Ok(answer) => Ended::Answered(answer),
                Err(why) => Ended::Broken(Loss::answering(&why)),
            },
            Err(mut why) => match why.take_message() {
                Some(unsent) => Ended::Unwritten(Box::new(unsent)),
                None => Ended::Broken(self.protocol.loss.unwrap_or_else(|| Loss::answering(why.error()))),
            },
        }
    }

    /// Reads an answer to its end; only its length matters.
    async fn read(&mut self, response: Response<Incoming>) -> hyper::Result<Answer> {
        let status = status(response.status());
        let mut body = response.into_body();
        let mut bytes = 0;
        while !body.is_end_stream() {
            match self.protocol.beside(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, |d| d.len() as u32),
                Some(Err(why)) => return Err(why),
                None => break,
            }
        }
        Ok(Answer { status, bytes })
    }

    /// Lets the peer close first, as a server does that was told `connection: close` (RFC 9112 §9.6), so that this
    /// host's ports are not held in TIME_WAIT.
    async fn linger(mut self) {
        let _ = tokio::time::timeout(LINGER, async {
            poll_fn(|cx| if self.protocol.is_over(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
            let Some(protocol) = self.protocol.open.take() else { return };
            let stream = protocol.into_parts().io.into_inner();
            let mut rest = [0_u8; 64];
            while stream.readable().await.is_ok() {
                match stream.try_read(&mut rest) {
                    Ok(0) => break,
                    Err(why) if why.kind() != io::ErrorKind::WouldBlock => break,
                    _ => {}
                }
            }
        })
        .await;
    }
}

impl Protocol {
    /// Drives it; whether the connection is over.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(open) = self.open.as_mut().filter(|_| !self.over)
            && let Poll::Ready(end) = open.poll_without_shutdown(cx)
        {
            self.over = true;
            if let Err(why) = end {
                self.loss = Some(Loss::answering(&why));
                self.open = None;
            }
        }
        self.over
    }

    /// Waits for `poll` and drives the protocol meanwhile. When the connection is over, whoever waits for it is told.
    async fn beside<T>(&mut self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        poll_fn(|cx| {
            let over = self.is_over(cx);
            match poll(cx) {
                Poll::Pending if over => {
                    self.open = None;
                    poll(cx)
                }
                ready => ready,
            }
        })
        .await
    }
}
