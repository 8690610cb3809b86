//! Bare bytes to a target outside: a body as it is, over TCP, TLS or as a datagram, and an answer that ends as the file says.
//!
//! A datagram's answer is known by the socket that it comes in on, which one attempt at a time uses. One whose deadline
//! passed is closed with its socket, so that what comes late is not taken for the next answer.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use hyper::StatusCode;
use rehearsal_core::Status;
use rehearsal_core::outside::{ANSWER_BYTES_MAX, AnswerSpec};
use rehearsal_core::plan::Carrier;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;

use super::Target;
use super::link::Ended;
use super::one::loss;
use crate::carried::{Carried, Unopened};
use crate::http::form::{Form, Judge, Wanted};
use crate::losses::Loss;
use crate::marks::mark;
use crate::shard::{Answer, Core, Outgoing};

/// Read at a time.
const ROOM: usize = 8 << 10;
/// Longest datagram.
const DATAGRAM: usize = 64 << 10;

/// A connection, or a socket for datagrams.
pub(super) struct Link {
    io: Io,
    /// Nothing more can be asked on it.
    over: bool,
    /// What came in and was not taken yet.
    read: BytesMut,
    /// Nobody waits for what the peer says.
    deaf: bool,
}

enum Io {
    Stream(Carried),
    Datagrams(UdpSocket),
}

/// An answer that comes in.
struct Reading<'a> {
    ending: AnswerSpec,
    asked: &'a [u8],
    judge: Judge,
    taken: u64,
    same: bool,
}

impl Link {
    /// Opens one.
    pub(super) async fn open(shard: &Core, target: &Target) -> Result<Link, Unopened> {
        let io = match target.carrier {
            Carrier::Udp => Io::Datagrams(socket(target).await?),
            _ => Io::Stream(target.dial(shard).await?),
        };
        Ok(Link { io, over: false, read: BytesMut::new(), deaf: false })
    }

    /// Whether it is over: the peer has closed it, or says what nobody asked for.
    pub(super) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        if let Io::Stream(stream) = &mut self.io {
            while !self.over
                && let Poll::Ready(read) = stream.poll_fill(cx, &mut self.read, ROOM)
            {
                self.over = !self.deaf || !matches!(read, Ok(1..));
                self.read.clear();
            }
        }
        self.over
    }

    /// Sends a body and reads its answer.
    pub(super) async fn exchange(&mut self, job: &Outgoing) -> Ended {
        let Some(asked) = job.asked.as_ref().filter(|_| !self.over) else { return Ended::Unwritten };
        let reading = Reading::of(&asked.form, &job.body);
        self.deaf = reading.ending == AnswerSpec::Nothing;
        let ended = match &mut self.io {
            Io::Stream(stream) => over_stream(stream, &mut self.read, reading).await,
            Io::Datagrams(socket) => over_datagrams(socket, reading).await,
        };
        // what follows an answer was not asked for
        self.over = !matches!(ended, Ended::Answered(_)) || !self.read.is_empty();
        ended
    }

    /// Says that no more comes, and waits until the peer has nothing more to say either.
    pub(super) async fn linger(self) {
        if let Io::Stream(mut stream) = self.io {
            let _ = stream.shutdown().await;
            let mut rest = [0_u8; 64];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
        }
    }
}

impl<'a> Reading<'a> {
    fn of(form: &Arc<Form>, asked: &'a [u8]) -> Self {
        let wanted = Wanted::by(form);
        Reading { ending: form.ending, asked, judge: Judge::new(wanted, StatusCode::OK), taken: 0, same: true }
    }

    /// Whether all of it is there.
    fn is_done(&self) -> bool {
        match self.ending {
            AnswerSpec::Nothing => true,
            AnswerSpec::Echo => self.taken >= self.asked.len() as u64,
            AnswerSpec::Bytes(bytes) => self.taken >= bytes.0,
            AnswerSpec::Any | AnswerSpec::Line => false,
        }
    }

    /// Takes bytes of a stream up to its end; whether that is there, and how many bytes were taken.
    fn take(&mut self, bytes: &[u8]) -> (bool, usize) {
        let left = |all: u64| usize::try_from(all.saturating_sub(self.taken)).unwrap_or(usize::MAX).min(bytes.len());
        let line = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let count = match self.ending {
            AnswerSpec::Nothing => 0,
            AnswerSpec::Echo => left(self.asked.len() as u64),
            AnswerSpec::Bytes(all) => left(all.0),
            AnswerSpec::Any => bytes.len(),
            AnswerSpec::Line => line.unwrap_or(bytes.len()),
        };
        self.piece(&bytes[..count]);
        let ended = match self.ending {
            AnswerSpec::Line => line.is_some(),
            AnswerSpec::Any => count > 0,
            _ => self.is_done(),
        };
        (ended, count)
    }

    fn piece(&mut self, piece: &[u8]) {
        if self.ending == AnswerSpec::Echo {
            let rest = usize::try_from(self.taken).ok().and_then(|at| self.asked.get(at..)).unwrap_or_default();
            self.same &= rest.starts_with(piece);
        }
        self.judge.piece(piece);
        self.taken += piece.len() as u64;
    }

    /// Takes a datagram, which is all there is.
    fn datagram(mut self, bytes: &[u8]) -> Answer {
        let good = match self.ending {
            AnswerSpec::Echo => bytes == self.asked,
            AnswerSpec::Bytes(all) => bytes.len() as u64 == all.0,
            AnswerSpec::Line => bytes.contains(&b'\n'),
            AnswerSpec::Nothing | AnswerSpec::Any => true,
        };
        self.same = good;
        self.judge.piece(bytes);
        self.end()
    }

    fn end(&self) -> Answer {
        let (status, bytes) = self.judge.end();
        Answer { status: if self.same { status } else { Status::Invalid }, bytes }
    }
}

async fn over_stream(stream: &mut Carried, read: &mut BytesMut, mut reading: Reading<'_>) -> Ended {
    let body = reading.asked;
    let (mut written, mut flushed) = (0, false);
    poll_fn(|cx| {
        // a peer may answer before it has read all
        while written < body.len() || !flushed {
            let step = match body.get(written..).filter(|rest| !rest.is_empty()) {
                Some(rest) => stream.poll_put(cx, rest).map_ok(|more| written += more),
                None => Pin::new(&mut *stream).poll_flush(cx).map_ok(|()| flushed = true),
            };
            match step {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) if written == 0 && !body.is_empty() => return Poll::Ready(Ended::Unwritten),
                Poll::Ready(Err(why)) => return Poll::Ready(Ended::Broken(loss(&why))),
            }
        }
        if reading.is_done() {
            return if flushed { Poll::Ready(Ended::Answered(reading.end())) } else { Poll::Pending };
        }
        loop {
            match ready!(stream.poll_fill(cx, read, ROOM)) {
                Ok(0) => return Poll::Ready(Ended::Broken(Loss::Closed)),
                Err(why) => return Poll::Ready(Ended::Broken(loss(&why))),
                Ok(_) => {}
            }
            let (ended, count) = reading.take(read);
            let _ = read.split_to(count);
            if ended && flushed {
                return Poll::Ready(Ended::Answered(reading.end()));
            }
            if reading.taken > ANSWER_BYTES_MAX || ended {
                // no end of it, or an answer to what has not been said
                return Poll::Ready(Ended::Broken(Loss::Garbled));
            }
        }
    })
    .await
}

async fn over_datagrams(socket: &UdpSocket, reading: Reading<'_>) -> Ended {
    let mut room = vec![0; DATAGRAM];
    // what came twice belongs to an answer before
    while socket.try_recv(&mut room).is_ok() {}
    let sent = match socket.send(reading.asked).await {
        // of a datagram before this one
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => socket.send(reading.asked).await,
        sent => sent,
    };
    let received = match sent {
        Ok(_) => socket.recv(&mut room).await,
        Err(why) => Err(why),
    };
    match received {
        Ok(bytes) => Ended::Answered(reading.datagram(&room[..bytes])),
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => Ended::Broken(Loss::Unheard),
        Err(_) => Ended::Broken(Loss::Unreachable),
    }
}

async fn socket(target: &Target) -> io::Result<UdpSocket> {
    let address = target.address;
    // nobody beyond this host has anything to say to a socket that sends within it
    let from: IpAddr = match (address.is_ipv4(), address.ip().is_loopback()) {
        (true, true) => Ipv4Addr::LOCALHOST.into(),
        (true, false) => Ipv4Addr::UNSPECIFIED.into(),
        (false, true) => Ipv6Addr::LOCALHOST.into(),
        (false, false) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((from, 0)).await?;
    mark(&socket, target.dscp);
    socket.connect(address).await?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use rehearsal_core::outside::RequestSpec;
    use rehearsal_core::sender::SenderParams;

    use super::*;

    fn form(to: &str, expect: &str) -> Arc<Form> {
        let sender: SenderParams = serde_json::from_str(&format!(r#"{{"to":"{to}"}}"#)).expect("a sender");
        let request: RequestSpec = serde_json::from_str(&format!(r#"{{"expect":{expect}}}"#)).expect("a request");
        let sender = SenderParams { request: Some(Box::new(request)), ..sender };
        Arc::new(Form::of(&sender, "n", "a").expect("a form"))
    }

    /// What pieces of a stream come to: whether the end is there, the status, and what is left over.
    fn read(form: &Arc<Form>, asked: &str, pieces: &[&str]) -> (bool, Status, usize) {
        let mut reading = Reading::of(form, asked.as_bytes());
        let (mut ended, mut left) = (reading.is_done(), 0);
        for piece in pieces {
            let (end, count) = reading.take(piece.as_bytes());
            (ended, left) = (end, piece.len() - count);
        }
        (ended, reading.end().status, left)
    }

    #[test]
    fn an_answer_of_a_stream_ends_as_it_is_said() {
        let line = form("tcp://127.0.0.1:1", "{}");
        assert_eq!(read(&line, "q", &["o", "k\r\n"]), (true, Status::Success, 0), "a line, if nothing is said");
        assert_eq!(read(&line, "q", &["ok\nmore"]), (true, Status::Success, 4));
        assert!(!read(&line, "q", &["ok"]).0);
        let holds = form("tcp://127.0.0.1:1", r#"{"answer":"line","body_contains":"+OK"}"#);
        assert_eq!(read(&holds, "q", &["-ERR\n"]), (true, Status::Invalid, 0));
        assert_eq!(read(&holds, "q", &["+O", "K\n"]), (true, Status::Success, 0));
        let bytes = form("tcp://127.0.0.1:1", r#"{"answer":"5B"}"#);
        assert_eq!(read(&bytes, "q", &["123", "4567"]), (true, Status::Success, 2));
        let echo = form("tcp://127.0.0.1:1", r#"{"answer":"echo"}"#);
        assert_eq!(read(&echo, "hello", &["he", "llo"]), (true, Status::Success, 0));
        assert_eq!(read(&echo, "hello", &["he", "lla"]), (true, Status::Invalid, 0));
        assert_eq!(read(&echo, "", &[]), (true, Status::Success, 0));
        let nothing = form("tcp://127.0.0.1:1", r#"{"answer":"nothing"}"#);
        assert_eq!(read(&nothing, "q", &[]), (true, Status::Success, 0));
    }

    #[test]
    fn a_datagram_is_a_whole_answer() {
        let of = |expect: &str, asked: &str, came: &str| {
            Reading::of(&form("udp://127.0.0.1:1", expect), asked.as_bytes()).datagram(came.as_bytes())
        };
        let good = |bytes| Answer { status: Status::Success, bytes };
        assert_eq!(of(r#"{"answer":"echo"}"#, "hi", "hi"), good(2));
        assert_eq!(of(r#"{"answer":"echo"}"#, "hi", "hi "), Answer { status: Status::Invalid, bytes: 3 });
        assert_eq!(of(r#"{"answer":"any"}"#, "hi", ""), good(0));
        assert_eq!(of(r#"{"answer":"3B"}"#, "hi", "abc"), good(3));
        assert_eq!(of(r#"{"answer":"3B"}"#, "hi", "ab").status, Status::Invalid);
        assert_eq!(of(r#"{"answer":"any","body_contains":"x"}"#, "hi", "ab").status, Status::Invalid);
    }
}
