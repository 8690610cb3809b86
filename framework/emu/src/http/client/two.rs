//! A connection that speaks HTTP/2 (RFC 9113), in clear by prior knowledge (§3.3) or agreed on under TLS.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;

use super::Target;
use super::request::request;
use super::shared::Ended;
use crate::carried::Unopened;
use crate::http::LocalTasks;
use crate::http::form::{Judge, Wanted};
use crate::losses::{Loss, Spread};
use crate::shard::{Answer, Core, Outgoing};

/// A connection's way to send.
#[derive(Clone)]
pub(super) struct Sender(SendRequest<Full<Bytes>>);

/// What runs a connection to its end, and why that came if it did not come well.
pub(super) type Drive = Pin<Box<dyn Future<Output = Option<Loss>>>>;

/// Whether an attempt has been written in full: not while the peer's windows do not let it.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<AtomicBool>);

/// A body that tells when the last of it was let go of.
struct Watched(Bytes, Written);

impl Written {
    /// Whether it has.
    pub(super) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// It has.
    pub(super) fn done(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.done();
    }
}

/// Opens a connection.
pub(super) async fn open(shard: &Core, target: &Target) -> Result<(Sender, Drive), Unopened> {
    let io = TokioIo::new(target.dial(shard).await?);
    let (stream, connection) = target.windows;
    let opened = Builder::new(LocalTasks)
        .initial_stream_window_size(stream)
        .initial_connection_window_size(connection)
        .handshake(io)
        .await;
    let (send, drive) = opened.map_err(|why| Unopened::Socket(std::io::Error::other(why)))?;
    let drive = async move { drive.await.err().map(|why| Loss::of_stream(&why).0) };
    Ok((Sender(send), Box::pin(drive)))
}

/// Sends an attempt and reads its answer.
pub(super) async fn exchange(sender: &mut Sender, target: &Target, job: &Outgoing, written: &Written) -> Ended {
    let watched = |body: Bytes| {
        if body.is_empty() {
            written.done();
            return Full::new(body);
        }
        Full::new(Bytes::from_owner(Watched(body, written.clone())))
    };
    let response = match sender.0.try_send_request(request(target, job, watched)).await {
        Ok(response) => response,
        Err(mut why) => match why.take_message() {
            Some(_) => return Ended::Unbegun(Loss::Closed),
            None => return ended(why.error()),
        },
    };
    let mut judge = Judge::new(Wanted::of(job), response.status());
    judge.headers(response.headers());
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => frame.data_ref().into_iter().for_each(|data| judge.piece(data)),
            Err(why) => return ended(&why),
        }
    }
    written.done();
    let (status, bytes) = judge.end();
    Ended::Answered(Answer { status, bytes })
}

fn ended(why: &hyper::Error) -> Ended {
    match Loss::of_stream(why) {
        (loss, Spread::Unbegun) => Ended::Unbegun(loss),
        (loss, Spread::Stream) => Ended::Stream(loss),
        (loss, Spread::Connection) => Ended::Connection(loss),
    }
}
