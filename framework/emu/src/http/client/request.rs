//! What an attempt looks like on a connection of HTTP/2 and HTTP/3.

use bytes::{Bytes, BytesMut};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Uri};

use super::Target;
use crate::http::form::Asked;
use crate::http::{HEAD, write_head};
use crate::shard::Outgoing;

/// An attempt as it is written.
pub(super) fn request<B>(target: &Target, job: &Outgoing, body: impl FnOnce(Bytes) -> B) -> Request<B> {
    let mut request = Request::new(body(job.body.clone()));
    if let Some(asked) = &job.asked {
        foreign(target, asked, job, &mut request);
        return request;
    }
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.uri.clone();
    let headers = request.headers_mut();
    headers.reserve(2);
    headers.insert(CONTENT_TYPE, job.content_type.clone());
    headers.insert(HEAD, write_head(&job.head));
    request
}

/// The same of a request to a target outside, which is told nothing of ours.
fn foreign<B>(target: &Target, asked: &Asked, job: &Outgoing, request: &mut Request<B>) {
    let Asked { form, item } = asked;
    *request.method_mut() = form.method(job.body.len()).clone();
    let mut path = BytesMut::new();
    form.path.render(*item, &mut path);
    let mut parts = target.uri.clone().into_parts();
    parts.authority = form.host.as_bytes().try_into().ok().or(parts.authority);
    // what a path can be was checked with the file
    parts.path_and_query = PathAndQuery::from_maybe_shared(path.freeze()).ok().or(parts.path_and_query);
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_else(|_| target.uri.clone());
    let headers = request.headers_mut();
    for (name, value) in &form.headers {
        headers.append(name, HeaderValue::clone(value));
    }
    if !form.typed && !job.body.is_empty() {
        headers.insert(CONTENT_TYPE, job.content_type.clone());
    }
}
