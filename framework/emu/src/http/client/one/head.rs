//! Writes the head of a request of HTTP/1.1 (RFC 9112 §3).

use bytes::BytesMut;
use hyper::Method;
use rehearsal_core::plan::Connection;

use super::super::Target;
use crate::http::form::{Asked, Value};
use crate::http::push_head;
use crate::shard::Outgoing;

/// Appends the head of an attempt; whether no body follows its answer.
pub(in crate::http) fn write(target: &Target, job: &Outgoing, out: &mut Vec<u8>) -> bool {
    let bytes = job.body.len();
    let bare = match &job.asked {
        Some(asked) => foreign(asked, job, out),
        None => {
            match &job.step {
                None => out.extend_from_slice(b"POST /"),
                Some(step) => {
                    out.extend_from_slice(step.method().as_str().as_bytes());
                    out.push(b' ');
                    out.extend_from_slice(&step.path);
                }
            }
            out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
            out.extend_from_slice(target.host.as_bytes());
            let typed = job.step.as_ref().is_some_and(|step| step.is_typed() || bytes == 0);
            if !typed {
                header(b"content-type", job.content_type.as_bytes(), out);
            }
            step_headers(job, out);
            out.extend_from_slice(b"\r\nrehearsal: ");
            push_head(&job.head, out);
            false
        }
    };
    let method = match (&job.step, &job.asked) {
        (Some(step), _) => step.method(),
        (None, Some(asked)) => asked.form.method(bytes),
        (None, None) => &Method::POST,
    };
    let says_length = bytes > 0 || has_body(method);
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
    let step = job.step.as_ref();
    let method = step.map_or_else(|| form.method(job.body.len()), |step| step.method());
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    match (step, form.path.plain()) {
        (Some(step), _) => out.extend_from_slice(&step.path),
        (None, Some(path)) => out.extend_from_slice(path.as_bytes()),
        (None, None) => {
            let mut path = BytesMut::with_capacity(64);
            form.path.render(*item, &mut path);
            out.extend_from_slice(&path);
        }
    }
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(form.host.as_bytes());
    for (name, value) in form.headers.iter().filter(|(name, _)| step.is_none_or(|step| !step.has(name))) {
        match value {
            Value::Plain(value) => header(name.as_str().as_bytes(), value.as_bytes(), out),
            value => header(name.as_str().as_bytes(), value.filled(*item).as_bytes(), out),
        }
    }
    if !form.typed && !job.body.is_empty() && step.is_none_or(|step| !step.is_typed()) {
        header(b"content-type", job.content_type.as_bytes(), out);
    }
    step_headers(job, out);
    *method == Method::HEAD
}

fn step_headers(job: &Outgoing, out: &mut Vec<u8>) {
    for (name, value) in job.step.iter().flat_map(|step| &step.headers) {
        header(name.as_str().as_bytes(), value.as_bytes(), out);
    }
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
