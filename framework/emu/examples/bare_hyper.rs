//! The least that hyper can do: a server that answers every POST, and closed loops that post 1 kB over kept
//! connections. No actors, no schedule, no histogram: what `cargo xtask bench http` holds the engine against.
//!
//! ```text
//! bare_hyper serve 127.0.0.1:8080          # HTTP/1.1
//! bare_hyper serve2 127.0.0.1:8080         # HTTP/2 in clear, by prior knowledge
//! bare_hyper load 127.0.0.1:8080 32 5      # connections, seconds; one line of JSON on stdout
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn Error + Send + Sync>;

/// Size of a request's body, bytes: the sensor message of PL-5G.
const BODY_BYTES: usize = 1000;
/// An acknowledgement as long as the receiver's.
const ACK: &[u8; 40] = br#"{"ack":0                               }"#;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args[..] {
        ["serve", address] => runtime.block_on(serve(address.parse()?, false)),
        ["serve2", address] => runtime.block_on(serve(address.parse()?, true)),
        ["load", address, connections, seconds] => {
            let seconds = Duration::from_secs(seconds.parse()?);
            runtime.block_on(load(address.parse()?, connections.parse()?, seconds))
        }
        _ => Err("usage: bare_hyper serve|serve2 ADDRESS | load ADDRESS CONNECTIONS SECONDS".into()),
    }
}

async fn serve(address: SocketAddr, two: bool) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(stream);
        // a peer that goes away ends its connection and nothing else
        tokio::spawn(async move {
            if two {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(io, service_fn(acknowledge)).await;
            } else {
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(io, service_fn(acknowledge)).await;
            }
        });
    }
}

async fn acknowledge(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // what came so far is dropped; a body that breaks off closes its connection anyway
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(ACK)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn load(address: SocketAddr, connections: usize, span: Duration) -> Result<(), Failure> {
    let (host, body) = (HeaderValue::try_from(address.to_string())?, body());
    let begin = Instant::now();
    let loops: Vec<_> = (0..connections)
        .map(|_| tokio::spawn(closed_loop(address, host.clone(), body.clone(), begin + span)))
        .collect();
    let (mut good, mut bad) = (0, 0);
    for each in loops {
        let (answered, end) = each.await?;
        good += answered;
        bad += u64::from(end.is_err());
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(r#"{{"requests":{good},"failed":{bad},"seconds":{seconds:.6}}}"#);
    Ok(())
}

/// Posts one request after the other until `end`: how many were answered with success, and whether it got that far.
async fn closed_loop(address: SocketAddr, host: HeaderValue, body: Bytes, end: Instant) -> (u64, Result<(), Failure>) {
    let mut answered = 0;
    let result = post_until(address, host, body, end, &mut answered).await;
    (answered, result)
}

async fn post_until(
    address: SocketAddr,
    host: HeaderValue,
    body: Bytes,
    end: Instant,
    answered: &mut u64,
) -> Result<(), Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    while Instant::now() < end {
        let mut request = Request::post("/").body(Full::new(body.clone()))?;
        request.headers_mut().insert(HOST, host.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("answered {}", response.status()).into());
        }
        response.into_body().collect().await?;
        *answered += 1;
    }
    Ok(())
}

/// A JSON reading of exactly [`BODY_BYTES`].
fn body() -> Bytes {
    let (front, back) = (r#"{"device":"bare-1","ts":1700000000.000,"seq":0,"data":""#, r#""}"#);
    let fill = "x".repeat(BODY_BYTES - front.len() - back.len());
    Bytes::from([front, &fill, back].concat())
}
