//! The carriers `http1`, `http2` and `http3` (RFC 9110; RFC 9112, 9113, 9114): what an exchange looks like on a connection,
//! for both ends.
//!
//! A request is a POST to `/` (save that a step of a user's script has a method, a path and headers of its own) with the payload as its body, the recipe's media type, and one header of ours,
//! `rehearsal: <from>.<stream>.<class>.<seq>.<limit in ns>`, by which the receiver knows who sent what. Requests of
//! foreign clients lack it and are served all the same.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use rehearsal_core::{Head, Status};

pub(crate) mod client;
pub(crate) mod form;
pub(crate) mod server;
pub(crate) mod step;

/// Runs the tasks of a connection on its own thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalTasks;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalTasks {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async move { drop(task.await) });
    }
}

/// The header that carries a [`Head`].
pub(crate) const HEAD: HeaderName = HeaderName::from_static("rehearsal");

/// What an answer's code says of the attempt.
pub(crate) fn status(code: StatusCode) -> Status {
    match code.as_u16() {
        200..=299 => Status::Success,
        429 | 503 => Status::Rejected,
        400..=499 => Status::Invalid,
        _ => Status::Failed,
    }
}

/// The code of a receiver's answer.
pub(crate) fn code(status: Status) -> StatusCode {
    match status {
        Status::Success => StatusCode::OK,
        Status::Invalid => StatusCode::BAD_REQUEST,
        Status::Rejected => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Writes a head as a header's value.
pub(crate) fn write_head(head: &Head) -> HeaderValue {
    let mut text = Vec::with_capacity(48);
    push_head(head, &mut text);
    HeaderValue::try_from(text).expect("digits and dots are a header's value")
}

/// Appends the value of a head's header.
pub(crate) fn push_head(head: &Head, out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    for (i, field) in head.numbers().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(digits.format(field).as_bytes());
    }
}

/// Reads a head; `None` if it is not one of ours.
pub(crate) fn read_head(value: &HeaderValue) -> Option<Head> {
    Head::from_numbers(value.to_str().ok()?, '.')
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use hyper_util::rt::TokioIo;
    use rehearsal_core::plan::Carrier;
    use rehearsal_core::{ActorId, Span};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::shard::{Outgoing, Rendered};

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let limit = Span::from_millis(100);
        for head in [
            Head { from: Some(ActorId(7)), stream: 3, class: 46, seq: u64::MAX, limit, reply_bytes: 0 },
            Head { from: Some(ActorId(7)), reply_bytes: 2_000_000, ..Head::default() },
            Head { from: Some(ActorId(0)), ..Head::default() },
        ] {
            assert_eq!(read_head(&write_head(&head)), Some(head));
        }
        for bad in ["", "1.2.3.4", "1.2.3.4.5.6.7", "1.2.3.4.5.", "1.2.256.4.5", "a.0.0.0.0"] {
            assert_eq!(read_head(&HeaderValue::from_static(bad)), None, "{bad}");
        }
    }

    #[test]
    fn codes_say_what_the_design_says() {
        let of = |code: u16| status(StatusCode::from_u16(code).expect("a code"));
        assert_eq!([200, 204, 299].map(of), [Status::Success; 3]);
        assert_eq!([400, 404, 413, 499].map(of), [Status::Invalid; 4]);
        assert_eq!([429, 503].map(of), [Status::Rejected; 2]);
        assert_eq!([302, 500, 502, 504].map(of), [Status::Failed; 4]);
    }

    /// The bytes of a request and of its answer up to the empty line, as they go over a connection.
    fn heads(address: &str, seq: u64, body: usize) -> (u64, u64) {
        let target = client::Target::to(address.parse().expect("an address"), Carrier::Http1);
        let content = vec![b'x'; body];
        let body = bytes::Bytes::from(content.clone());
        let (json, jpeg) = (HeaderValue::from_static("application/json"), HeaderValue::from_static("image/jpeg"));
        let limit = Span::from_millis(100);
        let head = Head { from: Some(ActorId(3)), seq, limit, ..Head::default() };
        let job = Outgoing { id: (0, 0), head, body, content_type: jpeg, asked: None, step: None };
        let mut request = Vec::new();
        client::write_head(&target, &job, &mut request);
        let (mut theirs, served) = tokio::io::duplex(1 << 20);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async move {
            let answer = hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                let body = bytes::Bytes::from_static(&[b'x'; 64]);
                let reply = Rendered { status: Status::Success, content_type: json.clone(), body };
                async move {
                    // what is not read to its end closes the connection
                    request.into_body().collect().await.expect("the body");
                    Ok::<_, std::convert::Infallible>(server::respond(reply))
                }
            });
            let serve = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(served), answer);
            let passing = async {
                theirs.write_all(&request).await.expect("it takes it");
                theirs.write_all(&content).await.expect("it takes it");
                (request.len() as u64, head_of(&mut theirs).await.len() as u64)
            };
            tokio::select! {
                lengths = passing => lengths,
                _ = async { serve.await.is_ok() && std::future::pending().await } => panic!("the server ended"),
            }
        })
    }

    async fn head_of(stream: &mut tokio::io::DuplexStream) -> Vec<u8> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("another byte"));
        }
        head
    }

    #[test]
    fn heads_are_as_long_as_links_take_them_to_be() {
        use rehearsal_models::wire::{HTTP_ANSWER_HEAD_BYTES, HTTP_REQUEST_HEAD_BYTES};
        let found =
            [("127.0.0.1:40001", 7, 1000), ("127.0.0.1:40001", 123_456, 50_000)].map(|(a, n, b)| heads(a, n, b));
        for (request, answer) in found {
            assert!(request.abs_diff(HTTP_REQUEST_HEAD_BYTES) <= 10, "{request} bytes");
            assert!(answer.abs_diff(HTTP_ANSWER_HEAD_BYTES) <= 4, "{answer} bytes");
        }
    }
}
