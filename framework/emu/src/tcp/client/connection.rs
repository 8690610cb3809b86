//! One connection: writes what its shard hands over, reads answers, and says how it ended.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use rehearsal_core::plan::Carrier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Line, LineId, Target, job};
use crate::losses::{Loss, Peer};
use crate::marks;
use crate::shard::{Answer, Shard, Shortage};
use crate::tcp::{Frame, HEADER_BYTES};

/// Written at most before the next attempt is fetched.
const WRITE_BYTES: usize = 64 << 10;
/// How long a peer may take to let go of a connection. Assumed: several times any round trip in a lab.
const LINGER: Duration = Duration::from_secs(1);
/// Room for answers.
const READ_BYTES: usize = 4 << 10;

/// How a connection ended.
enum End {
    /// Nobody needs it any more.
    Unneeded,
    /// The deadline of what it was to carry passed before it was open.
    Late,
    /// It could not be opened.
    Unopened(io::Error),
    /// It broke.
    Broken(Loss),
}

/// Runs a connection to its end.
pub(super) async fn run(shard: Rc<RefCell<Shard>>, id: LineId, line: Rc<Line>, target: Rc<Target>) {
    let end = match open(&shard, id, &line, &target).await {
        Err(end) => end,
        Ok(stream) => {
            let (out, read) = (BytesMut::new(), BytesMut::new());
            let mut talk = Talk { shard: &shard, id, line: &line, stream, out, read, answer: None, fresh: true };
            let end = poll_fn(|cx| talk.poll(cx)).await;
            if target.once && matches!(end, End::Unneeded) {
                linger(talk.stream).await;
            }
            end
        }
    };
    let peer = Peer::Address(target.address);
    let mut lost = line.under_way.take();
    if matches!(end, End::Unopened(_)) {
        // those who wait for a connection to nobody do not wait for the next
        lost.extend(line.jobs.take());
    }
    let mut shard = shard.borrow_mut();
    match end {
        End::Unneeded => {}
        End::Late => shard.connection_lost(target.node, peer, Loss::Late),
        End::Unopened(why) => match Shortage::of(&why) {
            Some(what) => shard.short_of(target.node, what),
            None => shard.connection_lost(target.node, peer, Loss::opening(&why)),
        },
        // one that nobody waited on is replaced when it is needed
        End::Broken(Loss::Closed) if lost.is_empty() => {}
        End::Broken(loss) => shard.connection_lost(target.node, peer, loss),
    }
    shard.line_closed(id, lost);
}

/// Says that a connection that was used once is over, and waits until its peer has let go of it too: only then another
/// takes its place.
async fn linger(mut stream: TcpStream) {
    let ended = async {
        let _ = stream.shutdown().await;
        while !matches!(stream.read(&mut [0; 64]).await, Ok(0) | Err(_)) {}
    };
    let _ = timeout(LINGER, ended).await;
}

async fn open(shard: &RefCell<Shard>, id: LineId, line: &Line, target: &Target) -> Result<TcpStream, End> {
    let mut connecting = pin!(TcpStream::connect(target.address));
    let stream = poll_fn(|cx| {
        line.sleeper.listen(cx);
        // what waits for the connection is sent: opening it is part of the service
        shard.borrow_mut().claim(id);
        if line.is_over() {
            return Poll::Ready(Err(if line.late.get() { End::Late } else { End::Unneeded }));
        }
        connecting.as_mut().poll(cx).map_err(End::Unopened)
    });
    let stream = stream.await?;
    stream.set_nodelay(true).map_err(End::Unopened)?;
    marks::mark(&stream, target.dscp);
    shard.borrow_mut().opened(target.node, target.to, Carrier::Tcp, None);
    Ok(stream)
}

/// An open connection.
struct Talk<'a> {
    shard: &'a RefCell<Shard>,
    id: LineId,
    line: &'a Line,
    stream: TcpStream,
    out: BytesMut,
    read: BytesMut,
    /// The answer whose payload comes in: its mark, what it says, and how many bytes are left.
    answer: Option<(u64, Answer, usize)>,
    /// Nothing was written yet. What waited for it is then written first, even if the peer has closed already: otherwise a
    /// peer that closes at once would be tried without end.
    fresh: bool,
}

impl Talk<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.line.sleeper.listen(cx);
        loop {
            if !std::mem::take(&mut self.fresh)
                && let Poll::Ready(end) = self.hear(cx)
            {
                return Poll::Ready(end);
            }
            if self.line.is_over() {
                return Poll::Ready(End::Unneeded);
            }
            if self.out.is_empty() {
                self.shard.borrow_mut().fill(self.id, &mut self.out, WRITE_BYTES);
                if self.out.is_empty() {
                    return Poll::Pending;
                }
            }
            if let Err(why) = ready!(self.write(cx)) {
                return Poll::Ready(End::Broken(broken(&why)));
            }
        }
    }

    /// Writes all that there is.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            ready!(self.stream.poll_write_ready(cx))?;
            match self.stream.try_write(&self.out) {
                Ok(bytes) => self.out.advance(bytes),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Poll::Ready(Err(why)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads answers; ready when the connection is over.
    fn hear(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            if let Err(end) = self.take() {
                return Poll::Ready(end);
            }
            if let Err(why) = ready!(self.stream.poll_read_ready(cx)) {
                return Poll::Ready(End::Broken(broken(&why)));
            }
            self.read.reserve(READ_BYTES);
            match self.stream.try_read_buf(&mut self.read) {
                Ok(0) => return Poll::Ready(End::Broken(Loss::Closed)),
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Poll::Ready(End::Broken(broken(&why))),
            }
        }
    }

    /// Takes what was read.
    fn take(&mut self) -> Result<(), End> {
        loop {
            if let Some((mark, answer, left)) = &mut self.answer {
                let here = self.read.len().min(*left);
                self.read.advance(here);
                *left -= here;
                if *left > 0 {
                    return Ok(());
                }
                let (mark, answer) = (*mark, *answer);
                self.answer = None;
                self.shard.borrow_mut().framed(self.id, job(mark), answer);
            }
            match Frame::read(&self.read) {
                Ok(None) => return Ok(()),
                Ok(Some(Frame::Answer { id, status, following })) => {
                    self.read.advance(HEADER_BYTES);
                    self.answer = Some((id, Answer { status, bytes: following }, following as usize));
                }
                Ok(Some(Frame::Request { .. })) | Err(_) => return Err(End::Broken(Loss::Garbled)),
            }
        }
    }
}

/// Why a connection that was open brought no more.
fn broken(why: &io::Error) -> Loss {
    match why.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => Loss::Reset,
        io::ErrorKind::TimedOut => Loss::Late,
        _ => Loss::Closed,
    }
}
