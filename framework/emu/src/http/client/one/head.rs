//! Writes the head of a request of HTTP/1.1 (RFC 9112 §3).

use bytes::BytesMut;
use hyper::Method;
use rehearsal_core::plan::Connection;

use super::super::Target;
use crate::http::form::Asked;
use crate::http::push_head;
use crate::shard::Outgoing;

/// Appends the head of an attempt; whether no body follows its answer.
pub(in crate::http) fn write(target: &Target, job: &Outgoing, out: &mut Vec<u8>) -> bool {
    let bytes = job.body.len();
    let bare = match &job.asked {
        Some(asked) => foreign(asked, job, out),
        None => {
            out.extend_from_slice(b"POST / HTTP/1.1\r\nhost: ");
            out.extend_from_slice(target.host.as_bytes());
            header(b"content-type", job.content_type.as_bytes(), out);
            out.extend_from_slice(b"\r\nrehearsal: ");
            push_head(&job.head, out);
            false
        }
    };
    let says_length = bytes > 0 || job.asked.as_ref().is_none_or(|asked| has_body(asked.form.method(0)));
    if says_length {
        header(b"content-length", itoa::Buffer::new().format(bytes).as_bytes(), out);
    }
    if target.connection == Connection::PerRequest {
        header(b"connection", b"close", out);
    }
    out.extend_from_slice(b"\r\n\r\n");
    bare
}

/// The same of a request to a target outside, which is told nothing of ours.
fn foreign(asked: &Asked, job: &Outgoing, out: &mut Vec<u8>) -> bool {
    let Asked { form, item } = asked;
    let method = form.method(job.body.len());
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    match form.path.plain() {
        Some(path) => out.extend_from_slice(path.as_bytes()),
        None => {
            let mut path = BytesMut::with_capacity(64);
            form.path.render(*item, &mut path);
            out.extend_from_slice(&path);
        }
    }
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(form.host.as_bytes());
    for (name, value) in &form.headers {
        header(name.as_str().as_bytes(), value.as_bytes(), out);
    }
    if !form.typed && !job.body.is_empty() {
        header(b"content-type", job.content_type.as_bytes(), out);
    }
    *method == Method::HEAD
}

/// Whether a request of this method says its length even if it is 0 (RFC 9110 §8.6).
fn has_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn header(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
}
