//! What an attempt looks like on a connection of HTTP/2 and HTTP/3.

use bytes::{Bytes, BytesMut};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
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
    *request.method_mut() = job.step.as_ref().map_or(Method::POST, |step| step.method().clone());
    *request.uri_mut() = job.step.as_ref().map_or_else(|| target.uri.clone(), |step| at(target, step.path.clone()));
    let headers = request.headers_mut();
    headers.reserve(2);
    if job.step.is_none() || !job.body.is_empty() {
        headers.insert(CONTENT_TYPE, job.content_type.clone());
    }
    headers.insert(HEAD, write_head(&job.head));
    step_headers(job, headers);
    request
}

/// A target with a path and query; what they can be was checked with the file.
fn at(target: &Target, path: Bytes) -> Uri {
    let mut parts = target.uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::from_maybe_shared(path).ok().or(parts.path_and_query);
    Uri::from_parts(parts).unwrap_or_else(|_| target.uri.clone())
}

/// Headers of a step, in place of those of all requests.
fn step_headers(job: &Outgoing, headers: &mut HeaderMap) {
    for (name, value) in job.step.iter().flat_map(|step| &step.headers) {
        headers.insert(name, HeaderValue::clone(value));
    }
}

/// The same of a request to a target outside, which is told nothing of ours.
fn foreign<B>(target: &Target, asked: &Asked, job: &Outgoing, request: &mut Request<B>) {
    let Asked { form, item } = asked;
    let step = job.step.as_ref();
    *request.method_mut() = step.map_or_else(|| form.method(job.body.len()), |step| step.method()).clone();
    let path = step.map_or_else(
        || {
            let mut path = BytesMut::new();
            form.path.render(*item, &mut path);
            path.freeze()
        },
        |step| step.path.clone(),
    );
    let mut parts = target.uri.clone().into_parts();
    parts.authority = form.host.as_bytes().try_into().ok().or(parts.authority);
    // what a path can be was checked with the file
    parts.path_and_query = PathAndQuery::from_maybe_shared(path).ok().or(parts.path_and_query);
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_else(|_| target.uri.clone());
    let headers = request.headers_mut();
    for (name, value) in &form.headers {
        headers.append(name, value.filled(*item));
    }
    if !form.typed && !job.body.is_empty() {
        headers.insert(CONTENT_TYPE, job.content_type.clone());
    }
    step_headers(job, headers);
}
