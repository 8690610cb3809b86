//! A connection that speaks HTTP/3 (RFC 9114) over QUIC (RFC 9000).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use h3_quinn::{BidiStream, OpenStreams, RecvStream};
use hyper::Request;
use hyper::header::{CONTENT_LENGTH, HeaderMap};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt};
use rehearsal_core::dscp::Dscp;

use super::Target;
use super::one::{HEAD_MAX, INTERIM_MAX};
use super::request::request;
use super::shared::Ended;
use super::two::{Drive, Written};
use crate::carried::Unopened;
use crate::http::form::{Judge, Wanted};
use crate::losses::{Loss, Spread};
use crate::marks::mark;
use crate::shard::{Answer, Core, Outgoing};
use crate::tls::{Agreed, Fault};

/// Streams that are offered beyond twice those of the link. Assumed: thousands of exchanges within one such wait.
const OFFERED_MORE: u32 = 100;
/// Bytes of all fields of an answer, as HTTP/3 counts them (RFC 9114 §4.2.2): as many as a head of HTTP/1.1 may have.
const FIELDS_MAX: u64 = HEAD_MAX as u64;

/// The sockets of a shard that its connections go out by: one for each family of addresses and class of traffic.
#[derive(Clone, Default)]
pub(super) struct Endpoints(Rc<RefCell<BTreeMap<(bool, Dscp), Endpoint>>>);

/// A connection's way to send.
#[derive(Clone)]
pub(super) struct Sender {
    send: SendRequest<OpenStreams, Bytes>,
    connection: quinn::Connection,
}

impl Sender {
    /// Nobody will send on it any more.
    pub(super) fn end(&self) {
        self.connection.close(VarInt::from_u32(Code::H3_NO_ERROR.value() as u32), b"");
    }
}

impl Endpoints {
    fn towards(&self, target: &Target) -> io::Result<Endpoint> {
        let four = target.address.is_ipv4();
        let mut all = self.0.borrow_mut();
        if let Some(endpoint) = all.get(&(four, target.dscp)) {
            return Ok(endpoint.clone());
        }
        let any: SocketAddr = if four { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(any)?;
        mark(&socket, target.dscp);
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
        all.insert((four, target.dscp), endpoint.clone());
        Ok(endpoint)
    }
}

/// Streams that a receiver offers, where a sender has up to `streams` at a time. Credit for a new one comes with an
/// acknowledgement, which may wait 25 ms (RFC 9000 §13.2.1): with no more than that a sender would wait for it.
pub(in crate::http) fn offered(streams: u32) -> u32 {
    streams.saturating_mul(2).saturating_add(OFFERED_MORE)
}

/// What the link says of windows and streams.
pub(in crate::http) fn transport((stream, connection): (u32, u32), streams: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(stream))
        .receive_window(VarInt::from_u32(connection))
        .max_concurrent_bidi_streams(VarInt::from_u32(streams));
    transport
}

/// Opens a connection.
pub(super) async fn open(shard: &Core, target: &Target, endpoints: &Endpoints) -> Result<(Sender, Drive), Unopened> {
    let world = shard.borrow().world().clone();
    let side = target.side(&world).map_err(|why| Unopened::Handshake(Fault::of(&why)))?;
    let config = QuicClientConfig::try_from(side.config.clone()).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(config));
    // a receiver opens no requests towards a sender
    config.transport_config(Arc::new(transport(target.windows, 0)));
    let connecting = endpoints.towards(target)?.connect_with(config, target.address, &target.server_name);
    let connection = match connecting.map_err(io::Error::other)?.await {
        Ok(connection) => connection,
        Err(why) => return Err(not_opened(&why, side.asked.take_fault())),
    };
    let data =
        connection.handshake_data().and_then(|data| data.downcast::<quinn::crypto::rustls::HandshakeData>().ok());
    let alpn = data.and_then(|data| data.protocol).unwrap_or_default();
    let agreed = Agreed::over_quic(&alpn, !side.asked.take());
    shard.borrow_mut().opened(target.node, target.to, target.carrier, Some(agreed));
    let mut builder = h3::client::builder();
    builder.send_grease(false).max_field_section_size(FIELDS_MAX);
    let opened = builder.build::<_, _, Bytes>(h3_quinn::Connection::new(connection.clone())).await;
    let (mut driver, send) = opened.map_err(io::Error::other)?;
    let drive = async move {
        poll_fn(|cx| driver.poll_close(cx)).await;
        None
    };
    Ok((Sender { send, connection }, Box::pin(drive)))
}

fn not_opened(why: &quinn::ConnectionError, fault: Option<Fault>) -> Unopened {
    match (fault, Loss::of_quic(why)) {
        (Some(fault), _) | (None, Loss::Tls(fault)) => Unopened::Handshake(fault),
        (None, Loss::Refused) => Unopened::Socket(io::ErrorKind::ConnectionRefused.into()),
        (None, Loss::Late) => Unopened::Socket(io::ErrorKind::TimedOut.into()),
        (None, _) => Unopened::Socket(io::ErrorKind::ConnectionReset.into()),
    }
}

/// A stream that is broken off when nobody waits for it any more: the way there with a code, the way back by being let go
/// of. (The library cannot be told a code for it while something is read.)
struct Own {
    send: RequestStream<h3_quinn::SendStream<Bytes>, Bytes>,
    receive: RequestStream<RecvStream, Bytes>,
    over: bool,
}

impl Drop for Own {
    fn drop(&mut self) {
        if !self.over {
            self.send.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
    }
}

/// Sends an attempt and reads its answer.
pub(super) async fn exchange(sender: &mut Sender, target: &Target, job: &Outgoing, written: &Written) -> Ended {
    let (head, body) = request(target, job, |body| body).into_parts();
    let stream: RequestStream<BidiStream<Bytes>, Bytes> =
        match sender.send.send_request(Request::from_parts(head, ())).await {
            Ok(stream) => stream,
            Err(why) => return ended(&why, &sender.connection),
        };
    let (send, receive) = stream.split();
    let mut own = Own { send, receive, over: false };
    let answer = both(&mut own, Wanted::of(job), body, written).await;
    own.over = answer.is_ok();
    match answer {
        Ok(answer) => Ended::Answered(answer),
        Err(Wrong::Stream(why)) => ended(&why, &sender.connection),
        Err(Wrong::Answer) => Ended::Stream(Loss::Foreign),
    }
}

/// Why there is no answer.
enum Wrong {
    Stream(StreamError),
    /// What came is against the protocol.
    Answer,
}

impl From<StreamError> for Wrong {
    fn from(why: StreamError) -> Self {
        Wrong::Stream(why)
    }
}

/// Writes the body and waits for the answer, which may come before.
async fn both(own: &mut Own, wanted: Wanted, body: Bytes, written: &Written) -> Result<Answer, Wrong> {
    let Own { send, receive, .. } = own;
    let mut sending = pin!(async {
        if !body.is_empty() {
            send.send_data(body).await?;
        }
        send.finish().await?;
        written.done();
        Ok::<_, StreamError>(())
    });
    let mut receiving = pin!(answer(receive, wanted));
    tokio::select! {
        biased;
        answer = &mut receiving => return answer,
        sent = &mut sending => match sent {
            // who answers without reading says so like this (RFC 9114 §4.1)
            Ok(()) | Err(StreamError::RemoteTerminate { code: Code::H3_NO_ERROR, .. }) => {}
            Err(why) => return Err(why.into()),
        },
    }
    receiving.await
}

/// Reads an answer to its end.
async fn answer(receive: &mut RequestStream<RecvStream, Bytes>, wanted: Wanted) -> Result<Answer, Wrong> {
    let mut interim = 0;
    let response = loop {
        let response = receive.recv_response().await?;
        // an interim answer is none (RFC 9110 §15.2)
        if !response.status().is_informational() {
            break response;
        }
        interim += 1;
        if interim > INTERIM_MAX {
            return Err(Wrong::Answer);
        }
    };
    let announced = length(response.headers())?;
    let mut judge = Judge::new(wanted, response.status());
    judge.headers(response.headers());
    while let Some(mut data) = receive.recv_data().await? {
        while data.has_remaining() {
            let read = data.chunk().len();
            judge.piece(data.chunk());
            data.advance(read);
        }
    }
    // trailers end a stream, if there are any
    receive.recv_trailers().await?;
    let (status, bytes) = judge.end();
    // an answer whose length is another than it says is malformed (RFC 9114 §4.1.2)
    if announced.is_some_and(|announced| announced != u64::from(bytes)) {
        return Err(Wrong::Answer);
    }
    Ok(Answer { status, bytes })
}

/// How many bytes an answer says that it has, if it says so.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Wrong> {
    let Some(said) = headers.get(CONTENT_LENGTH) else { return Ok(None) };
    said.to_str().ok().and_then(|said| said.parse().ok()).map(Some).ok_or(Wrong::Answer)
}

fn ended(why: &StreamError, connection: &quinn::Connection) -> Ended {
    match Loss::of_quic_stream(why, connection.close_reason().as_ref()) {
        (loss, Spread::Unbegun) => Ended::Unbegun(loss),
        (loss, Spread::Stream) => Ended::Stream(loss),
        (loss, Spread::Connection) => Ended::Connection(loss),
    }
}
