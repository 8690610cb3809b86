//! Serves the page over HTTP/1.1, on a thread of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE as TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{Address, Board, CONTENT_TYPE};
use crate::exit::Refused;

/// Connections at a time. Assumed: a few scrapers and somebody with a browser.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may stay. Assumed: scrapers come back every few seconds, and open another when it is gone.
const STAY: Duration = Duration::from_secs(60);
/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(5);
/// Bytes that are read ahead: the head of a request.
const BUFFER_BYTES_MAX: usize = 16 << 10;
/// After an error of the listener, such as no free descriptor.
const BREATH: Duration = Duration::from_millis(100);

/// A server that goes on to the end of the process.
pub struct Server {
    address: SocketAddr,
}

impl Server {
    /// Listens on `address` and serves what is on `board`.
    ///
    /// # Errors
    /// When the address cannot be had, or the operating system refuses a thread.
    pub fn start(address: Address, board: Board) -> Result<Self> {
        let Address(asked) = address;
        let refused = |why: std::io::Error| Refused(format!("--metrics: cannot listen on {asked}: {why}"));
        let listener = std::net::TcpListener::bind(asked).map_err(refused)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    match TcpListener::from_std(listener) {
                        Ok(listener) => serve(listener, board).await,
                        Err(why) => eprintln!("metrics: {why}"),
                    }
                });
            })
            .context("cannot start the thread that serves figures")?;
        Ok(Server { address })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

async fn serve(listener: TcpListener, board: Board) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            board.refuse();
            continue;
        };
        let board = board.clone();
        tokio::spawn(async move {
            // one that goes away, or stays too long, is closed
            let _ = tokio::time::timeout(STAY, connection(stream, board)).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, board: Board) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &board);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER_BYTES_MAX);
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

fn answer(request: &Request<Incoming>, board: &Board) -> Response<Full<Bytes>> {
    let plain = |status: StatusCode, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "figures are at /metrics\n");
    }
    let mut response = Response::new(Full::new(Bytes::from(board.page())));
    response.headers_mut().insert(TYPE, hyper::header::HeaderValue::from_static(CONTENT_TYPE));
    response
}
