//! The `http1` carrier (RFC 9110, RFC 9112): what an exchange looks like on a connection, for both ends.
//!
//! A request is a POST to `/` with the payload as its body, the recipe's media type, and one header of ours,
//! `rehearsal: <from>.<stream>.<class>.<seq>.<limit in ns>`, by which the receiver knows who sent what. Requests of
//! foreign clients lack it and are served all the same.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use rehearsal_core::{ActorId, Head, Span, Status};

pub(crate) mod client;
pub(crate) mod server;

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
    let mut digits = itoa::Buffer::new();
    let from = head.from.map_or(0, |actor| u64::from(actor.0));
    let fields = [from, u64::from(head.stream), u64::from(head.class), head.seq, head.limit.as_nanos()];
    for (i, field) in fields.into_iter().enumerate() {
        if i > 0 {
            text.push(b'.');
        }
        text.extend_from_slice(digits.format(field).as_bytes());
    }
    HeaderValue::try_from(text).expect("digits and dots are a header's value")
}

/// Reads a head; `None` if it is not one of ours.
pub(crate) fn read_head(value: &HeaderValue) -> Option<Head> {
    let mut fields = value.to_str().ok()?.split('.');
    let head = Head {
        from: Some(ActorId(fields.next()?.parse().ok()?)),
        stream: fields.next()?.parse().ok()?,
        class: fields.next()?.parse().ok()?,
        seq: fields.next()?.parse().ok()?,
        limit: Span::from_nanos(fields.next()?.parse().ok()?),
    };
    fields.next().is_none().then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let limit = Span::from_millis(100);
        for head in [
            Head { from: Some(ActorId(7)), stream: 3, class: 46, seq: u64::MAX, limit },
            Head { from: Some(ActorId(0)), ..Head::default() },
        ] {
            assert_eq!(read_head(&write_head(&head)), Some(head));
        }
        for bad in ["", "1.2.3.4", "1.2.3.4.5.6", "1.2.256.4.5", "a.0.0.0.0"] {
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
}
