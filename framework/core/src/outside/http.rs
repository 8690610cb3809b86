//! What a request of HTTP may be, whoever writes it: a sender's `request`, or a user's step.

use std::collections::BTreeMap;

use super::{Expect, HEADERS_MAX};

/// Longest path and query, bytes. Source: RFC 9110 §4.1.
pub const PATH_BYTES_MAX: usize = 8000;
/// Headers that follow from the target, the body and the connection.
const OURS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "upgrade"];

/// Whether it is a token of HTTP (RFC 9110 §5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Whether it is a method.
///
/// # Errors
/// Says what to write instead.
pub fn check_method(method: &str) -> Result<(), String> {
    if is_token(method) { Ok(()) } else { Err(format!("`{method}` is no method; write for instance `GET`")) }
}

/// Whether these can be the headers of one request.
///
/// # Errors
/// Names the first that cannot, and why.
pub fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), String> {
    if headers.len() > HEADERS_MAX {
        return Err(format!("at most {HEADERS_MAX} headers"));
    }
    headers.iter().try_for_each(|(name, value)| {
        if !is_token(name) {
            return Err(format!("`{name}` is no header"));
        }
        if OURS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("the header `{name}` follows from the rest; leave it out"));
        }
        if value.bytes().any(|b| (b < 0x20 && b != b'\t') || b == 0x7F) {
            return Err(format!("the header `{name}` holds a control character"));
        }
        Ok(())
    })
}

impl Expect {
    /// Whether an answer can be so.
    ///
    /// # Errors
    /// Says what no answer is.
    pub fn check(&self) -> Result<(), String> {
        if let Some(code) = self.status.iter().find(|code| !(200..=599).contains(*code)) {
            return Err(format!("{code} is no status of an answer; they are 200 to 599"));
        }
        match self.body_contains.as_deref() {
            Some("") => Err("every body contains nothing; leave `body_contains` out".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_is_named() {
        let headers = |name: &str, value: &str| check_headers(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        assert_eq!(headers("x-lab", "a\tb"), Ok(()));
        assert_eq!(headers("Host", "a"), Err("the header `Host` follows from the rest; leave it out".to_owned()));
        assert_eq!(headers("x lab", "a"), Err("`x lab` is no header".to_owned()));
        assert_eq!(headers("x", "a\n"), Err("the header `x` holds a control character".to_owned()));
        let many = (0..=HEADERS_MAX).map(|n| (format!("x{n}"), String::new())).collect();
        assert_eq!(check_headers(&many), Err("at most 100 headers".to_owned()));
        assert!(check_method("GET").is_ok() && check_method("").is_err() && check_method("A B").is_err());
        let status = |code| Expect { status: vec![code], ..Expect::default() }.check();
        assert!(status(200).is_ok() && status(599).is_ok() && status(199).is_err() && status(600).is_err());
        assert!(Expect { body_contains: Some(String::new()), ..Expect::default() }.check().is_err());
    }
}
