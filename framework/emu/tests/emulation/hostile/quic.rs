//! HTTP/3 (RFC 9114) over QUIC by hand: a server that does with each connection what a test says.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::crypto::{CryptoError, HmacKey};
use quinn::{
    Connection, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use rehearsal_core::Span;
use rehearsal_core::plan::{Carrier, LinkSpec, TlsSpec};

use super::Trial;
use super::secure::Authority;
use crate::lab::group;

/// How a server shows itself, and how much it lets through.
fn configured(authority: &Authority, name: &str, window: u32) -> ServerConfig {
    let (certificate, key) = authority.certify(name, 2090);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.expect("a version").with_no_client_auth().with_single_cert(vec![certificate], key);
    let mut tls = tls.expect("they belong together");
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("a suite of QUIC")));
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(window));
    config.transport_config(Arc::new(transport));
    config
}

/// A server whose streams may have `window` bytes under way, and that does `each` with every connection.
fn server<F: Future<Output = ()> + Send + 'static>(
    authority: &Authority,
    name: &str,
    window: u32,
    each: fn(Connection) -> F,
) -> SocketAddr {
    let config = configured(authority, name, window);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (told, address) = std::sync::mpsc::sync_channel(1);
    thread::spawn(move || {
        runtime.block_on(async move {
            let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
            told.send(endpoint.local_addr().expect("bound")).expect("the test waits");
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(async move {
                    if let Ok(connection) = incoming.await {
                        each(connection).await;
                    }
                });
            }
        });
    });
    address.recv().expect("an address")
}

/// A key that all lives of a server share, so that one can disown the connections of the one before (RFC 9000 §10.3).
struct Key;

impl HmacKey for Key {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        out.iter_mut().zip(data.iter().cycle()).for_each(|(out, byte)| *out = byte ^ 0x5a);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Err(CryptoError)
    }
}

/// Connection IDs that no two lives of a server have in common.
#[derive(Debug)]
struct Numbers;

impl ConnectionIdGenerator for Numbers {
    fn generate_cid(&mut self) -> ConnectionId {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        ConnectionId::new(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// A server that is started again at the same port with each request, and knows nothing of the life before.
fn forgetful(authority: &Authority) -> SocketAddr {
    let config = configured(authority, "127.0.0.1", 1_000_000);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = socket.local_addr().expect("bound");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let life = move || {
        let mut own = EndpointConfig::new(Arc::new(Key));
        own.cid_generator(|| Box::new(Numbers));
        let socket = socket.try_clone().expect("a descriptor");
        Endpoint::new(own, Some(config.clone()), socket, Arc::new(TokioRuntime)).expect("an endpoint")
    };
    thread::spawn(move || {
        runtime.block_on(async move {
            let (mut now, mut before) = (life(), Vec::new());
            while let Some(incoming) = now.accept().await {
                let Ok(connection) = incoming.await else { continue };
                let stream = connection.accept_bi().await;
                // what this life says from now on comes from elsewhere; the socket before the last is let go of
                for _ in 0..2 {
                    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
                    now.rebind(other).expect("another socket");
                }
                before.push((std::mem::replace(&mut now, life()), connection, stream));
            }
        });
    });
    address
}

fn trial(authority: &Authority, address: SocketAddr) -> Trial {
    let tls = TlsSpec { ca: Some("ca.pem".to_owned()), ..TlsSpec::default() };
    let link = LinkSpec { carrier: Carrier::Http3, tls: Some(tls), ..LinkSpec::default() };
    Trial { base: authority.folder.clone(), ..Trial::of(link, address) }
}

/// Serves a connection with the library: an interim answer, a body and trailers.
async fn polite(connection: Connection) {
    let connection = h3_quinn::Connection::new(connection);
    let Ok(mut connection) = h3::server::Connection::<_, Bytes>::new(connection).await else { return };
    while let Ok(Some(resolver)) = connection.accept().await {
        let Ok((_, mut stream)) = resolver.resolve_request().await else { continue };
        let of = |code: u16| hyper::Response::builder().status(code).body(()).expect("an answer");
        let _ = stream.send_response(of(103)).await;
        let _ = stream.send_response(of(200)).await;
        let _ = stream.send_data(Bytes::from_static(b"four")).await;
        let trailers = [(hyper::header::HeaderName::from_static("x"), hyper::header::HeaderValue::from_static("1"))];
        let _ = stream.send_trailers(trailers.into_iter().collect()).await;
        let _ = stream.finish().await;
    }
}

/// Resets every stream with this code.
async fn resets(connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        // H3_INTERNAL_ERROR
        let _ = send.reset(VarInt::from_u32(0x102));
        let _ = receive.stop(VarInt::from_u32(0x102));
    }
}

/// Reads each request to its end, and keeps how long it was; then it is reset.
async fn measures(connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let read = receive.read_to_end(100_000).await.map_or(0, |bytes| bytes.len());
        MEASURED.store(read as u64, std::sync::atomic::Ordering::Release);
        let _ = send.reset(VarInt::from_u32(0x102));
    }
}

static MEASURED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

async fn silent(connection: Connection) {
    let mut kept = Vec::new();
    while let Ok(stream) = connection.accept_bi().await {
        kept.push(stream);
    }
}

async fn leaves(connection: Connection) {
    let stream = connection.accept_bi().await;
    // H3_EXCESSIVE_LOAD
    connection.close(VarInt::from_u32(0x107), b"");
    drop(stream);
}

/// Answers each request with these heads, and this body behind the last.
async fn answers(connection: Connection, all: Vec<hyper::Response<()>>, body: &'static [u8]) {
    let connection = h3_quinn::Connection::new(connection);
    let Ok(mut connection) = h3::server::Connection::<_, Bytes>::new(connection).await else { return };
    while let Ok(Some(resolver)) = connection.accept().await {
        let Ok((_, mut stream)) = resolver.resolve_request().await else { continue };
        for answer in &all {
            let _ = stream.send_response(answer.clone()).await;
        }
        let _ = stream.send_data(Bytes::from_static(body)).await;
        let _ = stream.finish().await;
    }
}

fn answer(code: u16, name: &'static str, value: String) -> hyper::Response<()> {
    hyper::Response::builder().status(code).header(name, value).body(()).expect("an answer")
}

async fn redirects(connection: Connection) {
    answers(connection, vec![answer(302, "location", "https://192.0.2.1/".to_owned())], b"").await;
}

async fn floods(connection: Connection) {
    answers(connection, vec![answer(100, "x", "y".to_owned()); 50], b"").await;
}

async fn shortens(connection: Connection) {
    answers(connection, vec![answer(200, "content-length", "10".to_owned())], b"abc").await;
}

async fn lengthens(connection: Connection) {
    answers(connection, vec![answer(200, "content-length", "2".to_owned())], b"abc").await;
}

/// By hand: the library sends no more than its peer says that it takes.
async fn boasts(connection: Connection) {
    // HEADERS, its length; `:status: 200` of the static table, and a literal `x` of 100,000 bytes (RFC 9204 §4.5)
    let mut frame = vec![1];
    frame.extend((0x8000_0000_u32 | 100_009).to_be_bytes());
    frame.extend([0, 0, 0xd9, 0x21, b'x', 0x7f, 0xa1, 0x8c, 0x06]);
    frame.extend([b'y'; 100_000]);
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let _ = receive.read_to_end(100_000).await;
        let _ = send.write_all(&frame).await;
        let _ = send.finish();
    }
}

/// Says that it takes no more (RFC 9114 §5.2), and serves nothing: the library's word for it, with what is under way.
async fn says_goodbye(connection: Connection) {
    let inner = h3_quinn::Connection::new(connection);
    let Ok(mut connection) = h3::server::Connection::<_, Bytes>::new(inner).await else { return };
    let _ = connection.shutdown(0).await;
    while let Ok(Some(_)) = connection.accept().await {}
}

/// Answers one request; then no packet is read any more.
async fn dies(connection: Connection) {
    let inner = h3_quinn::Connection::new(connection);
    let Ok(mut connection) = h3::server::Connection::<_, Bytes>::new(inner).await else { return };
    let Ok(Some(resolver)) = connection.accept().await else { return };
    let Ok((_, mut stream)) = resolver.resolve_request().await else { return };
    let _ = stream.send_response(answer(200, "x", "y".to_owned())).await;
    let _ = stream.finish().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // the server's only thread, and whatever it would do
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn redirects_lengths_floods_and_large_fields_are_named() {
    let authority = Authority::new("answers");
    let (end, notes) = trial(&authority, server(&authority, "127.0.0.1", 100_000, redirects)).run();
    assert_eq!((group(&end, 0).tally.failed, notes), (3, vec![]), "redirects are not followed");
    let foreign = "answered 3 connections with something else than HTTP";
    trial(&authority, server(&authority, "127.0.0.1", 100_000, shortens)).must_be_told(foreign);
    trial(&authority, server(&authority, "127.0.0.1", 100_000, lengthens)).must_be_told(foreign);
    trial(&authority, server(&authority, "127.0.0.1", 100_000, floods)).must_be_told(foreign);
    let large = "answered 3 connections with header fields that are too large";
    trial(&authority, server(&authority, "127.0.0.1", 100_000, boasts)).must_be_told(large);
}

#[test]
fn a_goodbye_and_a_way_that_goes_dead_end_with_the_deadline_at_the_latest() {
    let authority = Authority::new("goodbye");
    let goodbye = trial(&authority, server(&authority, "127.0.0.1", 100_000, says_goodbye));
    let (end, _) = Trial { timeout: Span::from_secs(1), ..goodbye }.run();
    assert_eq!(group(&end, 0).tally.unacknowledged, 3);
    let dead = trial(&authority, server(&authority, "127.0.0.1", 100_000, dies));
    let (end, notes) = Trial { requests: 4, timeout: Span::from_millis(300), ..dead }.run();
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.success, sent.unacknowledged, sent.lost), (1, 3, 3), "{notes:?}");
}

#[test]
fn interim_answers_and_trailers_are_understood() {
    let authority = Authority::new("polite");
    let (end, notes) = trial(&authority, server(&authority, "127.0.0.1", 100_000, polite)).run();
    let sent = &group(&end, 0).tally;
    assert_eq!((sent.success, sent.bytes_replied, notes), (3, 12, vec![]));
    assert_eq!((end.connections[0].opened, end.connections[0].alpn.as_str()), (1, "h3"));
}

#[test]
fn requests_are_as_long_as_links_take_them_to_be() {
    let authority = Authority::new("measures");
    let measured = trial(&authority, server(&authority, "127.0.0.1", 100_000, measures));
    Trial { bytes: 1000, ..measured }.must_be_told("reset 3 streams");
    let found = MEASURED.load(std::sync::atomic::Ordering::Acquire);
    let framing = rehearsal_models::wire::Framing { carrier: Carrier::Http3, encrypted: true };
    let taken = framing.message_bytes(rehearsal_models::path::Direction::Up, 1000);
    assert!(found.abs_diff(taken) <= 8, "{found} bytes, taken to be {taken}");
}

#[test]
fn resets_goodbyes_and_stalls_are_named() {
    let authority = Authority::new("resets");
    let reset = trial(&authority, server(&authority, "127.0.0.1", 100_000, resets));
    Trial { requests: 100, ..reset }.must_be_told("reset 100 streams");
    let left = trial(&authority, server(&authority, "127.0.0.1", 100_000, leaves));
    left.must_be_told("ended 3 connections with a reason of its own (GOAWAY)");
    let stalled = trial(&authority, server(&authority, "127.0.0.1", 1000, silent));
    let stalled = Trial { bytes: 50_000, timeout: Span::from_millis(200), ..stalled };
    stalled.must_be_told("let the rest of 3 requests not through in time (flow control)");
    let quiet = trial(&authority, server(&authority, "127.0.0.1", 100_000, silent));
    let (end, notes) = Trial { timeout: Span::from_millis(100), ..quiet }.run();
    assert_eq!((group(&end, 0).tally.unacknowledged, notes), (3, vec![]));
}

/// A stateless reset (RFC 9000 §10.3): the peer was started again and disowns the connection.
#[test]
fn a_peer_that_forgets_its_connections_is_named() {
    let authority = Authority::new("forgetful");
    // long enough that most of a request is still to be sent when its peer goes
    let forgotten = Trial { bytes: 400_000, timeout: Span::from_secs(2), ..trial(&authority, forgetful(&authority)) };
    let (end, notes) = forgotten.run();
    assert_eq!(group(&end, 0).tally.unacknowledged, 3);
    // a peer may send few of them in a time, so one may be left to its deadline
    let told = notes.first().is_some_and(|note| note.contains(" reset ") && note.contains(" connection"));
    assert!(told && notes.len() == 1, "{notes:?}");
}

#[test]
fn strangers_and_black_holes_are_named() {
    let (authority, other) = (Authority::new("strangers"), Authority::new("strange"));
    let stranger = server(&other, "127.0.0.1", 100_000, polite);
    let shown = "showed 3 connections a certificate of an authority that is not trusted";
    trial(&authority, stranger).must_be_told(shown);
    let elsewhere = server(&authority, "192.0.2.7", 100_000, polite);
    trial(&authority, elsewhere).must_be_told("showed 3 connections a certificate of another name");
    // a socket that nobody reads
    let hole = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = hole.local_addr().expect("bound");
    let lost = Trial { timeout: Span::from_millis(50), ..trial(&authority, address) };
    lost.must_be_told("did not accept 3 connections in time");
}
