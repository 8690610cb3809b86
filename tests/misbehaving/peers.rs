//! Servers that each do one thing that a server should not, or need not, do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Most that is waited for a peer that should close.
const CLOSES: Duration = Duration::from_secs(20);

/// What a server does to each connection or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// Resets the connection in the middle of a request.
    Reset,
    /// Reads a request and closes.
    Close,
    /// Never answers.
    Silence,
    /// Accepts and never reads.
    SlowRead,
    /// Announces more than it sends.
    Short,
    /// Sends more than it announces.
    Long,
    /// 103 before the answer.
    Interim,
    /// 100 for ever.
    InterimFlood,
    /// Sends elsewhere.
    Redirect,
    /// Fields behind the body.
    Trailers,
    /// A head of 100 kB.
    HugeHead,
    /// Another protocol.
    Garbage,
    /// Closes its half before it has read anything.
    HalfClose,
    /// HTTP/2: ends the connection.
    GoAway,
    /// HTTP/2: breaks each stream off.
    StreamReset,
    /// HTTP/2: never lets more through.
    Stall,
}

impl Misdeed {
    /// A name for nodes and actors.
    pub fn word(self) -> &'static str {
        match self {
            Misdeed::Reset => "reset",
            Misdeed::Close => "close",
            Misdeed::Silence => "silence",
            Misdeed::SlowRead => "slow-read",
            Misdeed::Short => "short",
            Misdeed::Long => "long",
            Misdeed::Interim => "interim",
            Misdeed::InterimFlood => "interim-flood",
            Misdeed::Redirect => "redirect",
            Misdeed::Trailers => "trailers",
            Misdeed::HugeHead => "huge-head",
            Misdeed::Garbage => "garbage",
            Misdeed::HalfClose => "half-close",
            Misdeed::GoAway => "go-away",
            Misdeed::StreamReset => "stream-reset",
            Misdeed::Stall => "stall",
        }
    }

    /// Whether it is done over HTTP/2.
    pub fn speaks_http2(self) -> bool {
        matches!(self, Misdeed::GoAway | Misdeed::StreamReset | Misdeed::Stall)
    }

    /// Whether the other end learns of it by its deadline alone.
    pub fn is_silent(self) -> bool {
        matches!(self, Misdeed::Silence | Misdeed::SlowRead | Misdeed::Stall)
    }

    /// What is answered, where that is the misdeed.
    fn answer(self) -> Option<String> {
        let text = match self {
            Misdeed::Short => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
            Misdeed::Long => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more than that",
            Misdeed::Interim => {
                "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
            }
            Misdeed::InterimFlood => return Some("HTTP/1.1 100 Continue\r\n\r\n".repeat(1000)),
            Misdeed::Redirect => "HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n",
            Misdeed::Trailers => {
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: 1\r\ny: 2\r\n\r\n"
            }
            Misdeed::HugeHead => return Some(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000))),
            Misdeed::Garbage => "SSH-2.0-other\r\n",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// A server, as long as the test's process lives.
pub struct Peer {
    /// Where it listens.
    pub address: SocketAddr,
    done: Arc<AtomicU64>,
}

impl Peer {
    /// Starts one.
    pub fn start(deed: Misdeed) -> Peer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let done = Arc::new(AtomicU64::new(0));
        let counted = done.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let done = counted.clone();
                // one that hangs goes with the process
                let _ = stream.set_read_timeout(Some(CLOSES));
                thread::spawn(move || {
                    if deed.speaks_http2() {
                        http2(deed, stream, &done);
                    } else {
                        http1(deed, stream, &done);
                    }
                });
            }
        });
        Peer { address, done }
    }

    /// Misdeeds so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// Until the other end closes; whoever has gone does not mind.
fn drained(mut stream: impl Read) {
    let mut rest = [0; 4096];
    while stream.read(&mut rest).is_ok_and(|read| read > 0) {}
}

fn http1(deed: Misdeed, stream: TcpStream, done: &AtomicU64) {
    let mut stream = BufReader::new(stream);
    let did = || done.fetch_add(1, Ordering::Relaxed);
    match deed {
        // what was not read when it closes makes a reset of it
        Misdeed::Reset => _ = stream.get_mut().read(&mut [0; 16]),
        Misdeed::HalfClose => {
            let _ = stream.get_mut().shutdown(Shutdown::Write);
            did();
            return drained(stream);
        }
        Misdeed::SlowRead => {
            did();
            // longer than any deadline of the sender
            return thread::sleep(Duration::from_secs(1));
        }
        _ => {}
    }
    let mut requests = 0;
    while deed != Misdeed::Reset && read_request(&mut stream).is_some() {
        requests += 1;
        did();
        match deed.answer() {
            Some(answer) if stream.get_mut().write_all(answer.as_bytes()).is_err() => return,
            // closes behind what is too short
            Some(_) if deed == Misdeed::Short => return,
            Some(_) => {}
            None if deed == Misdeed::Silence => return drained(stream),
            None => return,
        }
    }
    if requests == 0 {
        did();
    }
}

/// Reads one request; `None` at the end of the connection.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length]).ok()
}

/// HTTP/2 (RFC 9113) by hand, as far as a misdeed needs it.
fn http2(deed: Misdeed, mut stream: TcpStream, done: &AtomicU64) {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    if stream.read_exact(&mut [0; 24]).is_err() {
        return;
    }
    let send = |stream: &mut TcpStream, kind: u8, number: u32, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, 0];
        frame.extend(number.to_be_bytes());
        frame.extend(payload);
        let _ = stream.write_all(&frame);
    };
    send(&mut stream, SETTINGS, 0, &[]);
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        if stream.read_exact(&mut vec![0; length as usize]).is_err() {
            return;
        }
        if head[3] != HEADERS {
            continue;
        }
        done.fetch_add(1, Ordering::Relaxed);
        match deed {
            // INTERNAL_ERROR
            Misdeed::StreamReset => {
                let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                send(&mut stream, RST_STREAM, number, &2_u32.to_be_bytes());
            }
            // ENHANCE_YOUR_CALM
            Misdeed::GoAway => {
                send(&mut stream, GOAWAY, 0, &[0, 0, 0, 0, 0, 0, 0, 11]);
                return drained(stream);
            }
            // 65,535 bytes may be sent before any more is allowed, which never is
            _ => {}
        }
    }
}
